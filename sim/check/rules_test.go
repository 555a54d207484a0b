package check

import (
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
)

// goldRules is the name of a rule set.
var goldRules = strings.Repeat("g", 32)

// ruled is a sale of users whose level is at least 2: each has that in the first hour, and
// 1 from then on.
func ruled(t testing.TB) *world {
	w := newWorld(t)
	w.h.Users = &Users{Moved: []time.Duration{time.Hour}, Known: func(_ string, _ Sources, moves, _ int) (int64, int64, string) {
		return int64(2 - moves), 0, strings.Repeat(string(rune('0'+moves)), ledger.AttributesLen)
	}}
	w.require, w.rules = "user.level >= 2", goldRules
	w.plan(0, 0, pb.Phase_OPEN)
	return w
}

// let has a user of shard 0 let in on what names what was known of the user.
func (w *world) let(digest byte) {
	w.t.Helper()
	user := w.user(0)
	op := w.invoke(user, "key", 1)
	var by ledger.Ruling
	if w.rules != "" {
		by.Rules = w.rules
		copy(by.Attributes[:], strings.Repeat(string(rune(digest)), ledger.AttributesLen))
	}
	w.append(0, func(d *ledger.Draft) { d.DecideClaim(by, user, "key", 1, ledger.Demand{}) })
	w.answer(op, Answer{Outcome: api.Sold, Claim: w.claims(user)[0]})
}

// relax has the rules take everybody from here on, and later none be left.
func (w *world) relax(require, rules string) {
	w.require, w.rules = require, rules
	w.plan(0, 0, pb.Phase_OPEN)
}

func TestToleratedRulings(t *testing.T) {
	for name, do := range map[string]func(w *world){
		"let in":             func(w *world) { w.let('0') },
		"refused":            func(w *world) { w.at += time.Hour; w.refuse(w.user(0), "key", 1, api.NotEligible) },
		"refused as it ends": func(w *world) { w.at = time.Hour - time.Millisecond; w.refuse(w.user(0), "key", 1, api.NotEligible) },
		"relaxed": func(w *world) {
			w.relax("user.level >= 1", strings.Repeat("s", 32))
			w.at += time.Hour
			w.let('1')
		},
		"no rules": func(w *world) {
			w.relax("", "")
			w.let(0)
		},
		"refused by rules that a read of now shows that lags": func(w *world) {
			w.at += time.Hour
			w.relax("user.level >= 1", strings.Repeat("s", 32))
			w.at += time.Hour
			w.refuse(w.user(0), "key", 1, api.NotEligible)
		},
		"let in by what was so a minute ago": func(w *world) {
			*w = *remembered(w.t)
			w.at += time.Hour
			w.let('1')
		},
		"refused by rules that have just ended": func(w *world) {
			w.at += time.Hour
			w.relax("user.level >= 1", strings.Repeat("s", 32))
			w.refuse(w.user(0), "key", 1, api.NotEligible)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := ruled(t)
			do(w)
			for _, p := range Check(w.h) {
				t.Error(p)
			}
		})
	}
}

// remembered is a sale of users who have bought at most one unit in an ended sale, by the table
// h1: each has that in the first hour, and two from then on.
func remembered(t testing.TB) *world {
	w := newWorld(t)
	w.h.Users = &Users{Moved: []time.Duration{time.Hour}, Old: time.Minute, Known: func(_ string, from Sources, _, moves int) (int64, int64, string) {
		return -1, int64(1 + moves), strings.Repeat(from.History[1:], ledger.AttributesLen)
	}}
	w.rules = goldRules
	w.remember("h1")
	return w
}

// remember has the rule read another table.
func (w *world) remember(table string) {
	w.said = `{"perUserLimit":2,"rules":[{"require":"history.filter(p, p.sale == 'first').units() <= 1"}],"history":{"hbase":{"table":"` + table + `"}}}`
	w.plan(0, 0, pb.Phase_OPEN)
}

// ruleFaults are what the checkers of rules find.
var ruleFaults = map[string]planted{
	"rules that are declared and not in force": {ruled, func(w *world) { w.relax("user.level >= 2", "") }, "ruleSets"},
	"rules of another name":                    {ruled, func(w *world) { w.relax("user.level >= 2", strings.Repeat("s", 32)) }, "ruleSets"},
	"rules that nobody can read":               {ruled, func(w *world) { w.relax("user.level > 2", strings.Repeat("s", 32)) }, "ruleSets"},
	"a user let in whose level is too low":     {ruled, func(w *world) { w.at += time.Hour; w.let('1') }, "eligible"},
	"a user let in on what was so before":      {ruled, func(w *world) { w.at += time.Hour; w.let('0') }, "eligible"},
	"a user let in on what never was so":       {ruled, func(w *world) { w.let('x') }, "eligible"},
	"a claim by rules in a sale without users": {ruled, func(w *world) { w.let('0'); w.h.Users = nil }, "eligible"},
	"a user let in who has bought too much":    {remembered, func(w *world) { w.at += 2 * time.Hour; w.let('1') }, "eligible"},
	"a user let in by a table of an earlier generation": {remembered, func(w *world) {
		w.rules = strings.Repeat("s", 32)
		w.remember("h2")
		w.let('1')
	}, "eligible"},
	"a table by two rule sets":   {remembered, func(w *world) { w.rules = strings.Repeat("s", 32); w.remember("h1") }, "ruleSets"},
	"a user refused by no table": {remembered, func(w *world) { w.refuse(w.user(0), "key", 1, api.NotEligible) }, "refusals"},
	"a user refused by no rule":  {ruled, func(w *world) { w.refuse(w.user(0), "key", 1, api.NotEligible) }, "refusals"},
	"a user refused by rules of long ago": {ruled, func(w *world) {
		for range lag { // a read may be so far behind
			w.relax("user.level >= 1", strings.Repeat("s", 32))
		}
		w.at += time.Hour
		w.refuse(w.user(0), "key", 1, api.NotEligible)
	}, "refusals"},
	"a user refused by rules where there are none": {newWorld, func(w *world) { w.refuse(w.user(0), "key", 1, api.NotEligible) }, "refusals"},
}
