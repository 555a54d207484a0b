package planner

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/quorum"
	"salectl/planner/plannertest"
	"salectl/spec"
)

// The first three logs whose time is ahead are named, and how many more there are.
func TestLogsThatAreAhead(t *testing.T) {
	wrong := ledger.Head{TimeUs: plannertest.Epoch.Add(time.Hour).UnixMicro()}
	for n, want := range map[int]string{
		0: "", 1: "to shard/0: ", 3: "to shard/0, shard/1, shard/2: ", 4: "to shard/0, shard/1, shard/2, 1 more: ", 5: "to shard/0, shard/1, shard/2, 2 more: ",
	} {
		a := &Actual{At: plannertest.Epoch, Sale: plannertest.Log(t, plannertest.PlannedOp(plannertest.UID, 1, 1))}
		for range n {
			a.Shards = append(a.Shards, ShardActual{Head: &wrong})
		}
		if got := a.Ahead(); !strings.Contains(got, want) || (got == "") != (n == 0) || n > 0 && !strings.Contains(got, "by up to 1h0m0s this") {
			t.Errorf("%d logs: %q, want %q", n, got, want)
		}
	}
}

// What is said of nodes depends on what is planned, and on whether the sale is on every
// shard already.
func TestWarningsOfNodes(t *testing.T) {
	const (
		behind   = "lock node n1 is misconfigured: Its clock is 11s behind the median of the nodes' clocks. Set it right."
		ahead    = "lock node n1 is misconfigured: Its clock is 11s ahead of the median of the nodes' clocks. Set it right."
		away     = "lock node n1 cannot be used: "
		canSell  = "the sale can be sold without these lock nodes"
		tooFew   = "1 of 3 lock nodes can be used, and a new sale needs 2"
		allLists = "each shard's list is on one node"
	)
	for name, test := range map[string]struct {
		kind  Kind
		begun bool
		off   time.Duration // of our clock, before that of n1
		away  int           // nodes, from n1 on
		lists int
		want  []string // what the warnings begin with
	}{
		"all is well":                 {KindApply, false, 0, 0, 0, nil},
		"a clock behind":              {KindApply, false, 11 * time.Second, 0, 0, []string{behind}},
		"a clock ahead":               {KindApply, false, -11 * time.Second, 0, 0, []string{ahead}},
		"as far as a ttl":             {KindApply, false, quorum.MaxTTL, 0, 0, nil},
		"a clock, of what is to go":   {KindDestroy, false, 11 * time.Second, 0, 0, nil},
		"one is away":                 {KindApply, false, 0, 1, 0, []string{away, canSell}},
		"one is away, of lists":       {KindApply, false, 0, 1, 2, []string{away, allLists}},
		"two are away":                {KindApply, false, 0, 2, 0, []string{away, "lock node n2 cannot be used: ", tooFew}},
		"one is away, of a live sale": {KindApply, true, 0, 1, 0, []string{away, "lock nodes that vote: 2 of 3"}},
		"all vote, of a live sale":    {KindApply, true, 0, 0, 0, nil},
		"one is away, of what goes":   {KindDestroy, false, 0, 1, 0, []string{away}},
	} {
		ops := []*pb.Op{plannertest.PlannedOp(plannertest.UID, 1, 1)}
		if test.begun {
			ops = append(ops, plannertest.AppliedOp(1))
		}
		a := &Actual{Name: "x", At: plannertest.Epoch, Sale: plannertest.Log(t, ops...), ListNodes: make([]ListNodeActual, test.lists)}
		for i := range 3 {
			n := NodeActual{NodeInfo: quorum.NodeInfo{Name: fmt.Sprint("n", i), Info: quorum.Info{RunID: fmt.Sprint("r", i)}}, Marker: quorum.Marker{Good: true}}
			if i == 1 {
				n.Off = test.off
			}
			if i > 0 && i <= test.away {
				n = NodeActual{NodeInfo: quorum.NodeInfo{Name: n.Name, Err: errors.New("gone")}}
			}
			a.Nodes = append(a.Nodes, n)
		}
		p := &planning{&Plan{Kind: test.kind}, a}
		p.nodeWarnings()
		if !slices.EqualFunc(p.Warnings, test.want, strings.HasPrefix) {
			t.Errorf("%s: warned of %q, want %q", name, p.Warnings, test.want)
		}
	}
}

// Shards that are too few for the processes that share them are told of, where they are.
func TestShareWarning(t *testing.T) {
	for _, c := range []struct {
		kind   Kind
		owners []string // by shard; "": nobody
		want   string
	}{
		{KindApply, []string{"a:1", "b:1", "a:1"}, "2 processes share 3 shards, so some have twice the work of others; declare a lockCount of 8 or more in the next run"},
		{KindApply, []string{"a:1", "b:1", "a:1", "b:1"}, ""},
		{KindApply, []string{"a:1", "", ""}, ""},
		{KindApply, []string{"a:1"}, ""},
		{KindDestroy, []string{"a:1", "b:1"}, ""},
	} {
		a := &Actual{At: plannertest.Epoch, Sale: plannertest.Log(t, plannertest.PlannedOp(plannertest.UID, 1, 1)), Shards: make([]ShardActual, len(c.owners))}
		var holds []quorum.Holding
		for i, address := range c.owners {
			if address != "" {
				holds = append(holds, quorum.Holding{Key: spec.LeaseKey(plannertest.UID, i), Token: address, Note: quorum.Note{Address: address}.String(), Left: time.Second})
			}
		}
		a.Nodes = []NodeActual{{Leases: holds}}
		p := &planning{&Plan{Kind: c.kind}, a}
		p.shareWarning()
		if got := strings.Join(p.Warnings, "; "); got != c.want {
			t.Errorf("%v: %q, want %q", c.owners, got, c.want)
		}
	}
}
