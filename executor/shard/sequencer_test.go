package shard

import (
	"context"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/executor/request"
	"salectl/executor/saletest"
)

func TestSequencerLoadsOwnsServes(t *testing.T) {
	w := newWorld(t, 1, 5)
	h := w.host("first", nil)
	a := h.actors[0]
	x := h.ask("ann", "1", 1)
	if a.under == nil || a.under.Kind != ledger.ReadRequest || a.q.mode != loading {
		t.Fatalf("it begins with %+v in mode %d, not by reading", a.under, a.q.mode)
	}
	a.call()
	if a.under == nil || a.under.Kind != ledger.AppendRequest || a.q.mode != takingOver {
		t.Fatalf("it goes on with %+v in mode %d, not by appending Own", a.under, a.q.mode)
	}
	x.want(t, "")
	a.call()
	state := saletest.LoadShard(t, w.logs, 0, 1)
	if a.q.mode != serving || state.Epoch != 1 || state.Owner != "first:1" || state.Sold != 0 {
		t.Fatalf("after Own it is in mode %d, the log at %+v", a.q.mode, state.Totals)
	}
	// The commit is under way: nobody may hear of it yet.
	x.want(t, "")
	a.call()
	x.want(t, "sold")
}

// TestBatch decides requests that come while a commit is under way together.
func TestBatch(t *testing.T) {
	type req struct {
		user, key string
		quantity  int64
		want      string
	}
	for name, c := range map[string]struct {
		perUser int64
		reqs    []req
	}{
		"one key twice":           {2, []req{{"ann", "1", 1, "sold"}, {"ann", "1", 1, "sold again"}, {"ann", "1", 1, "sold again"}}},
		"two keys within a limit": {2, []req{{"ann", "1", 1, "sold"}, {"ann", "2", 1, "sold"}, {"ann", "3", 1, "limit_reached"}}},
		"two keys above a limit":  {1, []req{{"ann", "1", 1, "sold"}, {"ann", "2", 1, "limit_reached"}, {"bob", "2", 1, "sold"}}},
		"more than the limit":     {2, []req{{"ann", "1", 3, "limit_reached"}, {"ann", "1", 2, "sold"}}},
		"a key for another ask":   {3, []req{{"ann", "1", 1, "sold"}, {"ann", "1", 2, "key_reused"}, {"bob", "1", 2, "sold"}}},
		"keys are a user's own":   {1, []req{{"ann", "1", 1, "sold"}, {"bob", "1", 1, "sold"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.perUser, 9)
			h := w.serving("first")
			before := w.slots(0)
			var asked []*asked
			for _, r := range c.reqs {
				asked = append(asked, h.ask(r.user, r.key, r.quantity))
			}
			w.settle()
			for i, r := range c.reqs {
				asked[i].want(t, r.want)
				if a := asked[i].answer; a.Outcome == api.LimitReached && len(a.Claims) == 0 && i > 0 && r.quantity == 1 {
					t.Errorf("%v: the limit is reached by nothing", r)
				}
			}
			if n := w.slots(0) - before; n != 1 {
				t.Errorf("%d commits, want them all in one", n)
			}
		})
	}
}

// TestRemembered asks again what has been in the log before.
func TestRemembered(t *testing.T) {
	w := newWorld(t, 2, 9)
	h := w.serving("first")
	first := h.ask("ann", "1", 2)
	w.settle()
	for _, h := range []*host{h, w.serving("second")} {
		same, other, more := h.ask("ann", "1", 2), h.ask("ann", "1", 1), h.ask("ann", "2", 1)
		slots := w.slots(0)
		w.settle()
		same.want(t, "sold again")
		other.want(t, "key_reused")
		more.want(t, "limit_reached")
		if same.answer.Claim.ID != first.answer.Claim.ID {
			t.Errorf("asked again it is claim %v, was %v", same.answer.Claim.ID, first.answer.Claim.ID)
		}
		if c := more.answer.Claims; len(c) != 1 || c[0].ID != first.answer.Claim.ID || len(c[0].Units) != 2 {
			t.Errorf("the limit was reached by %v", c)
		}
		if w.slots(0) != slots {
			t.Error("answers from memory were appended")
		}
	}
	// In one commit with somebody who gets a unit.
	h = w.hosts[1]
	other, same := h.ask("bob", "1", 1), h.ask("ann", "1", 2)
	w.settle()
	other.want(t, "sold")
	same.want(t, "sold again")
	if same.answer.Claim.ID != first.answer.Claim.ID {
		t.Errorf("beside another it is claim %v, was %v", same.answer.Claim.ID, first.answer.Claim.ID)
	}
	// Its key is of the process alone: it was decided before, and nobody heard.
	same = h.request(request.Request{User: "ann", Quantity: 2})
	w.settle()
	same.want(t, "sold")
}

func TestClaimsAtTheirTime(t *testing.T) {
	at := func(d time.Duration) int64 { return time.Unix(1_800_000_000, 0).Add(d).UnixMicro() }
	for name, c := range map[string]struct {
		settings *pb.Settings
		now      string
		retry    time.Duration
		later    string // after a minute
	}{
		"open":             {&pb.Settings{Phase: pb.Phase_OPEN}, "sold", 0, "sold"},
		"paused":           {&pb.Settings{Phase: pb.Phase_PAUSED}, "paused", time.Second, "paused"},
		"closed":           {&pb.Settings{Phase: pb.Phase_CLOSED}, "closed", 0, "closed"},
		"not open yet":     {&pb.Settings{Phase: pb.Phase_OPEN, OpensAtUs: at(30 * time.Second)}, "not_open", 30 * time.Second, "sold"},
		"opening just now": {&pb.Settings{Phase: pb.Phase_OPEN, OpensAtUs: at(0)}, "sold", 0, "sold"},
		"until later":      {&pb.Settings{Phase: pb.Phase_OPEN, ClosesAtUs: at(30 * time.Second)}, "sold", 0, "closed"},
		"until just now":   {&pb.Settings{Phase: pb.Phase_OPEN, ClosesAtUs: at(0)}, "closed", 0, "closed"},
	} {
		t.Run(name, func(t *testing.T) {
			c.settings.PerUserLimit = 1
			w := newWorldAs(t, c.settings, 9)
			h := w.serving("first")
			now := h.ask("ann", "1", 1)
			w.settle()
			now.want(t, c.now)
			if now.answer.RetryAfter != c.retry {
				t.Errorf("retry after %v, want %v", now.answer.RetryAfter, c.retry)
			}
			w.pass(time.Minute)
			later := h.ask("bob", "1", 1)
			w.settle()
			later.want(t, c.later)
		})
	}
}

// TestNoUnitsLeft tells for good from for now: only when everything that the
// newest generation has is sold may sold_out be said.
func TestNoUnitsLeft(t *testing.T) {
	t.Run("all sold", func(t *testing.T) {
		w := newWorld(t, 1, 1, 1)
		h := w.serving("first")
		h.ask(w.buyer(0, 0), "1", 1)
		h.ask(w.buyer(1, 0), "1", 1)
		w.settle()
		late := h.ask(w.buyer(0, 1), "1", 1)
		w.settle()
		late.want(t, "sold_out")
	})
	t.Run("the last unit and one more, in one commit", func(t *testing.T) {
		w := newWorld(t, 1, 1)
		h := w.serving("first")
		x, y := h.ask("ann", "1", 1), h.ask("bob", "1", 1)
		w.settle()
		x.want(t, "sold")
		y.want(t, "sold_out") // and not none_now: it is answered when the commit is there
	})
	t.Run("one left and two wanted", func(t *testing.T) {
		w := newWorld(t, 2, 1, 1)
		h := w.serving("first")
		h.ask(w.buyer(0, 0), "1", 1)
		w.settle()
		late := h.ask(w.buyer(0, 1), "1", 2)
		w.settle()
		late.want(t, "none_now")
		if late.answer.RetryAfter == 0 {
			t.Error("none_now does not say when to ask again")
		}
	})
	t.Run("another shard is not known yet", func(t *testing.T) {
		w := newWorld(t, 1, 1, 1)
		h := w.host("first", nil)
		for h.actors[0].q.mode != serving {
			h.actors[0].call()
		}
		h.ask(w.buyer(0, 0), "1", 1)
		late := h.ask(w.buyer(0, 1), "1", 1)
		for h.actors[0].turn() {
		}
		late.want(t, "none_now")
	})
	t.Run("a newer generation is planned", func(t *testing.T) {
		w := newWorld(t, 1, 1)
		h := w.serving("first")
		h.ask("ann", "1", 1)
		w.settle()
		if !h.totals.soldOut.Load() {
			t.Fatal("all is sold and the board does not say so")
		}
		// The sale's log has it; the shard has not been told what it brings.
		h.totals.Generation(2)
		late := h.ask("bob", "1", 1)
		w.settle()
		late.want(t, "none_now")
	})
	t.Run("all are sold while somebody waits, who asks again", func(t *testing.T) {
		w := newWorld(t, 1, 1, 1)
		w.mail = func(m Message) int {
			if m.Kind == Want {
				return 0
			}
			return 1
		}
		h := w.serving("first")
		h.ask(w.buyer(0, 0), "1", 1)
		w.settle()
		first := h.ask(w.buyer(0, 1), "1", 1) // which shard 1 does not hear of
		h.ask(w.buyer(1, 0), "1", 1)
		w.settle()
		first.want(t, "")
		again := h.ask(w.buyer(0, 1), "1", 1)
		w.settle()
		first.want(t, "sold_out") // and not only the second: the first might be sold a unit yet
		again.want(t, "sold_out")
	})
	t.Run("units are on the way to a shard that is gone", func(t *testing.T) {
		w := newWorld(t, 9, 1, 1)
		w.mail = func(m Message) int {
			if m.Kind == Sent {
				return 0
			}
			return 1
		}
		h := w.serving("first")
		h.ask(w.buyer(0, 0), "1", 1)
		h.ask(w.buyer(0, 1), "1", 1) // takes the unit of shard 1, and does not get it
		w.pass(100 * time.Millisecond)
		late := h.ask(w.buyer(1, 0), "1", 1)
		w.pass(10 * time.Second)
		late.want(t, "none_now")
		w.mail = nil
	})
}

func TestPendingGenerationsComeFirst(t *testing.T) {
	t.Run("units and a higher limit", func(t *testing.T) {
		w := newWorld(t, 1, 1)
		h := w.serving("first")
		h.ask("ann", "1", 1)
		w.settle()
		saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { p.Settings.PerUserLimit = 2; saletest.Deal(p, 0, 1) })
		more := h.ask("ann", "2", 1)
		h.plans()
		w.settle()
		more.want(t, "sold")
		late := h.ask("bob", "1", 1)
		w.settle()
		late.want(t, "sold_out")
	})
	t.Run("units for who waits for another shard's", func(t *testing.T) {
		w := newWorld(t, 9, 0, 9)
		w.mail = func(Message) int { return 0 }
		h := w.serving("first")
		x := h.ask(w.buyer(0, 0), "1", 1)
		w.settle()
		x.want(t, "")
		saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { saletest.Deal(p, 0, 1) })
		h.plans()
		w.settle()
		x.want(t, "sold")
	})
	t.Run("one that does not fit the log", func(t *testing.T) {
		w := newWorld(t, 9, 5)
		w.ruins = true
		h := w.serving("first")
		slots := w.slots(0)
		a := h.actors[0]
		x := h.ask("ann", "1", 1)
		a.step(func(q *sequencer) {
			q.generations = append(q.generations, &pb.Generation{Number: 2, Add: []*pb.Range{{First: 5, Count: 2}}})
		})
		w.settle()
		x.want(t, "no_quorum")
		if a.q.mode != stopped || a.q.why == nil || w.slots(0) != slots {
			t.Errorf("mode %d, %v, %d slots", a.q.mode, a.q.why, w.slots(0))
		}
	})
	t.Run("two of them, the second a pause", func(t *testing.T) {
		w := newWorld(t, 1, 5)
		h := w.serving("first")
		saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { saletest.Deal(p, 0, 1) })
		saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { p.Settings.Phase = pb.Phase_PAUSED })
		x := h.ask("ann", "1", 1)
		h.plans()
		w.settle()
		x.want(t, "paused")
		if s := saletest.LoadShard(t, w.logs, 0, 1); s.Generation != 3 || s.Available != 6 {
			t.Errorf("the shard is at %+v", s.Totals)
		}
	})
	t.Run("while an append is under way", func(t *testing.T) {
		w := newWorld(t, 1, 5)
		h := w.serving("first")
		before := h.ask("ann", "1", 1)
		h.actors[0].step(nil)
		saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { p.Settings.Phase = pb.Phase_CLOSED })
		h.plans()
		after := h.ask("bob", "1", 1)
		w.settle()
		before.want(t, "sold")
		after.want(t, "closed")
	})
}

func TestWithdrawn(t *testing.T) {
	w := newWorld(t, 1, 9)
	h := w.serving("first")
	a := h.actors[0]
	early := h.ask("ann", "1", 1)
	if !early.withdraw() {
		t.Fatal("a request that waits cannot be withdrawn")
	}
	taken := h.ask("bob", "1", 1)
	a.step(nil)
	if taken.withdraw() {
		t.Fatal("a request that is being appended was withdrawn")
	}
	queued := h.ask("cid", "1", 1)
	if !queued.withdraw() {
		t.Fatal("a request behind a commit under way cannot be withdrawn")
	}
	// The planner gets in between: what was taken waits again, and may go
	// before it is decided again.
	saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { p.Settings.PerUserLimit = 2 })
	saletest.Take(t, w.logs, w.sale, 0)
	a.call()
	reply := a.under.Do(context.Background(), a.logs)
	a.under = nil
	a.q.storeReplied(w.now, reply)
	if !taken.withdraw() {
		t.Fatal("a request that waits for another decision cannot be withdrawn")
	}
	w.settle()
	if s := saletest.LoadShard(t, w.logs, 0, 1); s.Claims() != 0 {
		t.Errorf("%d claims were accepted", s.Claims())
	}
}

func TestWithdrawnWhileShort(t *testing.T) {
	w := newWorld(t, 9, 0, 9)
	w.mail = func(Message) int { return 0 }
	h := w.serving("first")
	x := h.ask(w.buyer(0, 0), "1", 1)
	w.settle()
	x.want(t, "")
	if !x.withdraw() {
		t.Fatal("a request that waits for units cannot be withdrawn")
	}
	w.mail = nil
	w.pass(5 * time.Second)
}
