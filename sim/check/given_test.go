package check

import (
	"bytes"
	"testing"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// parted is a sale whose claims may get a part: 3 units on each shard, 2 a user.
func parted(t testing.TB) *world {
	w := newWorld(t)
	w.partial, w.said = true, `{"perUserLimit":2,"partial":true}`
	w.plan(0, 0, pb.Phase_OPEN)
	return w
}

// part is a claim that gets what there is.
func (w *world) part(user, key string, quantity int64) {
	w.t.Helper()
	op := w.invoke(user, key, quantity)
	w.append(spec.HomeShard(user, shards), func(d *ledger.Draft) {
		if v := d.DecideClaim(ledger.Ruling{}, user, key, quantity, ledger.Demand{Partial: true}); v.Kind != ledger.Granted {
			w.t.Fatalf("verdict %d on %s", v.Kind, user)
		}
	})
	all := w.claims(user)
	w.answer(op, Answer{Outcome: api.Sold, Claim: all[len(all)-1]})
}

// partOf is a claim of so many units asked for.
func partOf(user, key string, asked uint32, units ...int64) *pb.Op {
	op := claimOf(user, key, units...)
	op.GetClaim().Requested = asked
	return op
}

func TestToleratedParts(t *testing.T) {
	for name, do := range map[string]func(w *world){
		"what the limit leaves": func(w *world) {
			a := w.user(0)
			w.part(a, "k", 5)
			w.refuse(a, "k", 2, api.KeyReused)
			w.refuse(a, "l", 1, api.LimitReached)
			w.answer(w.invoke(a, "k", 5), Answer{Outcome: api.Sold, Claim: w.claims(a)[0], Replayed: true})
			w.read(a)
		},
		"what the limit leaves of what there was before": func(w *world) {
			a := w.user(0)
			w.part(a, "k", 1)
			w.part(a, "l", 2)
		},
		"what there is": func(w *world) {
			w.part(w.user(0), "k", 2)
			w.part(w.user(0), "k", 2)
			w.refuse(w.user(0), "k", 2, api.NoneNow)
		},
		"of no key": func(w *world) {
			w.invoke("user-x", "", 5)
			a := w.user(0)
			w.invoke(a, "", 5)
			w.append(0, func(d *ledger.Draft) { d.DecideClaim(ledger.Ruling{}, a, "minted", 5, ledger.Demand{Partial: true}) })
		},
		"all or nothing again": func(w *world) {
			w.partial, w.said = false, `{"perUserLimit":2}`
			w.plan(0, 0, pb.Phase_OPEN)
			w.buy(w.user(0), "k", 2)
			w.refuse(w.user(0), "k", 2, api.NoneNow)
			w.refuse(w.user(0), "k", 3, api.LimitReached)
		},
		"told in an export": func(w *world) {
			w.part(w.user(0), "k", 5)
			w.close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := parted(t)
			do(w)
			for _, p := range Check(w.h) {
				t.Error(p)
			}
		})
	}
}

// partialFaults are what is found where claims get a part.
var partialFaults = map[string]planted{
	"a part in a sale that gives none": {newWorld, func(w *world) {
		a := w.user(0)
		w.invoke(a, "k", 3)
		w.plantOp(partOf(a, "k", 3, 1, 2))
	}, "given"},
	"fewer asked for than given": {parted, func(w *world) {
		a := w.user(0)
		w.invoke(a, "k", 2)
		w.plantOp(partOf(a, "k", 1, 1, 2))
	}, "given"},
	"as many asked for as given": {parted, func(w *world) {
		a := w.user(0)
		w.invoke(a, "k", 2)
		w.plantOp(partOf(a, "k", 2, 1, 2))
	}, "given"},
	"a part where there is more": {parted, func(w *world) {
		a := w.user(0)
		w.invoke(a, "k", 2)
		w.plantOp(partOf(a, "k", 2, 1))
	}, "given"},
	"a part of which too few are told": {parted, func(w *world) {
		a := w.user(0)
		w.part(a, "k", 5)
		e := w.event(func(e *Event) bool { return e.Kind == ClaimReturned })
		e.Answer.Claim.Requested = 4
	}, "given answers requests"},
	"a part of which nobody is told": {parted, func(w *world) {
		a := w.user(0)
		w.part(a, "k", 5)
		e := w.event(func(e *Event) bool { return e.Kind == ClaimReturned })
		e.Answer.Claim.Requested = 0
	}, "given answers requests"},
	"all told of as a part": {parted, func(w *world) {
		a := w.user(0)
		w.buy(a, "k", 2)
		e := w.event(func(e *Event) bool { return e.Kind == ClaimReturned })
		e.Answer.Claim.Requested = 2
	}, "given answers requests"},
	"fewer given than asked for, and not noted": {parted, func(w *world) {
		a := w.user(0)
		w.refuse(a, "none", 0, api.BadRequest)
		op := w.invoke(a, "k", 3)
		w.answer(op, Answer{Outcome: api.Sold, Claim: w.store(a, "k", 2)})
	}, "given answers requests"},
	"none where there is one": {parted, func(w *world) {
		w.part(w.user(0), "k", 2)
		w.refuse(w.user(0), "k", 2, api.NoneNow)
	}, "refusals"},
	"the limit reached by one who may have another": {parted, func(w *world) {
		a := w.user(0)
		w.part(a, "k", 1)
		w.refuse(a, "l", 2, api.LimitReached)
	}, "refusals"},
	"a declared part that is not in force": {parted, func(w *world) {
		w.partial = false
		w.plan(0, 0, pb.Phase_OPEN)
	}, "settings"},
	"another key of the quantity that was given": {parted, func(w *world) {
		a := w.user(0)
		w.part(a, "k", 5)
		w.refuse(a, "k", 5, api.KeyReused)
	}, "refusals"},
	"an export without what was asked for": {parted, func(w *world) {
		w.part(w.user(0), "k", 5)
		w.close()
		e := &w.h.Exports[0]
		e.Bytes = bytes.Replace(e.Bytes, []byte(`,"requested":5`), nil, 1)
	}, "ending exports"},
}
