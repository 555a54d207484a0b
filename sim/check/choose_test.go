package check

import (
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
)

// seats is a sale whose buyers choose: the units 1 to 3 on shard 0 and 4 to 6 on shard 1, in
// rows of 2 and 4 units. It has been so for a while.
func seats(t testing.TB) *world {
	w := emptyWorld(t)
	w.choose, w.said = true, `{"perUserLimit":2,"units":{"range":["A1-A2","B8-B11"],"choose":true}}`
	w.rows = []*pb.Range{{First: 1, Count: 2}, {First: 3, Count: 4}}
	w.serve()
	w.moveUnit(0, 1, 3)
	w.moveUnit(1, 0, 3)
	w.at += 2 * grace
	return w
}

// row has the next generation declare a row of two more units.
func (w *world) row() {
	w.said = `{"perUserLimit":2,"units":{"range":["A1-A2","B8-B11","C1-C2"],"choose":true}}`
	w.rows = append(w.rows, &pb.Range{First: w.next, Count: 2})
}

// moveUnit takes a transfer of one unit all its way.
func (w *world) moveUnit(from, to int, unit int64) {
	w.t.Helper()
	must := func(err error) {
		if err != nil {
			w.t.Fatal(err)
		}
	}
	var sent ledger.Transfer
	w.append(from, func(d *ledger.Draft) {
		var err error
		sent, err = d.OutUnits(to, ledger.Units{{First: unit, Count: 1}})
		must(err)
	})
	w.append(to, func(d *ledger.Draft) { must(d.In(from, sent.K, sent.Units)) })
	w.append(from, func(d *ledger.Draft) { d.Ack(to, sent.K) })
}

// storeUnits appends a claim of particular units of shard 0.
func (w *world) storeUnits(user, key string, units ...int64) Claim {
	w.t.Helper()
	w.append(0, func(d *ledger.Draft) {
		if v := d.DecideClaim(ledger.Ruling{}, user, key, 0, ledger.Demand{Units: units}); v.Kind != ledger.Granted {
			w.t.Fatalf("verdict %d on %s", v.Kind, user)
		}
	})
	all := w.claims(user)
	return all[len(all)-1]
}

// taken has a user of a shard refused particular units, while something happens.
func (w *world) taken(shard int, meanwhile func(), units ...int64) {
	op := w.ask(w.user(shard), "k", units...)
	meanwhile()
	w.answer(op, Answer{Outcome: api.UnitsTaken})
}

// apart has a user of a shard refused adjacent units.
func (w *world) apart(shard int, meanwhile func(), quantity int64) {
	op := w.askAdjacent(w.user(shard), "k", quantity)
	meanwhile()
	w.answer(op, Answer{Outcome: api.NotAdjacent})
}

func TestToleratedChoice(t *testing.T) {
	for name, do := range map[string]func(w *world){
		"given what was chosen": func(w *world) {
			a := w.user(0)
			op := w.ask(a, "k", 1, 3)
			w.answer(op, Answer{Outcome: api.Sold, Claim: w.storeUnits(a, "k", 1, 3)})
			w.answer(w.ask(a, "k", 1, 3), Answer{Outcome: api.Sold, Claim: w.claims(a)[0], Replayed: true})
		},
		"without a key": func(w *world) {
			a := w.user(0)
			w.ask(a, "", 2)
			w.storeUnits(a, "minted", 2)
		},
		"refused for other units than its key has": func(w *world) {
			a := w.user(0)
			op := w.ask(a, "k", 1, 3)
			w.answer(op, Answer{Outcome: api.Sold, Claim: w.storeUnits(a, "k", 1, 3)})
			w.answer(w.ask(a, "k", 1, 2), Answer{Outcome: api.KeyReused})
			w.answer(w.askAdjacent(a, "k", 2), Answer{Outcome: api.KeyReused})
		},
		"any, under a key of units": func(w *world) {
			a := w.user(0)
			op := w.ask(a, "k", 1, 3)
			w.answer(op, Answer{Outcome: api.Sold, Claim: w.storeUnits(a, "k", 1, 3)})
			w.answer(w.invoke(a, "k", 2), Answer{Outcome: api.Sold, Claim: w.claims(a)[0], Replayed: true})
		},
		"adjacent ones": func(w *world) {
			a := w.user(0)
			op := w.askAdjacent(a, "k", 2)
			w.answer(op, Answer{Outcome: api.Sold, Claim: w.storeUnits(a, "k", 1, 2)})
		},
		"what somebody has":                        func(w *world) { w.buy(w.user(0), "k", 1); w.taken(0, nothing, 1, 2) },
		"what nobody sells":                        func(w *world) { w.taken(0, nothing, 2, 9) },
		"what moves":                               func(w *world) { w.taken(0, func() { w.move(1, 0, 1) }, 6) },
		"what is free later":                       func(w *world) { w.move(1, 0, 1); w.at += grace; w.taken(0, func() { w.move(0, 1, 1) }, 6) },
		"by a silent shard":                        func(w *world) { w.taken(0, func() { w.at += silence }, 6) },
		"of a shard that is taken over":            func(w *world) { w.taken(0, func() { w.succeed(1) }, 6) },
		"when its shard is taken over":             func(w *world) { w.taken(0, func() { w.succeed(0) }, 6) },
		"of a shard that has just been taken over": func(w *world) { w.succeed(0); w.succeed(1); w.taken(0, nothing, 6) },
		"by a generation that comes":               func(w *world) { w.row(); w.taken(0, func() { w.planOn(1) }, 6) },
		"when all is closed":                       func(w *world) { w.command("close", func() { w.planBy(0, pb.Phase_CLOSED) }); w.taken(0, nothing, 6) },
		"when its shard was taken over":            func(w *world) { w.succeed(0); w.taken(0, nothing, 6) },
		"what another process had nothing of": func(w *world) {
			w.buy(w.user(0), "k", 2)
			w.buy(w.user(0), "k", 1)
			w.succeed(1)
			w.at += grace - time.Second
			w.move(1, 0, 1)
			w.at += 2 * time.Second
			w.taken(1, nothing, 6)
		},
		"what somebody of its shard asks for": func(w *world) {
			other := w.ask(w.user(0), "k", 3)
			w.taken(1, nothing, 3)
			w.answer(other, Answer{Outcome: api.Unknown})
		},
		"what somebody who asks for any may have, whose commit was lost": func(w *world) {
			w.invoke(w.user(0), "k", 1)
			w.taken(1, nothing, 3)
		},
		"across two rows": func(w *world) {
			w.buy(w.user(0), "k", 1)
			w.buy(w.user(1), "k", 2)
			w.buy(w.user(1), "k", 1)
			w.apart(0, nothing, 2)
		},
		"of two shards": func(w *world) { w.apart(0, nothing, 4) },
		"when a row comes": func(w *world) {
			w.buy(w.user(0), "k", 1)
			w.buy(w.user(1), "k", 2)
			w.buy(w.user(1), "k", 1)
			w.row()
			w.apart(0, func() { w.planBy(1, pb.Phase_OPEN) }, 2)
		},
		"where any are asked for": func(w *world) {
			w.move(0, 1, 1)
			w.buy(w.user(1), "k", 2)
			w.move(1, 0, 2)
			w.at += grace
			w.invoke(w.user(0), "l", 2)
			w.apart(1, nothing, 2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := seats(t)
			do(w)
			for _, p := range Check(w.h) {
				t.Error(p)
			}
		})
	}
}

// chosenFaults are what is found where buyers choose units.
var chosenFaults = map[string]planted{
	"another unit than was asked for": {seats, func(w *world) {
		a := w.user(0)
		w.ask(a, "k", 2)
		w.plantOp(claimOf(a, "k", 1))
	}, "chosen"},
	"some of those asked for, and another": {seats, func(w *world) {
		a := w.user(0)
		w.ask(a, "", 1, 3)
		w.plantOp(claimOf(a, "minted", 1, 2))
	}, "chosen"},
	"told of another unit than was asked for": {seats, func(w *world) {
		a := w.user(0)
		w.invoke(a, "k", 1)
		w.answer(w.ask(a, "k", 2), Answer{Outcome: api.Sold, Claim: w.store(a, "k", 1)})
	}, "chosen"},
	"told again of other units than are asked for": {seats, func(w *world) {
		a := w.user(0)
		op := w.ask(a, "k", 1, 3)
		w.answer(op, Answer{Outcome: api.Sold, Claim: w.storeUnits(a, "k", 1, 3)})
		w.answer(w.ask(a, "k", 1, 2), Answer{Outcome: api.Sold, Claim: w.claims(a)[0], Replayed: true})
	}, "chosen"},
	"told again of units apart, asked for adjacent ones": {seats, func(w *world) {
		a := w.user(0)
		op := w.ask(a, "k", 1, 3)
		w.answer(op, Answer{Outcome: api.Sold, Claim: w.storeUnits(a, "k", 1, 3)})
		w.answer(w.askAdjacent(a, "k", 2), Answer{Outcome: api.Sold, Claim: w.claims(a)[0], Replayed: true})
	}, "chosen"},
	"a key reused with the units it was used for": {seats, func(w *world) {
		a := w.user(0)
		op := w.ask(a, "k", 1, 3)
		w.answer(op, Answer{Outcome: api.Sold, Claim: w.storeUnits(a, "k", 1, 3)})
		w.refuse(a, "k", 2, api.KeyReused)
		w.answer(w.ask(a, "k", 1, 3), Answer{Outcome: api.KeyReused})
	}, "refusals"},
	"a key reused with adjacent ones as it was used for": {seats, func(w *world) {
		a := w.user(0)
		op := w.askAdjacent(a, "k", 2)
		w.answer(op, Answer{Outcome: api.Sold, Claim: w.storeUnits(a, "k", 1, 2)})
		w.answer(w.askAdjacent(a, "k", 2), Answer{Outcome: api.KeyReused})
	}, "refusals"},
	"adjacent ones that are apart": {seats, func(w *world) {
		a := w.user(0)
		w.move(1, 0, 1)
		w.askAdjacent(a, "k", 2)
		w.plantOp(claimOf(a, "k", 3, 6))
	}, "chosen"},
	"adjacent ones of two rows": {seats, func(w *world) {
		a := w.user(0)
		w.askAdjacent(a, "k", 2)
		w.plantOp(claimOf(a, "k", 2, 3))
	}, "chosen"},
	"chosen where nobody may choose": {newWorld, func(w *world) {
		a := w.user(0)
		w.ask(a, "k", 1)
		w.plantOp(claimOf(a, "k", 1))
	}, "chosen"},
	"taken, though they are here": {seats, func(w *world) { w.taken(0, nothing, 1, 3) }, "refusals"},
	"taken, though they are here and move to somebody else later": {seats, func(w *world) {
		w.taken(0, nothing, 1, 3)
		w.move(0, 1, 1)
	}, "refusals"},
	"taken, though they are elsewhere":   {seats, func(w *world) { w.taken(0, nothing, 6) }, "refusals"},
	"taken, though others have the rest": {seats, func(w *world) { w.taken(1, nothing, 3, 5) }, "refusals"},
	"taken, though another process has them": {seats, func(w *world) {
		w.succeed(1)
		w.at += 2 * grace
		w.taken(0, nothing, 6)
	}, "refusals"},
	"taken, though nobody else asks for them": {seats, func(w *world) {
		other := w.ask(w.user(0), "k", 2)
		w.taken(1, nothing, 3)
		w.answer(other, Answer{Outcome: api.Unknown})
	}, "refusals"},
	"taken, though who asked for any has got others": {seats, func(w *world) {
		w.buy(w.user(0), "k", 1)
		w.taken(1, nothing, 3)
	}, "refusals"},
	"taken, though who asked for any did so two commits ago": {seats, func(w *world) {
		w.invoke(w.user(0), "k", 1)
		w.buy(w.user(0), "k", 1)
		w.buy(w.user(0), "k", 1)
		w.taken(1, nothing, 3)
	}, "refusals"},
	"taken, though who asks for them is of a higher shard": {seats, func(w *world) {
		other := w.ask(w.user(1), "k", 6)
		w.taken(0, nothing, 6)
		w.answer(other, Answer{Outcome: api.Unknown})
	}, "refusals"},
	"taken, though who has asked for them was refused": {seats, func(w *world) {
		w.refuse(w.user(0), "k", 3, api.LimitReached)
		w.taken(1, nothing, 3)
	}, "refusals"},
	"taken, to one who asks for any": {seats, func(w *world) { w.refuse(w.user(0), "k", 1, api.UnitsTaken) }, "refusals"},
	"not adjacent, though they are":  {seats, func(w *world) { w.apart(0, nothing, 2) }, "refusals"},
	"not adjacent, though those elsewhere are": {seats, func(w *world) {
		w.buy(w.user(0), "k", 1)
		w.apart(0, nothing, 2)
	}, "refusals"},
	"not adjacent, at the end of a row": {seats, func(w *world) {
		w.buy(w.user(0), "k", 1)
		w.buy(w.user(1), "k", 1)
		w.apart(0, nothing, 2)
	}, "refusals"},
	"not adjacent, to one who asks for any": {seats, func(w *world) { w.refuse(w.user(0), "k", 1, api.NotAdjacent) }, "refusals"},
	"a choice that is not declared": {seats, func(w *world) {
		w.said = `{"perUserLimit":2,"units":{"range":["A1-A2","B8-B11"]}}`
		w.plan(0, 0, pb.Phase_OPEN)
	}, "settings"},
	"other rows than are declared": {func(t testing.TB) *world {
		w := emptyWorld(t)
		w.choose, w.said = true, `{"perUserLimit":2,"units":{"range":["A1-A3","B8-B10"],"choose":true}}`
		w.rows = []*pb.Range{{First: 1, Count: 2}, {First: 3, Count: 4}}
		w.serve()
		return w
	}, nothingTo, "settings"},
	"rows that are no longer there": {seats, func(w *world) { w.rows = nil; w.plan(0, 0, pb.Phase_OPEN) }, "settings"},
}
