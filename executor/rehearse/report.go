package rehearse

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"salectl/api"
	"salectl/backends/ledger/audit"
	"salectl/report/threshold"
)

// ErrViolated reports that buyers saw a broken promise.
var ErrViolated = errors.New("the answers break promises to buyers")

// maxViolations is the maximum number of violations in a report. A broken sale may cause thousands;
// the first ones suffice.
const maxViolations = 20

// Report is the result of a rehearsal.
type Report struct {
	Sale    string `json:"sale"`
	Backend string `json:"backend"` // set by the caller

	Users    int `json:"users"`
	Requests int `json:"requests"` // claims, each counted once
	Retries  int `json:"retries"`  // repeated requests, after an answer to wait or without an answer

	// Outcomes counts requests by their final answer. Repeated requests of accepted claims (200)
	// count as `replayed`; the sum is Requests.
	Outcomes  map[string]int `json:"outcomes"`
	UnitsSold int64          `json:"unitsSold"` // as reported to buyers
	Money     *Money         `json:"money,omitempty"`
	Payment   *Payment       `json:"payment,omitempty"` // results of held claims; nil: claims are sold at once

	Rules  *Rules  `json:"rules,omitempty"`  // nil: the sale has none, or the rehearsal
	Choice *Choice `json:"choice,omitempty"` // nil: buyers may not choose units
	Draw   *Draw   `json:"draw,omitempty"`   // nil: the sale is no draw; otherwise requests, outcomes, times and latency are of the entries

	Timing Timing `json:"timing"`

	// Fairness reports whether claims were served in the order of arrival; nil for a draw.
	Fairness *Fairness `json:"fairness,omitempty"`

	// Violations describes the broken promises that buyers saw. Never null.
	Violations []string `json:"violations"`

	// Audit is the result of an audit of the ledger, set by a caller that can read it.
	Audit *audit.Report `json:"audit,omitempty"`

	// NotTried names what the sale declares and the rehearsal omits. The caller sets it.
	NotTried []string `json:"notTried,omitempty"`

	// Thresholds are the results of the rehearsal's thresholds, set by the caller.
	Thresholds []threshold.Result `json:"thresholds,omitempty"`

	Calls    []Call    `json:"-"` // all claims
	Attempts []Attempt `json:"-"` // all answered requests, in order of their ends

	found *judge
}

// Timing reports how long a rehearsal took, and its answers.
type Timing struct {
	DurationSeconds     float64 `json:"durationSeconds"`
	ThroughputPerSecond float64 `json:"throughputPerSecond"` // requests of the crowd with their final answer, until the last answer
	LatencyMs           Latency `json:"latencyMs"`
}

// Money is the money reported to buyers of a red packet. Amounts are exact decimals.
type Money struct {
	Currency string `json:"currency"`
	Granted  string `json:"granted"` // to all buyers together
	Total    string `json:"total"`   // of all packets
}

// Latency is the distribution of the time from sending a request to the end of its answer, in
// milliseconds, over all answered requests. It excludes waits before retries.
type Latency struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// Rules reports the effect of the sale's rules.
type Rules struct {
	// Users is the number of users of the sale whose names buyers have; 0: names are made up.
	Users int `json:"users"`
	// Refused counts requests by the name of the rule that refused them.
	Refused map[string]int `json:"refused"`
}

// ruled counts the refusals by rules.
func ruled(c Config, records []record) *Rules {
	r := &Rules{Users: min(len(c.Names), c.Users), Refused: map[string]int{}}
	for i := range records {
		if records[i].Outcome == api.NotEligible {
			r.Refused[records[i].rule]++
		}
	}
	return r
}

// Verdict returns nil, or ErrViolated if buyers saw a promise broken.
func (r *Report) Verdict() error {
	if len(r.Violations) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrViolated, r.Violations[0])
}

// report summarizes the results of all workers.
func report(d *drive, workers []*worker, took time.Duration, left leftOver) *Report {
	r := &Report{
		Sale:     d.Name,
		Users:    d.Users,
		Retries:  int(d.retries.Load()),
		Outcomes: map[string]int{},
	}
	records := recordsOf(workers)
	r.Requests = len(records)
	for _, w := range workers {
		r.Attempts = append(r.Attempts, w.attempts...)
	}
	slices.SortFunc(r.Attempts, func(a, b Attempt) int { return cmp.Compare(a.Ended, b.Ended) })
	for i := range records {
		r.Outcomes[records[i].label()]++
	}
	l := latenciesOf(r.Attempts)
	r.Timing = Timing{
		DurationSeconds: round(took.Seconds()),
		LatencyMs:       Latency{P50: l.ms(50), P99: l.ms(99), P999: l.ms(99.9), Max: l.ms(100)},
	}
	if d.answered > 0 {
		r.Timing.ThroughputPerSecond = round(float64(len(records)-len(left.came)) / d.answered.Seconds())
	}
	found := judged(d.Config, records, d.plays, d.drawn)
	r.Calls = callsOf(records, d.opened)
	r.UnitsSold = int64(len(found.owners))
	if d.Payment != nil {
		found.leftOver(records, left)
		r.Payment = paid(d.Config, found)
	}
	if d.Draw == nil {
		r.Fairness = new(fairness(d.Config, records))
	} else {
		r.Draw = d.drawn.report(records, took)
	}
	r.Choice = found.choice
	if d.Refused != nil {
		r.Rules = ruled(d.Config, records)
	}
	if p := d.RedPacket; p != nil {
		r.Money = &Money{p.Currency, p.Format(found.money), p.Format(p.Total)}
	}
	r.found = found
	r.setViolations()
	return r
}

// setViolations sets the violations of the report.
func (r *Report) setViolations() {
	all := r.found.violations
	r.Violations = append([]string{}, all[:min(len(all), maxViolations)]...)
	if more := len(all) - maxViolations; more > 0 {
		r.Violations = append(r.Violations, fmt.Sprintf("and %d more", more))
	}
}

// latencies are durations of requests in ascending order.
type latencies []time.Duration

func latenciesOf(attempts []Attempt) latencies {
	l := make(latencies, len(attempts))
	for i := range attempts {
		l[i] = attempts[i].Took
	}
	slices.Sort(l)
	return l
}

// ms returns a percentile in milliseconds, rounded to microseconds.
func (l latencies) ms(percent float64) float64 {
	return float64(threshold.Percentile(l, percent).Round(time.Microsecond).Microseconds()) / 1000
}

// round rounds to three decimal places.
func round(f float64) float64 { return math.Round(f*1000) / 1000 }

// Call is one claim as seen by its buyer. Calls are in the order of their answers. Times count from
// the start of the rehearsal.
type Call struct {
	User    string
	Outcome string // label as in Report.Outcomes
	Kind    Kind

	Sent         time.Duration // time of its first request
	Began, Ended time.Duration // of the request with the final answer
}

// Attempt is one answered request, even if it was repeated later.
type Attempt struct {
	Ended time.Duration // since the start of the rehearsal
	Took  time.Duration
}

// callsOf returns the claims of a rehearsal that was opened at a monotonic time.
func callsOf(records []record, opened time.Duration) []Call {
	calls := make([]Call, len(records))
	for i := range records {
		one := &records[i]
		calls[i] = Call{
			User: one.user, Outcome: one.label(), Kind: KindOf(one.label()),
			Sent: one.sent - opened, Began: one.began.Mono - opened, Ended: one.ended.Mono - opened,
		}
	}
	return calls
}

// Kind classifies the answers to claims. A few kinds cover all outcomes.
type Kind int

// Kinds of answers.
const (
	Given      Kind = iota // accepted: it has units, or has entered a draw
	GivenAgain             // a repeated request of an accepted claim
	NoneLeft               // no units, permanently or at the moment
	AtLimit                // the user has reached the limit
	Refused                // for another reason
	Undecided              // undecided or unknown: an error to the client
)

// KindOf returns the kind of an outcome of Report.Outcomes.
func KindOf(outcome string) Kind {
	o := api.Outcome(outcome)
	switch {
	case o.Accepted():
		return Given
	case outcome == string(api.Replayed):
		return GivenAgain
	}
	switch o {
	case api.SoldOut, api.NoneNow, api.UnitsTaken, api.NotAdjacent:
		return NoneLeft
	case api.LimitReached:
		return AtLimit
	}
	if row := o.Row(); row.Retry == api.Again || row.Status == http.StatusInternalServerError { // the latter: it has no row
		return Undecided
	}
	return Refused
}

// Ordered returns outcomes in the order of their kinds.
func Ordered[V any](outcomes map[string]V) []string {
	return slices.SortedFunc(maps.Keys(outcomes), func(a, b string) int {
		return cmp.Or(cmp.Compare(KindOf(a), KindOf(b)), cmp.Compare(a, b))
	})
}
