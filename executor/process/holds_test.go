package process_test

import (
	"fmt"
	"testing"
	"time"

	"salectl/api"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/executor/process"
	"salectl/executor/saletest"
	"salectl/spec"
)

// read reads the new holds of the process in service, to the end.
func (w *paidWorld) read(seen *HoldsSeen) (holds []Hold, anew bool) {
	w.t.Helper()
	for {
		some, began, more := w.s.p.NewHolds(seen, w.s.now().Wall.Add(-time.Minute))
		if holds, anew = append(holds, some...), anew || began; !more {
			return holds, anew
		}
	}
}

// Each hold is read once, with its release, by the serving process the sale.
func TestNewHolds(t *testing.T) {
	w := newPaidWorld(t, new(pb.Payment), 2, 2)
	var seen HoldsSeen
	if holds, anew := w.read(&seen); len(holds) != 0 || !anew {
		t.Fatalf("before there is any: %v, %v", holds, anew)
	}
	a, b := w.claim("ann", "1"), w.claim("bob", "1")
	w.want(w.settle(api.Confirm, b, "p1"), "sold")
	holds, anew := w.read(&seen)
	if len(holds) != 1 || anew || holds[0].ID != a.Claim.ID || holds[0].User != "ann" ||
		holds[0].Release.Sub(holds[0].HeldUntil) != grace || !holds[0].HeldUntil.Equal(a.Claim.HeldUntil) {
		t.Fatalf("got %+v, %v; want %+v", holds, anew, a.Claim)
	}
	if holds, _ := w.read(&seen); len(holds) != 0 {
		t.Errorf("read again: %+v", holds)
	}
	if h, ok := w.s.p.Unpaid(a.Claim.ID); !ok || h.ID != a.Claim.ID {
		t.Errorf("got %+v, %v", h, ok)
	}
	for _, id := range []ClaimID{b.Claim.ID, {Slot: 99}, {Shard: 9}, {Unit: 1}} {
		if h, ok := w.s.p.Unpaid(id); ok {
			t.Errorf("%v is not paid: %+v", id, h)
		}
	}
	c := w.claim("cid", "1")
	w.want(w.settle(api.Cancel, c, ""), "cancelled")
	if h, ok := w.s.p.Unpaid(c.Claim.ID); !ok || h.State != api.Cancelled || !h.HeldUntil.Equal(c.Claim.HeldUntil) {
		t.Errorf("got %+v, %v", h, ok)
	}
	w.process("second")
	w.s.die()
	w.s = w.serving()
	if holds, anew := w.read(&seen); len(holds) != 2 || anew != true || holds[0].ID != a.Claim.ID || holds[1].ID != c.Claim.ID {
		t.Errorf("after a takeover: %+v, %v", holds, anew)
	}

	// What has expired or was cancelled is read for as long as was asked.
	w.pass(holdFor + grace + 2*time.Second)
	if h, ok := w.s.p.Unpaid(a.Claim.ID); !ok || h.State != api.Expired {
		t.Errorf("got %+v, %v", h, ok)
	}
	for _, want := range []int{2, 0} {
		seen = HoldsSeen{}
		if holds, _ := w.read(&seen); len(holds) != want {
			t.Errorf("within a minute have ended: %+v, want %d", holds, want)
		}
		w.pass(time.Minute)
	}
}

// More holds than are looked at in one go are all read.
func TestManyNewHolds(t *testing.T) {
	const n = 2*process.HoldsAtOnce + 7
	w := newPaidWorld(t, new(pb.Payment), n)
	answered := 0
	w.s.input(func() {
		for i := range n {
			w.s.p.Begin(w.s.now(), Request{User: fmt.Sprint("u", i), Key: "1", Quantity: 1}, func(Answer) { answered++ })
		}
	})
	w.runUntil("all have their answers", func() bool { return answered == n })
	var seen HoldsSeen
	if holds, _ := w.read(&seen); len(holds) != n {
		t.Errorf("%d are read, want %d", len(holds), n)
	}
}

// What a generation declares is known as soon as the shards are told of it.
func TestDeclared(t *testing.T) {
	w := newPaidWorld(t, new(pb.Payment), 1)
	declared, ok := w.s.p.Declared()
	if !ok || declared.Name != "stepped" || declared.Payment != nil {
		t.Fatalf("got %+v, %v", declared, ok)
	}
	declared.Payment = &spec.Payment{HoldFor: spec.Duration(holdFor), Grace: spec.Duration(grace), Late: spec.LateRefuse,
		Webhook: &spec.PaymentWebhook{SecretsEnv: "S", Success: "true", Claim: "event"}}
	text, err := declared.JSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range [][]byte{text, []byte(`{"apiVersion":"salectl/v9"}`)} {
		saletest.Replan(t, w.logs, "stepped", func(p *pb.Planned) { p.Spec = spec })
		w.pass(3 * time.Second)
		if got, ok := w.s.p.Declared(); !ok || got.Payment == nil || got.Payment.Webhook == nil || got.Payment.Webhook.SecretsEnv != "S" {
			t.Errorf("got %+v, %v", got, ok)
		}
	}
	w.s.die()
	if declared, ok := w.process("second").p.Declared(); ok {
		t.Errorf("a process that does not serve declares %+v", declared)
	}
}
