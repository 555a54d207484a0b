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
type memory struct {
	reading sync.Mutex // shards are read several at a time
	logs    map[string]*stored
	before  func() // called before each Read
}

type stored struct {
	head    []byte
	entries [][]byte
}

func (m *memory) Append(_ context.Context, log string, slot uint64, prev, head, entry []byte) error {
	l := m.logs[log]
	if l == nil {
		l = new(stored)
	}
	if !bytes.Equal(l.head, prev) || slot != uint64(len(l.entries)) {
		return ErrTaken
	}
	l.head, l.entries = head, append(l.entries, entry)
	m.logs[log] = l
	return nil
}

func (m *memory) Read(_ context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	m.reading.Lock()
	defer m.reading.Unlock()
	if m.before != nil {
		m.before()
	}
	l := m.logs[log]
	if l == nil {
		return nil, nil, nil
	}
	n := uint64(len(l.entries))
	from = min(from, n)
	return l.head, l.entries[from:min(n, from+uint64(max))], nil
}

func (m *memory) Heads(_ context.Context, logs []string) (heads [][]byte, err error) {
	for _, log := range logs {
		heads = append(heads, m.logs[log].head)
	}
	return heads, nil
}

func (m *memory) Delete(_ context.Context, log string, _ uint64) error {
	delete(m.logs, log)
	return nil
}

// world is a sale with its logs, written by its rules unless a test breaks them.
type world struct {
	t      testing.TB
	logs   *memory
	sale   *Sale
	shards []*State
	timeUs int64
	buyers int
	next   int64 // unit
	change func(*pb.Planned)
}

const worldShards = 3

// newWorld returns a sale of 10 units a shard, at most 3 a user.
func newWorld(t testing.TB) *world { return worldOf(t, phase(pb.Phase_OPEN)) }

// held are the settings of a sale whose claims are held for a second.
func held() *pb.Settings {
	return paying(3, &pb.Payment{HoldForUs: 1_000_000, GraceUs: 1000, ExtendByUs: 500_000, Late: pb.Payment_RESELL})
}

// worldOf returns a sale of such settings. What is first is called before anything is planned.
func worldOf(t testing.TB, settings *pb.Settings, first ...func(*world)) *world {
	w := &world{t: t, logs: &memory{logs: make(map[string]*stored)}, sale: NewSale(spec.SaleLog("test")), timeUs: 1_000_000, next: 1}
	for i := range worldShards {
		w.shards = append(w.shards, NewState(spec.ShardLog(testUID, i, worldShards)))
	}
	for _, do := range first {
		do(w)
	}
	w.plan(10, 0, settings)
	for i := range w.shards {
		d := w.draft(i)
		d.Own("here:1")
		w.commit(i, d)
	}
	return w
}

// plan adds and removes units of every shard, by a generation that is applied.
func (w *world) plan(add, remove int64, settings *pb.Settings) {
	p := &pb.Planned{Generation: w.sale.Generation() + 1, Uid: testUID, Run: w.sale.Run(), Settings: settings}
	if !w.sale.Live() {
		p.Generation, p.Run = 1, p.Run+1
	}
	for range w.shards {
		change := &pb.ShardChange{Remove: remove}
		if add > 0 {
			change.Add = []*pb.Range{{First: w.next, Count: add}}
		}
		w.next += add
		p.Shards = append(p.Shards, change)
	}
	if w.change != nil {
		w.change(p)
	}
	w.say(planOp(p))
	for i := range w.shards {
		d := w.draft(i)
		if err := d.Generation(w.sale.ShardGeneration(p.Generation, i)); err != nil {
			w.t.Fatal(err)
		}
		w.commit(i, d)
	}
	w.say(applied(p.Generation))
}

// say appends to the sale's log.
func (w *world) say(op *pb.Op) {
	w.t.Helper()
	e, err := w.sale.Entry([]byte("planner1"), w.timeUs, op)
	if err != nil {
		w.t.Fatal(err)
	}
	w.store(w.sale.log, w.sale.next, e)
	if err := w.sale.Apply(e.Commit, e.Hash); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) store(log string, slot uint64, e *Entry) {
	w.t.Helper()
	var prev []byte
	if l := w.logs.logs[log]; l != nil {
		prev = l.head
	}
	if err := w.logs.Append(w.t.Context(), log, slot, prev, e.Head, e.Bytes); err != nil {
		w.t.Fatalf("log %s, slot %d: %v", log, slot, err)
	}
}

func (w *world) draft(shard int) *Draft {
	w.timeUs++
	return w.shards[shard].Draft(testOwner, w.timeUs)
}

func (w *world) commit(shard int, d *Draft) {
	w.t.Helper()
	slot := w.shards[shard].next
	w.store(w.shards[shard].log, slot, mustCommit(w.t, w.shards[shard], d))
}

// plant stores a commit that no state was asked about. The head gets totals
// that the shard had before.
func (w *world) plant(shard int, ops ...*pb.Op) {
	w.t.Helper()
	s := w.shards[shard]
	c := commit{string(testOwner), s.Epoch, w.timeUs, ops}.proto()
	entry, hash, err := s.encode(c)
	if err != nil {
		w.t.Fatal(err)
	}
	head := Head{Slot: s.next, Hash: hash, TimeUs: s.timeUs, Totals: s.Totals}
	w.store(s.log, s.next, &Entry{Bytes: entry, Head: head.Encode()})
	s.advance(c, hash)
}

// buyer returns a new user of a home shard.
func (w *world) buyer(shard int) string {
	for {
		w.buyers++
		if user := fmt.Sprint("user", w.buyers); spec.HomeShard(user, worldShards) == shard {
			return user
		}
	}
}

// sell sells to two users of each of some shards. Where claims are held, the second
// does not pay.
func (w *world) sell(quantity int64, shards ...int) {
	w.t.Helper()
	for _, shard := range shards {
		d := w.draft(shard)
		first := w.shards[shard].Claims()
		for range 2 {
			if v := d.Claim(w.buyer(shard), "key", quantity); v.Kind != Granted {
				w.t.Fatalf("decision %d", v.Kind)
			}
		}
		w.commit(shard, d)
		if w.shards[shard].Claim(first).State == StateHeld {
			w.pay(shard, first)
		}
	}
}

// pay confirms a hold.
func (w *world) pay(shard, claim int) {
	w.t.Helper()
	d := w.draft(shard)
	if v := d.Confirm(w.shards[shard].Claim(claim), fmt.Sprintf("payment %d-%d", shard, claim)); v.Kind != SettleDone {
		w.t.Fatalf("settlement %d", v.Kind)
	}
	w.commit(shard, d)
}

// move takes a transfer n steps far: Out, In, Ack.
func (w *world) move(from, to int, units int64, steps int) {
	w.t.Helper()
	d := w.draft(from)
	sent := d.Out(to, units)
	w.commit(from, d)
	if steps > 1 {
		d = w.draft(to)
		if err := d.In(from, sent.K, sent.Units); err != nil {
			w.t.Fatal(err)
		}
		w.commit(to, d)
	}
	if steps > 2 {
		d = w.draft(from)
		d.Ack(to, sent.K)
		w.commit(from, d)
	}
}

// busyWorld returns a sale in which everything is somewhere: of 33 units, 3
// were removed, 8 are sold, 8 held, 4 on the way.
func busyWorld(t testing.TB) *world {
	w := worldOf(t, held())
	w.sell(2, 0, 1, 2)
	w.plan(1, 1, held())
	w.move(0, 1, 2, 3)
	w.move(0, 1, 1, 2) // received, not acknowledged
	w.move(2, 0, 4, 1) // on the way
	w.sell(1, 0, 1)
	return w
}

// end closes a sale, settles all that is open, and seals the shards.
func (w *world) end() {
	w.plan(0, 0, phase(pb.Phase_CLOSED))
	for from, s := range w.shards {
		for _, open := range s.Open() {
			d := w.draft(open.To)
			if err := d.In(from, open.K, open.Units); err != nil {
				w.t.Fatal(err)
			}
			if d.Ops() > 0 {
				w.commit(open.To, d)
			}
			d = w.draft(from)
			d.Ack(open.To, open.K)
			w.commit(from, d)
		}
		for i := range s.Claims() {
			if c := s.Claim(i); c.State == StateHeld {
				how := []pb.Settle_How{pb.Settle_CONFIRM, pb.Settle_CANCEL}[i/2%2]
				w.settle(from, settle(c.Slot, uint32(c.Index), how))
			}
		}
	}
	for i := range w.shards {
		d := w.draft(i)
		d.Seal()
		w.commit(i, d)
	}
}

// settle stores a Settle past any draft.
func (w *world) settle(shard int, op *pb.Op) {
	w.t.Helper()
	s := w.shards[shard]
	c := commit{"planner1", s.Epoch, w.timeUs, []*pb.Op{op}}.proto()
	entry, hash, err := s.encode(c)
	if err != nil {
		w.t.Fatal(err)
	}
	slot := s.next
	if err := s.Apply(c, hash, len(entry)); err != nil {
		w.t.Fatal(err)
	}
	w.store(s.log, slot, &Entry{Bytes: entry, Head: s.Head().Encode()})
}

// roots are what the sale is sealed with.
func (w *world) roots() *pb.Op {
	end := new(pb.Sealed)
	for _, s := range w.shards {
		end.Roots, end.Slots = append(end.Roots, bytes.Clone(s.hash[:])), append(end.Slots, s.next)
	}
	return &pb.Op{Op: &pb.Op_Sealed{Sealed: end}}
}
