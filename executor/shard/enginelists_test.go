package shard

import (
	"sync"
	"testing"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/executor/request"
)

// The answer of a node holds if the log has the same claim. A claim of the user under another key, which the next
// owner of the shard may have appended, does not confirm it; it confirms only that the user may have no more.
func TestLoggedAnswer(t *testing.T) {
	s := ledger.NewState("log")
	for _, op := range []func(d *ledger.Draft) error{
		func(d *ledger.Draft) error {
			return d.Generation(&pb.Generation{Number: 1, Settings: &pb.Settings{PerUserLimit: 1, Phase: pb.Phase_OPEN}, Add: []*pb.Range{{First: 1, Count: 5}}})
		},
		func(d *ledger.Draft) error { d.Own("here"); return nil },
		func(d *ledger.Draft) error { d.Rebuild(); return nil },
		func(d *ledger.Draft) error { d.Grab(ledger.Grab{User: "ann", Key: "1", Unit: 4}); return nil },
	} {
		d := s.Draft([]byte("me"), 1)
		if err := op(d); err != nil {
			t.Fatal(err)
		}
		e, err := d.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(e.Commit, e.Hash, len(e.Bytes)); err != nil {
			t.Fatal(err)
		}
	}
	e := &listEngine{q: &sequencer{state: s}, list: lists.NewMachine(lists.List{}, lists.Sizes{})}
	sold := func(unit int64) request.Answer {
		return request.Answer{Outcome: api.Sold, Claim: request.Claim{Units: []int64{unit}}}
	}
	limit := func(unit int64) request.Answer {
		return request.Answer{Outcome: api.LimitReached, Claims: []request.Claim{{Units: []int64{unit}}}}
	}
	for name, test := range map[string]struct {
		user, key string
		of        request.Answer
		want      api.Outcome
		final     bool
	}{
		"the claim":                      {"ann", "1", sold(4), api.Sold, true},
		"of the key, another unit":       {"ann", "1", sold(5), api.Unknown, false},
		"of another key, the same unit":  {"ann", "2", sold(4), api.Unknown, false},
		"of nobody":                      {"bob", "1", sold(4), api.Unknown, false},
		"the limit":                      {"ann", "2", limit(4), api.LimitReached, true},
		"the limit by a grab not logged": {"ann", "2", limit(5), api.LimitReached, true},
		"the limit of nobody":            {"bob", "2", limit(4), api.Unknown, false},
	} {
		x := request.NewTicket(new(sync.Pool), request.Request{User: test.user, Key: test.key, Quantity: 1}, nil, 0)
		x.Answer = test.of
		if a, final := e.loggedAnswer(x); a.Outcome != test.want || final != test.final {
			t.Errorf("%s: %s, final: %v", name, a.Outcome, final)
		}
	}
}
