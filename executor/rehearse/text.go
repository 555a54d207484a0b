package rehearse

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"salectl/api"
	"salectl/report/threshold"
	"salectl/spec"
)

// reading is the order of outcomes in the text report; others follow by name.
var reading = []string{
	string(api.Sold), string(api.Held), string(api.Entered), string(api.Replayed),
	string(api.LimitReached), string(api.SoldOut), string(api.NoneNow),
}

// WriteText writes the report as text.
func (r *Report) WriteText(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "Rehearsal of %s", r.Sale)
	if r.Backend != "" {
		fmt.Fprintf(&b, " on %s", r.Backend)
	}
	fmt.Fprintf(&b, "\n\n")

	for _, name := range slices.SortedFunc(maps.Keys(r.Outcomes), byReading) {
		fmt.Fprintf(&b, "  %-14s %9s\n", name, spec.Grouped(int64(r.Outcomes[name])))
	}

	rows := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(rows, "  %s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintln(rows)
	row("requests", "%s from %s", spec.Grouped(int64(r.Requests)), spec.Count(r.Users, "buyer"))
	if r.Retries > 0 {
		row("sent again", "%s", spec.Grouped(int64(r.Retries)))
	}
	if r.Payment == nil || r.Draw != nil {
		row("throughput", "%s/s over %.2f s", spec.Grouped(int64(r.ThroughputPerSecond)), r.DurationSeconds)
	} else {
		row("took", "%.2f s, most of it until holds were over", r.DurationSeconds)
	}
	l, ms := r.LatencyMs, threshold.Milliseconds
	row("latency", "p50 %v, p99 %v, p99.9 %v, max %v", ms(l.P50), ms(l.P99), ms(l.P999), ms(l.Max))
	if r.Draw != nil {
		r.Draw.writeText(row)
	}
	if r.Payment != nil {
		r.Payment.writeText(row)
	}
	if r.Rules != nil {
		row("rules", "%s", r.Rules)
	}
	if len(r.Violations) == 0 {
		money := ""
		if m := r.Money; m != nil {
			money = fmt.Sprintf(", %s of %s %s", m.Granted, m.Total, m.Currency)
		}
		row("buyers saw", "%s sold, none twice, nobody beyond the limit%s", spec.Count(r.UnitsSold, "unit"), money)
	} else {
		row("buyers saw", "BROKEN PROMISES")
		for _, v := range r.Violations {
			row("", "- %s", v)
		}
	}
	if audit, ok := r.Audit.(fmt.Stringer); ok {
		row("audit", "%s", audit)
	}
	for i, t := range r.Thresholds {
		name := ""
		if i == 0 {
			name = "thresholds"
		}
		row(name, "%s", t)
	}
	rows.Flush()
	_, err := w.Write(b.Bytes())
	return err
}

// subject formats a number of things as the subject of a sentence.
func subject[N int | int64](n N, noun, is, are string) string {
	if n != 1 {
		is = are
	}
	return spec.Count(n, noun) + " " + is
}

func byReading(a, b string) int {
	place := func(s string) int {
		if i := slices.Index(reading, s); i >= 0 {
			return i
		}
		return len(reading)
	}
	return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b))
}
