// Package saletest writes what a planner would have written of a sale, for tests that
// have no planner, and reads it back. Each of its functions ends the test that fails.
package saletest

import (
	"context"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/quorum"
	"salectl/draw"
	"salectl/spec"
)

// UID is that of the run of every sale.
const UID = "00112233aabbccdd"

// Planner is the writer of all commits.
var Planner = []byte("planner!")

// PlannedUs is the time of all that a test's planner writes: one that has
// passed, and the same in each run.
const PlannedUs = 1_700_000_000_000_000

// Declared is a sale for tests: 3 s leases, embedded.
func Declared(name string, stock int64, shards int, perUser int64) spec.Sale {
	return spec.Sale{
		Name: name, Run: 1, Stock: stock, LockCount: shards, PerUserLimit: perUser,
		LockTTL: spec.DefaultLockTTL, Embedded: &spec.Embedded{},
	}
}

// Provision does to logs what an apply of the sale would, with the shares given.
func Provision(t testing.TB, logs ledger.Logs, sale spec.Sale, shares []int64) {
	t.Helper()
	ProvisionAs(t, logs, sale, shares, &pb.Settings{PerUserLimit: sale.PerUserLimit, Phase: pb.Phase_OPEN})
}

// ProvisionAs is Provision with other settings than those of an open sale.
func ProvisionAs(t testing.TB, logs ledger.Logs, sale spec.Sale, shares []int64, settings *pb.Settings) {
	t.Helper()
	if settings.GetDraw() {
		sale.ClosesAt = time.UnixMicro(settings.GetClosesAtUs()).UTC()
		sale.Queue = &spec.Queue{Order: spec.OrderDraw, Depth: spec.DefaultDepth}
		sale.Draw = &spec.Draw{KeyEnv: "DRAW_KEY", Substitutes: sale.Stock}
	}
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
		Generation: 1, Run: 1, Uid: UID, Spec: declaration, Shards: changes, Settings: settings, NextUnit: next,
	}
	if sale.RedPacket != nil {
		first.Seed = make([]byte, 32)
	}
	if settings.GetDraw() {
		terms, err := ledger.DrawTerms(first)
		if err != nil {
			t.Fatal(err)
		}
		end := terms.Commitment(UID, DrawLink)
		first.Draw = &pb.Draw{Commitment: end[:]}
	}
	Plan(t, logs, sale.Name, first)
	for shard := range shares {
		Take(t, logs, sale.Name, shard)
	}
	AppendSale(t, logs, sale.Name, &pb.Op{Op: &pb.Op_Applied{Applied: &pb.Applied{Generation: 1}}})
}

// DrawLink is what every draw reveals.
var DrawLink = draw.Link([]byte("the secret of all draws"))

// Plan appends a generation to the log of a sale.
func Plan(t testing.TB, logs ledger.Logs, name string, p *pb.Planned) {
	t.Helper()
	AppendSale(t, logs, name, &pb.Op{Op: &pb.Op_Planned{Planned: p}})
}

// AppendSale appends an op to the log of a sale.
func AppendSale(t testing.TB, logs ledger.Logs, name string, op *pb.Op) {
	t.Helper()
	sale := ledger.NewSale(spec.SaleLog(name))
	w := load(t, logs, spec.SaleLog(name), sale)
	e, err := sale.Entry(Planner, PlannedUs, op)
	if err != nil {
		t.Fatal(err)
	}
	Append(t, logs, w, e)
}

// Take brings a shard to its next generation, as a planner would.
func Take(t testing.TB, logs ledger.Logs, name string, shard int) {
	t.Helper()
	w, e := Taking(t, logs, name, shard)
	Append(t, logs, w, e)
}

// Taking returns the commit that brings a shard to its next generation, nil if
// it has the newest.
func Taking(t testing.TB, logs ledger.Logs, name string, shard int) (*ledger.Writer, *ledger.Entry) {
	t.Helper()
	sale := LoadSale(t, logs, name)
	log := spec.ShardLog(sale.UID(), shard, sale.Shards())
	state := ledger.NewState(log)
	w := load(t, logs, log, state)
	if state.Generation == sale.Generation() {
		return w, nil
	}
	d := state.Draft(Planner, PlannedUs)
	if err := d.Generation(sale.ShardGeneration(state.Generation+1, shard)); err != nil {
		t.Fatal(err)
	}
	e, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return w, e
}

// Append appends an entry on a store without faults.
func Append(t testing.TB, logs ledger.Logs, w *ledger.Writer, e *ledger.Entry) {
	t.Helper()
	now := clock.System()
	do := w.Append(e)
	do = w.Done(now(), do.Send.Do(t.Context(), logs))
	if do.Event != ledger.Committed {
		t.Fatalf("appending to %s: event %d, %v", w.Log(), do.Event, do.Err)
	}
}

// Mark lets a node vote at once, as the first apply does.
func Mark(t testing.TB, node quorum.Node) {
	t.Helper()
	info, err := node.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Mark(t.Context(), spec.Marker(UID), info.RunID); err != nil {
		t.Fatal(err)
	}
}

// Audited fails the test unless an audit finds everything right.
func Audited(t testing.TB, logs ledger.Logs, name string) *audit.Report {
	t.Helper()
	a, err := audit.Run(context.Background(), logs, name, ledger.NewState, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !a.OK {
		t.Fatalf("audit: %+v", a)
	}
	return a
}

// Replan appends the sale's next generation, a copy of the newest that change
// has edited: its settings, and of each shard the units.
func Replan(t testing.TB, logs ledger.Logs, name string, change func(p *pb.Planned)) {
	t.Helper()
	newest := LoadSale(t, logs, name).Newest()
	p := proto.CloneOf(newest)
	p.Generation++
	for i := range p.Shards {
		p.Shards[i] = &pb.ShardChange{}
	}
	change(p)
	Plan(t, logs, name, p)
}

// Deal adds that many new units to a shard in the generation being made.
func Deal(p *pb.Planned, shard int, units int64) {
	p.Shards[shard].Add = append(p.Shards[shard].Add, &pb.Range{First: p.NextUnit, Count: units})
	p.NextUnit += units
}

// load reads a log.
func load(t testing.TB, logs ledger.Logs, log string, into ledger.Folder) *ledger.Writer {
	t.Helper()
	w, err := ledger.Load(context.Background(), logs, log, into)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// LoadSale reads the log of a sale.
func LoadSale(t testing.TB, logs ledger.Logs, name string) *ledger.Sale {
	t.Helper()
	sale := ledger.NewSale(spec.SaleLog(name))
	load(t, logs, spec.SaleLog(name), sale)
	return sale
}

// LoadShard reads the log of a shard, of as many.
func LoadShard(t testing.TB, logs ledger.Logs, shard, shards int) *ledger.State {
	t.Helper()
	log := spec.ShardLog(UID, shard, shards)
	state := ledger.NewState(log)
	load(t, logs, log, state)
	return state
}

// Lease returns the validity of a lease of the default ttl won at an instant.
func Lease(t testing.TB, now clock.Now) quorum.Validity {
	g, err := quorum.NewGroup(quorum.Config{
		Nodes: []string{"node"}, TTL: quorum.DefaultTTL,
		Token: func() string { return "token" }, Jitter: func() float64 { return 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	call := g.Acquire(now, "key").Calls[0]
	g.Reply(now, quorum.Reply{Seq: call.Seq, Ballot: quorum.BallotReply{
		Yes: []bool{true}, Holders: make([]quorum.Holding, 1), Time: now.Wall,
	}})
	return g.Validity("key")
}

// ProcessorTime is what this process has taken of the processors so far.
func ProcessorTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
