package executor

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/quorum"
	"salectl/spec"
)

const testUID = "00112233aabbccdd"

var planner = []byte("planner!")

// plannedUs is the time of all that a test's planner writes: one that has
// passed, and the same in each run.
const plannedUs = 1_700_000_000_000_000

// declared is a sale for tests: 3 s leases, embedded.
func declared(name string, stock int64, shards int, perUser int64) spec.Sale {
	return spec.Sale{
		Name: name, Run: 1, Stock: stock, LockCount: shards, PerUserLimit: perUser,
		LockTTL: quorum.DefaultTTL, Embedded: &spec.Embedded{},
	}
}

// provision does to logs what an apply of the sale would, with the shares given.
func provision(t testing.TB, logs ledger.Logs, sale spec.Sale, shares []int64) {
	t.Helper()
	provisionAs(t, logs, sale, shares, &pb.Settings{PerUserLimit: sale.PerUserLimit, Phase: pb.Phase_OPEN})
}

// provisionAs is provision with other settings than those of an open sale.
func provisionAs(t testing.TB, logs ledger.Logs, sale spec.Sale, shares []int64, settings *pb.Settings) {
	t.Helper()
	declaration, err := sale.JSON()
	if err != nil {
		t.Fatal(err)
	}
	next := int64(1)
	var changes []*pb.ShardChange
	for _, share := range shares {
		change := &pb.ShardChange{}
		if share > 0 {
			change.Add = []*pb.Range{{First: next, Count: share}}
		}
		next += share
		changes = append(changes, change)
	}
	first := &pb.Planned{
		Generation: 1, Run: 1, Uid: testUID, Spec: declaration, Shards: changes, Settings: settings, NextUnit: next,
	}
	if sale.RedPacket != nil {
		first.Seed = make([]byte, 32)
	}
	plan(t, logs, sale.Name, first)
	for shard := range shares {
		take(t, logs, sale.Name, shard)
	}
	appendSale(t, logs, sale.Name, &pb.Op{Op: &pb.Op_Applied{Applied: &pb.Applied{Generation: 1}}})
}

func plan(t testing.TB, logs ledger.Logs, name string, p *pb.Planned) {
	t.Helper()
	appendSale(t, logs, name, &pb.Op{Op: &pb.Op_Planned{Planned: p}})
}

func appendSale(t testing.TB, logs ledger.Logs, name string, op *pb.Op) {
	t.Helper()
	sale := ledger.NewSale(spec.SaleLog(name))
	w, err := ledger.Load(context.Background(), logs, spec.SaleLog(name), sale)
	if err != nil {
		t.Fatal(err)
	}
	e, err := sale.Entry(planner, plannedUs, op)
	if err != nil {
		t.Fatal(err)
	}
	settle(t, logs, w, e)
}

// take brings a shard to its next generation, as a planner would.
func take(t testing.TB, logs ledger.Logs, name string, shard int) {
	t.Helper()
	w, e := taking(t, logs, name, shard)
	settle(t, logs, w, e)
}

// taking returns the commit that brings a shard to its next generation, nil if
// it has the newest.
func taking(t testing.TB, logs ledger.Logs, name string, shard int) (*ledger.Writer, *ledger.Entry) {
	t.Helper()
	sale := loadSale(t, logs, name)
	log := spec.ShardLog(sale.UID(), shard, sale.Shards())
	state := ledger.NewState(log)
	w, err := ledger.Load(context.Background(), logs, log, state)
	if err != nil {
		t.Fatal(err)
	}
	if state.Generation == sale.Generation() {
		return w, nil
	}
	d := state.Draft(planner, plannedUs)
	if err := d.Generation(sale.ShardGeneration(state.Generation+1, shard)); err != nil {
		t.Fatal(err)
	}
	e, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return w, e
}

// settle appends an entry on a store without faults.
func settle(t testing.TB, logs ledger.Logs, w *ledger.Writer, e *ledger.Entry) {
	t.Helper()
	now := clock.System()
	do := w.Append(now(), e)
	do = w.Done(now(), do.Send.Do(t.Context(), logs))
	if do.Event != ledger.Committed {
		t.Fatalf("appending to %s: event %d, %v", w.Log(), do.Event, do.Err)
	}
}

// mark lets a node vote at once, as the first apply does.
func mark(t testing.TB, node quorum.Node) {
	t.Helper()
	info, err := node.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Mark(t.Context(), spec.Marker(testUID), info.RunID); err != nil {
		t.Fatal(err)
	}
}

// serve runs an executor until the test ends, and waits until it is ready.
func serve(t testing.TB, logs ledger.Logs, node quorum.Node, name string) *Executor {
	t.Helper()
	e := New(Config{Logs: logs, Nodes: []quorum.Node{node}, Sale: name, Address: "127.0.0.1:1"})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	waitFor(t, func() bool { return e.Ready() == nil })
	return e
}

// waitFor polls until ok, for as long as any machine may reasonably take.
func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen")
		}
	}
}

// audited fails the test unless an audit finds everything right.
func audited(t testing.TB, logs ledger.Logs, name string) *ledger.Audit {
	t.Helper()
	a, err := ledger.NewAudit(context.Background(), logs, name)
	if err != nil {
		t.Fatal(err)
	}
	if !a.OK {
		t.Fatalf("audit: %+v", a)
	}
	return a
}

// replan appends the sale's next generation, which changes what change says of a
// copy of the newest: its settings, and of each shard the units.
func replan(t testing.TB, logs ledger.Logs, name string, change func(p *pb.Planned)) {
	t.Helper()
	newest := loadSale(t, logs, name).Newest()
	p := proto.CloneOf(newest)
	p.Generation++
	for i := range p.Shards {
		p.Shards[i] = &pb.ShardChange{}
	}
	change(p)
	plan(t, logs, name, p)
}

// deal gives a shard that many new units in the generation being made.
func deal(p *pb.Planned, shard int, units int64) {
	p.Shards[shard].Add = append(p.Shards[shard].Add, &pb.Range{First: p.NextUnit, Count: units})
	p.NextUnit += units
}

func loadSale(t testing.TB, logs ledger.Logs, name string) *ledger.Sale {
	t.Helper()
	sale := ledger.NewSale(spec.SaleLog(name))
	if _, err := ledger.Load(context.Background(), logs, spec.SaleLog(name), sale); err != nil {
		t.Fatal(err)
	}
	return sale
}

func loadShard(t testing.TB, logs ledger.Logs, shard, shards int) *ledger.State {
	t.Helper()
	log := spec.ShardLog(testUID, shard, shards)
	state := ledger.NewState(log)
	if _, err := ledger.Load(context.Background(), logs, log, state); err != nil {
		t.Fatal(err)
	}
	return state
}
