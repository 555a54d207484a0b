package shard

import (
	"testing"
	"time"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/executor/saletest"
)

// TestReturns brings units to a shard of which is promised that none come: it waits for the
// promise's end, sleeps until then though the release of a hold has come, and makes up for
// both then.
func TestReturns(t *testing.T) {
	const hold = time.Second
	w := newWorldAs(t, &pb.Settings{
		PerUserLimit: 1, Phase: pb.Phase_OPEN, Payment: &pb.Payment{HoldForUs: hold.Microseconds(), Late: pb.Payment_REFUSE},
	}, 1, 1)
	h := w.serving("first")
	x := h.ask(w.buyer(0, 0), "1", 1)
	w.settle()
	x.want(t, "held")
	w.pass(hold - 10*time.Millisecond)
	until := w.now.Mono + promiseFor
	if !h.totals.PromiseNoReturn(w.now) {
		t.Fatal("nothing is promised")
	}
	saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { saletest.Deal(p, 0, 1) })
	h.plans()
	w.settle()
	w.move(20 * time.Millisecond)
	w.tick()
	w.settle()
	if wake := h.actors[0].wake; wake != until {
		t.Errorf("it wakes %v before the promise ends", until-wake)
	}
	w.pass(promiseFor)
	if s := saletest.LoadShard(t, w.logs, 0, 2); s.Generation != 2 || s.Held != 0 {
		t.Errorf("the shard is at %+v", s.Totals)
	}
}
