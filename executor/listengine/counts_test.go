package listengine

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
	now := func(q *queue) { q.endCall("u", unloggedGrab) }
	before := func(q *queue) { q.endCall("u", givenBefore) }
	nothing := func(q *queue) { q.endCall("u", 0) }
	silence := func(q *queue) { q.endCall("u", unsure) }
	ledger := func(q *queue) { q.setLogged("u") }
	anew := func(q *queue) { q.resetCounts() }
	for name, test := range map[string]struct {
		from grabState
		hear func(*queue)
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
			q := &queue{users: map[string]grabState{}}
			q.setState("v", q.users["v"], inFlight|unloggedGrab|unsure) // somebody else
			q.setState("u", q.users["u"], test.from)
			test.hear(q)
			other := q.users["v"]
			if got, known := q.users["u"]; got != test.to || known != (test.to != 0) {
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
			if q.inFlight != count(inFlight) || q.backlog != want {
				t.Errorf("counts %d asked for, and %+v, want %+v", q.inFlight, q.backlog, want)
			}
			if may := test.to&(unloggedGrab|unsure) != 0; q.mayHaveLocked("u") != may {
				t.Errorf("may have something is %v", q.mayHaveLocked("u"))
			}
		})
	}
}

// A list that is off has given nothing that the ledger lacks, whoever has drained it.
func TestNothingUndrainedOfAListThatIsOff(t *testing.T) {
	q := newCounted(t, 1).queues[0]
	q.given = 1
	q.setState("u", q.users["u"], unloggedGrab)
	q.setState("v", q.users["v"], unsure)
	done := q.Drain()
	q.drain(closed)
	select {
	case <-done:
	default:
		t.Error("who waits for the ledger waits on")
	}
	if q.backlog.size() != 0 || q.MayHave("u") || q.MayHave("v") {
		t.Errorf("the ledger lacks %d", q.backlog.size())
	}
}
