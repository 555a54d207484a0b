package shard

import (
	"testing"

	"salectl/api"
)

func TestBacklog(t *testing.T) {
	b := &Backlog{most: 10, before: 2}
	reserve := func(n, want int64) {
		t.Helper()
		if got := b.reserve(n); got != want {
			t.Errorf("%d of %d are reserved, want %d", got, n, want)
		}
	}
	is := func(waits, large, full bool) {
		t.Helper()
		if b.waits() != waits || b.large() != large || b.full() != full {
			t.Errorf("waits %v, large %v, full %v", b.waits(), b.large(), b.full())
		}
	}
	is(true, false, false)
	reserve(1, 0) // nobody knows how much was given before
	b.known()
	reserve(1, 0)
	b.known()
	is(false, false, false)
	reserve(4, 4)
	reserve(20, 6) // the others are under way
	reserve(1, 0)
	b.answered(4, 3)
	reserve(20, 1)
	b.answered(7, 2)
	is(false, false, false)
	b.answered(0, 1)
	is(false, true, false)
	b.answered(0, 4)
	is(false, true, true)
	reserve(1, 0)
	b.answered(0, 5) // what is not known of a call that failed may be beyond
	reserve(1, 0)
	b.answered(0, -6)
	reserve(20, 1)
}

// What is known of a user, after each that may be heard.
func TestStandings(t *testing.T) {
	now := func(gs *shardQueue) { gs.gave("u", true) }
	before := func(gs *shardQueue) { gs.gave("u", false) }
	nothing := func(gs *shardQueue) { gs.gaveNothing("u") }
	silence := func(gs *shardQueue) { gs.mayHaveGiven("u") }
	ledger := func(gs *shardQueue) { gs.hasIn("u") }
	anew := func(gs *shardQueue) { gs.anew() }
	for name, test := range map[string]struct {
		from standing
		hear func(*shardQueue)
		to   standing
	}{
		"given now": {asking, now, lacking},
		"given now, after a call that was not answered": {asking | unsure, now, lacking},
		"given now, and the ledger has it":              {asking | overtaken, now, 0},
		"given before, and the ledger has it":           {asking, before, 0},
		"given before, and the ledger lacks it":         {asking | lacking, before, lacking},
		"given before, by a call that was not answered": {asking | unsure, before, lacking},
		"given before, and overtaken":                   {asking | overtaken, before, 0},
		"given nothing":                                 {asking, nothing, 0},
		"given nothing, perhaps before":                 {asking | unsure, nothing, unsure},
		"given nothing, but before":                     {asking | lacking, nothing, lacking},
		"given nothing, and overtaken":                  {asking | overtaken, nothing, 0},
		"not answered":                                  {asking, silence, unsure},
		"not answered, twice":                           {asking | unsure, silence, unsure},
		"not answered, given before":                    {asking | lacking, silence, lacking},
		"not answered, and overtaken":                   {asking | overtaken, silence, 0},
		"the ledger has it":                             {lacking, ledger, 0},
		"the ledger has what was unsure":                {unsure, ledger, 0},
		"the ledger has it before the answer":           {asking | lacking, ledger, asking | overtaken},
		"the ledger has what is asked for":              {asking, ledger, asking | overtaken},
		"a new fill, given":                             {lacking, anew, 0},
		"a new fill, asked for":                         {asking | lacking, anew, asking},
	} {
		t.Run(name, func(t *testing.T) {
			gs := &shardQueue{users: map[string]standing{}}
			gs.set("v", asking|lacking|unsure) // somebody else
			gs.set("u", test.from)
			test.hear(gs)
			other := gs.users["v"]
			if got, known := gs.users["u"]; got != test.to || known != (test.to != 0) {
				t.Fatalf("came to %b, want %b", got, test.to)
			}
			count := func(bit standing) (n int) {
				for _, s := range []standing{test.to, other} {
					if s&bit != 0 {
						n++
					}
				}
				return n
			}
			if gs.asking != count(asking) || gs.behind != int64(count(lacking)) || gs.unsure != int64(count(unsure)) || gs.lacks() != gs.behind+gs.unsure {
				t.Errorf("counts %d asked for, %d lacking, %d unsure, %d in all", gs.asking, gs.behind, gs.unsure, gs.lacks())
			}
			if may := test.to&(lacking|unsure) != 0; gs.mayHaveLocked("u") != may {
				t.Errorf("may have something is %v", gs.mayHaveLocked("u"))
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	for outcome, test := range map[api.Outcome]struct{ accepted, denies bool }{
		api.Sold: {true, false}, api.Held: {true, false}, api.SoldOut: {false, true}, api.KeyReused: {false, false}, api.BadRequest: {false, false},
		api.Unknown: {false, false}, api.NoneNow: {false, true}, api.LimitReached: {false, true}, api.Closed: {false, true}, api.NoQuorum: {false, true},
	} {
		a := Answer{Outcome: outcome}
		if a.Accepted() != test.accepted || a.Denies() != test.denies {
			t.Errorf("%s: accepted %v, denies %v", outcome, a.Accepted(), a.Denies())
		}
	}
	for want, id := range map[string]ClaimID{"3-7-2": {Shard: 3, Slot: 7, Index: 2}, "3-u9": {Shard: 3, Unit: 9}} {
		if id.String() != want {
			t.Errorf("%+v is %s, want %s", id, id, want)
		}
	}
}
