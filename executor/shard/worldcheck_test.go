package shard

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/executor/request"
	"salectl/executor/saletest"
	"salectl/spec"
)

// answered holds an answer to what must be true of it at this moment.
func (w *world) answered(a *actor, t *request.Ticket) {
	x := w.tickets[t]
	switch {
	case x == nil:
		w.t.Fatalf("%v answers what nobody asked", a)
	case x.answered:
		w.t.Fatalf("%v answers %v twice: %v, then %v", a, x.Request, x.answer, t.Answer)
	case x.withdrawn:
		w.t.Fatalf("%v answers %v, which was withdrawn: %v", a, x.Request, t.Answer)
	}
	x.answered, x.answer = true, t.Answer
	w.tell("%v answers %v: %s %v", a, x.Request, x.answer.Outcome, x.answer.Claim)
	if x.answer.Outcome != api.LimitReached && len(x.answer.Claims) > 0 {
		w.t.Fatalf("%v answers %v with claims: %v", a, x.Request, x.answer)
	}
	if !x.answer.Accepted() {
		return
	}
	c := x.answer.Claim
	op := w.commit(c.ID).GetOps()[c.ID.Index].GetClaim()
	if op.GetUser() != x.User || string(op.GetKey()) != x.Key || !slices.Equal(op.GetUnits(), c.Units) || int64(op.GetRequested()) != c.Requested || !op.GetEntry() && max(int64(len(c.Units)), c.Requested) != x.Quantity {
		w.t.Fatalf("%v accepts %v as %v; the ledger has %v there", a, x.Request, c, op)
	}
	if !x.answer.Replayed && !satisfies(&x.Request, c.Units, a.q.state.Settings()) {
		w.t.Fatalf("%v accepts %v, which chooses %v, adjacent: %v, as %v", a, x.Request, x.Units, x.Adjacent, c)
	}
}

// satisfies reports whether units are what a request chooses, if it does.
func satisfies(r *request.Request, units []int64, s *pb.Settings) bool {
	switch {
	case r.Units != nil:
		return slices.Equal(units, r.Units)
	case r.Adjacent:
		return slices.ContainsFunc(s.GetRows(), func(row *pb.Range) bool {
			for i, unit := range units {
				if unit != units[0]+int64(i) || unit < row.GetFirst() || unit >= row.GetFirst()+row.GetCount() {
					return false
				}
			}
			return true
		})
	}
	return true
}

// commit reads the slot of a claim.
func (w *world) commit(id request.ClaimID) *pb.Commit {
	id.Index = 0
	if c := w.commits[id]; c != nil {
		return c
	}
	_, entries, err := w.logs.Read(context.Background(), spec.ShardLog(saletest.UID, id.Shard, w.shards), id.Slot, 1)
	if err != nil || len(entries) == 0 {
		w.t.Fatalf("a claim was accepted in slot %d of shard %d, which is empty (%v)", id.Slot, id.Shard, err)
	}
	commit := new(pb.Commit)
	if err := proto.Unmarshal(entries[0], commit); err != nil {
		w.t.Fatal(err)
	}
	w.commits[id] = commit
	return commit
}

// withdraw gives the request up, if it still can be.
func (x *asked) withdraw() bool {
	if x.answered || !x.ticket.Withdraw() {
		return false
	}
	x.withdrawn = true
	return true
}

// finish stops everybody and checks what must hold in the end.
func (w *world) finish() {
	w.t.Helper()
	for _, h := range w.hosts {
		h.halt(Halt{Why: errEnd, Refusal: api.Draining})
	}
	w.pass(2 * time.Minute)
	for _, a := range w.alive() {
		if a.q.mode != stopped {
			w.t.Fatalf("%v has not stopped", a)
		}
	}
	w.store.Land()
	for _, x := range w.asked {
		if !x.answered && !x.withdrawn && !x.actor.h.dead {
			w.t.Errorf("%v has no answer", x.Request)
		}
	}
	if w.ruins {
		return
	}
	w.check()
	saletest.Audited(w.t, w.logs, w.sale)
}

// check holds all answers against the ledger.
func (w *world) check() {
	w.t.Helper()
	type identity struct{ user, key string }
	maybe := make(map[identity]bool) // may be in the ledger: told so first, or in doubt
	for _, x := range w.asked {
		if x.answer.Accepted() && !x.answer.Replayed || x.answer.Outcome == api.Unknown || !x.answered && !x.withdrawn {
			maybe[identity{x.User, x.Key}] = true
		}
	}
	var shards []*ledger.State
	for i := range w.shards {
		shards = append(shards, saletest.LoadShard(w.t, w.logs, i, w.shards))
	}
	for _, x := range w.asked {
		home := spec.HomeShard(x.User, w.shards)
		c, found := shards[home].Find(x.User, x.Key)
		switch {
		case x.answer.Accepted() && (!found || x.answer.Outcome != api.Entered && !slices.Equal(c.Units, x.answer.Claim.Units) || x.answer.Claim.ID != (request.ClaimID{Shard: home, Slot: c.Slot, Index: c.Index})):
			w.t.Errorf("%v was accepted as %v, the ledger has %v", x.Request, x.answer.Claim, c)
		case found && !maybe[identity{x.User, x.Key}]:
			w.t.Errorf("%v was answered %q (withdrawn: %v), the ledger has it at %d-%d", x.Request, x.answer.Outcome, x.withdrawn, home, c.Slot)
		}
	}
}

// want fails the test unless the request was answered so, "" for not at all;
// "again" after an outcome: as one that was accepted before.
func (x *asked) want(t testing.TB, want string) {
	t.Helper()
	got := ""
	if x.answered {
		if got = string(x.answer.Outcome); x.answer.Replayed {
			got += " again"
		}
	}
	if got != want {
		t.Errorf("%v: the answer is %q, want %q (%s)", x.Request, got, want, x.answer.Message)
	}
}

// slots returns how many slots a shard's log has.
func (w *world) slots(shard int) uint64 {
	w.t.Helper()
	return saletest.LoadShard(w.t, w.logs, shard, w.shards).Next()
}
