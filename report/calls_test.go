package report

import (
	"slices"
	"strings"
	"testing"

	"salectl/executor/rehearse"
)

// The answers that refuse for want of units are told apart: one is final, the other is not.
func TestOvertakenRequestsAreToldByTheirAnswer(t *testing.T) {
	noneNow := &rehearse.Inversions{Inversions: 7, Overtaken: 1300, LargestMs: 12.5, AfterAnswer: 2}
	for name, c := range map[string]struct {
		fairness rehearse.Fairness
		says     string
		rows     []string
	}{
		"none now alone": {rehearse.Fairness{NoneNow: noneNow},
			"No buyer got sold_out while a later request for at least as many units was accepted.",
			[]string{"sold_out, which is final|0|0|0s|0", "none_now, which may be repeated|1,300|7|12.5ms|2"}},
		"both": {rehearse.Fairness{SoldOut: rehearse.Inversions{Inversions: 1, Overtaken: 3, LargestMs: 4}, NoneNow: noneNow},
			"3 requests got sold_out although a later request for at least as many units was accepted.",
			[]string{"sold_out, which is final|3|1|4ms|0", "none_now, which may be repeated|1,300|7|12.5ms|2"}},
		"paid": {rehearse.Fairness{SoldOut: rehearse.Inversions{Inversions: 1, Overtaken: 1, LargestMs: 4}},
			"1 request got sold_out although a later request for at least as many units was accepted.",
			[]string{"sold_out, which is final|1|1|4ms|0"}},
	} {
		p := sample(t)
		p.Rehearsal = &rehearse.Report{Fairness: &c.fairness}
		s, ok := p.fairness()
		if !ok || s.Table == nil {
			t.Fatalf("%s: the page does not tell: %+v", name, s)
		}
		rows := texts(s.Table)
		if !slices.Equal(rows, c.rows) || s.Paragraphs[0] != c.says {
			t.Errorf("%s: the page says %s\n%q, want %s\n%q", name, s.Paragraphs[0], rows, c.says, c.rows)
		}
		if paid := strings.Contains(strings.Join(s.Paragraphs, " "), "Unpaid units return"); paid != (c.fairness.NoneNow == nil) {
			t.Errorf("%s: the page says of units that come back: %v", name, paid)
		}
	}
}
