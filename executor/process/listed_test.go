package process_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/calls"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/executor/listengine"
	"salectl/executor/ownership"
	"salectl/executor/process"
	"salectl/executor/request"
	"salectl/executor/saletest"
	"salectl/executor/shard"
	"salectl/spec"
)

// TestListedAnswers has a user asked for whose grab the ledger does not have yet:
// with ack redis the answer is there, with ack ledger it waits for the ledger.
func TestListedAnswers(t *testing.T) {
	t.Run("ack ledger", func(t *testing.T) {
		w := newListedWorld(t, spec.AckLedger, 3)
		p := w.first
		if err := p.p.Ready(w.now); err != nil {
			t.Fatal(err)
		}
		p.keeps("append")
		ann := p.ask("ann", "1")
		ann.want(t, "")
		if w.list(0).Units != 2 || w.has("ann") {
			t.Fatalf("%+v, %v", w.list(0), w.has("ann"))
		}
		p.lets()
		a := ann.want(t, api.Sold)
		if !w.has("ann") || a.Replayed || a.Claim.Units[0] != 1 || !a.Claim.At.Equal(w.now.Wall) {
			t.Errorf("%+v", a)
		}
		again := p.ask("ann", "1").want(t, api.Sold)
		if !again.Replayed || again.Claim.ID != a.Claim.ID {
			t.Errorf("%+v", again)
		}
	})
	t.Run("ack redis", func(t *testing.T) {
		w := newListedWorld(t, spec.AckRedis, 3)
		p := w.first
		p.ask("ann", "1").want(t, api.Sold)
		if w.has("ann") {
			t.Error("it is drained at once")
		}
		w.pass(shard.DrainDelay - time.Millisecond)
		if w.has("ann") {
			t.Error("it is drained before its time")
		}
		w.pass(time.Millisecond)
		if !w.has("ann") {
			t.Error("it is not drained")
		}
	})
}

// TestListedGathers puts requests that come while calls are under way together into
// the next one.
func TestListedGathers(t *testing.T) {
	w := newListedWorld(t, spec.AckRedis, 20)
	p := w.first
	users := w.buyers(0, 9)
	p.keeps("grab")
	var asked []*listedAsk
	for _, user := range users {
		asked = append(asked, p.ask(user, "1"))
	}
	if len(p.kept) != listengine.MaxCalls {
		t.Fatalf("%d calls are under way", len(p.kept))
	}
	p.let(p.kept[0])
	p.run()
	if len(p.kept) != listengine.MaxCalls {
		t.Fatalf("%d calls are under way after one was answered", len(p.kept))
	}
	p.lets()
	if n := p.count("grab"); n != 3 {
		t.Errorf("%d calls, want the last seven requests in one", n)
	}
	for i, x := range asked {
		if a := x.want(t, api.Sold); a.Claim.Units[0] != int64(i+1) {
			t.Errorf("%s has unit %d, who came as number %d", x.user, a.Claim.Units[0], i+1)
		}
	}
}

// TestListedTransfer moves units into a list that is empty, for those who wait, and
// says that all is sold once it is.
func TestListedTransfer(t *testing.T) {
	for _, ack := range []spec.Ack{spec.AckLedger, spec.AckRedis} {
		t.Run(string(ack), func(t *testing.T) {
			w := newListedWorld(t, ack, 0, 5)
			p := w.first
			var asked []*listedAsk
			for _, user := range w.buyers(0, 3) {
				asked = append(asked, p.queue(user, "1", 1))
			}
			p.run() // no time passes
			for _, x := range asked {
				x.want(t, api.Sold)
			}
			if a, b := w.shard(0), w.shard(1); a.Available+a.Sold != 3 || b.Available != 2 || b.InFlight != 0 {
				t.Errorf("the shards are at %+v and %+v", a.Totals, b.Totals)
			}
			if a, b := w.list(0), w.list(1); a.Units != 0 || b.Units != 2 {
				t.Errorf("the lists have %d and %d units", a.Units, b.Units)
			}
			for _, user := range w.buyers(0, 5)[3:] {
				p.ask(user, "1").want(t, api.Sold)
			}
			w.pass(shard.DrainDelay)
			p.ask("late", "1").want(t, api.SoldOut)
		})
	}
}

// TestListedNobodyHasAny has the last units go while somebody waits for one.
func TestListedNobodyHasAny(t *testing.T) {
	w := newListedWorld(t, spec.AckLedger, 1, 1)
	p := w.first
	p.keeps("append")
	first, second := p.ask(w.buyers(0, 1)[0], "1"), p.ask(w.buyers(1, 1)[0], "1")
	late := p.ask(w.buyers(0, 2)[1], "1")
	late.want(t, "")
	p.lets()
	first.want(t, api.Sold)
	second.want(t, api.Sold)
	if len(late.answers) == 0 || late.answers[0].Outcome != api.NoneNow && late.answers[0].Outcome != api.SoldOut {
		t.Errorf("where all is sold: %+v", late.answers)
	}
	w.pass(time.Second)
	p.ask(w.buyers(0, 3)[2], "1").want(t, api.SoldOut)
}

// plan appends a generation that changes the phase.
func (w *listedWorld) plan(phase pb.Phase) {
	w.t.Helper()
	saletest.Replan(w.t, w.logs, "listed", func(p *pb.Planned) { p.Settings.Phase = phase })
}

// TestListedPause stops a list before the generation comes into the log: who was
// given something is in the log before, and who waits hears that the sale is paused.
func TestListedPause(t *testing.T) {
	for _, ack := range []spec.Ack{spec.AckLedger, spec.AckRedis} {
		t.Run(string(ack), func(t *testing.T) {
			w := newListedWorld(t, ack, 9, 0)
			p := w.first
			users := w.buyers(0, 4)
			p.keeps("append")
			given := p.ask(users[0], "1")
			w.plan(pb.Phase_PAUSED)
			w.pass(quorumRead)
			if ack == spec.AckLedger {
				given.want(t, "")
			}
			if w.shard(0).Generation != 1 {
				t.Error("the generation is in the log before what the list gave")
			}
			p.keeps("list stop")
			p.let(p.the("append claims"))
			p.run()
			p.the("list stop")
			waits := p.ask(users[1], "1")
			waits.want(t, "")
			p.lets()
			given.want(t, api.Sold)
			waits.want(t, api.Paused)
			if p.p.Running(0).Underway.Len() != 0 {
				t.Error("requests are under way still")
			}
			if s := w.shard(0); s.Generation != 2 || s.Sold != 1 || w.list(0).On {
				t.Errorf("the shard is at %+v, the list on: %v", s.Totals, w.list(0).On)
			}
			p.ask(users[2], "1").want(t, api.Paused)
			w.pass(2 * shard.StallAfter)
			if err := p.p.Ready(w.now); err != nil {
				t.Errorf("a paused sale: %v", err)
			}
			w.plan(pb.Phase_OPEN)
			w.pass(quorumRead)
			p.ask(users[1], "2").want(t, api.Sold)
			if a := p.ask(users[0], "1").want(t, api.Sold); !a.Replayed {
				t.Errorf("%+v", a)
			}
		})
	}
}

// quorumRead is how often the sale's log is read by who serves.
const quorumRead = quorum.DefaultTTL / ownership.ReadsPerTTL

// TestListedNodeForgets has a node forget what it gave before that was in the ledger.
// With ack ledger nobody was told; who waits is told to ask again.
func TestListedNodeForgets(t *testing.T) {
	w := newListedWorld(t, spec.AckLedger, 9)
	p := w.first
	early := p.ask("early", "1")
	early.want(t, api.Sold)
	p.keeps("append")
	first := p.ask("first", "1")
	lost := p.ask("ann", "") // behind the commit under way; nobody else has its key
	lost.want(t, "")
	w.nodes[0].RestartEmpty()
	other := p.ask("bob", "1") // finds out
	p.lets()
	w.pass(time.Second)
	if a := lost.want(t, api.NoQuorum); a.Message != "the node has lost it; repeat the request" || a.RetryAfter == 0 {
		t.Errorf("%+v", a)
	}
	if w.has("ann") {
		t.Error("what the node has lost is in the log")
	}
	first.want(t, api.Sold)
	other.want(t, api.Sold)
	p.ask("ann", "1").want(t, api.Sold)
	if a := p.ask("early", "1").want(t, api.Sold); !a.Replayed {
		t.Errorf("%+v", a)
	}
	if s, l := w.shard(0), w.list(0); s.Sold != 4 || l.Units != 5 || l.Users != 4 {
		t.Errorf("the shard is at %+v, the list at %+v", s.Totals, l)
	}
}

// TestListedNodeStaysAway has a node answer nothing: the shard stalls after a while,
// and goes on by itself.
func TestListedNodeStaysAway(t *testing.T) {
	w := newListedWorld(t, spec.AckLedger, 9, 9)
	p := w.first
	w.nodes[1].RestartEmpty()
	p.keep = func(c calls.Call) bool { return c.List && c.Node == 1 }
	mine, others := w.buyers(1, 9), w.buyers(0, 9)
	x := p.ask(mine[0], "1")
	p.fails(p.the("grab"))
	w.pass(shard.StallAfter - 100*time.Millisecond)
	x.want(t, "")
	w.pass(5 * time.Second)
	if a := x.want(t, api.Unknown); a.RetryAfter == 0 {
		t.Errorf("%+v", a)
	}
	p.ask(mine[1], "1")
	w.pass(listengine.CallTimeout)
	other := p.ask(others[0], "1")
	w.pass(listengine.StuckCheckEvery)
	other.want(t, api.Sold)
	err := p.p.Ready(w.now)
	if err == nil || !strings.HasPrefix(err.Error(), "lock nodes: shards 1 of 2 are stalled since") {
		t.Errorf("ready: %v", err)
	}
	p.lets()
	w.pass(5 * time.Second)
	if err := p.p.Ready(w.now); err != nil {
		t.Errorf("ready: %v", err)
	}
	p.ask(mine[2], "1").want(t, api.Sold)
}

// TestListedTakenOver has another process take a shard over while the first waits for
// the ledger to have what the list gave.
func TestListedTakenOver(t *testing.T) {
	for _, ack := range []spec.Ack{spec.AckLedger, spec.AckRedis} {
		t.Run(string(ack), func(t *testing.T) {
			w := newListedWorld(t, ack, 9)
			p := w.first
			p.keeps("append")
			given := p.ask("ann", "1")
			if ack == spec.AckRedis {
				given.want(t, api.Sold)
			}
			p.dead = true // it stands still
			second := w.process("second")
			w.pass(20 * time.Second)
			if err := second.p.Ready(w.now); err != nil {
				t.Fatal(err)
			}
			a := second.ask("ann", "1").want(t, api.Sold)
			if !a.Replayed || w.shard(0).Sold != 1 {
				t.Errorf("%+v, %+v", a, w.shard(0).Totals)
			}
			p.dead = false
			p.lets()
			w.pass(time.Second)
			if ack == spec.AckLedger {
				given.want(t, api.Sold) // as the log says, to which the second has appended it
			}
			second.ask("bob", "1").want(t, api.Sold)
			if a := p.ask("bob", "1"); a.answers[0].Outcome != api.Standby {
				t.Errorf("the first says %+v", a.answers)
			}
		})
	}
}

// TestListedDrain ends a process gently: what its nodes have given is in the log
// before it is gone.
func TestListedDrain(t *testing.T) {
	for _, ack := range []spec.Ack{spec.AckLedger, spec.AckRedis} {
		t.Run(string(ack), func(t *testing.T) {
			w := newListedWorld(t, ack, 9)
			p := w.first
			p.keeps("grab")
			x := p.ask("ann", "1")
			p.p.Drain(w.now)
			p.run()
			w.pass(100 * time.Millisecond)
			if x.want(t, ""); p.gone {
				t.Fatal("it is gone")
			}
			p.ask("late", "1").want(t, api.Draining)
			p.lets()
			w.pass(time.Second)
			if x.want(t, api.Sold); !p.gone || !w.has("ann") {
				t.Errorf("gone: %v, the log has it: %v", p.gone, w.has("ann"))
			}
		})
	}
}

// TestListedUnitsMissing has units vanish from a list that the log has: who finds the
// list empty has it filled anew.
func TestListedUnitsMissing(t *testing.T) {
	w := newListedWorld(t, spec.AckRedis, 9)
	p := w.first
	p.ask("ann", "1").want(t, api.Sold)
	w.pass(time.Second)
	if _, err := w.nodes[0].Take(t.Context(), lists.List{UID: saletest.UID}, w.list(0).Fill, 100); err != nil {
		t.Fatal(err)
	}
	x := p.ask("bob", "1")
	w.pass(time.Second)
	if len(x.answers) == 1 && x.answers[0].Outcome == api.NoneNow {
		x = p.ask("bob", "1")
	}
	x.want(t, api.Sold)
	w.pass(shard.DrainDelay)
	if s, l := w.shard(0), w.list(0); s.Sold != 2 || l.Units != 7 || s.Fill != 2 {
		t.Errorf("the shard is at %+v, the list at %+v", s.Totals, l)
	}
}

// TestListedLostReply has the reply to a grab get lost that landed: asked again, the
// node gives the same unit, and the request is in doubt no longer than that lasts.
func TestListedLostReply(t *testing.T) {
	for ack, doubts := range map[spec.Ack]int64{spec.AckLedger: 0, spec.AckRedis: 1} {
		t.Run(string(ack), func(t *testing.T) {
			w := newListedWorld(t, ack, 9)
			p := w.first
			p.keeps("grab", "append")
			x := p.ask("ann", "1")
			k := p.the("grab")
			p.make(k)
			p.reply(k, nil, context.DeadlineExceeded)
			p.run()
			if a := p.p.Refuse(Request{User: "ann", Key: "1", Quantity: 1}, request.Refusal(api.Draining)); a.Outcome != api.Unknown || p.p.Doubts().Len() != 1 {
				t.Errorf("%+v, %d in doubt", a, p.p.Doubts().Len())
			}
			p.lets()
			w.pass(listengine.RetryDelay)
			a := x.want(t, api.Sold)
			if !a.Replayed || w.list(0).Users != 1 { // of the same key another may have come first
				t.Errorf("%+v, the list is at %+v", a, w.list(0))
			}
			w.pass(time.Second)
			if n := p.p.Doubts().Len(); n != doubts { // with ack redis until the list is filled anew
				t.Errorf("%d are in doubt", n)
			}
			w.nodes[0].Restart()
			p.ask("bob", "1")
			w.pass(time.Second)
			if n := p.p.Doubts().Len(); n != 0 {
				t.Errorf("%d are in doubt of a list that was filled anew", n)
			}
		})
	}
}

// TestListedTwoKeys has a user ask with a second key: the first is told, with the unit.
func TestListedTwoKeys(t *testing.T) {
	for _, ack := range []spec.Ack{spec.AckLedger, spec.AckRedis} {
		t.Run(string(ack), func(t *testing.T) {
			w := newListedWorld(t, ack, 9)
			p := w.first
			p.keeps("append")
			first := p.ask("ann", "1")
			second := p.ask("ann", "2") // the node knows, the log does not
			if ack == spec.AckLedger {
				second.want(t, "")
			}
			p.lets()
			unit := first.want(t, api.Sold).Claim.Units[0]
			if a := second.want(t, api.LimitReached); len(a.Claims) != 1 || a.Claims[0].Units[0] != unit || a.Claims[0].ID != (ClaimID{Unit: unit}) {
				t.Errorf("%+v", a)
			}
			w.pass(time.Second)
			if a := p.ask("ann", "3").want(t, api.LimitReached); len(a.Claims) != 1 || a.Claims[0].Units[0] != unit {
				t.Errorf("%+v", a)
			}
			p.askFor("bob", "1", 2).want(t, api.LimitReached)
		})
	}
}

// TestListedEndsWhileOwed ends a process hard that owes answers, and has requests at
// its nodes. All are answered, and nobody is told that a claim failed which did not.
func TestListedEndsWhileOwed(t *testing.T) {
	for _, ack := range []spec.Ack{spec.AckLedger, spec.AckRedis} {
		t.Run(string(ack), func(t *testing.T) {
			w := newListedWorld(t, ack, 2, 0)
			p := w.first
			users := w.buyers(0, 9)
			p.keeps("append")
			owed := p.ask(users[0], "1")
			w.pass(shard.DrainDelay) // it is being appended
			p.the("append claims")
			behind := p.ask(users[1], "1")
			p.keeps("append", "grab")
			short := p.ask(users[2], "1")
			p.p.Stop(shard.Halt{Why: shard.ErrOtherOwner, Refusal: api.Standby})
			p.p.Tick(p.w.now)
			p.run()
			late := p.ask(users[3], "1")
			p.let(p.the("grab")) // the list is empty, and who is short comes to a sequencer that stops
			p.run()
			if ack == spec.AckLedger {
				owed.want(t, "")
			}
			p.lets()
			owed.want(t, api.Sold)
			if ack == spec.AckLedger {
				behind.want(t, api.Unknown)
			} else {
				behind.want(t, api.Sold)
			}
			w.pass(time.Second)
			for _, x := range []*listedAsk{short, late} {
				if len(x.answers) != 1 || x.answers[0].Accepted() {
					t.Errorf("%s was told %+v", x.user, x.answers)
				}
			}
			w.pass(10 * time.Second) // it serves again
			if a := p.ask(users[1], "1").want(t, api.Sold); !a.Replayed {
				t.Errorf("%+v", a)
			}
			if w.shard(0).Sold != 2 {
				t.Errorf("the shard is at %+v", w.shard(0).Totals)
			}
		})
	}
}

// TestListedStall has a shard's list be off for long: it stalls and says why, and who
// waits is told; the others sell on.
func TestListedStall(t *testing.T) {
	w := newListedWorld(t, spec.AckLedger, 9, 9)
	p := w.first
	mine, others := w.buyers(0, 9), w.buyers(1, 9)
	w.nodes[0].Restart()
	p.keep = func(c calls.Call) bool { return c.List && c.Node == 0 && strings.HasPrefix(c.What, "list") }
	began := w.now.Wall
	x := p.ask(mine[0], "1") // finds out
	w.pass(shard.StallAfter - 10*time.Millisecond)
	x.want(t, "")
	if err := p.p.Ready(w.now); err == nil || err.Error() != "the list of shard 0 is being filled" {
		t.Errorf("ready: %v", err)
	}
	w.pass(10 * time.Millisecond)
	p.tell(0, p.rights()) // as after each vote: it says how it stands when it acts
	s := p.p.Status().Shards[0]
	if s.Stall == nil || s.Stall.Error != lists.ErrFill.Error() || s.ListOn || !s.Stall.Since.Equal(began) {
		t.Errorf("%+v, stall %+v", s, s.Stall)
	}
	w.pass(time.Second)
	if a := x.want(t, api.NoQuorum); a.Message != listengine.NodeSilent.Message {
		t.Errorf("%+v", a)
	}
	if a := p.ask(mine[1], "1").want(t, api.NoQuorum); a.Message == process.NotRead {
		t.Errorf("the node is not asked, as if the ledger did not answer: %+v", a)
	}
	p.ask(others[0], "1").want(t, api.Sold)
	p.reply(p.the("list run id"), lists.Reply{Err: errors.New("the node is off")}, nil)
	p.run()
	if s := p.p.Status().Shards[0].Stall; s == nil || s.Error != "the node is off" {
		t.Errorf("stall %+v", s)
	}
	p.lets()
	w.pass(2 * time.Second)
	if err := p.p.Ready(w.now); err != nil {
		t.Error(err)
	}
	p.ask(mine[1], "1").want(t, api.Sold)
	if s := w.shard(0); s.Fill != 2 {
		t.Errorf("the list was filled %d times", s.Fill)
	}
}

// TestListedGives moves units to a shard that asks, as many as it lacks or half of what
// there is, out of the list first; and none where that cannot be.
func TestListedGives(t *testing.T) {
	ask := func(p *listedProcess, from, to int, n int64) {
		p.p.Running(to).Post(shard.Message{Kind: shard.Want, From: from, To: to, Lacks: n})
		p.run()
	}
	units := func(t *testing.T, w *listedWorld, want ...int64) {
		t.Helper()
		for i, n := range want {
			if s, l := w.shard(i), w.list(i); s.Available != n || l.Units != n || s.InFlight != 0 {
				t.Errorf("shard %d is at %+v, its list at %+v; want %d units", i, s.Totals, l, n)
			}
		}
	}
	t.Run("half", func(t *testing.T) {
		w := newListedWorld(t, spec.AckLedger, 10, 1)
		ask(w.first, 1, 0, 1)
		units(t, w, 5, 6)
	})
	t.Run("what is lacked", func(t *testing.T) {
		w := newListedWorld(t, spec.AckLedger, 10, 1)
		ask(w.first, 1, 0, 8)
		units(t, w, 2, 9)
	})
	t.Run("several that ask, one after the other", func(t *testing.T) {
		w := newListedWorld(t, spec.AckLedger, 16, 1, 1)
		p := w.first
		p.p.Running(0).Post(shard.Message{Kind: shard.Want, From: 1, To: 0, Lacks: 1})
		p.p.Running(0).Post(shard.Message{Kind: shard.Want, From: 2, To: 0, Lacks: 1})
		p.run()
		units(t, w, 4, 9, 5)
	})
	t.Run("again, when the last has come", func(t *testing.T) {
		w := newListedWorld(t, spec.AckLedger, 16, 1)
		p := w.first
		p.keeps("append in")
		ask(p, 1, 0, 1)
		ask(p, 1, 0, 1)
		if s := w.shard(0); s.InFlight != 8 || s.Available != 8 {
			t.Errorf("the shard is at %+v", s.Totals)
		}
		p.lets()
		units(t, w, 4, 13)
	})
	t.Run("out of the log, when the shard is paused", func(t *testing.T) {
		w := newListedWorld(t, spec.AckLedger, 10, 1)
		p := w.first
		p.keeps("list stop", "list run id")
		w.plan(pb.Phase_PAUSED)
		w.pass(quorumRead)
		ask(p, 1, 0, 1)
		p.lets()
		w.pass(time.Second)
		if a, b := w.shard(0), w.shard(1); a.Available != 5 || b.Available != 6 || a.Generation != 2 {
			t.Errorf("the shards are at %+v and %+v", a.Totals, b.Totals)
		}
	})
	t.Run("nothing, where the list is empty", func(t *testing.T) {
		w := newListedWorld(t, spec.AckLedger, 1, 9)
		p := w.first
		p.keeps("append claims")
		x := p.ask(w.buyers(0, 1)[0], "1") // its unit is in the log still
		before := p.count("list take")
		ask(p, 1, 0, 1)
		w.pass(100 * time.Millisecond)
		p.lets()
		x.want(t, api.Sold)
		w.pass(time.Second)
		if n := p.count("list take") - before; n > 1 {
			t.Errorf("it looks %d times", n)
		}
		units(t, w, 0, 9)
	})
}

// TestListedShortWhileUndrained has somebody find a list empty whose last unit the log
// lacks: others are asked at once for one.
func TestListedShortWhileUndrained(t *testing.T) {
	w := newListedWorld(t, spec.AckRedis, 1, 9)
	p := w.first
	users := w.buyers(0, 2)
	p.ask(users[0], "1").want(t, api.Sold)
	x := p.ask(users[1], "1")
	x.want(t, api.Sold)
	if n := p.count("append out"); n != 1 {
		t.Errorf("%d transfers", n)
	}
	if a, b := w.list(0), w.list(1); a.Units+b.Units != 8 {
		t.Errorf("the lists have %d and %d units", a.Units, b.Units)
	}
}

// TestListedVoid has a list give a unit that the log does not have to give. It counts
// such grabs, and the user hears that nobody knows.
func TestListedVoid(t *testing.T) {
	w := newListedWorld(t, spec.AckLedger, 5)
	p := w.first
	var before shard.Tally
	counted := func() shard.Tally {
		sum := shard.Tally{Fills: p.metric("salectl_list_fills_total"), Voids: p.metric("salectl_void_grabs_total")}
		n := shard.Tally{Fills: sum.Fills - before.Fills, Voids: sum.Voids - before.Voids}
		before = sum
		return n
	}
	if n := counted(); n.Fills != 1 || n.Voids != 0 {
		t.Errorf("%+v", n)
	}
	list, fill := lists.List{UID: saletest.UID}, w.list(0).Fill
	if _, err := w.nodes[0].Take(t.Context(), list, fill, 4); err != nil {
		t.Fatal(err)
	}
	if err := w.nodes[0].Add(t.Context(), list, fill, ledger.Units{{First: 97, Count: 3}}); err != nil {
		t.Fatal(err)
	}
	p.ask("ann", "1").want(t, api.Sold)
	for _, user := range []string{"bob", "cid", "dan"} {
		p.ask(user, "1").want(t, api.Unknown)
		if n := counted(); n.Voids != 1 || w.has(user) {
			t.Errorf("%+v, the log has %s: %v", n, user, w.has(user))
		}
	}
	w.nodes[0].Restart()
	p.ask("eve", "1")
	w.pass(2 * time.Second)
	if n := counted(); n.Fills != 1 {
		t.Errorf("%+v", n)
	}
}

// TestListedWithdrawn answers nobody who has gone: who waits for units of a shard that
// is paused, and who found a list empty for good.
func TestListedWithdrawn(t *testing.T) {
	t.Run("paused", func(t *testing.T) {
		w := newListedWorld(t, spec.AckLedger, 0, 9)
		p := w.first
		users := w.buyers(0, 3)
		w.pass(p.nextRead(500*time.Millisecond) - 100*time.Millisecond) // as often as without a session
		w.plan(pb.Phase_PAUSED)
		p.keeps("list take")
		x, y := p.ask(users[0], "1"), p.ask(users[1], "1")
		x.want(t, "")
		x.withdraw()
		x.want(t, api.Overloaded)
		w.pass(100 * time.Millisecond)
		p.lets()
		w.pass(2 * time.Second)
		y.want(t, api.Paused)
		if len(x.answers) != 1 {
			t.Errorf("%+v", x.answers)
		}
	})
	t.Run("sold out", func(t *testing.T) {
		w := newListedWorld(t, spec.AckLedger, 1)
		p := w.first
		p.keeps("append", "grab")
		first := p.ask("ann", "1")
		x, y := p.queue("bob", "1", 1), p.queue("cid", "1", 1)
		p.run()
		ann, others := p.kept[0], p.kept[1]
		p.let(ann)
		p.run()
		p.let(p.the("append claims"))
		p.let(others)
		x.withdraw()
		p.lets()
		first.want(t, api.Sold)
		x.want(t, api.Overloaded)
		y.want(t, api.SoldOut)
	})
}

// TestListedTooMany has somebody ask for more than the one unit that a list gives a
// user, of a process that has not read all of the log yet.
func TestListedTooMany(t *testing.T) {
	w := newListedWorld(t, spec.AckLedger, 9)
	w.first.dead = true
	p := w.process("second")
	p.keeps("append own")
	w.pass(20 * time.Second)
	x := p.askFor("bob", "1", 2)
	x.want(t, "")
	p.lets()
	w.pass(time.Second)
	x.want(t, api.LimitReached)
}

// TestListedSoon drains a list at once when somebody finds it empty, who wants to know
// whether all is sold.
func TestListedSoon(t *testing.T) {
	w := newListedWorld(t, spec.AckRedis, 1)
	p := w.first
	p.ask("ann", "1").want(t, api.Sold)
	if s := p.p.Status().Shards[0]; s.Undrained != 1 || !s.Listed || !s.ListOn {
		t.Errorf("%+v", s)
	}
	late := p.ask("bob", "1")
	if !w.has("ann") || len(late.answers) != 1 {
		t.Errorf("drained: %v, the other was told %+v", w.has("ann"), late.answers)
	}
	p.ask("cid", "1").want(t, api.SoldOut)
	if s := p.p.Status().Shards[0]; s.Undrained != 0 || s.Sold != 1 {
		t.Errorf("%+v", s)
	}
}

// TestListedOverloadedWithoutKey refuses a request without a key of somebody who has a unit that the
// ledger lacks: it is a new one, so that it is known not to be accepted, and nothing is in doubt.
func TestListedOverloadedWithoutKey(t *testing.T) {
	w := newListedWorldAs(t, spec.AckRedis, func(sale *spec.Sale, _ *pb.Settings) { sale.Backlog = 1 }, 5)
	p := w.first
	p.keeps("append")
	p.ask("ann", "1").want(t, api.Sold)
	p.ask("ann", "").want(t, api.Overloaded)
	if n := p.p.Doubts().Len(); n != 0 {
		t.Errorf("%d requests are in doubt", n)
	}
	p.ask("ann", "2").want(t, api.Unknown)
	p.lets()
}

// TestListedFound looks claims up by the names that their buyers were told.
func TestListedFound(t *testing.T) {
	for _, ack := range []spec.Ack{spec.AckLedger, spec.AckRedis} {
		w := newListedWorld(t, ack, 5, 5)
		p := w.first
		for i := range 2 {
			for _, user := range w.buyers(i, 3) {
				id := p.ask(user, "1").want(t, api.Sold).Claim.ID
				w.pass(shard.DrainDelay)
				if named, ok := api.ParseClaimID(id.String()); !ok || named != id || id.Unit == 0 {
					t.Errorf("%s is read as %+v, %v", id, named, ok)
				}
				if c, why := findClaim(p.p, w.now, id); why != "" || c.User != user || c.ID != id {
					t.Errorf("%s: %s is %+v, %q", ack, id, c, why)
				}
			}
			if _, why := findClaim(p.p, w.now, ClaimID{Shard: i, Unit: 99}); why != api.NoSuchClaim {
				t.Errorf("%s: a unit that nobody has: %q", ack, why)
			}
		}
	}
}
