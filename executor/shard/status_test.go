package shard

import (
	"fmt"
	"testing"

	"salectl/api"
	"salectl/backends/clock"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/executor/request"
)

// lockedQueue fails a test if it is called while the state is locked.
type lockedQueue struct {
	NodeQueue

	t     *testing.T
	shard *Shard
	calls int
}

func (f *lockedQueue) check() {
	f.calls++
	if !f.shard.state.TryLock() {
		f.t.Error("the node queue is called while the state is locked")
		return
	}
	f.shard.state.Unlock()
}

func (f *lockedQueue) State(clock.Now) NodeState {
	f.check()
	return NodeState{Waiting: 3, Unlogged: 2}
}

// A node queue calls Recall under its own lock: a status that locked the state
// and then called the queue could deadlock with it.
func TestStatusCallsTheNodeQueueWithoutTheState(t *testing.T) {
	s := New(Config{Shard: 1, Log: "log", Totals: NewSaleTotals(2), Clock: func() clock.Now { return clock.Now{} }})
	f := &lockedQueue{t: t, shard: s}
	s.nodeQueue, s.Listed = f, true
	if v := s.Status(); v.Shard != 1 || v.Queue != 3 || v.Undrained != 2 || f.calls != 2 {
		t.Errorf("after %d calls: %+v", f.calls, v)
	}
}

// A page has at most PageBytes when its owner returns it, whoever has asked.
func TestUserPageBytes(t *testing.T) {
	const quantity = api.MaxQuantity
	w := newWorldAs(t, &pb.Settings{PerUserLimit: 60 * quantity, Phase: pb.Phase_OPEN}, 60*quantity)
	h := w.serving("one")
	for i := range 60 {
		h.ask("ada", fmt.Sprint(i), quantity)
	}
	w.settle()
	s := &Shard{ledgerView: ledgerView{seq: h.actors[0].q}}
	var pages []int
	for page := (api.Page{}); ; {
		a := s.Lookup(&request.Query{User: "ada", Page: page})
		claims, next, ok := a.Claims, a.Next, a.Outcome == ""
		var size int64
		for _, c := range claims {
			size += c.Size()
		}
		if !ok || size > request.PageBytes || next != "" && size+claims[0].Size() <= request.PageBytes {
			t.Fatalf("a page of %d claims has %d bytes, %v", len(claims), size, ok)
		}
		pages = append(pages, len(claims))
		if page.Before = next; next == "" {
			break
		}
	}
	if len(pages) != 2 || pages[0]+pages[1] != 60 {
		t.Errorf("the pages have %d claims", pages)
	}
}
