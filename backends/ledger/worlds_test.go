package ledger

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
	"salectl/spec"
)

// Follow stores a commit of the owner that the state takes, past any draft.
func (w *World) Follow(shard int, ops ...*pb.Op) {
	w.T.Helper()
	w.commitAs(string(TestOwner), shard, ops...)
}

// commitAs stores a commit of a writer that the state takes, past any draft.
func (w *World) commitAs(writer string, shard int, ops ...*pb.Op) {
	w.T.Helper()
	s := w.Shards[shard]
	c := commit{writer, s.Epoch, w.TimeUs, ops}.proto()
	entry, err := s.encode(c, Totals{})
	if err != nil {
		w.T.Fatal(err)
	}
	slot := s.next
	if err := s.Apply(c, entry.Hash, len(entry.Bytes)); err != nil {
		w.T.Fatal(err)
	}
	w.store(s.log, slot, &Entry{Bytes: entry.Bytes, Head: s.Head().Encode()})
}

// anything lets one thing happen, most often a step of a transfer.
func (w *World) Anything(random *rand.Rand) {
	from := random.IntN(WorldShards)
	to := (from + 1 + random.IntN(WorldShards-1)) % WorldShards
	open, ok := w.Shards[from].OpenTo(to)
	switch n := random.IntN(20); {
	case n == 0:
		w.Plan(int64(random.IntN(3)), int64(random.IntN(3)), PhaseSettings(pb.Phase_OPEN))
	case n < 3:
		w.Sell(1, from)
	case !ok:
		w.Move(from, to, 1+random.Int64N(3), 1)
	case w.Shards[to].Received(from) < open.K:
		d := w.Draft(to)
		if err := d.In(from, open.K, open.Units); err != nil {
			w.T.Fatal(err)
		}
		w.Commit(to, d)
	default:
		d := w.Draft(from)
		d.Ack(to, open.K)
		w.Commit(from, d)
	}
}

// meanwhile does something once, when an audit has begun to read the shards.
func (w *World) Meanwhile(do func()) {
	reads := 0
	w.Logs.Before = func() {
		if reads++; reads == 3 {
			w.Logs.Before = nil
			do()
		}
	}
}

// broken is Logs of which one log cannot be read.
type BrokenLogs struct {
	*MemoryLogs
	Log string
}

func (b BrokenLogs) Read(ctx context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	if log == b.Log {
		return nil, nil, ErrBroken
	}
	return b.MemoryLogs.Read(ctx, log, from, max)
}

// HistoriesWorld is a sale in which claims of shard 1 have come to every end: claim 0 is sold,
// 1 held and extended, 2 cancelled, 3 expired, 4 refunded, 5 resold with other units, 6
// retired; of 0, 3, 4 and 6 a payment is owed back, that of 6 was paid back. All have one unit.
func HistoriesWorld(t testing.TB) *World {
	w := WorldOf(t, HeldSettings())
	d := w.Draft(1)
	for range 7 {
		d.Claim(w.Buyer(1), "key", 1)
	}
	w.Commit(1, d)
	claim := w.Shards[1].Claim
	d = w.Draft(1)
	for _, i := range []int{0, 4, 6} {
		d.Confirm(claim(i), fmt.Sprint("payment ", i))
	}
	d.Extend(claim(1))
	d.Cancel(claim(2), "the buyer", "too dear")
	w.Commit(1, d)
	w.TimeUs += 1_001_000
	d = w.Draft(1)
	d.Expire(claim(3))
	d.Expire(claim(5))
	for range 3 {
		d.Claim(w.Buyer(1), "key", 1) // also the unit of claim 5
	}
	d.Refund(claim(4), "ada", "broken", false)
	d.Refund(claim(6), "ada", "stolen", true)
	d.Late(claim(5), "payment 5")
	d.Late(claim(0), "payment 7")
	w.Commit(1, d)
	w.Plan(0, 0, paying(1, &pb.Payment{HoldForUs: 1_000_000, GraceUs: 1000, Late: pb.Payment_REFUSE}))
	d = w.Draft(1)
	d.Late(claim(3), "payment 3")
	d.Return(claim(6), "payment 6", "eve", "by bank")
	w.Commit(1, d)
	return w
}

// SomeHistories lets a few things happen to claims of a shard, in one commit.
func (w *World) SomeHistories(random *rand.Rand) {
	shard := random.IntN(WorldShards)
	s := w.Shards[shard]
	w.TimeUs += random.Int64N(400_000)
	d := w.Draft(shard)
	for range 1 + random.IntN(8) {
		if s.Claims() == 0 || random.IntN(3) == 0 {
			d.Claim(w.Buyer(shard), "key", 1+random.Int64N(3))
			continue
		}
		c := s.Claim(random.IntN(s.Claims()))
		payment := fmt.Sprint(c.ID(shard), "/", random.IntN(3))
		switch random.IntN(7) {
		case 0, 1:
			d.Confirm(c, payment)
		case 2:
			d.Cancel(c, "w", "r")
		case 3:
			d.Extend(c)
		case 4:
			d.Refund(c, "ada", "", random.IntN(2) == 0)
		case 5:
			d.Late(c, payment)
		case 6:
			d.Return(c, payment, "eve", "")
		}
	}
	for _, c := range s.Due(d.TimeUs(), 3) {
		d.Expire(c)
	}
	w.Commit(shard, d)
}

var TestSeed = bytes.Repeat([]byte{7}, 32)

// PacketsWorld is a red packet of 100.00 in 30 packets over three shards. change
// may alter what is declared.
func PacketsWorld(t testing.TB, change func(*pb.Planned, *spec.Sale)) *World {
	t.Helper()
	w := &World{T: t, Logs: &MemoryLogs{Logs: make(map[string]*StoredLog)}, Sale: NewSale(spec.SaleLog("test")), TimeUs: 1_000_000, Next: 1}
	for i := range WorldShards {
		w.Shards = append(w.Shards, NewState(spec.ShardLog(TestUID, i, WorldShards)))
	}
	declared := spec.Sale{
		Name: "test", Run: 1, Stock: 30, LockCount: WorldShards, PerUserLimit: 1, LockTTL: spec.DefaultLockTTL,
		Engine: spec.EngineRedis, Ack: spec.AckLedger, Backlog: 10,
		RedPacket: &spec.RedPacket{Currency: "CNY", Scale: 2, Total: 10_000, Min: 5, Split: spec.SplitRandom},
	}
	p := &pb.Planned{Generation: 1, Uid: TestUID, Run: 1, Settings: OpenSettings(1), Seed: TestSeed}
	for range w.Shards {
		p.Shards = append(p.Shards, &pb.ShardChange{Add: []*pb.Range{{First: w.Next, Count: 10}}})
		w.Next += 10
	}
	if change != nil {
		change(p, &declared)
	}
	stored, err := declared.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if p.Spec == nil {
		p.Spec = stored
	}
	w.AppendSale(PlanOp(p))
	w.Begin(w.Shards)
	w.AppendSale(AppliedOp(1))
	return w
}

// begin brings some shards, from the first on, to the first generation.
func (w *World) Begin(shards []*State) {
	w.T.Helper()
	for i := range shards {
		d := w.Draft(i)
		if err := d.Generation(w.Sale.ShardGeneration(1, i)); err != nil {
			w.T.Fatal(err)
		}
		w.Commit(i, d)
		d = w.Draft(i)
		d.Own("here:1")
		w.Commit(i, d)
	}
}

// taken gives each shard's users so many packets.
func (w *World) Taken(each int) {
	for i := range w.Shards {
		d := w.Draft(i)
		for range each {
			if v := d.Claim(w.Buyer(i), "key", 1); v.Kind != Granted {
				w.T.Fatalf("decision %d", v.Kind)
			}
		}
		w.Commit(i, d)
	}
}

// seal ends the shards of a sale in which nothing is open.
func (w *World) Seal() {
	w.Replan(func(p *pb.Planned, _ *spec.Sale) { p.Settings = PhaseSettings(pb.Phase_CLOSED) })
	for i := range w.Shards {
		d := w.Draft(i)
		if err := d.Generation(w.Sale.ShardGeneration(2, i)); err != nil {
			w.T.Fatal(err)
		}
		d.Seal()
		w.Commit(i, d)
	}
}

// replan appends a further generation that changes no units.
func (w *World) Replan(change func(*pb.Planned, *spec.Sale)) {
	first := w.Sale.Planned(1)
	declared, err := spec.FromJSON(first.GetSpec())
	if err != nil {
		w.T.Fatal(err)
	}
	p := &pb.Planned{Generation: w.Sale.Generation() + 1, Uid: TestUID, Run: 1, Settings: OpenSettings(1), Shards: make([]*pb.ShardChange, WorldShards)}
	for i := range p.Shards {
		p.Shards[i] = &pb.ShardChange{}
	}
	change(p, &declared)
	if p.Spec, err = declared.JSON(); err != nil {
		w.T.Fatal(err)
	}
	w.AppendSale(PlanOp(p))
}

// TimesCommit appends that many commits to a shard.
func (w *World) TimesCommit(shard, times int) {
	for range times {
		d := w.Draft(shard)
		d.Own("again:1")
		w.Commit(shard, d)
	}
}

const drawCloses = 1_000_000_000 // microseconds since 1970

func DrawSettings(payment *pb.Payment) *pb.Settings {
	return &pb.Settings{PerUserLimit: 1, Phase: pb.Phase_OPEN, Draw: true, ClosesAtUs: drawCloses, Payment: payment}
}

// DrawWorld is a sale that is a draw: worlds write by its rules unless a test breaks them.
type DrawWorld struct {
	*World
	link   draw.Digest
	Ranked []draw.Entry
}

func NewDrawWorld(t testing.TB, stock int64, payment *pb.Payment, beacon *spec.Beacon) *DrawWorld {
	w := &DrawWorld{World: &World{T: t, Logs: &MemoryLogs{Logs: make(map[string]*StoredLog)}, Sale: NewSale(spec.SaleLog("test")), TimeUs: 1_000_000, Next: 1}}
	w.link = draw.Link([]byte("a secret"))
	declared := spec.Sale{
		Name: "test", Run: 1, Stock: stock, LockCount: WorldShards, PerUserLimit: 1, LockTTL: spec.Duration(3 * time.Second), ClosesAt: time.UnixMicro(drawCloses).UTC(),
		Embedded: &spec.Embedded{}, Queue: &spec.Queue{Order: spec.OrderDraw, Depth: 1}, Draw: &spec.Draw{KeyEnv: "KEY", Substitutes: stock, Beacon: beacon},
	}
	text, err := declared.JSON()
	if err != nil {
		t.Fatal(err)
	}
	p := &pb.Planned{Generation: 1, Uid: TestUID, Run: 1, Spec: text, Settings: DrawSettings(payment)}
	terms, err := DrawTerms(p)
	if err != nil {
		t.Fatal(err)
	}
	end := terms.Commitment(TestUID, w.link)
	p.Draw = &pb.Draw{Commitment: end[:]}
	for i, n := range spec.Shares(stock, WorldShards) {
		w.Shards = append(w.Shards, NewState(spec.ShardLog(TestUID, i, WorldShards)))
		p.Shards = append(p.Shards, &pb.ShardChange{Add: []*pb.Range{{First: w.Next, Count: n}}})
		w.Next += n
	}
	w.AppendSale(PlanOp(p))
	for i := range w.Shards {
		d := w.Draft(i)
		if err := d.Generation(w.Sale.ShardGeneration(1, i)); err != nil {
			t.Fatal(err)
		}
		w.Commit(i, d)
		d = w.Draft(i)
		d.Own("here:1")
		w.Commit(i, d)
	}
	w.AppendSale(AppliedOp(1))
	return w
}

// enter lets new users enter, and returns the last of them.
func (w *DrawWorld) Enter(shard, n int) (user string) {
	w.T.Helper()
	d := w.Draft(shard)
	for range n {
		user = w.Buyer(shard)
		if v := d.Claim(user, "key", 1); v.Kind != Granted {
			w.T.Fatalf("decision %d", v.Kind)
		}
	}
	w.Commit(shard, d)
	return user
}

// close closes the entries of all shards, by the hours.
func (w *DrawWorld) Close() {
	w.T.Helper()
	trees := make([]draw.Tree, len(w.Shards))
	for i := range w.Shards {
		trees[i] = w.CloseShard(i)
	}
	w.AppendSale(&pb.Op{Op: &pb.Op_EntriesClosed{EntriesClosed: NewEntriesClosed(trees)}})
}

// CloseShard records the entries of one shard.
func (w *DrawWorld) CloseShard(shard int) draw.Tree {
	w.T.Helper()
	w.TimeUs = max(w.TimeUs, drawCloses)
	d := w.Draft(shard)
	d.Entries()
	w.Commit(shard, d)
	tree, _ := w.Shards[shard].Entries()
	return tree
}

// reveal reveals the secret and publishes the ranks, so many in a part.
func (w *DrawWorld) Reveal(beacon []byte, ranks int64, part int) {
	w.T.Helper()
	var entries []draw.Entry
	for i, s := range w.Shards {
		entries = append(entries, s.DrawEntries(i)...)
	}
	w.Ranked = draw.NewOrder(TestUID, draw.Digest(w.Sale.EntriesClosed().GetRoot()), w.link, beacon).Lowest(entries, ranks)
	w.AppendSale(&pb.Op{Op: &pb.Op_Drawn{Drawn: &pb.Drawn{Link: w.link[:], Beacon: beacon, Ranks: int64(len(w.Ranked))}}})
	for first := 1; first <= len(w.Ranked); first += part {
		op := NewRanked(int64(first), w.Ranked[:min(len(w.Ranked), first-1+part)])
		w.AppendSale(&pb.Op{Op: &pb.Op_Ranked{Ranked: op}})
	}
}

func (w *DrawWorld) Totals() (all []Totals) {
	for _, s := range w.Shards {
		all = append(all, s.Totals)
	}
	return all
}

// claim returns the claim that has a rank, from 1.
func (w *DrawWorld) Claim(rank int64) (shard int, c Claim) {
	w.T.Helper()
	e := w.Ranked[rank-1]
	c, ok := w.Shards[e.Shard].ClaimAt(e.Slot, e.Index)
	if !ok {
		w.T.Fatalf("rank %d is of no claim", rank)
	}
	return e.Shard, c
}

// award awards a rank if it may be, fetching a unit where there is none.
func (w *DrawWorld) Award(rank int64) {
	w.T.Helper()
	shard, c := w.Claim(rank)
	if w.Shards[shard].Available == 0 {
		if v := w.Draft(shard).Award(c); v.Kind != SettleShort {
			w.T.Fatalf("rank %d: settlement %d where no unit is", rank, v.Kind)
		}
		for from, s := range w.Shards {
			if _, open := s.OpenTo(shard); s.Available > 0 && !open {
				w.Move(from, shard, 1, 3)
				break
			}
		}
	}
	d := w.Draft(shard)
	if v := d.Award(c); v.Kind != SettleDone {
		w.T.Fatalf("rank %d: settlement %d", rank, v.Kind)
	}
	w.Commit(shard, d)
}

var DrawPayment = &pb.Payment{HoldForUs: 1_000_000, GraceUs: 1000, Late: pb.Payment_RESELL}

// ReadAtOnce is how many slots Load reads first.
const ReadAtOnce = readAtOnce

// HasHoldMemory reports whether a state keeps anything for holds.
func (s *State) HasHoldMemory() bool {
	return s.holds.records.Len() != 0 || s.holds.byClaim.words != nil || s.holds.queue != nil
}
