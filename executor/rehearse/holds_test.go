package rehearse

import (
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/spec"
)

// moment is a time of the rehearsals here: holds last from 0 to 1000, and are released at
// 1100.
func moment(ms int) clock.Now {
	d := time.Duration(ms) * time.Millisecond
	return clock.Now{Mono: d, Wall: time.Unix(1000, 0).Add(d)}
}

// holding is a claim of unit 1 that was accepted at 0, and what was asked of it.
func holding(key string, steps ...step) *play {
	user, _, _ := strings.Cut(key, "/")
	return &play{key: key, steps: steps, claim: api.Claim{
		Outcome: api.Held, ID: "claim-" + key, Sale: "movie", User: user, Units: []int64{1},
		At: moment(0).Wall, HeldUntil: moment(1000).Wall,
	}}
}

// from is the same claim, accepted later.
func (v *play) from(ms int) *play {
	v.claim.At, v.claim.HeldUntil = moment(ms).Wall, moment(ms+1000).Wall
	return v
}

// is is one thing asked at began and answered at ended.
func is(began, ended int, how api.How, payment string, outcome api.Outcome, units ...int64) step {
	s := step{how: how, payment: payment, reply: reply{status: 409}, began: moment(began), ended: moment(ended)}
	if outcome == how.Done() {
		s.status, s.Claim = 200, api.Claim{Units: units, HeldUntil: moment(3000).Wall}
	}
	s.Outcome = outcome
	return s
}

// due is an answer that says that the payment is owed back.
func (s step) due() step {
	s.refundDue = true
	return s
}

// TestJudgeOfHoldsIsFair has answers that look wrong and are not, each beside the one that
// is.
func TestJudgeOfHoldsIsFair(t *testing.T) {
	const paid, cancelled, extended = api.Confirm, api.Cancel, api.Extend
	for name, c := range map[string]struct {
		late  spec.Late // "": resell
		plays []*play
		want  string // a part of the only violation; "": none
	}{
		"paid in time":                   {plays: []*play{holding("a/1", is(900, 950, paid, "p", api.Sold, 1))}},
		"paid in the grace":              {plays: []*play{holding("a/1", is(1050, 1090, paid, "p", api.Sold, 1))}},
		"too late by its answer's time":  {plays: []*play{holding("a/1", is(1050, 1100, paid, "p", api.Expired).due())}},
		"expired in the grace":           {plays: []*play{holding("a/1", is(1050, 1099, paid, "p", api.Expired).due())}, want: "has expired at"},
		"expired, nothing owed":          {plays: []*play{holding("a/1", is(1200, 1210, paid, "p", api.Expired))}, want: "no answer reports it as owed back"},
		"paid late, and sold":            {plays: []*play{holding("a/1", is(1200, 1210, paid, "p", api.Sold, 1))}},
		"paid late, other units":         {plays: []*play{holding("a/1", is(1200, 1210, paid, "p", api.Sold, 7))}},
		"paid late, fewer units":         {plays: []*play{holding("a/1", is(1200, 1210, paid, "p", api.Sold))}, want: "and has [] when it is paid"},
		"paid in time, other units":      {plays: []*play{holding("a/1", is(900, 950, paid, "p", api.Sold, 7))}, want: "and has [7] when it is paid"},
		"refused late, and sold":         {late: spec.LateRefuse, plays: []*play{holding("a/1", is(1200, 1210, paid, "p", api.Sold, 1))}, want: "was to be released at"},
		"sent in a commit's time":        {late: spec.LateRefuse, plays: []*play{holding("a/1", is(1149, 1210, paid, "p", api.Sold, 1))}},
		"paid twice":                     {plays: []*play{holding("a/1", is(1, 2, paid, "p", api.Sold, 1), is(1, 3, paid, "p", api.Sold, 1))}},
		"paid by another":                {plays: []*play{holding("a/1", is(1, 2, paid, "p", api.Sold, 1), is(3, 4, paid, "q", api.NotHeld).due())}},
		"paid by another, and sold":      {plays: []*play{holding("a/1", is(1, 2, paid, "p", api.Sold, 1), is(3, 4, paid, "q", api.Sold, 1))}, want: `(paid by "p"), and to confirm q the answer is 200 sold`},
		"paid again, and owed":           {plays: []*play{holding("a/1", is(1, 2, paid, "p", api.Sold, 1), is(3, 4, paid, "p", api.NotHeld).due())}, want: "and to confirm p the answer is 409 not_held, the payment is owed back"},
		"owed, and sold":                 {plays: []*play{holding("a/1", is(1200, 1201, paid, "p", api.Expired).due(), is(1300, 1301, paid, "p", api.Sold, 1))}, want: "is expired"},
		"cancelled, then expired":        {plays: []*play{holding("a/1", is(1, 2, cancelled, "", api.Cancelled), is(1200, 1201, cancelled, "", api.Expired))}, want: "is cancelled"},
		"cancelled too late":             {plays: []*play{holding("a/1", is(1099, 1101, cancelled, "", api.Expired))}},
		"extended by too much":           {plays: []*play{holding("a/1", is(1, 2, extended, "", api.Held))}, want: "is extended until"},
		"unknown, then anything":         {plays: []*play{holding("a/1", is(1, 2, paid, "p", api.Unknown), is(3, 4, paid, "p", api.Expired))}},
		"given after the release":        {plays: []*play{holding("a/1"), holding("b/1").from(1100)}},
		"given before the release":       {plays: []*play{holding("a/1"), holding("b/1").from(1099)}, want: "unit 1 was a/1's in claim claim-a/1 until"},
		"given while sold":               {plays: []*play{holding("a/1", is(1, 2, paid, "p", api.Sold, 1)), holding("b/1").from(5000)}, want: "until the end, and was given to b/1"},
		"given after a cancel":           {plays: []*play{holding("a/1", is(500, 600, cancelled, "", api.Cancelled)), holding("b/1").from(510)}},
		"given in a cancel's commit":     {plays: []*play{holding("a/1", is(500, 600, cancelled, "", api.Cancelled)), holding("b/1").from(450)}},
		"given before a cancel":          {plays: []*play{holding("a/1", is(500, 600, cancelled, "", api.Cancelled)), holding("b/1").from(400)}, want: "and was given to b/1"},
		"given between hold and payment": {plays: []*play{holding("a/1", is(5000, 5001, paid, "p", api.Sold, 1)), holding("b/1").from(1200)}},
		"given after a refund":           {plays: []*play{holding("a/1", is(1, 2, paid, "p", api.Sold, 1), is(300, 400, api.Refund, "", api.Refunded)), holding("b/1").from(310)}},
		"again after a cancel":           {plays: []*play{holding("a/1", is(500, 600, cancelled, "", api.Cancelled)), holding("a/2").from(510)}},
		"two at once":                    {plays: []*play{holding("a/1"), {key: "a/2", claim: api.Claim{ID: "two", User: "a", Units: []int64{2}, At: moment(9).Wall, HeldUntil: moment(1009).Wall}}}, want: "a has 2 units, the limit is 1"},
	} {
		t.Run(name, func(t *testing.T) {
			terms := spec.Payment{HoldFor: spec.Duration(time.Second), Grace: spec.Duration(100 * time.Millisecond), ExtendBy: spec.Duration(time.Second), Late: spec.LateResell}
			if c.late != "" {
				terms.Late = c.late
			}
			violations := judged(Config{Sale: spec.Sale{Name: "movie", PerUserLimit: 1, Stock: 3, Payment: &terms}}, nil, c.plays, nil).violations
			switch {
			case c.want == "" && len(violations) > 0:
				t.Errorf("unfair: %q", violations)
			case c.want != "" && (len(violations) != 1 || !strings.Contains(violations[0], c.want)):
				t.Errorf("got %q, want only %q", violations, c.want)
			}
		})
	}
}
