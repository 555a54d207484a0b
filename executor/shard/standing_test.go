package shard

import (
	"testing"
)

func TestBacklog(t *testing.T) {
	for _, test := range []struct {
		b           backlog
		room        int64
		large, full bool
	}{
		{backlog{limit: 10}, 10, false, false},
		{backlog{limit: 10, reserved: 4}, 6, false, false}, // the others are asked for
		{backlog{limit: 10, reserved: 10}, 0, false, false},
		{backlog{limit: 10, unlogged: 3, reserved: 6}, 1, false, false},
		{backlog{limit: 10, unlogged: 3, unsure: 2}, 5, false, false},
		{backlog{limit: 10, unlogged: 3, unsure: 3}, 4, true, false},
		{backlog{limit: 10, unlogged: 6, unsure: 4}, 0, true, true},
		{backlog{limit: 10, unlogged: 12, reserved: 2}, 0, true, true}, // it was more that it might lack
		{backlog{limit: 1}, 1, false, false},
		{backlog{limit: 1, unlogged: 1}, 0, true, true},
	} {
		if b := test.b; b.room() != test.room || b.aboveHalf() != test.large || b.full() != test.full {
			t.Errorf("%+v: room %d, large %v, full %v", b, b.room(), b.aboveHalf(), b.full())
		}
	}
}

// What is known of a user, after each that may be heard.
func TestStandings(t *testing.T) {
	now := func(gs *shardQueue) { gs.setGiven("u", true) }
	before := func(gs *shardQueue) { gs.setGiven("u", false) }
	nothing := func(gs *shardQueue) { gs.setNothingGiven("u") }
	silence := func(gs *shardQueue) { gs.setUnsure("u") }
	ledger := func(gs *shardQueue) { gs.setLogged("u") }
	anew := func(gs *shardQueue) { gs.resetCounts() }
	for name, test := range map[string]struct {
		from grabState
		hear func(*shardQueue)
		to   grabState
	}{
		"given now": {inFlight, now, unloggedGrab},
		"given now, after a call that was not answered": {inFlight | unsure, now, unloggedGrab},
		"given now, and the ledger has it":              {inFlight | superseded, now, 0},
		"given before, and the ledger has it":           {inFlight, before, 0},
		"given before, and the ledger lacks it":         {inFlight | unloggedGrab, before, unloggedGrab},
		"given before, by a call that was not answered": {inFlight | unsure, before, unloggedGrab},
		"given before, and overtaken":                   {inFlight | superseded, before, 0},
		"given nothing":                                 {inFlight, nothing, 0},
		"given nothing, perhaps before":                 {inFlight | unsure, nothing, unsure},
		"given nothing, but before":                     {inFlight | unloggedGrab, nothing, unloggedGrab},
		"given nothing, and overtaken":                  {inFlight | superseded, nothing, 0},
		"not answered":                                  {inFlight, silence, unsure},
		"not answered, twice":                           {inFlight | unsure, silence, unsure},
		"not answered, given before":                    {inFlight | unloggedGrab, silence, unloggedGrab},
		"not answered, and overtaken":                   {inFlight | superseded, silence, 0},
		"the ledger has it":                             {unloggedGrab, ledger, 0},
		"the ledger has what was unsure":                {unsure, ledger, 0},
		"the ledger has it before the answer":           {inFlight | unloggedGrab, ledger, inFlight | superseded},
		"the ledger has what is asked for":              {inFlight, ledger, inFlight | superseded},
		"a new fill, given":                             {unloggedGrab, anew, 0},
		"a new fill, asked for":                         {inFlight | unloggedGrab, anew, inFlight},
	} {
		t.Run(name, func(t *testing.T) {
			gs := &shardQueue{users: map[string]grabState{}}
			gs.setState("v", inFlight|unloggedGrab|unsure) // somebody else
			gs.setState("u", test.from)
			test.hear(gs)
			other := gs.users["v"]
			if got, known := gs.users["u"]; got != test.to || known != (test.to != 0) {
				t.Fatalf("came to %b, want %b", got, test.to)
			}
			count := func(bit grabState) (n int) {
				for _, s := range []grabState{test.to, other} {
					if s&bit != 0 {
						n++
					}
				}
				return n
			}
			want := backlog{unlogged: int64(count(unloggedGrab)), unsure: int64(count(unsure))}
			for _, s := range []grabState{test.to, other} {
				if s == inFlight { // else it is counted already, or the ledger has it
					want.reserved++
				}
			}
			if gs.inFlight != count(inFlight) || gs.backlog != want {
				t.Errorf("counts %d asked for, and %+v, want %+v", gs.inFlight, gs.backlog, want)
			}
			if may := test.to&(unloggedGrab|unsure) != 0; gs.mayHaveLocked("u") != may {
				t.Errorf("may have something is %v", gs.mayHaveLocked("u"))
			}
		})
	}
}

// A list that is off has given nothing that the ledger lacks, whoever has drained it.
func TestNothingUndrainedOfAListThatIsOff(t *testing.T) {
	gs := newCounted(t, 1).queues[0]
	gs.given = 1
	gs.setState("u", unloggedGrab)
	gs.setState("v", unsure)
	done := gs.Drain()
	gs.takeQueued()
	select {
	case <-done:
	default:
		t.Error("who waits for the ledger waits on")
	}
	if gs.backlog.size() != 0 || gs.MayHave("u") || gs.MayHave("v") {
		t.Errorf("the ledger lacks %d", gs.backlog.size())
	}
}
