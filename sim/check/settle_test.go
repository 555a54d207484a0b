package check

import (
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
)

// paid is a sale whose claims are held for a second, and extended by as much.
func paid(t testing.TB) *world {
	w := newWorld(t)
	w.payment = &pb.Payment{HoldForUs: 1e6, GraceUs: 1e5, ExtendByUs: 1e6, Late: pb.Payment_RESELL}
	w.plan(0, 0, pb.Phase_OPEN)
	return w
}

// reserve has a user of shard 0 given units that are held.
func (w *world) reserve(user, key string, quantity int64) (c ledger.Claim) {
	w.t.Helper()
	op := w.invoke(user, key, quantity)
	w.append(0, func(d *ledger.Draft) { d.Claim(user, key, quantity) })
	c, _ = w.shards[0].Find(user, key)
	w.answer(op, Answer{Outcome: api.Held, Claim: w.claims(user)[len(w.claims(user))-1]})
	return c
}

// does has what a draft says of a claim appended, and told to whoever asked for it.
func (w *world) does(c ledger.Claim, how api.Outcome, payment string, a Answer, do func(d *ledger.Draft)) {
	w.t.Helper()
	op := w.h.Op()
	w.h.Record(w.pass(), Event{Kind: SettleInvoked, Op: op, User: c.User, Claim: c.ID(0), How: how, Payment: payment})
	if do != nil {
		w.append(0, do)
	}
	w.h.Record(w.pass(), Event{Kind: SettleReturned, Op: op, Answer: a})
}

// released lets the time pass at which a hold of now is released.
func (w *world) released() { w.at += 2 * time.Second }

// unpaid has a user cancel one claim in a sale that allows a number of them.
func (w *world) unpaid(user string, most int64) {
	w.payment.UnpaidPerUser = most
	w.plan(0, 0, pb.Phase_OPEN)
	c := w.reserve(user, "k", 1)
	w.does(c, api.Cancelled, "", Answer{Outcome: api.Cancelled}, func(d *ledger.Draft) { d.Cancel(c, "ann", "why") })
}

func (w *world) confirm(c ledger.Claim, payment string) {
	w.does(c, api.Sold, payment, Answer{Outcome: api.Sold}, func(d *ledger.Draft) { d.Confirm(c, payment) })
}

func (w *world) plantSettle(c ledger.Claim, how pb.Settle_How, change func(op *pb.Settle)) {
	op := &pb.Settle{Slot: c.Slot, Index: uint32(c.Index), How: how}
	if change != nil {
		change(op)
	}
	w.plantOp(&pb.Op{Op: &pb.Op_Settle{Settle: op}})
}

// TestToleratedSettlements has claims settled in all ways that are right.
func TestToleratedSettlements(t *testing.T) {
	for name, do := range map[string]func(w *world){
		"paid": func(w *world) { w.confirm(w.reserve(w.user(0), "k", 1), "p") },
		"paid twice": func(w *world) {
			c := w.reserve(w.user(0), "k", 1)
			w.confirm(c, "p")
			w.does(c, api.Sold, "q", Answer{Outcome: api.NotHeld, RefundDue: true}, func(d *ledger.Draft) { d.Late(c, "q") })
		},
		"cancelled": func(w *world) {
			c := w.reserve(w.user(0), "k", 1)
			w.does(c, api.Cancelled, "", Answer{Outcome: api.Cancelled}, func(d *ledger.Draft) { d.Cancel(c, "ann", "why") })
			w.does(c, api.Sold, "p", Answer{Outcome: api.Cancelled, RefundDue: true}, func(d *ledger.Draft) { d.Late(c, "p") })
		},
		"extended": func(w *world) {
			c := w.reserve(w.user(0), "k", 1)
			w.does(c, api.Held, "", Answer{Outcome: api.Held}, func(d *ledger.Draft) { d.Extend(c) })
			w.at += 1500 * time.Millisecond
			w.confirm(c, "p")
		},
		"refunded, and bought anew": func(w *world) {
			a := w.user(0)
			c := w.reserve(a, "k", 2)
			w.does(c, api.Refunded, "", Answer{Outcome: api.NotSold}, nil)
			w.confirm(c, "p")
			w.does(c, api.Refunded, "", Answer{Outcome: api.Refunded}, func(d *ledger.Draft) { d.Refund(c, "ann", "why", false) })
			w.does(c, api.Sold, "p", Answer{Outcome: api.Refunded}, nil)
			w.reserve(a, "l", 2)
			w.does(c, api.Returned, "q", Answer{Outcome: api.NotDue}, nil)
			w.does(c, api.Returned, "p", Answer{Outcome: api.Returned}, func(d *ledger.Draft) { d.Return(c, "p", "ann", "why") })
			w.does(c, api.Returned, "p", Answer{Outcome: api.Returned}, nil)
		},
		"expired, and resold": func(w *world) {
			c := w.reserve(w.user(0), "k", 1)
			w.released()
			w.append(0, func(d *ledger.Draft) { d.Expire(c) })
			w.does(c, api.Held, "", Answer{Outcome: api.Expired}, nil)
			w.does(c, api.Sold, "p", Answer{Outcome: api.Sold}, func(d *ledger.Draft) { d.Late(c, "p") })
		},
		"expired, of a request without a key": func(w *world) {
			a := w.user(0)
			op := w.invoke(a, "", 1)
			slot := w.storeHeld(0, a, "minted", 1, time.Second)
			c, _ := w.shards[0].ClaimAt(slot, 0)
			w.released()
			w.append(0, func(d *ledger.Draft) { d.Expire(c) })
			w.answer(op, Answer{Outcome: api.Expired})
		},
		"of no process": func(w *world) {
			c := w.reserve(w.user(0), "k", 1)
			w.does(c, api.Sold, "p", Answer{Outcome: api.Standby}, nil)
			w.does(c, api.Sold, "p", Answer{Outcome: Lost}, nil)
		},
		"cancelled, up to the bound": func(w *world) {
			a := w.user(0)
			w.unpaid(a, 1)
			w.refuse(a, "l", 1, api.LimitReached)
		},
		"expired up to the bound, and resold": func(w *world) {
			a := w.user(0)
			w.payment.UnpaidPerUser = 1
			w.plan(0, 0, pb.Phase_OPEN)
			c := w.reserve(a, "k", 1)
			w.released()
			w.append(0, func(d *ledger.Draft) { d.Expire(c) })
			w.does(c, api.Sold, "p", Answer{Outcome: api.Sold}, func(d *ledger.Draft) { d.Late(c, "p") })
			w.reserve(a, "l", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := paid(t)
			do(w)
			for _, p := range Check(w.h) {
				t.Error(p)
			}
		})
	}
}

// settlementFaults are planted into what became of claims.
var settlementFaults = map[string]planted{
	"a claim sold at once where claims are held": {paid, func(w *world) {
		a := w.user(0)
		w.invoke(a, "k", 1)
		w.plant(0, new(pb.Commit), claimOf(a, "k", 1))
	}, "units"},
	"a settlement of no kind": {paid, func(w *world) {
		w.plantSettle(w.reserve(w.user(0), "k", 1), 99, nil)
	}, "units"},
	"a hold extended twice": {paid, func(w *world) {
		c := w.reserve(w.user(0), "k", 1)
		w.does(c, api.Held, "", Answer{Outcome: api.Held}, func(d *ledger.Draft) { d.Extend(c) })
		w.plantSettle(c, pb.Settle_EXTEND, func(op *pb.Settle) { op.HeldUntilUs = c.HeldUntilUs + 2e6 })
	}, "units"},
	"a payment of a hold that is owed back": {paid, func(w *world) {
		c := w.reserve(w.user(0), "k", 1)
		w.does(c, api.Sold, "p", Answer{Outcome: api.Unknown}, nil)
		w.plantSettle(c, pb.Settle_REFUND_DUE, func(op *pb.Settle) { op.Payment = "p" })
	}, "units"},
	"another payment of a refunded claim that is not owed back": {paid, func(w *world) {
		c := w.reserve(w.user(0), "k", 1)
		w.confirm(c, "p")
		w.does(c, api.Refunded, "", Answer{Outcome: api.Refunded}, func(d *ledger.Draft) { d.Refund(c, "ann", "why", false) })
		w.does(c, api.Sold, "q", Answer{Outcome: api.Refunded}, nil)
	}, "settlements"},
	"a refund that names another payment": {paid, func(w *world) {
		c := w.reserve(w.user(0), "k", 1)
		w.confirm(c, "p")
		w.plantSettle(c, pb.Settle_REFUND, nil)
	}, "units"},
	"a payment paid back that nobody owes": {paid, func(w *world) {
		c := w.reserve(w.user(0), "k", 1)
		w.confirm(c, "p")
		w.plantSettle(c, pb.Settle_RETURNED, func(op *pb.Settle) { op.Payment = "p" })
	}, "units"},
	"a payment paid back twice": {paid, func(w *world) {
		c := w.reserve(w.user(0), "k", 1)
		w.does(c, api.Cancelled, "", Answer{Outcome: api.Cancelled}, func(d *ledger.Draft) { d.Cancel(c, "ann", "why") })
		w.does(c, api.Sold, "p", Answer{Outcome: api.Cancelled, RefundDue: true}, func(d *ledger.Draft) { d.Late(c, "p") })
		w.does(c, api.Returned, "p", Answer{Outcome: api.Returned}, func(d *ledger.Draft) { d.Return(c, "p", "ann", "why") })
		w.plantSettle(c, pb.Settle_RETURNED, func(op *pb.Settle) { op.Payment = "p" })
	}, "units"},
	"a return that is not recorded": {paid, func(w *world) {
		c := w.reserve(w.user(0), "k", 1)
		w.confirm(c, "p")
		w.does(c, api.Refunded, "", Answer{Outcome: api.Refunded}, func(d *ledger.Draft) { d.Refund(c, "ann", "why", false) })
		w.does(c, api.Returned, "p", Answer{Outcome: api.Returned}, nil)
	}, "settlements"},
	"a return refused of what is owed": {paid, func(w *world) {
		c := w.reserve(w.user(0), "k", 1)
		w.confirm(c, "p")
		w.does(c, api.Refunded, "", Answer{Outcome: api.Refunded}, func(d *ledger.Draft) { d.Refund(c, "ann", "why", false) })
		w.reserve(w.user(0), "k", 1) // so that the owner has read the slot of the refund
		w.does(c, api.Returned, "p", Answer{Outcome: api.NotDue}, nil)
	}, "settlements"},
	"a hold refunded": {paid, func(w *world) {
		w.plantSettle(w.reserve(w.user(0), "k", 1), pb.Settle_REFUND, nil)
	}, "units"},
	"a hold resold": {paid, func(w *world) {
		c := w.reserve(w.user(0), "k", 1)
		w.plantSettle(c, pb.Settle_RESELL, func(op *pb.Settle) { op.Units = c.Units })
	}, "units"},
	"a claim resold beyond its user's limit": {paid, func(w *world) {
		a := w.user(0)
		c := w.reserve(a, "k", 1)
		w.released()
		w.append(0, func(d *ledger.Draft) { d.Expire(c) })
		w.reserve(a, "l", 2)
		w.plantSettle(c, pb.Settle_RESELL, func(op *pb.Settle) { op.Units = []int64{3} })
	}, "units"},
	"a claim resold with more units": {paid, func(w *world) {
		c := w.reserve(w.user(0), "k", 1)
		w.released()
		w.append(0, func(d *ledger.Draft) { d.Expire(c) })
		w.plantSettle(c, pb.Settle_RESELL, func(op *pb.Settle) { op.Units = []int64{1, 2} })
	}, "units answers requests"},
	"a payment that nobody has told of": {paid, func(w *world) {
		c := w.reserve(w.user(0), "k", 1)
		w.append(0, func(d *ledger.Draft) { d.Confirm(c, "p") })
	}, "settlements"},
	"a payment that has bought its claim and is owed back": {paid, func(w *world) {
		c := w.reserve(w.user(0), "k", 1)
		w.confirm(c, "p")
		w.plantSettle(c, pb.Settle_REFUND_DUE, func(op *pb.Settle) { op.Payment = "p" })
	}, "units settlements"},
	"a payment confirmed that the ledger lacks": {paid, func(w *world) {
		w.does(w.reserve(w.user(0), "k", 1), api.Sold, "p", Answer{Outcome: api.Sold}, nil)
	}, "settlements"},
	"a payment refused and not owed back": {paid, func(w *world) {
		c := w.reserve(w.user(0), "k", 1)
		w.released()
		w.append(0, func(d *ledger.Draft) { d.Expire(c) })
		w.does(c, api.Sold, "p", Answer{Outcome: api.Expired}, nil)
	}, "settlements"},
	"a claim told to be held that has expired long ago": {paid, func(w *world) {
		a := w.user(0)
		c := w.reserve(a, "k", 1)
		told := w.claims(a)[0]
		w.released()
		w.append(0, func(d *ledger.Draft) { d.Expire(c) })
		w.reserve(w.user(0), "k", 1)
		w.answer(w.invoke(a, "k", 1), Answer{Outcome: api.Held, Claim: told, Replayed: true})
	}, "answers"},
	"a claim told to have expired that is held": {paid, func(w *world) {
		a := w.user(0)
		w.reserve(a, "k", 1)
		w.answer(w.invoke(a, "k", 1), Answer{Outcome: api.Expired})
	}, "refusals"},
	"a claim told to have expired, of a request without a key that came later": {paid, func(w *world) {
		a := w.user(0)
		c := w.reserve(a, "k", 1)
		w.released()
		w.append(0, func(d *ledger.Draft) { d.Expire(c) })
		w.answer(w.invoke(a, "", 1), Answer{Outcome: api.Expired})
	}, "refusals"},
	"a claim after as many cancelled ones as the sale allows": {paid, func(w *world) {
		a := w.user(0)
		w.unpaid(a, 1)
		w.invoke(a, "l", 1)
		op := claimOf(a, "l", 1)
		op.GetClaim().HeldUntilUs, op.GetClaim().GraceUs = w.at.Microseconds()+1e6, 1e5
		w.plant(0, new(pb.Commit), op)
	}, "limits"},
	"a limit said to be reached by fewer cancelled claims": {paid, func(w *world) {
		a := w.user(0)
		w.unpaid(a, 2)
		w.refuse(a, "l", 1, api.LimitReached)
	}, "refusals"},
	"a limit said to be reached by a hold that has expired long ago": {paid, func(w *world) {
		a := w.user(0)
		c := w.reserve(a, "k", 2)
		w.released()
		w.append(0, func(d *ledger.Draft) { d.Expire(c) })
		w.reserve(w.user(0), "k", 1)
		w.refuse(a, "l", 1, api.LimitReached)
	}, "refusals"},
}
