package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// Each way to settle a claim has an outcome of its own for its completion.
func TestWaysToSettle(t *testing.T) {
	var done []Outcome
	for _, how := range []How{Confirm, Extend, Cancel, Refund} {
		if slices.Contains(done, how.Done()) || how.Done().Row().Status == http.StatusInternalServerError {
			t.Errorf("%s is done with %q", how, how.Done())
		}
		done = append(done, how.Done())
	}
	if How("steal").Done() != "" || (Settlement{}).Check("steal") == nil {
		t.Error("any word is a way")
	}
}

// What is wrong with a settlement is reported with the name of the field.
func TestCheckSettlement(t *testing.T) {
	long := strings.Repeat("x", MaxReason+1)
	for name, c := range map[string]struct {
		how  How
		s    Settlement
		want string // the error's begin; "": none
	}{
		"confirm":                {Confirm, Settlement{Payment: long[:MaxPayment]}, ""},
		"extend":                 {Extend, Settlement{}, ""},
		"cancel":                 {Cancel, Settlement{Who: long[:MaxWho], Reason: long[:MaxReason]}, ""},
		"cancel without a word":  {Cancel, Settlement{}, ""},
		"refund":                 {Refund, Settlement{Who: "é", Reason: "sent back", Retire: true}, ""},
		"return":                 {Return, Settlement{Payment: "p", Who: "ann", Reason: "by bank"}, ""},
		"no returned payment":    {Return, Settlement{Who: "ann"}, "payment: missing"},
		"a retired return":       {Return, Settlement{Payment: "p", Retire: true}, "retire: only"},
		"no payment":             {Confirm, Settlement{}, "payment: missing"},
		"a long payment":         {Confirm, Settlement{Payment: long[:MaxPayment+1]}, "payment: 256 bytes are too many, at most 255"},
		"no text":                {Confirm, Settlement{Payment: "\xff"}, "payment: must be UTF-8"},
		"control characters":     {Confirm, Settlement{Payment: "a\x00"}, "payment: must not contain control"},
		"a payment of an extend": {Extend, Settlement{Payment: "p"}, "payment: only"},
		"a payment of a cancel":  {Cancel, Settlement{Payment: "p"}, "payment: only"},
		"a payment of a refund":  {Refund, Settlement{Payment: "p"}, "payment: only"},
		"a name of a confirm":    {Confirm, Settlement{Payment: "p", Who: "ann"}, "who: only"},
		"a reason of an extend":  {Extend, Settlement{Reason: "r"}, "reason: only"},
		"a retired confirm":      {Confirm, Settlement{Payment: "p", Retire: true}, "retire: only"},
		"a retired cancel":       {Cancel, Settlement{Retire: true}, "retire: only"},
		"a long name":            {Refund, Settlement{Who: long[:MaxWho+1]}, "who: 256 bytes"},
		"a long reason":          {Cancel, Settlement{Reason: long}, "reason: 1024 bytes are too many, at most 1023"},
	} {
		err := c.s.Check(c.how)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// settled is a claim that was settled, as servers tell it.
func settled(o Outcome) reply {
	return reply{status: 200, body: strings.Replace(word(Sold).body, "sold", string(o), 1)}
}

// A client settles by the table: what is undecided is sent again, the same bytes
// without a key, and all else is final.
func TestClientSettlesAsTheTableSays(t *testing.T) {
	paid := Settlement{Payment: "p-1"}
	for _, row := range Outcomes() {
		if row.Outcome.Accepted() || row.Outcome == Returned {
			continue
		}
		s := sells(t, word(row.Outcome))
		a, err := buys(t, 3, nil, s.url).Settle(t.Context(), "1-2-3", Confirm, paid)
		want := 1
		if row.Retry == Again {
			want = 3
		}
		if err != nil || a.Outcome != row.Outcome || a.Attempts != want || s.came() != want || a.Problem().Detail != "because" {
			t.Errorf("%s: %v, %+v after %d requests; want %d", row.Outcome, err, a, s.came(), want)
		}
		if a.MayBeAccepted != (row.Outcome == Unknown) || a.Key != "" {
			t.Errorf("%s: may be done: %v, key %q", row.Outcome, a.MayBeAccepted, a.Key)
		}
	}

	for how, c := range map[How]struct {
		s    Settlement
		want string
	}{
		Confirm: {paid, `POST /v1/sales/movie/claims/1-2-3/confirm Bearer s3cret {"payment":"p-1"}`},
		Extend:  {Settlement{}, `POST /v1/sales/movie/claims/1-2-3/extend Bearer s3cret {}`},
		Cancel:  {Settlement{Who: "ann", Reason: "too late"}, `POST /v1/sales/movie/claims/1-2-3/cancel Bearer s3cret {"who":"ann","reason":"too late"}`},
		Refund:  {Settlement{Reason: "sent back", Retire: true}, `POST /v1/sales/movie/claims/1-2-3/refund Bearer s3cret {"reason":"sent back","retire":true}`},
		Return:  {Settlement{Payment: "p-1", Who: "ann"}, `POST /v1/sales/movie/claims/1-2-3/return Bearer s3cret {"payment":"p-1","who":"ann"}`},
	} {
		s := sells(t, broken, word(Unknown), word(Standby), settled(how.Done()))
		b := buys(t, 9, func(c *Config) { c.Token = "s3cret" }, s.url)
		a, err := b.Settle(t.Context(), "1-2-3", how, c.s)
		if err != nil || a.Outcome != how.Done() || a.Claim.ID != "1-2-3" || a.Attempts != 4 || a.MayBeAccepted || a.Replayed {
			t.Errorf("%s: %v, %+v", how, err, a)
		}
		if s.bodies[0] != c.want || len(slices.Compact(s.bodies)) != 1 {
			t.Errorf("%s: the requests %q, want %s", how, s.bodies, c.want)
		}
		if same := slices.Compact(s.keys); len(same) != 1 || same[0] != "" {
			t.Errorf("%s: the keys %q", how, s.keys)
		}
	}
}

// A settlement that cannot be one is sent to nobody, and a claim's id stays one part of
// the path.
func TestClientChecksSettlements(t *testing.T) {
	s := sells(t, word(NoSuchClaim))
	b := buys(t, 9, nil, s.url)
	if _, err := b.Settle(t.Context(), "1-2-3", Confirm, Settlement{}); err == nil || s.came() != 0 {
		t.Errorf("%v after %d requests", err, s.came())
	}
	if a, err := b.Settle(t.Context(), "1/2", Extend, Settlement{}); err != nil || a.Outcome != NoSuchClaim || !strings.Contains(s.bodies[0], "claims/1%2F2/extend ") {
		t.Errorf("%v, %+v after %q", err, a, s.bodies)
	}
}

// A deadline and a refund that is due reach the caller.
func TestClientTellsOfHolds(t *testing.T) {
	until := time.Date(2026, 11, 11, 12, 10, 0, 0, time.UTC)
	held := strings.Replace(settled(Held).body, "}", `,"heldUntil":"2026-11-11T12:10:00Z"}`, 1)
	s := sells(t, reply{status: 200, body: held}, reply{status: 409, body: `{"outcome":"expired","refundDue":true}`})
	b := buys(t, 1, nil, s.url)
	if a, err := b.Settle(t.Context(), "1-2-3", Extend, Settlement{}); err != nil || !a.Claim.HeldUntil.Equal(until) {
		t.Errorf("%v, %+v", err, a)
	}
	if a, err := b.Settle(t.Context(), "1-2-3", Confirm, Settlement{Payment: "p"}); err != nil || a.Outcome != Expired || !a.Problem().RefundDue {
		t.Errorf("%v, %+v", err, a)
	}
}
