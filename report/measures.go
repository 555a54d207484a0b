package report

import (
	"time"

	"salectl/backends/ledger/audit"
	"salectl/report/threshold"
)

// AuditMeasures are the metrics for thresholds of an audit; docs/reports.md describes them.
var AuditMeasures = threshold.Metrics{All: []threshold.Metric{
	{Name: "stock"},
	{Name: "sold", Of: "stock"},
	{Name: "held", Of: "stock"},
	{Name: "available", Of: "stock"},
	{Name: "in_flight", Of: "stock"},
	{Name: "users"},
	{Name: "claims"},
	{Name: "expired", Of: "claims"},
	{Name: "cancelled", Of: "claims"},
	{Name: "refunded", Of: "claims"},
	{Name: "refunds_due"},
	{Name: "problems"},
	{Name: "warnings"},
	{Name: "duration", Unit: threshold.Duration},
	{Name: "rate", Unit: threshold.Rate},
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
