package shard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/executor/request"
	"salectl/executor/saletest"
	"salectl/spec"
)

func TestTooLarge(t *testing.T) {
	t.Run("halves the batch", func(t *testing.T) {
		w := newWorld(t, 1, 50)
		h := w.serving("first")
		w.store.SetMaxEntry(300)
		var all []*asked
		for i := range 40 {
			all = append(all, h.ask(fmt.Sprintf("buyer-%02d", i), "key", 1))
		}
		w.settle()
		for _, x := range all {
			x.want(t, "sold")
		}
		if first, last := all[0].answer.Claim.ID, all[39].answer.Claim.ID; first.Slot >= last.Slot {
			t.Errorf("40 claims of which some fit a commit are %v to %v", first, last)
		}
	})
	t.Run("to single claims", func(t *testing.T) {
		w := newWorld(t, 1, 50, 50)
		h := w.serving("first")
		w.mail = func(m Message) int { t.Errorf("with units enough a shard says %+v", m); return 1 }
		w.store.SetMaxEntry(90) // two claims have more
		var all []*asked
		for i := range 4 {
			all = append(all, h.ask(w.buyer(0, i), "key", 1))
		}
		w.settle()
		for i, x := range all {
			x.want(t, "sold")
			if i > 0 && all[i-1].answer.Claim.ID.Slot >= x.answer.Claim.ID.Slot {
				t.Errorf("claims %v and %v", all[i-1].answer.Claim.ID, x.answer.Claim.ID)
			}
		}
	})
	t.Run("when all of a commit's claims are refused then", func(t *testing.T) {
		closes := time.Unix(1_800_000_000, 0).Add(time.Second)
		w := newWorldAs(t, &pb.Settings{PerUserLimit: 1, Phase: pb.Phase_OPEN, ClosesAtUs: closes.UnixMicro()}, 50)
		h := w.serving("first")
		w.store.SetMaxEntry(90)
		x, y, z := h.ask("ann", "1", 1), h.ask("bob", "1", 1), h.ask("cid", "1", 1)
		h.actors[0].step(nil)
		w.move(time.Second) // the append takes until the sale has closed
		w.settle()
		x.want(t, "closed")
		y.want(t, "closed")
		z.want(t, "closed")
	})
	t.Run("gives up on a single claim", func(t *testing.T) {
		w := newWorld(t, 1, 50)
		h := w.serving("first")
		w.store.SetMaxEntry(60)
		x, y := h.ask("ann", "1", 1), h.ask("bob", "1", 1)
		w.settle()
		x.want(t, "no_quorum")
		y.want(t, "no_quorum")
		if q := h.actors[0].q; q.mode != stopped || !errors.Is(q.why, ledger.ErrTooLarge) {
			t.Errorf("mode %d, %v", q.mode, q.why)
		}
	})
}

// TestFull has more requests than a commit may hold.
func TestFull(t *testing.T) {
	w := newWorld(t, 1, 5000)
	h := w.serving("first")
	before := w.slots(0)
	key := strings.Repeat("k", api.MaxKey)
	var all []*asked
	for i := range 2500 {
		all = append(all, h.ask(fmt.Sprintf("%0*d", api.MaxUser, i), key, 1))
	}
	h.actors[0].step(nil)
	h.actors[0].call()
	all[0].want(t, "sold")
	all[2499].want(t, "")
	w.settle()
	for i, x := range all {
		x.want(t, "sold")
		if i > 0 && all[i-1].answer.Claim.Units[0] >= x.answer.Claim.Units[0] {
			t.Fatalf("request %d was decided before %d", i, i-1)
		}
	}
	if n := w.slots(0) - before; n != 2 {
		t.Errorf("%d commits, want 2", n)
	}
}

// TestClaimOfALaterSlot has claims asked about that can only be in a slot behind those that the
// owner has read: it says that there is none once a commit has shown that it has read all.
func TestClaimOfALaterSlot(t *testing.T) {
	t.Run("that another owner has granted", func(t *testing.T) {
		w := newWorld(t, 1, 9)
		first := w.serving("first")
		second := w.serving("second") // a lock node has given the lease away too early
		x := second.ask("ann", "1", 1)
		w.settle()
		x.want(t, "sold")
		y := first.settles(request.Settlement{Claim: x.answer.Claim.ID, How: api.Refund})
		w.settle()
		if y.want(t, "standby"); !y.answer.Elsewhere {
			t.Error("the new owner is not asked")
		}
		z := second.settles(request.Settlement{Claim: x.answer.Claim.ID, How: api.Refund})
		w.settle()
		z.want(t, "refunded")
	})
	t.Run("that nobody has granted", func(t *testing.T) {
		w := newWorld(t, 1, 9)
		h := w.serving("first")
		slots := w.slots(0)
		for _, c := range []request.ClaimID{{Slot: 99}, {Slot: uint64(slots) + 1}} {
			x, y := h.settles(request.Settlement{Claim: c, How: api.Cancel}), h.settles(request.Settlement{Claim: c, How: api.Confirm})
			w.settle()
			x.want(t, "no_such_claim")
			y.want(t, "no_such_claim")
			if slots++; w.slots(0) != slots {
				t.Errorf("%d slots, want %d", w.slots(0), slots)
			}
		}
		x := h.settles(request.Settlement{Claim: request.ClaimID{Slot: uint64(slots) - 1}, How: api.Cancel})
		w.settle()
		x.want(t, "no_such_claim")
		if n := w.slots(0); n != slots {
			t.Errorf("%d slots, want %d: the slot of that claim is read", n, slots)
		}
	})
}

// TestSlotTaken lets others write between a decision and its append.
func TestSlotTaken(t *testing.T) {
	ask := func(w *world) (*host, *asked) {
		h := w.serving("first")
		x := h.ask("ann", "1", 1)
		h.actors[0].step(nil)
		return h, x
	}
	t.Run("by a planner's pause", func(t *testing.T) {
		w := newWorld(t, 1, 9)
		_, x := ask(w)
		saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { p.Settings.Phase = pb.Phase_PAUSED })
		saletest.Take(t, w.logs, w.sale, 0)
		w.settle()
		x.want(t, "paused")
	})
	t.Run("by a planner's decrease", func(t *testing.T) {
		w := newWorld(t, 1, 9)
		h, x := ask(w)
		saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { p.Shards[0].Remove = 9 })
		saletest.Take(t, w.logs, w.sale, 0)
		h.totals.Generation(2)
		w.settle()
		x.want(t, "sold_out")
	})
	t.Run("by a planner's increase", func(t *testing.T) {
		w := newWorld(t, 1, 9)
		_, x := ask(w)
		saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { saletest.Deal(p, 0, 9) })
		saletest.Take(t, w.logs, w.sale, 0)
		w.settle()
		x.want(t, "sold")
	})
	t.Run("by a planner while units are sent", func(t *testing.T) {
		w := newWorld(t, 9, 4, 0)
		h, said := w.serving("first"), w.says()
		h.say(Message{Kind: Want, From: 1, To: 0, Lacks: 2})
		saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { saletest.Deal(p, 0, 1) })
		saletest.Take(t, w.logs, w.sale, 0)
		w.settle()
		wantSaid(t, said, Message{Kind: Sent, From: 0, To: 1, Transfer: 1})
		w.mail = nil
	})
	t.Run("by a new owner", func(t *testing.T) {
		w := newWorld(t, 1, 9)
		h, x := ask(w)
		a := h.actors[0]
		held := a.under
		a.under = nil
		second := w.serving("second")
		a.under = held
		w.settle()
		x.want(t, "standby")
		if a.q.mode != stopped || !errors.Is(a.q.why, ErrOtherOwner) {
			t.Errorf("mode %d, %v", a.q.mode, a.q.why)
		}
		late := h.ask("bob", "1", 1)
		a.step(nil)
		late.want(t, "standby")
		if s := saletest.LoadShard(t, w.logs, 0, 1); s.Claims() != 0 || s.Owner != "second:1" {
			t.Errorf("%d claims, the owner is %s", s.Claims(), s.Owner)
		}
		y := second.ask("ann", "1", 1)
		w.settle()
		y.want(t, "sold")
	})
	t.Run("by the old owner, while taking over", func(t *testing.T) {
		w := newWorld(t, 1, 9)
		_, x := ask(w)
		second := w.host("second", nil)
		a := second.actors[0]
		a.call()
		if a.q.mode != takingOver {
			t.Fatalf("mode %d", a.q.mode)
		}
		w.hosts[0].actors[0].call()
		x.want(t, "sold")
		w.settle()
		y := second.ask("bob", "1", 1)
		w.settle()
		y.want(t, "sold")
	})
	t.Run("by the end of the sale", func(t *testing.T) {
		w := newWorld(t, 1, 9)
		h, x := ask(w)
		saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { p.Settings.Phase = pb.Phase_CLOSED })
		saletest.Take(t, w.logs, w.sale, 0)
		w.seal(0)
		w.settle()
		x.want(t, "closed")
		if q := h.actors[0].q; q.mode != stopped || q.why != errSealed {
			t.Errorf("mode %d, %v", q.mode, q.why)
		}
	})
	t.Run("by a new owner while stopping", func(t *testing.T) {
		w := newWorld(t, 1, 9)
		h, x := ask(w)
		a := h.actors[0]
		h.halt(Halt{Why: errEnd, Refusal: api.Closed})
		held := a.under
		a.under = nil
		w.serving("second")
		a.under = held
		w.settle()
		x.want(t, "standby")
	})
	t.Run("by a planner while stopping", func(t *testing.T) {
		w := newWorld(t, 1, 9)
		h, x := ask(w)
		saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { saletest.Deal(p, 0, 9) })
		saletest.Take(t, w.logs, w.sale, 0)
		h.halt(Halt{Why: errEnd, Refusal: api.Closed})
		w.settle()
		x.want(t, "closed")
	})
}

// seal ends a shard's log, as a destroy does.
func (w *world) seal(shard int) {
	w.t.Helper()
	log := spec.ShardLog(saletest.UID, shard, w.shards)
	state := ledger.NewState(log)
	writer, err := ledger.Load(context.Background(), w.logs, log, state)
	if err != nil {
		w.t.Fatal(err)
	}
	d := state.Draft(saletest.Planner, saletest.PlannedUs)
	d.Seal()
	e, err := d.Encode()
	if err != nil {
		w.t.Fatal(err)
	}
	saletest.Append(w.t, w.logs, writer, e)
}

// putBack has a log end behind so many of its slots, as a copy of then does.
func putBack(t *testing.T, logs ledger.Logs, log string, slots uint64) {
	t.Helper()
	_, entries, err := logs.Read(t.Context(), log, 0, int(slots))
	if err == nil {
		err = logs.Delete(t.Context(), log, 1<<40)
	}
	state, before := ledger.NewState(log), []byte(nil)
	for slot, entry := range entries {
		if err == nil {
			err = state.Fold(entry)
		}
		head := state.Head().Encode()
		if err == nil {
			err = logs.Append(t.Context(), log, uint64(slot), before, head, entry)
		}
		before = head
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestLogUnusable is about logs that are not there, or not what they were.
func TestLogUnusable(t *testing.T) {
	t.Run("deleted under an append", func(t *testing.T) {
		w := newWorld(t, 1, 9)
		w.ruins = true
		h := w.serving("first")
		x, y := h.ask("ann", "1", 1), h.ask("bob", "1", 1)
		h.actors[0].step(nil)
		late := h.ask("cid", "1", 1)
		log := spec.ShardLog(saletest.UID, 0, 1)
		if err := w.logs.Delete(context.Background(), log, 1<<40); err != nil {
			t.Fatal(err)
		}
		w.pass(5 * time.Second)
		x.want(t, "unknown")
		y.want(t, "unknown")
		late.want(t, "no_quorum")
		if q := h.actors[0].q; !errors.Is(q.why, ledger.ErrGone) {
			t.Errorf("it stopped because %v", q.why)
		}
		if head, _, err := w.logs.Read(context.Background(), log, 0, 1); head != nil || err != nil {
			t.Errorf("the deleted log came back: %s, %v", head, err)
		}
	})
	t.Run("never created", func(t *testing.T) {
		w := newWorld(t, 1, 9)
		w.ruins = true
		if err := w.logs.Delete(context.Background(), spec.ShardLog(saletest.UID, 0, 1), 1<<40); err != nil {
			t.Fatal(err)
		}
		h := w.host("first", nil)
		x := h.ask("ann", "1", 1)
		w.settle()
		x.want(t, "no_quorum")
		if q := h.actors[0].q; !errors.Is(q.why, ledger.ErrGone) {
			t.Errorf("it stopped because %v", q.why)
		}
	})
	for name, c := range map[string]struct {
		slots uint64 // of the copy that is put back
		next  func(h *host, q *sequencer) *sequencer
		want  string
	}{
		"an older copy than this process has seen": {3, func(h *host, q *sequencer) *sequencer {
			return newSequencer(0, q.writer.Log(), []byte("me"), "me:1", h.totals)
		}, "it ends before slot 3, but this process has read 4 slots of it"},
		"an older copy than a peer has seen": {3, func(_ *host, q *sequencer) *sequencer {
			totals := NewSaleTotals(1)
			totals.Receive(Report{Next: 4})
			return newSequencer(0, q.writer.Log(), []byte("me"), "me:1", totals)
		}, "it ends before slot 3, but this process has read 4 slots of it"},
		"an older copy than what was applied": {4, func(_ *host, q *sequencer) *sequencer {
			q = newSequencer(0, q.writer.Log(), []byte("me"), "me:1", NewSaleTotals(1))
			q.minGeneration = 2
			return q
		}, "it ends with generation 1, but generation 2 was on every shard"},
		"the log as it was last": {4, func(h *host, q *sequencer) *sequencer {
			q = newSequencer(0, q.writer.Log(), []byte("me"), "me:1", h.totals)
			q.minGeneration = 1
			return q
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 9)
			w.ruins = true
			h := w.serving("first")
			for _, user := range []string{"ann", "bob"} {
				h.ask(user, "1", 1)
				w.settle()
			}
			log := h.actors[0].q.writer.Log()
			putBack(t, w.logs, log, c.slots)
			q := c.next(h, h.actors[0].q)
			q.setRights(w.now, h.actors[0].q.rights)
			for range 20 {
				if e := q.next(w.now); e.Send != nil {
					q.storeReplied(w.now, e.Send.Do(t.Context(), w.logs))
				}
			}
			head, entries, err := w.logs.Read(t.Context(), log, 0, 10)
			if err != nil || head == nil {
				t.Fatal(err)
			}
			switch ok := q.mode == serving && len(entries) == 5; {
			case c.want == "" && !ok:
				t.Errorf("mode %d, %v: %d slots", q.mode, q.why, len(entries))
			case c.want != "" && (q.mode != stopped || !errors.Is(q.why, ledger.ErrCorrupt) || !strings.Contains(q.why.Error(), c.want)):
				t.Errorf("mode %d, %v", q.mode, q.why)
			case c.want != "" && uint64(len(entries)) != c.slots:
				t.Errorf("the copy has %d slots now", len(entries))
			}
		})
	}
	t.Run("sealed", func(t *testing.T) {
		w := newWorldAs(t, &pb.Settings{PerUserLimit: 1, Phase: pb.Phase_CLOSED}, 9)
		h := w.serving("first")
		w.seal(0)
		x := w.host("second", nil).ask("ann", "1", 1)
		w.settle()
		x.want(t, "closed")
		y := h.ask("ann", "1", 1)
		w.settle()
		y.want(t, "closed")
	})
	for name, garble := range map[string]func(entry []byte) []byte{
		"garbage":        func([]byte) []byte { return []byte("garbage") },
		"another slot":   func(entry []byte) []byte { return entry },
		"nothing at all": func([]byte) []byte { return []byte{} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1, 9)
			w.ruins = true
			h := w.serving("first")
			x := h.ask("ann", "1", 1)
			h.actors[0].step(nil)
			log := spec.ShardLog(saletest.UID, 0, 1)
			head, entries, err := w.logs.Read(context.Background(), log, 1, 1)
			if err != nil {
				t.Fatal(err)
			}
			next := bytes.Replace(head, []byte(`"slot":1`), []byte(`"slot":2`), 1)
			if err := w.logs.Append(context.Background(), log, 2, head, next, garble(entries[0])); err != nil {
				t.Fatal(err)
			}
			w.settle()
			if q := h.actors[0].q; q.mode != stopped || !errors.Is(q.why, ledger.ErrCorrupt) {
				t.Errorf("mode %d, %v", q.mode, q.why)
			}
			if !x.answered || x.answer.Accepted() {
				t.Errorf("the answer is %+v", x.answer)
			}
		})
	}
}
