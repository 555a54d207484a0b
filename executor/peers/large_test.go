// The race detector takes thirty times the processor time of a process that owns 1,024 shards,
// so that a busy machine is late with its leases. The other tests race the same goroutines.

//go:build !race

package peers_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"

	"salectl/api"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/quorum"
	"salectl/executor"
	"salectl/executor/peers"
	"salectl/executor/saletest"
	"salectl/internal/wait"
	"salectl/spec"
)

// process starts a process of the sale "linked", whose store is in a folder.
func process(t *testing.T, dir string, standby bool) *executor.Executor {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	logs, node := open(t, dir)
	e := executor.New(executor.Config{
		Logs: logs, Nodes: []quorum.Node{node}, Sale: "linked", Address: l.Addr().String(), Standby: standby,
		Dial: peers.Dialer(linkConfig),
	})
	run(t, e, l)
	return e
}

// sells waits until a process sells a quantity to somebody.
func sells(t *testing.T, e *executor.Executor, user string, quantity int64) {
	t.Helper()
	wait.UntilNil(t, fmt.Sprintf("%d units for %s", quantity, user), func() error {
		ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
		defer cancel()
		if a := e.Do(ctx, executor.Request{User: user, Key: "key", Quantity: quantity}); a.Outcome != api.Sold {
			return fmt.Errorf("%+v", a)
		}
		return nil
	})
}

// TestManyShards has a process that owns 1,024 shards tell another of all: that passes requests on
// for each of them. It is to own none, so that no shard moves meanwhile.
func TestManyShards(t *testing.T) {
	if testing.Short() {
		t.Skip("it has the maximum number of shards")
	}
	dir := t.TempDir()
	logs, node := open(t, dir)
	declared := saletest.Declared("linked", 10*spec.MaxLockCount, spec.MaxLockCount, 10)
	declared.LockTTL = spec.Duration(quorum.MaxTTL)
	saletest.Provision(t, logs, declared, slices.Repeat([]int64{10}, spec.MaxLockCount))
	saletest.Mark(t, node)
	owner := process(t, dir, false)
	wait.UntilNil(t, "the owner of all shards", func() error { return owner.Ready() })
	standby := process(t, dir, true)
	wait.UntilNil(t, "who stands by to know the owner of each shard", func() error { return standby.Ready() })
	for i := range 20 {
		sells(t, standby, fmt.Sprint("user-", i), 1)
	}
}

// TestScatteredTransfer has a process give another 2,000 units none of which lie side by side, for
// two claims that wait for all of them.
func TestScatteredTransfer(t *testing.T) {
	if testing.Short() {
		t.Skip("it moves thousands of ranges")
	}
	const scattered = 2000
	dir := t.TempDir()
	logs, node := open(t, dir)
	declared := saletest.Declared("linked", scattered+2, 2, 1000)
	text, err := declared.JSON()
	if err != nil {
		t.Fatal(err)
	}
	rich, poor := new(pb.ShardChange), &pb.ShardChange{Add: []*pb.Range{{First: 1, Count: 2}}}
	next := int64(1 << 50) // whose numbers are long
	for range scattered {
		rich.Add = append(rich.Add, &pb.Range{First: next, Count: 1})
		next += 2
	}
	saletest.Plan(t, logs, "linked", &pb.Planned{
		Generation: 1, Run: 1, Uid: saletest.UID, Spec: text, Shards: []*pb.ShardChange{rich, poor},
		Settings: &pb.Settings{PerUserLimit: 1000, Phase: pb.Phase_OPEN}, NextUnit: next,
	})
	saletest.Take(t, logs, "linked", 0)
	saletest.Take(t, logs, "linked", 1)
	saletest.AppendSale(t, logs, "linked", &pb.Op{Op: &pb.Op_Applied{Applied: &pb.Applied{Generation: 1}}})
	saletest.Mark(t, node)
	a, b := process(t, dir, false), process(t, dir, false)
	wait.Until(t, "each process owns a shard, and knows the other's", func() bool {
		return a.Ready() == nil && b.Ready() == nil && a.PlaceOf(0).Owner != a.PlaceOf(1).Owner &&
			a.PlaceOf(0) == b.PlaceOf(0) && a.PlaceOf(1) == b.PlaceOf(1)
	})
	var users []string
	for i := 0; len(users) < 2; i++ {
		if user := fmt.Sprint("user-", i); spec.HomeShard(user, 2) == 1 {
			users = append(users, user)
		}
	}
	both := make(chan executor.Answer, 2)
	for _, user := range users {
		go func() { both <- a.Do(t.Context(), executor.Request{User: user, Key: "key", Quantity: 1000}) }()
	}
	<-both
	<-both // perhaps none_now, while the units are under way
	for _, user := range users {
		sells(t, a, user, 1000)
	}
	saletest.Audited(t, logs, "linked")
}
