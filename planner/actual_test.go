package planner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/planner/plannertest"
	"salectl/spec"
)

// nodesOfLeases are nodes that hold leases of a live sale, an element each: the
// token and how long it is left, "" for none, "down" for one that is silent.
func nodesOfLeases(t *testing.T, key func(uid string) string, leases ...string) *Actual {
	a := &Actual{Name: "x", Sale: plannertest.Log(t, plannertest.PlannedOp(plannertest.UID, 1, 1), plannertest.AppliedOp(1))}
	for _, l := range leases {
		var n NodeActual
		var token string
		var left int
		switch {
		case l == "down":
			n.Err = errors.New("down")
		case l != "":
			if _, err := fmt.Sscanf(l, "%s %d", &token, &left); err != nil {
				t.Fatal(err)
			}
			n.Leases = []quorum.Holding{
				{Key: "another", Token: "another", Left: time.Hour},
				{Key: key(plannertest.UID), Token: token, Note: token + ":80 4 3000", Left: time.Duration(left) * time.Second},
			}
		}
		a.Nodes = append(a.Nodes, n)
	}
	return a
}

func TestLeaseOf(t *testing.T) {
	first := func(uid string) string { return spec.LeaseKey(uid, 0) }
	for name, test := range map[string]struct {
		leases   []string
		want     Lease
		ok       bool
		unserved bool
	}{
		"nobody":                   {[]string{"", "", ""}, Lease{}, false, true},
		"a majority":               {[]string{"a 1", "a 3", ""}, Lease{"a:80", time.Second}, true, false},
		"all":                      {[]string{"a 3", "a 1", "a 2"}, Lease{"a:80", 2 * time.Second}, true, false},
		"all of five":              {[]string{"a 5", "a 1", "a 4", "a 2", "a 3"}, Lease{"a:80", 3 * time.Second}, true, false},
		"another beside":           {[]string{"b 9", "a 2", "a 3"}, Lease{"a:80", 2 * time.Second}, true, false},
		"a minority":               {[]string{"a 3", "", ""}, Lease{}, false, true},
		"two of a minority each":   {[]string{"a 3", "b 3", ""}, Lease{}, false, true},
		"perhaps, with the silent": {[]string{"a 3", "down", ""}, Lease{}, false, false},
		"most are silent":          {[]string{"down", "down", ""}, Lease{}, false, false},
		"one is silent":            {[]string{"", "down", ""}, Lease{}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := nodesOfLeases(t, first, test.leases...)
			got, ok := a.LeaseOf(0)
			if got != test.want || ok != test.ok {
				t.Errorf("got %+v, %v, want %+v", got, ok, test.want)
			}
			if address, ok := a.Served(); address != test.want.Address || ok != test.ok {
				t.Errorf("served at %q, %v", address, ok)
			}
			if a.Unserved() != test.unserved {
				t.Errorf("unserved is %v", a.Unserved())
			}
			a = nodesOfLeases(t, func(uid string) string { return spec.LeaseKey(uid, 1) }, test.leases...)
			if _, ok := a.LeaseOf(0); ok {
				t.Error("another shard's lease counts")
			}
		})
	}
}

func TestShardActual(t *testing.T) {
	broken := errors.New("broken")
	head := ledger.Head{Slot: 7, Totals: ledger.Totals{Phase: ledger.PhaseSealed}}
	open := head
	open.Phase = ledger.PhaseOpen
	good, other := NewShardActual(head.Encode()), NewShardActual(open.Encode())
	none, noise, away := NewShardActual(nil), NewShardActual([]byte("noise")), ShardActual{Err: broken}
	if good.Err != nil || good.Head == nil || *good.Head != head {
		t.Errorf("a head: %+v", good)
	}
	if none.Err != nil || none.Head != nil || noise.Err == nil || noise.Head != nil || away.Err != broken || away.Head != nil {
		t.Errorf("none %+v, noise %+v, away %+v", none, noise, away)
	}
	for name, test := range map[string]struct {
		shards []ShardActual
		want   bool
	}{
		"all": {[]ShardActual{good, good}, true}, "one is open": {[]ShardActual{good, other}, false},
		"one is not there": {[]ShardActual{good, none}, false}, "one cannot be read": {[]ShardActual{noise, good}, false},
	} {
		if got := (&Actual{Shards: test.shards}).ShardsSealed(); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A node is known to have had its marker if it belonged to the sale when that was
// applied, and was not left out.
func TestWasMarked(t *testing.T) {
	declared := func(change func(*spec.Sale)) *pb.Op {
		op := plannertest.PlannedOp(plannertest.UID, 1, 1)
		op.GetPlanned().Spec = plannertest.JSON(t, plannertest.With(plannertest.Tickets(10), change))
		return op
	}
	embedded := declared(func(s *spec.Sale) { s.Homes, s.Embedded = nil, &spec.Embedded{} })
	nowhere := declared(func(s *spec.Sale) { s.Homes = nil })
	servers := declared(plannertest.OnServers("sales", "a", "b", "c"))
	unreadable := plannertest.PlannedOp(plannertest.UID, 1, 1)
	leftOut := &pb.Op{Op: &pb.Op_Applied{Applied: &pb.Applied{Generation: 1, Unmarked: []string{"a"}}}}
	for name, test := range map[string]struct {
		ops  []*pb.Op
		want bool
	}{
		"of an unknown kind":     {[]*pb.Op{nowhere, plannertest.AppliedOp(1)}, false},
		"not applied":            {[]*pb.Op{servers}, false},
		"applied":                {[]*pb.Op{servers, plannertest.AppliedOp(1)}, true},
		"left out":               {[]*pb.Op{servers, leftOut}, false},
		"of files":               {[]*pb.Op{embedded, plannertest.AppliedOp(1)}, false},
		"of others":              {[]*pb.Op{declared(plannertest.OnServers("sales", "b", "c", "d")), plannertest.AppliedOp(1)}, false},
		"of nobody knows which":  {[]*pb.Op{unreadable, plannertest.AppliedOp(1)}, false},
		"of files, and left out": {[]*pb.Op{embedded, leftOut}, false},
	} {
		if got := WasMarked(plannertest.Log(t, test.ops...), "a"); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if !WasMarked(plannertest.Log(t, embedded, plannertest.AppliedOp(1)), spec.EmbeddedNode) {
		t.Error("the one node of files was not marked")
	}
}

func TestVotes(t *testing.T) {
	for votes, want := range map[Votes]string{
		{1, 1}: "lock nodes that vote: 1 of 1; none may fail",
		{1, 0}: "lock nodes that vote: 0 of 1; no process can sell with fewer than 1",
		{3, 3}: "lock nodes that vote: 3 of 3; 1 may fail",
		{3, 2}: "lock nodes that vote: 2 of 3; none may fail",
		{3, 1}: "lock nodes that vote: 1 of 3; no process can sell with fewer than 2",
		{3, 0}: "lock nodes that vote: 0 of 3; no process can sell with fewer than 2",
		{5, 5}: "lock nodes that vote: 5 of 5; 2 may fail",
		{5, 4}: "lock nodes that vote: 4 of 5; 1 may fail",
		{5, 2}: "lock nodes that vote: 2 of 5; no process can sell with fewer than 3",
	} {
		if got := votes.String(); got != want {
			t.Errorf("%+v: %q, want %q", votes, got, want)
		}
	}
}

func TestNodeErrorsInShort(t *testing.T) {
	long := strings.Repeat("long ", 100)
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"as it is":          {errors.New("no\nroute  to host"), "no route to host"},
		"without its name":  {&quorum.NodeError{Node: "a:1", Err: errors.New("nothing answers; start it"), Detail: "dial tcp: refused"}, "nothing answers; start it"},
		"out of time":       {fmt.Errorf("asking: %w", context.DeadlineExceeded), "no answer in time"},
		"refused":           {fmt.Errorf("dial tcp a:1: %w", syscall.ECONNREFUSED), "connection refused"},
		"just short enough": {errors.New(strings.Repeat("x", shortLine)), strings.Repeat("x", shortLine)},
		"too long to read":  {errors.New(long), long[:shortLine-3] + "…"},
		"a long remedy":     {&quorum.NodeError{Node: "a:1", Err: errors.New(long[:shortLine-1]), Detail: "the server's words"}, long[:shortLine-1]},
	} {
		if got := ShortNodeError(test.err); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// Lists are on the nodes that were declared, in their order. Where none were, no nodes
// are those.
func TestSameLists(t *testing.T) {
	two := plannertest.Numbers(10)
	for name, test := range map[string]struct {
		old   spec.Sale
		names []string
		begun bool
		says  string // "": they are the same
	}{
		"the same":                  {two, two.Redis.Nodes, true, ""},
		"their order cannot change": {two, []string{"redis-1:6379", "redis-0:6379"}, true, "its file names redis-1:6379, redis-0:6379"},
		"none":                      {two, nil, true, "its file names none. Write redis.nodes as they are declared, in that order. To change them, run 'salectl pause' with the old ones, then 'salectl apply' with the new."},
		"none, of none":             {spec.Sale{}, nil, true, "its file names none"},
		"not applied yet":           {two, nil, false, "its file names none. Write redis.nodes as they are declared, in that order. To change them, run 'salectl apply' with the new ones."},
	} {
		err := CheckLists("x", test.old, test.names, test.begun)
		if (err == nil) != (test.says == "") || err != nil && (!errors.Is(err, ErrRefused) || !strings.Contains(withRemedy(err), test.says)) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
}

func TestListsOf(t *testing.T) {
	of := func(s spec.Sale) *ledger.Sale {
		op := plannertest.PlannedOp(plannertest.UID, 1, 1)
		op.GetPlanned().Spec = plannertest.JSON(t, s)
		op.GetPlanned().Shards = []*pb.ShardChange{{}, {}, {}}
		return plannertest.Log(t, op)
	}
	for name, test := range map[string]struct {
		sale  *ledger.Sale
		nodes int
		want  int
	}{
		"of lists": {of(plannertest.Numbers(30)), 2, 3}, "whose nodes are not named": {of(plannertest.Numbers(30)), 0, 0},
		"without lists": {of(plannertest.Tickets(30)), 2, 0}, "that never began": {plannertest.Log(t), 2, 0},
	} {
		if got := CountLists(test.sale, test.nodes); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// A list gives if it is on under the fill of its log, as far as both are known.
func TestListOn(t *testing.T) {
	head := &ledger.Head{Totals: ledger.Totals{Fill: 2}}
	on := lists.State{Exists: true, On: true, Fill: 2}
	for name, test := range map[string]struct {
		list ListActual
		head *ledger.Head
		want bool
	}{
		"on": {ListActual{State: on}, head, true}, "off": {ListActual{State: lists.State{Fill: 2}}, head, false},
		"under another fill": {ListActual{State: lists.State{On: true, Fill: 1}}, head, false},
		"not looked at":      {ListActual{State: on, Err: errors.New("no disk")}, head, false},
		"without a log":      {ListActual{State: on}, nil, false},
	} {
		a := &Actual{Lists: []ListActual{test.list}, Shards: []ShardActual{{Head: test.head}}}
		if got := a.listOn(0); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
