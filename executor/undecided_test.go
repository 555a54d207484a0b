package executor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/spec"
)

// TestUndecided asks for one key again and again while its claim is being
// appended and the store does not answer: through the stall, the loss of the right
// to append, a full queue, a drain, and the end of the tenure. Others hear what is
// the matter; of this key nobody knows.
func TestUndecided(t *testing.T) {
	const others = 2 * time.Second // have given up by then
	begin := func(c *cluster) *member {
		c.queue = 3
		m := c.serve("first", nil)
		m.sells("ann")
		m.store.all.close()
		m.later("bob")
		time.Sleep(time.Millisecond)
		return m
	}
	// hears asks at once: bob's request, and that of somebody else.
	hears := func(m *member, want Outcome) {
		m.c.t.Helper()
		for user, want := range map[string]Outcome{"bob": Unknown, "carl": want} {
			if a := m.claim(user); a.Outcome != want {
				m.c.t.Errorf("%s hears %+v, want %s", user, a, want)
			}
			if a := m.Decline(Request{User: user, Key: "key", Quantity: 1}, Draining); (a.Outcome == Unknown) != (user == "bob") {
				m.c.t.Errorf("declined, %s hears %+v", user, a)
			}
		}
		if a := m.Claim(m.c.t.Context(), Request{User: "dora", Quantity: 1}); a.Outcome != want {
			m.c.t.Errorf("without a key, dora hears %+v, want %s", a, want)
		}
	}
	sold := func(m *member) {
		m.c.t.Helper()
		m.store.all.open()
		m.within(10*time.Second, "selling", func() bool { return m.claim("bob").Outcome == Sold })
		if a := m.claim("bob"); !a.Replayed {
			m.c.t.Errorf("bob hears %+v", a)
		}
		m.within(10*time.Second, "selling to others", func() bool { return m.claim("carl").Outcome == Sold })
		audited(m.c.t, m.c.logs, m.c.sale.Name)
	}
	t.Run("stalled, without rights, given up, standby", func(t *testing.T) {
		inCluster(t, quorum.DefaultTTL, []int64{50}, func(c *cluster) {
			m := begin(c)
			defer m.stop()
			seen := map[Outcome]bool{}
			for began := time.Now(); time.Since(began) < giveUpAfter+20*time.Second; time.Sleep(500 * time.Millisecond) {
				if a := m.claim("bob"); a.Outcome != Unknown {
					t.Fatalf("after %v bob hears %+v", time.Since(began), a)
				}
				seen[m.claim("carl").Outcome] = true
			}
			for _, want := range []Outcome{NoQuorum, Standby} {
				if !seen[want] {
					t.Errorf("carl never heard %s: %v", want, seen)
				}
			}
			if m.log.count("stopping to serve") == 0 {
				t.Errorf("the tenure never ended:\n%s", m.log)
			}
			sold(m)
			if n := m.doubts.n.Load(); n != 0 {
				t.Errorf("%d requests are in doubt", n)
			}
		})
	})
	t.Run("another owner", func(t *testing.T) {
		inCluster(t, quorum.DefaultTTL, []int64{50}, func(c *cluster) {
			m := begin(c)
			defer m.stop()
			m.cut()
			second := c.serve("second", nil)
			defer second.stop()
			time.Sleep(giveUpAfter)
			hears(m, NoQuorum)
			m.heal()
			m.within(20*time.Second, "a standby", func() bool { return m.claim("carl").Outcome == Standby })
			if a := m.claim("bob"); a.Outcome != Unknown {
				t.Errorf("of a claim that another process decides, the standby says %+v", a)
			}
			second.sells("bob")
			if a := m.claim("bob"); a.Outcome != Unknown {
				t.Errorf("the standby knows what the other did: %+v", a)
			}
			second.stop()
			m.within(20*time.Second, "selling", func() bool { return m.claim("bob").Outcome == Sold })
		})
	})
	t.Run("queue full", func(t *testing.T) {
		inCluster(t, quorum.DefaultTTL, []int64{50}, func(c *cluster) {
			m := begin(c)
			defer m.stop()
			for _, user := range []string{"eve", "fay"} { // they have no time limit
				go m.Claim(c.t.Context(), Request{User: user, Key: "key", Quantity: 1})
			}
			time.Sleep(time.Millisecond)
			hears(m, Overloaded)
			// Of those in the queue it is not known either.
			if a := m.claim("eve"); a.Outcome != Unknown {
				t.Errorf("eve, who waits in the queue, hears %+v", a)
			}
			sold(m)
		})
	})
	t.Run("queued twice, and given up", func(t *testing.T) {
		inCluster(t, quorum.DefaultTTL, []int64{50}, func(c *cluster) {
			m := begin(c)
			defer m.stop()
			first, end := context.WithCancel(c.t.Context())
			heard := make(chan Answer, 1)
			go func() { heard <- m.Claim(first, Request{User: "eve", Key: "key", Quantity: 1}) }()
			time.Sleep(time.Millisecond)
			second, cancel := context.WithTimeout(c.t.Context(), time.Second)
			defer cancel()
			if a := m.Claim(second, Request{User: "eve", Key: "key", Quantity: 1}); a.Outcome != Unknown {
				t.Errorf("given up while an earlier request waits: %+v", a)
			}
			end()
			if a := <-heard; a.Outcome != Overloaded {
				t.Errorf("given up while nothing else waits: %+v", a)
			}
			if n := m.tenure.Load().shards[0].underway.n.Load(); n != 1 {
				t.Errorf("%d requests are under way, want bob's", n)
			}
			sold(m)
		})
	})
	t.Run("draining", func(t *testing.T) {
		inCluster(t, quorum.DefaultTTL, []int64{50}, func(c *cluster) {
			m := begin(c)
			go m.stop()
			time.Sleep(10 * time.Millisecond)
			hears(m, Draining)
			time.Sleep(defaultDrain + others)
			hears(m, Draining) // it is gone, and it never learned
			m.store.all.open()
			m.stop()
			hears(m, Draining)
		})
	})
	t.Run("sold out meanwhile", func(t *testing.T) {
		inCluster(t, quorum.DefaultTTL, []int64{50}, func(c *cluster) {
			m := begin(c)
			defer m.stop()
			all := &m.tenure.Load().board.soldOut
			all.Store(true) // and more units come before bob's claim is decided
			if a := m.claim("carl"); a.Outcome != SoldOut {
				t.Errorf("carl hears %+v", a)
			}
			if a := m.claim("bob"); a.Outcome != Unknown {
				t.Errorf("while a claim of that key is under way, bob hears %+v", a)
			}
			all.Store(false)
			sold(m)
		})
	})
	t.Run("closed meanwhile", func(t *testing.T) {
		inCluster(t, quorum.DefaultTTL, []int64{50}, func(c *cluster) {
			m := begin(c)
			defer m.stop()
			closes := time.Now().UnixMicro() + 1 // before the append is known
			m.tenure.Load().shards[0].tryPost(does(func(q *sequencer) { q.state.Settings().ClosesAtUs = closes }))
			time.Sleep(time.Millisecond)
			hears(m, Closed)
			m.store.all.open()
			m.within(10*time.Second, "selling", func() bool { return m.claim("bob").Outcome == Sold })
		})
	})
}

// TestUndecidedGrab leaves a call of a list's node without an answer: it lands
// after its user has asked again.
func TestUndecidedGrab(t *testing.T) {
	for _, ack := range []spec.Ack{spec.AckLedger, spec.AckRedis} {
		t.Run(string(ack), func(t *testing.T) {
			s := newListSite(t, ack, 1, nil, 50)
			p, held, _ := s.farProcess()
			waitFor(t, func() bool { return p.Ready() == nil })
			node := held[0]
			node.hold()
			if a := p.claim("bob", "a"); a.Outcome != Unknown {
				t.Fatalf("without an answer of the node bob hears %+v", a)
			}
			node.mu.Lock()
			node.held = false // it answers again, and what came before is still on its way
			node.mu.Unlock()
			waitFor(t, func() bool { return p.claim("ann", "a").Outcome == Sold })
			for user, want := range map[string]Outcome{"bob": Unknown, "carl": Draining} {
				if a := p.Decline(Request{User: user, Key: "a", Quantity: 1}, Draining); a.Outcome != want {
					t.Errorf("%s hears %+v, want %s", user, a, want)
				}
			}
			if n := node.letGo(); n == 0 {
				t.Error("nothing was on its way")
			}
			if a := p.claim("bob", "a"); a.Outcome != Sold {
				t.Errorf("asked again, bob hears %+v", a)
			}
			waitFor(t, func() bool {
				return p.Decline(Request{User: "bob", Key: "a", Quantity: 1}, Draining).Outcome == Sold
			})
			if a := audited(t, s.logs, "site"); a.Sold != 2 {
				t.Errorf("audit: %+v", a)
			}
		})
	}
}

// TestUnderway holds the table against a plain one.
func TestUnderway(t *testing.T) {
	var u underway
	var in []*ticket
	count := func(user string) (n int) {
		for _, x := range in {
			if x.User == user {
				n++
			}
		}
		return n
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		if len(in) == 0 || r.IntN(100) < 51 {
			x := &ticket{Request: Request{User: fmt.Sprint("user-", r.IntN(300)), Key: "key"}}
			before := count(x.User) > 0
			u.enter(x)
			in = append(in, x)
			if got := u.hasBefore(x.User, x.Key, x.hash, x.number); got != before {
				t.Fatalf("an earlier request of %s: %v, want %v", x.User, got, before)
			}
		} else {
			i := r.IntN(len(in))
			u.leave(in[i])
			in = append(in[:i], in[i+1:]...)
		}
		user := fmt.Sprint("user-", r.IntN(300))
		if got := u.has(user, "key"); got != (count(user) > 0) {
			t.Fatalf("%s is under way: %v, with %d requests", user, got, count(user))
		}
		if u.has(user, "another") || int(u.n.Load()) != len(in) {
			t.Fatalf("another key is under way, or %d of %d are", u.n.Load(), len(in))
		}
	}
}

// TestLimitReachedDecides tells a user at the limit so, though another request of
// theirs was in doubt: it would otherwise stay so until the shard is taken over.
func TestLimitReachedDecides(t *testing.T) {
	c := newCounted(t, 10)
	s := c.g.shards[0].shard
	s.uid = testUID
	s.doubts.add(testUID, 0, "ann", "second")
	limit := Answer{Outcome: LimitReached, Claims: []Claim{{User: "ann", Units: []int64{1}}}}
	if a := s.refuse(Request{User: "ann", Key: "second", Quantity: 1}, limit); a.Outcome != Unknown {
		t.Errorf("while the shard's log is being read: %q", a.Outcome)
	}
	s.serving.Store(true)
	if a := s.refuse(Request{User: "ann", Key: "second", Quantity: 1}, limit); a.Outcome != LimitReached {
		t.Errorf("while the shard is served: %q", a.Outcome)
	}
	if a := s.refuse(Request{User: "ann", Key: "second", Quantity: 2}, Answer{Outcome: LimitReached}); a.Outcome != Unknown {
		t.Errorf("more than anybody may have: %q", a.Outcome)
	}
	if a := s.refuse(Request{User: "ann", Key: "second", Quantity: 1}, Answer{Outcome: NoQuorum}); a.Outcome != Unknown {
		t.Errorf("an answer about the server alone: %q", a.Outcome)
	}
}

// TestGivenInDoubtAfterTheTenure has a process lose a shard while the ledger lacks what
// its list gave. Whoever heard sold must not hear that nothing was accepted.
func TestGivenInDoubtAfterTheTenure(t *testing.T) {
	refused := Answer{Outcome: NoQuorum}
	for name, lose := range map[string]func(c *counted, ask func(users ...string) *grabCall){
		"after the answer": func(c *counted, ask func(users ...string) *grabCall) {
			c.gives(ask("ann"), false)
			c.queues[0].shutDown(Standby)
		},
		"before the answer": func(c *counted, ask func(users ...string) *grabCall) {
			call := ask("ann")
			c.queues[0].shutDown(Standby)
			c.gives(call, false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCounted(t, 10)
			c.queues[0].knows()
			c.queues[1].knows()
			s := c.g.shards[0].shard
			s.uid = testUID
			lose(c, func(users ...string) *grabCall {
				c.offer(users...)
				return c.asks(users...)
			})
			for user, want := range map[string]Outcome{"ann": Unknown, "bob": NoQuorum} {
				if a := s.refuse(Request{User: user, Key: "key", Quantity: 1}, refused); a.Outcome != want {
					t.Errorf("%s hears %q, want %q", user, a.Outcome, want)
				}
			}
			s.doubts.settle(testUID, 0)
			if a := s.refuse(Request{User: "ann", Key: "key", Quantity: 1}, refused); a.Outcome != NoQuorum {
				t.Errorf("ann hears %q when the shard was read", a.Outcome)
			}
		})
	}
}

// TestClosedListTellsWhatItGave has somebody ask again whose answer was lost, when
// the list has closed.
func TestClosedListTellsWhatItGave(t *testing.T) {
	c := newCounted(t, 10)
	c.queues[0].knows()
	c.queues[1].knows()
	tickets := make(map[string]*ticket)
	for _, user := range []string{"has", "has under another key", "has nothing"} {
		tickets[user] = newTicket(new(sync.Pool), Request{User: user, Key: "key", Quantity: 1}, c.now.Mono)
		if o := c.queues[0].offer(c.now, tickets[user]); o != "" {
			t.Fatal(o)
		}
	}
	call := c.asks("has", "has under another key", "has nothing")
	c.g.done(c.now, call, []lists.Given{{Why: lists.ErrClosed, At: 9, Units: []lists.Unit{
		{Number: 1, Before: true, Key: "key", At: 5}, {Number: 2, Before: true, Key: "first", At: 5}, {},
	}}}, nil)
	for user, want := range map[string]Outcome{"has": Sold, "has under another key": Closed, "has nothing": Closed} {
		if got := tickets[user].answer; got.Outcome != want {
			t.Errorf("who %s hears %+v, want %s", user, got, want)
		}
	}
	if got := tickets["has"].answer; !got.Replayed || got.Claim.ID != (ClaimID{Unit: 1}) || got.Claim.At != time.UnixMicro(5) {
		t.Errorf("who has a unit hears %+v", got)
	}
}

// TestDoubts bounds what is remembered: beyond that everything on the shard is in
// doubt, until it is settled.
func TestDoubts(t *testing.T) {
	var d doubts
	d.add("run-1", 1, "ann", "a")
	d.add("run-1", 2, "bob", "a")
	if !d.has("ann", "a") || d.has("ann", "b") || !d.has("bob", "a") {
		t.Error("it does not know what it was told")
	}
	d.add("run-1", 1, "cat", anyKey)
	if !d.has("cat", "a") || !d.has("cat", "b") || d.has("dan", "a") {
		t.Error("all of cat's is in doubt, and nothing of dan's")
	}
	d.settle("run-1", 1)
	if d.has("cat", "a") {
		t.Error("cat's was settled")
	}
	if d.has("ann", "a") || !d.has("bob", "a") {
		t.Error("shard 1 was settled, not shard 2")
	}
	d.drop(2, "bob", "a")
	if d.has("bob", "a") || d.n.Load() != 0 {
		t.Error("bob's is known")
	}
	for i := range mostDoubts + 5 {
		d.add("run-1", 3, fmt.Sprint("user-", i), "a")
	}
	d.drop(3, "user-0", "a")
	if !d.has("user-0", "a") || !d.has("somebody", "else") || d.n.Load() != mostDoubts {
		t.Errorf("with %d in doubt somebody is sure", d.n.Load())
	}
	d.settle("run-1", 3)
	if d.has("user-0", "a") || d.n.Load() != 0 {
		t.Error("shard 3 was settled")
	}
	d.add("run-1", 3, "ann", "a")
	d.settle("run-2", 0)
	if d.has("ann", "a") || d.n.Load() != 0 {
		t.Error("another run has begun")
	}
	d.add("run-1", 3, "bob", "a")
	d.add("run-1", 3, "cat", "a")
	d.drop(3, "cat", "a")
	d.drop(3, "cat", "a") // nothing is known of it any more
	d.drop(3, "dan", "a")
	if d.has("ann", "a") || !d.has("bob", "a") || d.has("cat", "a") || d.n.Load() != 1 {
		t.Errorf("bob's alone is in doubt, and not %d", d.n.Load())
	}
	d.add("run-2", 3, "eve", "a")
	if d.has("bob", "a") || !d.has("eve", "a") || d.n.Load() != 1 {
		t.Errorf("eve's alone is in doubt, of another run, and not %d", d.n.Load())
	}
}

// TestUndecidedWhenLost has the sale's log damaged while a claim is being appended:
// the process gives the sale up, and still does not deny the claim.
func TestUndecidedWhenLost(t *testing.T) {
	s := newSite(t, 1, 50)
	handle, node := s.handles()
	logs := &gatedLogs{Logs: handle}
	p := New(Config{Logs: logs, Nodes: []quorum.Node{node}, Sale: s.sale.Name, Address: "127.0.0.1:1"})
	ended := make(chan error, 1)
	go func() { ended <- p.Run(t.Context()) }()
	waitFor(t, func() bool { return p.Ready() == nil })
	request := Request{User: "ann", Key: "1", Quantity: 1}
	logs.appends.close()
	go p.Claim(t.Context(), request)
	waitFor(t, func() bool { return logs.appends.held.Load() == 1 })
	log := spec.SaleLog(s.sale.Name)
	head, entries, err := s.logs.Read(t.Context(), log, 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.logs.Append(t.Context(), log, uint64(len(entries)), head, []byte(`{"slot":2}`), []byte("garbage")); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return p.tenure.Load() == nil })
	if a := p.Claim(t.Context(), request); a.Outcome != Unknown {
		t.Errorf("while it ends ann hears %+v", a)
	}
	if <-ended == nil {
		t.Error("Run ends without an error")
	}
	if a := p.Claim(t.Context(), request); a.Outcome != Unknown {
		t.Errorf("after it has ended ann hears %+v", a)
	}
	if a := p.Claim(t.Context(), Request{User: "bob", Key: "1", Quantity: 1}); a.Outcome != NoQuorum {
		t.Errorf("bob hears %+v", a)
	}
}

// TestGiveUp ends the waiting of one request: its place among those under way is free,
// and what it may have got of a list stays in doubt.
func TestGiveUp(t *testing.T) {
	c := newCounted(t, 10)
	s := c.queues[0].shard
	s.uid = testUID
	wait := func(user string, taken bool) *ticket {
		x := newTicket(new(sync.Pool), Request{User: user, Key: "key", Quantity: 1}, c.now.Mono)
		x.home = s
		x.enter()
		if taken {
			x.take()
		}
		return x
	}
	if a := wait("ann", false).giveUp(); a.Outcome != Overloaded || s.underway.n.Load() != 0 || s.doubts.has("ann", "key") {
		t.Errorf("nobody looked at it: %+v, %d are under way", a, s.underway.n.Load())
	}
	if a := wait("bob", true).giveUp(); a.Outcome != Unknown || s.underway.n.Load() != 1 || !s.doubts.has("bob", "key") {
		t.Errorf("it is being decided: %+v, %d are under way", a, s.underway.n.Load())
	}
	s.drained.Store(true)
	if a := wait("cat", true).giveUp(); a.Outcome != Unknown || s.doubts.has("cat", "key") {
		t.Errorf("it is being decided, and the log has all: %+v", a)
	}
	told := wait("dan", true)
	told.answer = Answer{Outcome: Sold}
	told.tell()
	if a := told.giveUp(); a.Outcome != Sold {
		t.Errorf("it has its answer: %+v", a)
	}
}
