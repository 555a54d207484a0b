package report

import (
	"time"

	"salectl/backends/ledger/audit"
	"salectl/report/threshold"
)

// AuditMeasures are the metrics for thresholds of an audit.
var AuditMeasures = threshold.Metrics{All: []threshold.Metric{
	{Name: "stock", Says: "units of the sale"},
	{Name: "sold", Of: "stock", Says: "units that are sold"},
	{Name: "held", Of: "stock", Says: "units that are held until they are paid"},
	{Name: "available", Of: "stock", Says: "units that nobody has"},
	{Name: "in_flight", Of: "stock", Says: "units on their way between shards"},
	{Name: "users", Says: "users who have units"},
	{Name: "claims", Says: "claims that were accepted; of a draw, entries"},
	{Name: "expired", Of: "claims", Says: "claims that were not paid in time"},
	{Name: "cancelled", Of: "claims", Says: "claims that were cancelled before payment"},
	{Name: "refunded", Of: "claims", Says: "sold claims that were refunded"},
	{Name: "refunds_due", Says: "payments that bought nothing"},
	{Name: "problems", Says: "problems that the audit has found"},
	{Name: "warnings", Says: "warnings of the audit"},
	{Name: "duration", Kind: threshold.Duration, Says: "from the first accepted claim to the last one"},
	{Name: "rate", Kind: threshold.Rate, Says: "accepted claims a second, over that time"},
}}

// AuditValues returns the values of these metrics for an audit.
func AuditValues(a *audit.Report, l *Ledger) threshold.Values {
	of := map[string]float64{
		"stock": float64(a.Stock), "sold": float64(a.Sold), "held": float64(a.Held),
		"available": float64(a.Available), "in_flight": float64(a.InFlight), "users": float64(a.Users),
		"claims": float64(l.Claims), "expired": float64(a.Expired), "cancelled": float64(a.Cancelled),
		"refunded": float64(a.Refunded), "refunds_due": float64(a.RefundsDue),
		"problems": float64(len(a.Problems)), "warnings": float64(len(a.Warnings)),
		"duration": float64(l.Took()) / float64(time.Millisecond),
	}
	if took := l.Took(); took > 0 {
		of["rate"] = float64(l.Claims) / took.Seconds()
	}
	return threshold.Values{Of: of}
}
