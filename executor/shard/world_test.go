package shard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/memory"
	"salectl/backends/quorum"
	"salectl/executor/request"
	"salectl/executor/saletest"
	"salectl/spec"
)

// world is sequencers on one store in memory, without goroutines and with a
// clock that moves by hand. Whatever a test does in it, these must hold, and
// are checked: a request that was not withdrawn gets exactly one answer; one
// that is accepted is in the ledger when its buyer hears of it; one that is
// refused or withdrawn never is; a sequencer has one call under way at most and
// never asks to be woken in the past; and the audit finds nothing.
type world struct {
	t      testing.TB
	sale   string
	shards int
	store  *memory.Store
	logs   ledger.Logs // a handle without faults
	now    clock.Now

	hosts   []*host
	asked   []*asked
	tickets map[*request.Ticket]*asked
	pool    sync.Pool
	commits map[request.ClaimID]*pb.Commit // read so far, by shard and slot

	// mail says how many copies of a message arrive; nil: one.
	mail  func(m Message) int
	log   func(format string, args ...any) // what happens; nil: nobody reads it
	ruins bool                             // the ledger is damaged on purpose: no audit
}

// host is one process that serves all shards, as far as it knows.
type host struct {
	w      *world
	name   string
	totals *SaleTotals
	actors []*actor
	leased bool // it has rights, renewed as time passes
	dead   bool
}

// errEnd is why a test ends a sequencer.
var errEnd = errors.New("the end")

// actor is one sequencer and what its shell would have.
type actor struct {
	h     *host
	q     *sequencer
	logs  ledger.Logs
	queue []*request.Ticket
	inbox []Message
	under *ledger.Request // asked for and not made yet
	wake  time.Duration
}

// asked is one request and what became of it.
type asked struct {
	request.Request
	actor     *actor
	ticket    *request.Ticket
	answer    request.Answer
	answered  bool
	withdrawn bool
}

// newWorld has an applied sale with the shares given, at most perUser a buyer.
func newWorld(t testing.TB, perUser int64, shares ...int64) *world {
	return newWorldAs(t, &pb.Settings{PerUserLimit: perUser, Phase: pb.Phase_OPEN}, shares...)
}

func newWorldAs(t testing.TB, settings *pb.Settings, shares ...int64) *world {
	t.Helper()
	w := &world{
		t: t, sale: "world", shards: len(shares), store: memory.NewStore(),
		now:     clock.Now{Mono: time.Hour, Wall: time.Unix(1_800_000_000, 0)},
		tickets: make(map[*request.Ticket]*asked), commits: make(map[request.ClaimID]*pb.Commit),
	}
	w.logs = w.store.Handle(nil)
	stock := int64(0)
	for _, n := range shares {
		stock += n
	}
	saletest.ProvisionAs(t, w.logs, saletest.Declared(w.sale, stock, len(shares), settings.GetPerUserLimit()), shares, settings)
	t.Cleanup(func() {
		if !t.Failed() {
			w.finish()
		}
	})
	return w
}

// host starts a process that has rights. Its calls of the store suffer the
// faults.
func (w *world) host(name string, faults memory.Faults) *host {
	h := &host{w: w, name: name, totals: NewSaleTotals(w.shards), leased: true}
	for i := range w.shards {
		q := newSequencer(i, spec.ShardLog(saletest.UID, i, w.shards), fmt.Appendf(nil, "%-8.8s", name), name+":1", h.totals)
		h.actors = append(h.actors, &actor{h: h, q: q, logs: w.store.Handle(faults)})
	}
	w.hosts = append(w.hosts, h)
	h.plans()
	h.permit()
	return h
}

// serving starts a process and lets it take all shards over.
func (w *world) serving(name string) *host {
	w.t.Helper()
	h := w.host(name, nil)
	w.settle()
	for _, a := range h.actors {
		if a.q.mode != serving {
			w.t.Fatalf("shard %d of %s does not serve: %v", a.q.shard, name, a.q.why)
		}
	}
	return h
}

// plans tells the process of all generations that the sale's log has.
func (h *host) plans() {
	sale := saletest.LoadSale(h.w.t, h.w.logs, h.w.sale)
	h.totals.Generation(sale.Generation())
	for i, a := range h.actors {
		var all []*pb.Generation
		for g := range sale.Generation() {
			all = append(all, sale.ShardGeneration(g+1, i))
		}
		a.step(func(q *sequencer) { q.generations = all })
	}
}

// permit tells the process what rights it has now.
func (h *host) permit() {
	var r Rights
	if h.leased {
		r = Rights{Lease: saletest.Lease(h.w.t, h.w.now), ReadAt: h.w.now, TTL: quorum.DefaultTTL}
	}
	for _, a := range h.actors {
		a.step(func(q *sequencer) { q.rights = r })
	}
}

// die is kill -9.
func (h *host) die() { h.dead = true }

// halt tells all sequencers of the process to stop.
func (h *host) halt(why Halt) {
	for _, a := range h.actors {
		a.step(func(q *sequencer) { why.happen(h.w.now, q) })
	}
}

// ask queues a request with the process.
func (h *host) ask(user, key string, quantity int64) *asked {
	return h.request(request.Request{User: user, Key: key, Quantity: quantity})
}

func (h *host) request(r request.Request) *asked {
	a := h.actors[spec.HomeShard(r.User, h.w.shards)]
	x := &asked{Request: r, actor: a}
	x.ticket = request.NewTicket(&h.w.pool, x.Request, func() string { return "1" }, h.w.now.Mono)
	x.Request = x.ticket.Request
	h.w.asked = append(h.w.asked, x)
	h.w.tickets[x.ticket] = x
	a.queue = append(a.queue, x.ticket)
	return x
}

// settles asks something of a claim.
func (h *host) settles(x request.Settlement) *asked {
	a := h.actors[x.Claim.Shard]
	s := &asked{actor: a, ticket: request.NewTicket(&h.w.pool, request.Request{Settle: &x}, nil, h.w.now.Mono)}
	h.w.tickets[s.ticket] = s
	a.queue = append(a.queue, s.ticket)
	return s
}

// buyer returns the i-th name whose home is a shard.
func (w *world) buyer(shard, i int) string {
	for n := 0; ; n++ {
		name := fmt.Sprintf("buyer-%d", n)
		if spec.HomeShard(name, w.shards) != shard {
			continue
		}
		if i == 0 {
			return name
		}
		i--
	}
}

// step gives the sequencer an event, and does at once what it wants done but
// for its call of the store.
func (a *actor) step(event func(q *sequencer)) {
	if a.h.dead || a.q.mode == stopped && a.under == nil && len(a.queue) == 0 {
		return
	}
	if event != nil {
		event(a.q)
	}
	if a.q.sent == nil {
		a.q.addRequests(a.queue)
		a.queue = nil
	}
	a.take(a.q.next(a.h.w.now))
	if a.q.mode == stopped {
		a.q.addRequests(a.queue)
		a.queue = nil
		a.take(a.q.next(a.h.w.now))
		if a.under != nil { // it is made all the same, and nobody hears of it
			a.under.Do(context.Background(), a.logs)
			a.under = nil
		}
		a.wake = 0
	}
}

func (a *actor) take(e Effects) {
	w := a.h.w
	a.wake = e.Wake
	if e.Send != nil {
		if a.under != nil {
			w.t.Fatalf("%v: a call is sent while another is under way", a)
		}
		w.tell("%v sends %d %d", a, e.Send.Kind, e.Send.Slot)
		a.under = e.Send
	}
	for _, t := range e.answered {
		w.answered(a, t)
	}
	for _, m := range e.messages {
		copies := 1
		if w.mail != nil {
			copies = w.mail(m)
		}
		w.tell("%v says %v %d copies", a, m, copies)
		for range copies {
			to := a.h.actors[m.To]
			to.inbox = append(to.inbox, m)
		}
	}
}

func (a *actor) String() string { return fmt.Sprintf("%s/%d", a.h.name, a.q.shard) }

func (w *world) tell(format string, args ...any) {
	if w.log != nil {
		w.log(format, args...)
	}
}

// turn does one thing that is due whatever the time; false: there is none.
func (a *actor) turn() bool {
	switch {
	case a.h.dead:
		return false
	case len(a.inbox) > 0:
		a.hear(len(a.inbox))
	case len(a.queue) > 0 && a.q.sent == nil:
		a.step(nil)
	case a.under != nil:
		a.call()
	default:
		return false
	}
	return true
}

// hear takes in the first n messages together, as a shell does that was busy.
func (a *actor) hear(n int) {
	heard := a.inbox[:n]
	a.inbox = slices.Clone(a.inbox[n:])
	a.step(func(q *sequencer) {
		for _, m := range heard {
			q.transfers.handle(m)
		}
	})
}

// call makes the call of the store that is under way.
func (a *actor) call() {
	r := a.under
	reply := r.Do(context.Background(), a.logs)
	a.under = nil
	a.h.w.tell("%v got %d entries, %v", a, len(reply.Entries), reply.Err)
	a.step(func(q *sequencer) { q.storeReplied(a.h.w.now, reply) })
}

// settle lets everybody act until nobody can without time passing.
func (w *world) settle() {
	for range 100_000 {
		acted := false
		for _, a := range w.alive() {
			acted = a.turn() || acted
		}
		if !acted {
			return
		}
	}
	w.t.Fatal("it goes on for ever")
}

func (w *world) alive() (all []*actor) {
	for _, h := range w.hosts {
		if !h.dead {
			all = append(all, h.actors...)
		}
	}
	return all
}

// pass lets time pass, and everybody act in it.
func (w *world) pass(d time.Duration) {
	for end := w.now.Mono + d; ; {
		w.settle()
		next := end
		for _, a := range w.alive() {
			if a.wake != 0 {
				next = min(next, max(a.wake, w.now.Mono))
			}
		}
		w.move(next - w.now.Mono)
		if !w.tick() && w.now.Mono >= end {
			return
		}
	}
}

// move moves the clock, and renews the rights of those who have them.
func (w *world) move(d time.Duration) {
	w.now.Mono += d
	w.now.Wall = w.now.Wall.Add(d)
	for _, h := range w.hosts {
		if h.leased && !h.dead {
			h.permit()
		}
	}
}

// tick wakes everybody who is due.
func (w *world) tick() (any bool) {
	for _, a := range w.alive() {
		if a.wake == 0 || a.wake > w.now.Mono {
			continue
		}
		any = true
		a.step(func(q *sequencer) { q.tick(w.now) })
		if a.wake != 0 && a.wake <= w.now.Mono {
			w.t.Fatalf("%v wants to be woken again at once: wake=%v now=%v mode=%d asked=%v resend=%v do=%+v sent=%v idle=%v", a, a.wake, w.now.Mono, a.q.mode, a.q.transfers.unitRequests, a.q.transfers.resendAt, a.q.do, a.q.sent != nil, a.q.writer.Idle())
		}
	}
	return any
}
