package ledger

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// memory is Logs without faults, whose insides a test may damage.
type MemoryLogs struct {
	reading sync.Mutex // shards are read several at a time
	Logs    map[string]*StoredLog
	Before  func() // called before each Read
}

type StoredLog struct {
	Head    []byte
	Entries [][]byte
}

func (m *MemoryLogs) Append(_ context.Context, log string, slot uint64, prev, head, entry []byte) error {
	l := m.Logs[log]
	if l == nil {
		l = new(StoredLog)
	}
	if !bytes.Equal(l.Head, prev) || slot != uint64(len(l.Entries)) {
		return ErrTaken
	}
	l.Head, l.Entries = head, append(l.Entries, entry)
	m.Logs[log] = l
	return nil
}

func (m *MemoryLogs) Read(_ context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	m.reading.Lock()
	defer m.reading.Unlock()
	if m.Before != nil {
		m.Before()
	}
	l := m.Logs[log]
	if l == nil {
		return nil, nil, nil
	}
	n := uint64(len(l.Entries))
	from = min(from, n)
	return l.Head, l.Entries[from:min(n, from+uint64(max))], nil
}

func (m *MemoryLogs) Heads(_ context.Context, logs []string) (heads [][]byte, err error) {
	for _, log := range logs {
		heads = append(heads, m.Logs[log].Head)
	}
	return heads, nil
}

func (m *MemoryLogs) Delete(_ context.Context, log string, _ uint64) error {
	delete(m.Logs, log)
	return nil
}

// world is a sale with its logs, written by its rules unless a test breaks them.
type World struct {
	T      testing.TB
	Logs   *MemoryLogs
	Sale   *Sale
	Shards []*State
	TimeUs int64
	buyers int
	Next   int64 // unit
	Change func(*pb.Planned)
}

const WorldShards = 3

// NewWorld returns a sale of 10 units a shard, at most 3 a user.
func NewWorld(t testing.TB) *World { return WorldOf(t, PhaseSettings(pb.Phase_OPEN)) }

// held are the settings of a sale whose claims are held for a second.
func HeldSettings() *pb.Settings {
	return paying(3, &pb.Payment{HoldForUs: 1_000_000, GraceUs: 1000, ExtendByUs: 500_000, Late: pb.Payment_RESELL})
}

// WorldOf returns a sale of such settings. What is first is called before anything is planned.
func WorldOf(t testing.TB, settings *pb.Settings, first ...func(*World)) *World {
	w := &World{T: t, Logs: &MemoryLogs{Logs: make(map[string]*StoredLog)}, Sale: NewSale(spec.SaleLog("test")), TimeUs: 1_000_000, Next: 1}
	for i := range WorldShards {
		w.Shards = append(w.Shards, NewState(spec.ShardLog(TestUID, i, WorldShards)))
	}
	for _, do := range first {
		do(w)
	}
	w.Plan(10, 0, settings)
	for i := range w.Shards {
		d := w.Draft(i)
		d.Own("here:1")
		w.Commit(i, d)
	}
	return w
}

// plan adds and removes units of every shard, by a generation that is applied.
func (w *World) Plan(add, remove int64, settings *pb.Settings) {
	p := &pb.Planned{Generation: w.Sale.Generation() + 1, Uid: TestUID, Run: w.Sale.Run(), Settings: settings}
	if !w.Sale.Live() {
		p.Generation, p.Run = 1, p.Run+1
	}
	for range w.Shards {
		change := &pb.ShardChange{Remove: remove}
		if add > 0 {
			change.Add = []*pb.Range{{First: w.Next, Count: add}}
		}
		w.Next += add
		p.Shards = append(p.Shards, change)
	}
	if w.Change != nil {
		w.Change(p)
	}
	w.AppendSale(PlanOp(p))
	for i := range w.Shards {
		d := w.Draft(i)
		if err := d.Generation(w.Sale.ShardGeneration(p.Generation, i)); err != nil {
			w.T.Fatal(err)
		}
		w.Commit(i, d)
	}
	w.AppendSale(AppliedOp(p.Generation))
}

// AppendSale appends an op to the sale's log.
func (w *World) AppendSale(op *pb.Op) {
	w.T.Helper()
	e, err := w.Sale.Entry([]byte("planner1"), w.TimeUs, op)
	if err != nil {
		w.T.Fatal(err)
	}
	w.store(w.Sale.log, w.Sale.next, e)
	if err := w.Sale.Apply(e.Commit, e.Hash); err != nil {
		w.T.Fatal(err)
	}
}

func (w *World) store(log string, slot uint64, e *Entry) {
	w.T.Helper()
	var prev []byte
	if l := w.Logs.Logs[log]; l != nil {
		prev = l.Head
	}
	if err := w.Logs.Append(w.T.Context(), log, slot, prev, e.Head, e.Bytes); err != nil {
		w.T.Fatalf("log %s, slot %d: %v", log, slot, err)
	}
}

func (w *World) Draft(shard int) *Draft {
	w.TimeUs++
	return w.Shards[shard].Draft(TestOwner, w.TimeUs)
}

func (w *World) Commit(shard int, d *Draft) {
	w.T.Helper()
	slot := w.Shards[shard].next
	w.store(w.Shards[shard].log, slot, MustCommit(w.T, w.Shards[shard], d))
}

// Plant stores a commit that no state has checked. The head gets totals
// that the shard had before.
func (w *World) Plant(shard int, ops ...*pb.Op) {
	w.T.Helper()
	s := w.Shards[shard]
	c := commit{string(TestOwner), s.Epoch, w.TimeUs, ops}.proto()
	entry, err := s.encode(c, s.Totals)
	if err != nil {
		w.T.Fatal(err)
	}
	w.store(s.log, s.next, entry)
	s.advance(c, entry.Hash)
}

// buyer returns a new user of a home shard.
func (w *World) Buyer(shard int) string {
	for {
		w.buyers++
		if user := fmt.Sprint("user", w.buyers); spec.HomeShard(user, WorldShards) == shard {
			return user
		}
	}
}

// sell sells to two users of each of some shards. Where claims are held, the second
// does not pay.
func (w *World) Sell(quantity int64, shards ...int) {
	w.T.Helper()
	for _, shard := range shards {
		d := w.Draft(shard)
		first := w.Shards[shard].Claims()
		for range 2 {
			if v := d.Claim(w.Buyer(shard), "key", quantity); v.Kind != Granted {
				w.T.Fatalf("decision %d", v.Kind)
			}
		}
		w.Commit(shard, d)
		if w.Shards[shard].Claim(first).State == StateHeld {
			w.pay(shard, first)
		}
	}
}

// pay confirms a hold.
func (w *World) pay(shard, claim int) {
	w.T.Helper()
	d := w.Draft(shard)
	if v := d.Confirm(w.Shards[shard].Claim(claim), fmt.Sprintf("payment %d-%d", shard, claim)); v.Kind != SettleDone {
		w.T.Fatalf("settlement %d", v.Kind)
	}
	w.Commit(shard, d)
}

// move takes a transfer n steps far: Out, In, Ack.
func (w *World) Move(from, to int, units int64, steps int) {
	w.T.Helper()
	d := w.Draft(from)
	sent := d.Out(to, units)
	w.Commit(from, d)
	if steps > 1 {
		d = w.Draft(to)
		if err := d.In(from, sent.K, sent.Units); err != nil {
			w.T.Fatal(err)
		}
		w.Commit(to, d)
	}
	if steps > 2 {
		d = w.Draft(from)
		d.Ack(to, sent.K)
		w.Commit(from, d)
	}
}

// BusyWorld returns a sale in which everything is somewhere: of 33 units, 3
// were removed, 8 are sold, 8 held, 4 on the way.
func BusyWorld(t testing.TB) *World {
	w := WorldOf(t, HeldSettings())
	w.Sell(2, 0, 1, 2)
	w.Plan(1, 1, HeldSettings())
	w.Move(0, 1, 2, 3)
	w.Move(0, 1, 1, 2) // received, not acknowledged
	w.Move(2, 0, 4, 1) // on the way
	w.Sell(1, 0, 1)
	return w
}

// end closes a sale, settles all that is open, and seals the shards.
func (w *World) End() {
	w.Plan(0, 0, PhaseSettings(pb.Phase_CLOSED))
	for from, s := range w.Shards {
		for _, open := range s.Open() {
			d := w.Draft(open.To)
			if err := d.In(from, open.K, open.Units); err != nil {
				w.T.Fatal(err)
			}
			if d.Ops() > 0 {
				w.Commit(open.To, d)
			}
			d = w.Draft(from)
			d.Ack(open.To, open.K)
			w.Commit(from, d)
		}
		for i := range s.Claims() {
			if c := s.Claim(i); c.State == StateHeld {
				how := []pb.Settle_How{pb.Settle_CONFIRM, pb.Settle_CANCEL}[i/2%2]
				w.Settle(from, SettleOp(c.Slot, uint32(c.Index), how))
			}
		}
	}
	for i := range w.Shards {
		d := w.Draft(i)
		d.Seal()
		w.Commit(i, d)
	}
}

// Settle stores a Settle past any draft.
func (w *World) Settle(shard int, op *pb.Op) {
	w.T.Helper()
	w.commitAs("planner1", shard, op)
}

// roots are what the sale is sealed with.
func (w *World) Roots() *pb.Op {
	end := new(pb.Sealed)
	for _, s := range w.Shards {
		end.Roots, end.Slots = append(end.Roots, bytes.Clone(s.hash[:])), append(end.Slots, s.next)
	}
	return &pb.Op{Op: &pb.Op_Sealed{Sealed: end}}
}
