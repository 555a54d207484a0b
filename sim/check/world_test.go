package check

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/backends/ledger/export"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/ledger/payload"
	"salectl/spec"
)

const (
	testUID = "0123456789abcdef"
	shards  = 2
)

var (
	writer  = []byte("owner-01")
	planner = []byte("planner1")
)

// world writes a history as a sale without faults leaves it.
type world struct {
	payment *pb.Payment // of the generations that are planned
	t       testing.TB
	h       *History
	at      time.Duration
	sale    *ledger.Sale
	uid     string // of the run
	run     int64
	shards  []*ledger.State
	writer  []byte // of the next commits
	next    int64  // unit
	users   int
	listed  *spec.Sale // as it is declared; nil: owners decide, and nothing is declared

	off            time.Duration // that writers' clocks are ahead
	opens, closes  time.Duration // of the next generations, since 1970; 0: none
	partial        bool          // of the next generations: whether a claim may get a part
	payloadLogs    *payload.Log
	choose         bool        // and whether buyers may choose units
	rows           []*pb.Range // which lie side by side
	draw           *pb.Draw    // by which the run is drawn; nil: it is no draw
	said           string      // the declaration of the next generations; "": none, or rules
	digest         []byte      // of the plans of the next generations
	require, rules string      // of the next generations: the rule that is declared, and the rule set's name; "": none
}

// newWorld returns the history of a sale of 6 units, 3 on each of two shards,
// at most 2 a user, with an owner.
func newWorld(t testing.TB) *world {
	w := emptyWorld(t)
	w.serve()
	return w
}

func emptyWorld(t testing.TB) *world {
	w := &world{t: t, h: &History{Sale: "tickets", Deal: dealt, Begin: time.UnixMicro(0)}, sale: ledger.NewSale(spec.SaleLog("tickets")), writer: writer}
	w.begins(testUID)
	return w
}

// begins goes on with a new run, of which nothing is stored yet.
func (w *world) begins(uid string) {
	w.uid, w.run, w.next, w.shards, w.payloadLogs = uid, w.run+1, 1, nil, payload.NewLog(payloadLog(uid))
	for i := range shards {
		w.shards = append(w.shards, ledger.NewState(w.log(i)))
	}
}

// serve makes the sale of the run, and its owner.
func (w *world) serve() {
	w.t.Helper()
	w.plan(3, 0, pb.Phase_OPEN)
	for i := range shards {
		w.append(i, func(d *ledger.Draft) { d.Own("executor-0") })
	}
}

func (w *world) pass() time.Duration {
	w.at += time.Millisecond
	return w.at
}

// stored adds a slot whose append took no time.
func (w *world) stored(log string, slot uint64, bytes, head []byte) {
	at := w.pass()
	w.h.Stored(at, at, log, slot, bytes, head)
}

// say appends to the sale's log.
func (w *world) say(op *pb.Op) {
	w.t.Helper()
	e, err := w.sale.Entry(planner, w.at.Microseconds(), op)
	if err != nil {
		w.t.Fatal(err)
	}
	w.stored(spec.SaleLog("tickets"), w.sale.Next(), e.Bytes, e.Head)
	if err := w.sale.Apply(e.Commit, e.Hash); err != nil {
		w.t.Fatal(err)
	}
}

// append stores a commit of a shard.
func (w *world) append(shard int, fill func(*ledger.Draft)) {
	w.t.Helper()
	s := w.shards[shard]
	d := s.Draft(w.writer, (w.at + w.off).Microseconds())
	fill(d)
	e, err := d.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	w.stored(w.log(shard), s.Next(), e.Bytes, e.Head)
	if err := s.Apply(e.Commit, e.Hash, len(e.Bytes)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) log(shard int) string { return spec.ShardLog(w.uid, shard, shards) }

// plan has a generation planned, taken and applied.
func (w *world) plan(add, remove int64, phase pb.Phase) {
	w.t.Helper()
	w.declare(add, remove, phase)
	w.complete()
}

// declare has a generation planned.
func (w *world) declare(add, remove int64, phase pb.Phase) {
	w.t.Helper()
	generation := uint64(1)
	if w.sale.UID() == w.uid {
		generation = w.sale.Generation() + 1
	}
	p := &pb.Planned{
		Generation: generation, Uid: w.uid, Run: w.run, PlanDigest: w.digest,
		Settings: &pb.Settings{
			PerUserLimit: 2, Phase: phase, OpensAtUs: w.opens.Microseconds(), ClosesAtUs: w.closes.Microseconds(),
			Payment: w.payment, Rules: []byte(w.rules), Partial: w.partial, Choose: w.choose, Rows: w.rows,
		},
	}
	if w.draw != nil {
		p.Settings.PerUserLimit, p.Settings.Draw = 1, true
	}
	if generation == 1 {
		p.Draw = w.draw
	}
	if w.said != "" {
		p.Spec = []byte(w.said)
	}
	if w.require != "" {
		p.Spec = fmt.Appendf(nil, `{"perUserLimit":2,"rules":[{"require":%q}]}`, w.require)
	}
	if w.listed != nil {
		w.declareLists(p)
	}
	first := w.next
	for range shards {
		change := &pb.ShardChange{Remove: remove}
		if add > 0 {
			change.Add = []*pb.Range{{First: w.next, Count: add}}
		}
		w.next += add
		p.Shards = append(p.Shards, change)
	}
	p.NextUnit = w.next
	w.nameUnits(p, first)
	w.say(&pb.Op{Op: &pb.Op_Planned{Planned: p}})
}

// complete has the generation that was declared last taken and applied.
func (w *world) complete() {
	w.t.Helper()
	newest := w.sale.Generation()
	for i := range shards {
		w.take(i)
	}
	w.say(&pb.Op{Op: &pb.Op_Applied{Applied: &pb.Applied{Generation: newest}}})
}

// take has a shard take the generation that was declared last.
func (w *world) take(shard int) {
	w.t.Helper()
	w.append(shard, func(d *ledger.Draft) {
		if err := d.Generation(w.sale.ShardGeneration(w.sale.Generation(), shard)); err != nil {
			w.t.Fatal(err)
		}
	})
}

// planOn has the planner plan one more unit for each shard, and append that to one
// shard only.
func (w *world) planOn(shard int) {
	w.declare(1, 0, pb.Phase_OPEN)
	w.writer = planner
	w.take(shard)
	w.writer = writer
}

// succeed has another owner take over a shard.
func (w *world) succeed(shard int) {
	w.writer = []byte("owner-02")
	w.append(shard, func(d *ledger.Draft) { d.Own("executor-1") })
}

// planBy has the planner itself append a generation to the shards.
func (w *world) planBy(add int64, phase pb.Phase) {
	w.writer = planner
	w.plan(add, 0, phase)
	w.writer = writer
}

// command is an operator's, around what it does.
func (w *world) command(name string, do func()) {
	op := w.begin(name)
	do()
	w.end(op)
}

// begin begins a command. It was killed if it does not come to its end.
func (w *world) begin(name string) int {
	op := w.h.Op()
	w.h.Record(w.pass(), Event{Kind: CommandInvoked, Op: op, Command: name})
	return op
}

func (w *world) end(op int) { w.h.Record(w.pass(), Event{Kind: CommandReturned, Op: op}) }

// aToken is that of leases that are won once.
const aToken = "token"

// holds gives the lease of the first shard to a process, at a time and until another, both
// in seconds.
func (w *world) holds(process, uid string, from, to time.Duration) {
	w.h.Holds(from*time.Second, process, uid, 0, aToken, to*time.Second)
}

// late stores slots once more that a log had, from the first on, after it was
// deleted, but for what change makes of the last. Slots that change leaves as they
// were had been sent before.
func (w *world) late(shard, slots int, change func(c *pb.Commit)) {
	w.t.Helper()
	for i, e := range w.h.Logs[w.log(shard)][:slots] {
		stored, at := e.Bytes, w.pass()
		sent := e.At
		if i == slots-1 {
			c := new(pb.Commit)
			if err := proto.Unmarshal(stored, c); err != nil {
				w.t.Fatal(err)
			}
			change(c)
			var err error
			if stored, err = proto.Marshal(c); err != nil {
				w.t.Fatal(err)
			}
			if !bytes.Equal(stored, e.Bytes) {
				sent = at
			}
		}
		w.h.Stored(at, sent, w.log(shard), uint64(i), stored, nil)
	}
}

// grown is a sale with a second generation before it had an owner, which was
// destroyed.
func grown(t testing.TB) *world {
	w := emptyWorld(t)
	w.plan(3, 0, pb.Phase_OPEN)
	w.plan(0, 0, pb.Phase_OPEN)
	w.command("close", func() { w.plan(0, 0, pb.Phase_CLOSED) })
	w.command("destroy", w.destroy)
	return w
}

// almostSoldOut is a sale of which one unit of shard 1 is left.
func almostSoldOut(t testing.TB) *world {
	w := newWorld(t)
	w.buy(w.user(0), "k", 2)
	w.buy(w.user(0), "k", 1)
	w.buy(w.user(1), "k", 2)
	return w
}

// close ends the run.
func (w *world) close() {
	w.command("close", func() { w.plan(0, 0, pb.Phase_CLOSED) })
	w.command("destroy", w.destroy)
}

// another ends the run and begins another, long after.
func (w *world) another() {
	w.close()
	w.at += 2 * linger
	w.begins("fedcba9876543210")
	w.serve()
}

// follow ends the run and begins another at once. It returns when the first was
// sealed.
func (w *world) follow() time.Duration {
	w.close()
	sale := w.h.Logs["sale/tickets"]
	sealed := sale[len(sale)-2].At
	w.begins("fedcba9876543210")
	w.serve()
	return sealed
}

// twice is a sale that was destroyed and begun anew. A user of shard 0, who is
// returned, had a claim in the first run, which is returned too; the second run has
// sold nothing.
func twice(w *world) (user string, old Claim) {
	w.t.Helper()
	user = w.user(0)
	w.buy(user, "k", 1)
	old = w.claims(user)[0]
	w.another()
	return user, old
}

// user returns a new user of a shard.
func (w *world) user(shard int) string {
	for {
		w.users++
		if name := fmt.Sprint("user-", w.users); spec.HomeShard(name, shards) == shard {
			return name
		}
	}
}

// invoke begins a claim.
func (w *world) invoke(user, key string, quantity int64) int {
	op := w.h.Op()
	w.h.Record(w.pass(), Event{Kind: ClaimInvoked, Op: op, User: user, Key: key, Quantity: quantity})
	return op
}

// ask begins a claim for particular units.
func (w *world) ask(user, key string, units ...int64) int {
	op := w.invoke(user, key, int64(len(units)))
	w.h.Events[len(w.h.Events)-1].Units = units
	return op
}

// askAdjacent begins a claim for adjacent units.
func (w *world) askAdjacent(user, key string, quantity int64) int {
	op := w.invoke(user, key, quantity)
	w.h.Events[len(w.h.Events)-1].Adjacent = true
	return op
}

func (w *world) answer(op int, a Answer) {
	w.h.Record(w.pass(), Event{Kind: ClaimReturned, Op: op, Answer: a})
}

// store appends a claim, under a key that is minted if there is none.
func (w *world) store(user, key string, quantity int64) Claim {
	w.t.Helper()
	shard := spec.HomeShard(user, shards)
	if key == "" {
		key = "minted-for-" + user
	}
	w.append(shard, func(d *ledger.Draft) {
		if v := d.Claim(user, key, quantity); v.Kind != ledger.Granted {
			w.t.Fatalf("verdict %d on %s", v.Kind, user)
		}
	})
	all := w.claims(user)
	return all[len(all)-1]
}

// claims are what a user has.
func (w *world) claims(user string) []Claim {
	shard := spec.HomeShard(user, shards)
	var all []Claim
	claims, _ := w.shards[shard].Newest(user, math.MaxInt)
	for _, c := range claims {
		all = append(all, Claim{ID: c.ID(shard), User: user, Units: c.Units, Requested: c.Requested, State: c.State.String()})
	}
	return all
}

// buy is a claim that is accepted.
func (w *world) buy(user, key string, quantity int64) {
	w.t.Helper()
	op := w.invoke(user, key, quantity)
	w.answer(op, Answer{Outcome: "sold", Claim: w.store(user, key, quantity)})
}

func (w *world) refuse(user, key string, quantity int64, outcome api.Outcome) {
	op := w.invoke(user, key, quantity)
	a := Answer{Outcome: outcome}
	if outcome == "limit_reached" {
		a.Claims = w.claims(user)
		a.Count = len(a.Claims)
	}
	w.answer(op, a)
}

func (w *world) read(user string) { w.readAs(user, Answer{Claims: w.claims(user)}) }

// readAs is a read that is answered in some way.
func (w *world) readAs(user string, a Answer) {
	op := w.h.Op()
	w.h.Record(w.pass(), Event{Kind: ReadInvoked, Op: op, User: user})
	w.h.Record(w.pass(), Event{Kind: ReadReturned, Op: op, Answer: a})
}

// received adds a request with the key k, and returns the function to call when it is answered.
// The client hears nothing of it.
func (w *world) received(user, process string) func(outcome api.Outcome) {
	return w.h.RequestReceived(w.pass(), w.invoke(user, "k", 1), process)
}

// move takes a transfer all its way.
func (w *world) move(from, to int, n int64) {
	var sent ledger.Transfer
	w.append(from, func(d *ledger.Draft) { sent = d.Out(to, n) })
	w.append(to, func(d *ledger.Draft) {
		if err := d.In(from, sent.K, sent.Units); err != nil {
			w.t.Fatal(err)
		}
	})
	w.append(from, func(d *ledger.Draft) { d.Ack(to, sent.K) })
}

// open is a sale in which most things happened, all is sold, and it is still
// open. Its first buyers are users 0 of each shard.
func open(t testing.TB) *world {
	w := newWorld(t)
	a, b := w.user(0), w.user(1)
	w.refuse(a, "bad", 0, "bad_request")
	w.buy(a, "a1", 1) // of 0: 2 left
	w.read(a)
	w.answer(w.invoke(a, "a1", 1), Answer{Outcome: "sold", Claim: w.claims(a)[0], Replayed: true})
	w.refuse(a, "a1", 2, "key_reused")
	w.refuse(a, "a2", 2, "limit_reached")
	w.buy(b, "", 2) // of 1: 1 left
	w.refuse(w.user(1), "x", 2, "none_now")

	lost := w.invoke(w.user(0), "lost", 1) // of 0: 1 left
	w.store(fmt.Sprint("user-", w.users), "lost", 1)
	w.h.Final.Vanished = map[int]bool{lost: true}

	w.command("pause", func() { w.plan(0, 0, pb.Phase_PAUSED) })
	w.refuse(w.user(0), "x", 1, "paused")
	w.command("resume", func() { w.plan(0, 0, pb.Phase_OPEN) })
	w.move(0, 1, 1) // of 1: 2 left
	w.buy(w.user(1), "y", 1)
	w.command("apply", func() { w.plan(1, 0, pb.Phase_OPEN) }) // of 0: 1, of 1: 2
	w.command("apply", func() { w.plan(0, 1, pb.Phase_OPEN) }) // of 0: 0, of 1: 1
	w.buy(w.user(1), "z", 1)
	w.read(a)
	w.refuse(w.user(0), "w", 1, "sold_out")
	w.h.Final.Rested, w.h.Final.Demanded = true, true
	return w
}

// ended is a sale that was destroyed.
func ended(t testing.TB) *world {
	w := newWorld(t)
	w.buy(w.user(0), "a<b", 1)
	w.buy(w.user(1), "\xff", 2)
	w.hold(w.user(0), "paid", 1, pb.Settle_CONFIRM)
	w.hold(w.user(1), "expired", 1, pb.Settle_EXPIRE)
	w.command("close", func() { w.plan(0, 0, pb.Phase_CLOSED) })
	w.refuse(w.user(0), "late", 1, "closed")
	w.command("destroy", w.destroy)
	w.refuse(w.user(0), "later", 1, "no_such_sale")
	w.h.Final.Rested = true
	return w
}

// hold is a claim that is held and then ended.
func (w *world) hold(user, key string, quantity int64, how pb.Settle_How) {
	shard := spec.HomeShard(user, shards)
	op := w.invoke(user, key, quantity)
	slot := w.storeHeld(shard, user, key, quantity, 10*time.Millisecond)
	c := w.claims(user)[0]
	w.answer(op, Answer{Outcome: "held", Claim: c})
	s := w.shards[shard]
	commit := &pb.Commit{Writer: writer, Epoch: s.Epoch, TimeUs: w.at.Microseconds(), Ops: []*pb.Op{{Op: &pb.Op_Settle{
		Settle: &pb.Settle{Slot: slot, How: how},
	}}}}
	if how == pb.Settle_EXPIRE {
		commit.TimeUs += 20_000
	}
	root := s.Root()
	commit.Prev = root[:]
	stored, err := proto.Marshal(commit)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := s.Apply(commit, sha256.Sum256(stored), len(stored)); err != nil {
		w.t.Fatal(err)
	}
	w.stored(w.log(shard), s.Next()-1, stored, s.Head().Encode())
}

// storeHeld stores a claim that is held for a time, by a generation between two others, and
// returns its slot.
func (w *world) storeHeld(shard int, user, key string, quantity int64, holdFor time.Duration) (slot uint64) {
	w.payment = &pb.Payment{HoldForUs: holdFor.Microseconds(), Late: pb.Payment_REFUSE}
	w.plan(0, 0, pb.Phase_OPEN)
	w.append(shard, func(d *ledger.Draft) { d.Claim(user, key, quantity) })
	slot = w.shards[shard].Next() - 1
	w.payment = nil
	w.plan(0, 0, pb.Phase_OPEN)
	return slot
}

// held has a claim of shard 0 held, and returns its slot. The deadline is as long ago
// as past says when the next commit is planted.
func (w *world) held(past time.Duration) (slot uint64) {
	user := w.user(0)
	w.invoke(user, "k", 1)
	slot = w.storeHeld(0, user, "k", 1, time.Minute)
	c, _ := w.shards[0].ClaimAt(slot, 0)
	w.at = time.Duration(c.HeldUntilUs)*time.Microsecond + past
	return slot
}

// settle plants the end of a claim of shard 0.
func (w *world) settle(slot uint64, how pb.Settle_How) {
	w.plantOp(&pb.Op{Op: &pb.Op_Settle{Settle: &pb.Settle{Slot: slot, How: how}}})
}

// reader is Logs that only an export reads.
type reader struct {
	ledger.Logs
	w *world
}

// Heads finds none: what is exported says enough.
func (reader) Heads(_ context.Context, logs []string) ([][]byte, error) {
	return make([][]byte, len(logs)), nil
}

func (w *world) destroy() {
	w.t.Helper()
	w.sealShards()
	w.noteSealed()
	w.erase()
}

func (w *world) sealShards() {
	w.t.Helper()
	for i := range shards {
		w.append(i, func(d *ledger.Draft) { d.Seal() })
	}
}

func (w *world) noteSealed() {
	w.t.Helper()
	var file bytes.Buffer
	var payloads *payload.Reader
	if w.payloadLogs.Next() > 0 {
		payloads = payload.NewReader(reader{w: w}, w.uid, nil)
		payloads.Follow(w.sale.Added())
	}
	if err := (export.Sale{Name: "tickets", Log: w.sale, Shards: w.shards, Logs: reader{w: w}, Payloads: payloads}).Write(w.t.Context(), &file); err != nil {
		w.t.Fatal(err)
	}
	w.h.Exported(w.pass(), file.Bytes())
	digest := sha256.Sum256(file.Bytes())
	end := &pb.Sealed{ExportDigest: digest[:]}
	for _, s := range w.shards {
		root := s.Root()
		end.Roots, end.Slots = append(end.Roots, root[:]), append(end.Slots, s.Next())
		end.Claims += int64(s.Claims())
		end.UnitsSold += s.Sold
	}
	end.Refund = w.refund()
	w.say(&pb.Op{Op: &pb.Op_Sealed{Sealed: end}})
}

func (w *world) erase() {
	w.t.Helper()
	for i, s := range w.shards {
		w.h.Deleted(w.pass(), w.log(i), s.Next()-1)
	}
	if w.payloadLogs.Next() > 0 {
		w.h.Deleted(w.pass(), payloadLog(w.uid), w.payloadLogs.Next()-1)
	}
	w.say(&pb.Op{Op: &pb.Op_Destroyed{Destroyed: &pb.Destroyed{}}})
}
