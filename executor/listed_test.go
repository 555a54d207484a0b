package executor

import (
	"strings"
	"testing"
	"time"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/quorum"
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
		a := ann.want(t, Sold)
		if !w.has("ann") || a.Replayed || a.Claim.Units[0] != 1 || !a.Claim.At.Equal(w.now.Wall) {
			t.Errorf("%+v", a)
		}
		again := p.ask("ann", "1").want(t, Sold)
		if !again.Replayed || again.Claim.ID != a.Claim.ID {
			t.Errorf("%+v", again)
		}
	})
	t.Run("ack redis", func(t *testing.T) {
		w := newListedWorld(t, spec.AckRedis, 3)
		p := w.first
		p.ask("ann", "1").want(t, Sold)
		if w.has("ann") {
			t.Error("it is drained at once")
		}
		w.pass(drainLater - time.Millisecond)
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
	if len(p.kept) != grabCalls {
		t.Fatalf("%d calls are under way", len(p.kept))
	}
	p.let(p.kept[0])
	p.run()
	if len(p.kept) != grabCalls {
		t.Fatalf("%d calls are under way after one was answered", len(p.kept))
	}
	p.lets()
	if n := p.count("grab"); n != 3 {
		t.Errorf("%d calls, want the last seven requests in one", n)
	}
	for i, x := range asked {
		if a := x.want(t, Sold); a.Claim.Units[0] != int64(i+1) {
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
				x.want(t, Sold)
			}
			if a, b := w.shard(0), w.shard(1); a.Available+a.Sold != 3 || b.Available != 2 || b.InFlight != 0 {
				t.Errorf("the shards are at %+v and %+v", a.Totals, b.Totals)
			}
			if a, b := w.list(0), w.list(1); a.Units != 0 || b.Units != 2 {
				t.Errorf("the lists have %d and %d units", a.Units, b.Units)
			}
			for _, user := range w.buyers(0, 5)[3:] {
				p.ask(user, "1").want(t, Sold)
			}
			w.pass(drainLater)
			p.ask("late", "1").want(t, SoldOut)
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
	first.want(t, Sold)
	second.want(t, Sold)
	if len(late.answers) == 0 || late.answers[0].Outcome != NoneNow && late.answers[0].Outcome != SoldOut {
		t.Errorf("where all is sold: %+v", late.answers)
	}
	w.pass(time.Second)
	p.ask(w.buyers(0, 3)[2], "1").want(t, SoldOut)
}

// plan appends a generation that changes the phase.
func (w *listedWorld) plan(phase pb.Phase) {
	w.t.Helper()
	replan(w.t, w.logs, "listed", func(p *pb.Planned) { p.Settings.Phase = phase })
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
			given.want(t, Sold)
			waits.want(t, Paused)
			if s := w.shard(0); s.Generation != 2 || s.Sold != 1 || w.list(0).On {
				t.Errorf("the shard is at %+v, the list on: %v", s.Totals, w.list(0).On)
			}
			p.ask(users[2], "1").want(t, Paused)
			if err := p.p.Ready(w.now); err != nil {
				t.Errorf("a paused sale: %v", err)
			}
			w.plan(pb.Phase_OPEN)
			w.pass(quorumRead)
			p.ask(users[1], "2").want(t, Sold)
			if a := p.ask(users[0], "1").want(t, Sold); !a.Replayed {
				t.Errorf("%+v", a)
			}
		})
	}
}

// quorumRead is how often the sale's log is read by who serves.
const quorumRead = quorum.DefaultTTL / readsPerTTL

// TestListedNodeForgets has a node forget what it gave before that was in the ledger.
// With ack ledger nobody was told; who waits is told to ask again.
func TestListedNodeForgets(t *testing.T) {
	w := newListedWorld(t, spec.AckLedger, 9)
	p := w.first
	early := p.ask("early", "1")
	early.want(t, Sold)
	p.keeps("append", "list read")
	lost := p.ask("ann", "") // whose key nobody else has
	lost.want(t, "")
	w.nodes[0].RestartEmpty()
	other := p.ask("bob", "1") // finds out
	p.lets()
	w.pass(time.Second)
	if a := lost.want(t, NoQuorum); a.Message != "the node has lost it; ask again" || a.RetryAfter == 0 {
		t.Errorf("%+v", a)
	}
	if w.has("ann") {
		t.Error("what the node has lost is in the log")
	}
	other.want(t, Sold)
	p.ask("ann", "1").want(t, Sold)
	if a := p.ask("early", "1").want(t, Sold); !a.Replayed {
		t.Errorf("%+v", a)
	}
	if s, l := w.shard(0), w.list(0); s.Sold != 3 || l.Units != 6 || l.Users != 3 {
		t.Errorf("the shard is at %+v, the list at %+v", s.Totals, l)
	}
}

// TestListedNodeStaysAway has a node answer nothing: the shard stalls after a while,
// and goes on by itself.
func TestListedNodeStaysAway(t *testing.T) {
	w := newListedWorld(t, spec.AckLedger, 9, 9)
	p := w.first
	w.nodes[1].RestartEmpty()
	p.keep = func(c Call) bool { return c.List && c.Node == 1 }
	mine, others := w.buyers(1, 9), w.buyers(0, 9)
	x := p.ask(mine[0], "1")
	p.fails(p.the("grab"))
	w.pass(stallAfter - 100*time.Millisecond)
	x.want(t, "")
	w.pass(5 * time.Second)
	if a := x.want(t, Unknown); a.RetryAfter == 0 {
		t.Errorf("%+v", a)
	}
	p.ask(mine[1], "1")
	w.pass(grabTimeout)
	other := p.ask(others[0], "1")
	w.pass(lookForStuck)
	other.want(t, Sold)
	err := p.p.Ready(w.now)
	if err == nil || !strings.HasPrefix(err.Error(), "stalled: shards 1 of 2 since") {
		t.Errorf("ready: %v", err)
	}
	p.lets()
	w.pass(5 * time.Second)
	if err := p.p.Ready(w.now); err != nil {
		t.Errorf("ready: %v", err)
	}
	p.ask(mine[2], "1").want(t, Sold)
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
				given.want(t, Sold)
			}
			p.dead = true // it stands still
			second := w.process("second")
			w.pass(20 * time.Second)
			if err := second.p.Ready(w.now); err != nil {
				t.Fatal(err)
			}
			a := second.ask("ann", "1").want(t, Sold)
			if !a.Replayed || w.shard(0).Sold != 1 {
				t.Errorf("%+v, %+v", a, w.shard(0).Totals)
			}
			p.dead = false
			p.lets()
			w.pass(time.Second)
			if ack == spec.AckLedger {
				given.want(t, Unknown)
			}
			second.ask("bob", "1").want(t, Sold)
			if a := p.ask("bob", "1"); a.answers[0].Outcome != Standby {
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
			p.ask("late", "1").want(t, Draining)
			p.lets()
			w.pass(time.Second)
			if x.want(t, Sold); !p.gone || !w.has("ann") {
				t.Errorf("gone: %v, the log has it: %v", p.gone, w.has("ann"))
			}
		})
	}
}
