package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"
	"time"

	"salectl/backends/quorum"
)

// coded is an error of a driver that has a word for its kind.
type coded struct{ error }

func (coded) Kind() string { return "loading" }

func TestErrorKind(t *testing.T) {
	for want, err := range map[string]error{
		"loading":  fmt.Errorf("node: %w", coded{context.Canceled}),
		"timeout":  fmt.Errorf("node: %w", context.DeadlineExceeded),
		"canceled": fmt.Errorf("node: %w", context.Canceled),
		"other":    errors.New("reset"),
	} {
		if got := quorum.ErrorKind(err); got != want {
			t.Errorf("%v is of kind %s, want %s", err, got, want)
		}
	}
}

// Each answer of a node has its own text, and the holder is named by its address
// if its note has one.
func TestFailureText(t *testing.T) {
	for want, answer := range map[string]quorum.NodeAnswer{
		"n1 still has an earlier call to answer": {Node: "n1", Answer: quorum.NotQueried},
		"n1 has not answered":                    {Node: "n1", Answer: quorum.Silent},
		"n1 failed: no answer in time":           {Node: "n1", Answer: quorum.Failed, Err: errTimeout},
		"n1 granted it":                          {Node: "n1", Answer: quorum.Yes},
		"n1 does not have it":                    {Node: "n1", Answer: quorum.No},
		"n1 lost its memory and votes again at 2027-01-02T03:04:05Z": {Node: "n1", Answer: quorum.Abstained,
			VotesFrom: time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)},
		"n1 has promised it to 10.0.0.9:80 for another 2s": {Node: "n1", Answer: quorum.No,
			Holder: quorum.Holding{Token: "t9", Note: "10.0.0.9:80 4 3000", Left: 2 * time.Second}},
		"n1 has promised it to token t9 for another 2s": {Node: "n1", Answer: quorum.No,
			Holder: quorum.Holding{Token: "t9", Note: " 4 3000", Left: 2 * time.Second}},
		"n1 has promised it to token t8 for another 1s": {Node: "n1", Answer: quorum.No,
			Holder: quorum.Holding{Token: "t8", Note: "somebody else's", Left: time.Second}},
	} {
		if got := answer.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A failure wraps its kind and the errors of the nodes, and nothing that is nil.
func TestFailureWraps(t *testing.T) {
	f := &quorum.Failure{Kind: quorum.ErrLost, Answers: []quorum.NodeAnswer{{Answer: quorum.Yes}, {Answer: quorum.Failed, Err: errTimeout}}}
	if got := f.Unwrap(); !slices.Equal(got, []error{quorum.ErrLost, errTimeout}) {
		t.Errorf("wraps %v", got)
	}
}

// The holder is who has the key on most of the nodes that named one.
func TestFailureNamesTheHolder(t *testing.T) {
	for name, c := range map[string]struct{ tokens, want string }{
		"nobody":            {"   ", ""},
		"one":               {"  a", "a"},
		"most":              {"abb", "b"},
		"most, first named": {"aab", "a"},
		"of equals, first":  {"ba ", "b"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &quorum.Failure{}
			for _, token := range c.tokens {
				answer := quorum.NodeAnswer{Answer: quorum.No}
				if token != ' ' {
					answer.Holder.Token = string(token)
				}
				f.Answers = append(f.Answers, answer)
			}
			got, ok := f.Holder()
			if got.Token != c.want || ok != (c.want != "") {
				t.Errorf("got %q, %v, want %q", got.Token, ok, c.want)
			}
		})
	}
}

// A failure has the last answer of each node for the key.
func TestFailureOfTheMachine(t *testing.T) {
	other := quorum.Holding{Key: "a", Token: "other", Note: "10.0.0.9:80 4 3000", Left: time.Second}
	type answer = quorum.NodeAnswer
	const yes, silent, failed, abstained = quorum.Yes, quorum.Silent, quorum.Failed, quorum.Abstained
	no := answer{Answer: quorum.No, Holder: other}
	last := func(h *hand) quorum.Event { return h.events[len(h.events)-1] }
	for name, c := range map[string]struct {
		test func(*hand) // to a refusal or loss
		want []answer
	}{
		"a node that has not answered": {func(h *hand) {
			h.acquire("a")
			h.votes(0, "y")
			h.votes(1, "o")
			h.pass(ttl)
			h.do(h.m.Tick(h.now))
		}, []answer{{Answer: yes}, no, {Answer: silent}}},
		"a node that failed before, and gets another request": {func(h *hand) {
			h.acquire("a")
			h.votes(0, "o")
			h.fail(2)
			h.votes(1, "o")
			h.frees(1, "a/t1")
			h.fail(2) // to release it
			h.sleep()
			h.votes(0, "o")
		}, []answer{no, {Answer: silent}, {Answer: silent}}},
		"nodes that granted it and have a request to extend it": {func(h *hand) {
			h.acquire("a")
			h.votes(0, "y")
			h.votes(1, "y")
			h.abstain(2)
			h.sleep()
			h.fail(0)
			h.pass(ttl)
			h.do(h.m.Tick(h.now))
		}, []answer{{Answer: failed, Err: errTimeout}, {Answer: silent}, {Answer: silent}}},
		"a node that is to release an older try": {func(h *hand) {
			h.acquire("a")
			h.votes(0, "y")
			h.votes(1, "o")
			h.votes(2, "o")
			h.fail(0) // to release it
			h.sleep()
			h.votes(0, "y")
			h.sleep()
			h.votes(1, "o")
			if c, ok := h.calls[0]; !ok || c.Vote != nil {
				h.t.Fatalf("node 0 is not to release now: %+v", h.calls)
			}
			h.votes(2, "o")
		}, []answer{{Answer: yes}, no, no}},
		"a node that answered no, and failed since": {func(h *hand) {
			h.acquire("a")
			h.votes(0, "y")
			h.votes(1, "y")
			h.votes(2, "o")
			h.sleep()
			h.votes(2, "o")
			h.fail(0)
			h.fail(1)
			h.sleep() // all get a request to renew it
			h.fail(2)
			h.votes(0, "o")
		}, []answer{no, {Answer: silent}, no}},
		"a node that answered no, and gets another request": {func(h *hand) {
			h.acquire("a")
			h.votes(0, "y")
			h.votes(1, "y")
			h.votes(2, "o")
			h.sleep()
			h.votes(2, "o")
			h.fail(0)
			h.fail(1)
			h.sleep()
			h.votes(0, "o")
		}, []answer{no, {Answer: silent}, no}},
		"a node that abstained once and has voted since": {func(h *hand) {
			h.acquire("a")
			h.abstain(0)
			h.abstain(1)
			h.votes(2, "o")
			h.frees(2, "a/t1")
			h.sleep()
			h.votes(0, "y")
			h.abstain(1)
			h.votes(2, "o")
		}, []answer{{Answer: yes}, {Answer: abstained}, no}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHand(t, 3)
			c.test(h)
			e := last(h)
			if e.Cause == nil {
				t.Fatalf("the last event is %v", e.Kind)
			}
			for i, want := range c.want {
				want.Node = fmt.Sprintf("n%d", i)
				if want.Answer == abstained {
					want.VotesFrom = h.now.Wall.Add(7 * time.Second)
				}
				if got := e.Cause.Answers[i]; got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
			}
		})
	}
}

// Nodes that deny a request end a wait if the others are no majority.
func TestNotPermitted(t *testing.T) {
	denied, away := fmt.Errorf("node: %w", fs.ErrPermission), errors.New("away")
	for _, test := range []struct {
		errs []error
		want bool
	}{
		{nil, false},
		{[]error{nil}, false},
		{[]error{away, away, away}, false},
		{[]error{denied}, true},
		{[]error{denied, nil}, true}, // one of two is no majority
		{[]error{denied, nil, nil}, false},
		{[]error{denied, away, away}, false}, // who is away may be back
		{[]error{nil, denied, denied}, true},
		{[]error{denied, nil, denied, nil, nil}, false},
		{[]error{denied, nil, denied, nil, denied}, true},
	} {
		if got := quorum.NotPermitted(test.errs); got != test.want {
			t.Errorf("%v: %v, want %v", test.errs, got, test.want)
		}
	}
}

// A lease that a majority had granted was lost because the process was late, and not because of a node.
func TestFailureOfASlowProcess(t *testing.T) {
	f := &quorum.Failure{Key: "a", Kind: quorum.ErrLost, Why: "late", Votes: 1, Answers: []quorum.NodeAnswer{{Node: "n0", Answer: quorum.Yes}}}
	if got, want := f.Error(), "the lease was lost: a: late: the lock nodes granted it, but this process was too slow"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
