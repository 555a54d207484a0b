package check

import (
	"fmt"
	"testing"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// listed is newWorld with lists on two nodes, one unit a user, and a first fill of
// each.
func listed(ack spec.Ack, packet *spec.RedPacket) func(testing.TB) *world {
	return func(t testing.TB) *world {
		w := emptyWorld(t)
		w.declareListed(ack, packet)
		return w.open()
	}
}

func (w *world) declareListed(ack spec.Ack, packet *spec.RedPacket) *spec.Sale {
	w.listed = &spec.Sale{
		Name: "tickets", Run: 1, Stock: 6, LockCount: shards, PerUserLimit: 1, LockTTL: spec.Duration(time.Second), Engine: spec.EngineRedis, Ack: ack, Backlog: 10,
		RedPacket: packet, Embedded: new(spec.Embedded), Redis: &spec.Redis{Nodes: []string{"a:1", "b:1"}},
	}
	return w.listed
}

// open makes the sale, its owner and its lists.
func (w *world) open() *world {
	w.t.Helper()
	w.serve()
	w.fill()
	return w
}

var (
	withAckLedger = listed(spec.AckLedger, nil)
	withAckRedis  = listed(spec.AckRedis, nil)

	withSmallBacklog = func(t testing.TB) *world {
		w := emptyWorld(t)
		w.declareListed(spec.AckRedis, nil).Backlog = 1
		return w.open()
	}

	withPackets = listed(spec.AckLedger, &spec.RedPacket{Currency: "CNY", Scale: 2, Total: 1000, Min: 5, Split: spec.SplitRandom})
)

// declaredListed is a sale with lists that is declared, and of which nothing is stored.
func declaredListed(t testing.TB) *world {
	w := emptyWorld(t)
	w.declareListed(spec.AckLedger, nil)
	return w
}

// anotherRun has the sale destroyed and begun anew, with lists.
func (w *world) anotherRun(ack spec.Ack, backlog int64) {
	w.t.Helper()
	w.command("close", func() { w.plan(0, 0, pb.Phase_CLOSED) })
	w.command("destroy", w.destroy)
	w.at += 2 * linger
	w.begins("fedcba9876543210")
	w.declareListed(ack, nil).Backlog = backlog
	w.open()
}

// plantGrab appends a claim as if it were of a list, under its first fill.
func (w *world) plantGrab(user, key string, unit, grantedUs int64) {
	w.t.Helper()
	op := claimOf(user, key, unit)
	op.GetClaim().Fill, op.GetClaim().GrantedUs = 1, grantedUs
	w.plantOp(op)
}

// firstTwice is a request that is sent twice at once; both are told to be the first.
func (w *world) firstTwice(user, key string, unit int64) {
	w.t.Helper()
	one, two := w.invoke(user, key, 1), w.invoke(user, key, 1)
	c := w.drain(w.give(user, key, unit))
	w.answer(one, Answer{Outcome: "sold", Claim: c})
	w.answer(two, Answer{Outcome: "sold", Claim: c})
}

// emptyWhile is a claim to shard 0 that is refused for now, around what happens
// before, meanwhile and after.
func (w *world) emptyWhile(before, meanwhile, after func()) {
	user := w.user(0)
	before()
	op := w.invoke(user, "k", 1)
	meanwhile()
	w.answer(op, Answer{Outcome: "none_now"})
	after()
}

func nothing() {}

func (w *world) declareLists(p *pb.Planned) {
	declared, err := w.listed.JSON()
	if err != nil {
		w.t.Fatal(err)
	}
	p.Spec, p.Settings.PerUserLimit = declared, 1
	if w.listed.RedPacket != nil && p.Generation == 1 {
		p.Seed = make([]byte, 32)
	}
}

// refund is what is left of the red packet, if there is one.
func (w *world) refund() int64 {
	if w.listed == nil || w.listed.RedPacket == nil {
		return 0
	}
	left, packets := w.listed.RedPacket.Total, w.listed.RedPacket.Deal(w.listed.Stock, [32]byte{})
	for _, s := range w.shards {
		for i := range s.Claims() {
			left -= packets.Sum(s.Claim(i).Units...)
		}
	}
	return left
}

// fill begins a fill of each list.
func (w *world) fill() {
	for i := range shards {
		w.append(i, func(d *ledger.Draft) { d.Rebuild() })
	}
}

// give has a node give a unit.
func (w *world) give(user, key string, unit int64) ledger.Grab {
	shard, g := spec.HomeShard(user, shards), ledger.Grab{User: user, Key: key, Unit: unit}
	at := w.pass()
	g.GrantedUs = at.Microseconds()
	w.h.Granted(at, shard, w.uid, shard, user, key, unit, g.GrantedUs)
	return g
}

// drain appends what a node gave, and returns it as its user is told.
func (w *world) drain(g ledger.Grab) Claim {
	w.t.Helper()
	w.append(spec.HomeShard(g.User, shards), func(d *ledger.Draft) {
		if v := d.Grab(g); v.Kind != ledger.Granted {
			w.t.Fatalf("verdict %d on %+v", v.Kind, g)
		}
	})
	return toldOf(g)
}

func toldOf(g ledger.Grab) Claim {
	return Claim{ID: ledger.GrabID(spec.HomeShard(g.User, shards), g.Unit), User: g.User, Units: []int64{g.Unit}, State: "sold"}
}

// grab is a claim that is given by a node and accepted.
func (w *world) grab(user, key string, unit int64) {
	w.t.Helper()
	op := w.invoke(user, key, 1)
	w.answer(op, Answer{Outcome: "sold", Claim: w.drain(w.give(user, key, unit))})
}

// early is a claim that is answered before it is in the ledger.
func (w *world) early(user, key string, unit int64) ledger.Grab {
	op, g := w.invoke(user, key, 1), w.give(user, key, unit)
	w.answer(op, Answer{Outcome: "sold", Claim: toldOf(g)})
	return g
}

// tooMany has a list give two units before the ledger has the first.
func (w *world) tooMany(shard int) {
	w.t.Helper()
	unit := int64(2 + 3*shard)
	first := w.early(w.user(shard), "k", unit)
	w.drain(w.early(w.user(shard), "k", unit+1))
	w.drain(first)
}

// rest says that the faults have stopped.
func (w *world) rest() { w.h.Final.Rested, w.h.Final.Down = true, w.h.Count() }

// given is a sale with lists in which most things happened.
func given(w *world) *world {
	a, b := w.user(0), w.user(1)
	w.grab(a, "a", 1)
	w.read(a)
	w.answer(w.invoke(a, "a", 1), Answer{Outcome: "sold", Claim: w.claims(a)[0], Replayed: true})
	w.refuse(a, "b", 1, "limit_reached")
	w.fill()
	w.h.ListRead(w.pass(), 1, w.uid, 1, 2, 3)
	w.grab(b, "", 6)
	w.command("pause", func() { w.plan(0, 0, pb.Phase_PAUSED) })
	w.command("resume", func() { w.plan(0, 0, pb.Phase_OPEN) })
	w.fill()
	w.grab(w.user(0), "c", 2)
	w.h.ListRead(w.pass(), 0, w.uid, 0, 3, 0)
	op := w.invoke(w.user(0), "d", 1)
	w.h.ListRead(w.pass(), 0, w.uid, 0, 3, 0) // one unit is on its way to another shard
	w.answer(op, Answer{Outcome: "none_now"})
	w.rest()
	return w
}

func TestGoodListsPass(t *testing.T) {
	for name, from := range map[string]func(testing.TB) *world{"ack ledger": withAckLedger, "ack redis": withAckRedis, "packets": withPackets} {
		t.Run(name, func(t *testing.T) {
			w := given(from(t))
			w.command("close", func() { w.plan(0, 0, pb.Phase_CLOSED) })
			w.command("destroy", w.destroy)
			for _, p := range Check(w.h) {
				t.Error(p)
			}
		})
	}
}

// What ack redis allows, and ack ledger does not.
func TestToleratedWithAckRedis(t *testing.T) {
	for name, do := range map[string]func(w *world){
		"an answer before the append": func(w *world) {
			a := w.user(0)
			g := w.early(a, "k", 1)
			w.answer(w.invoke(a, "l", 1), Answer{Outcome: "limit_reached", Claims: []Claim{toldOf(g)}, Count: 1})
			w.read(a)
			w.drain(g)
		},
		"an answer and its repetition before the append": func(w *world) {
			a := w.user(0)
			g := w.early(a, "k", 1)
			w.answer(w.invoke(a, "k", 1), Answer{Outcome: "sold", Claim: toldOf(g), Replayed: true})
			w.drain(g)
		},
		"a repetition and a read before its owner hears of the append": func(w *world) {
			a := w.user(0)
			w.answer(w.invoke(a, "k", 1), Answer{Outcome: "sold", Claim: w.drain(w.early(a, "k", 1)), Replayed: true})
			w.readAs(a, Answer{})
		},
		"a read that lags behind the append of what a node told": func(w *world) {
			a := w.user(0)
			op := w.invoke(a, "k", 1)
			w.answer(op, Answer{Outcome: "sold", Claim: w.drain(w.give(a, "k", 1))})
			w.readAs(a, Answer{})
		},
		"a unit that its node has lost, in a list of what the user has": func(w *world) {
			a := w.user(0)
			g := w.early(a, "k", 1)
			w.answer(w.invoke(a, "l", 1), Answer{Outcome: "limit_reached", Claims: []Claim{toldOf(g)}, Count: 1})
			w.h.Lost(w.pass(), 0, 0)
		},
		"the same unit for whom the node has forgotten": func(w *world) {
			a := w.user(0)
			w.early(a, "k", 1)
			w.h.Lost(w.pass(), 0, 0)
			w.fill()
			w.drain(w.early(a, "k", 1))
		},
		"a unit that its node has lost, told to another": func(w *world) {
			w.early(w.user(0), "k", 1)
			w.h.Lost(w.pass(), 0, 0)
			w.fill()
			w.drain(w.early(w.user(0), "k", 1))
		},
		"told twice to be the first, as the node has forgotten": func(w *world) {
			a := w.user(0)
			w.early(a, "k", 1)
			w.h.Lost(w.pass(), 0, 0)
			w.fill()
			w.drain(w.early(a, "k", 1))
		},
		"another unit for whom the node has forgotten": func(w *world) {
			a := w.user(0)
			w.early(a, "k", 1)
			w.h.Lost(w.pass(), 0, 0)
			w.fill()
			w.drain(w.early(a, "k", 2))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := withAckRedis(t)
			do(w)
			w.rest()
			for _, p := range Check(w.h) {
				t.Error(p)
			}
			w = withAckLedger(t)
			do(w)
			w.rest()
			if len(Check(w.h)) == 0 {
				t.Error("with ack ledger it passes too")
			}
		})
	}
}

// What the ledger may lack of each list.
func TestToleratedAhead(t *testing.T) {
	for name, do := range map[string]func(w *world){
		"one of each list": func(w *world) {
			first := w.early(w.user(0), "k", 2)
			w.drain(w.early(w.user(1), "k", 4))
			w.drain(first)
		},
		"units one after another": func(w *world) {
			w.drain(w.early(w.user(0), "k", 1))
			w.drain(w.early(w.user(0), "k", 2))
		},
		"a unit that its node has lost": func(w *world) {
			w.early(w.user(0), "k", 2)
			w.h.Lost(w.pass(), 0, 0)
			w.fill()
			w.drain(w.early(w.user(0), "k", 1))
		},
		"one of each list of another process": func(w *world) {
			first := w.early(w.user(0), "k", 2)
			w.h.Holds(w.pass(), "executor-1, run 1", testUID, 1, aToken, 9*time.Second)
			w.drain(w.early(w.user(1), "k", 4))
			w.drain(first)
		},
		"as many as each may, in a later run that allows more": func(w *world) {
			w.anotherRun(spec.AckRedis, 3)
			first, second := w.early(w.user(0), "k", 1), w.early(w.user(0), "k", 2)
			w.drain(w.early(w.user(1), "k", 4))
			w.drain(first)
			w.drain(second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := withSmallBacklog(t)
			do(w)
			w.rest()
			for _, p := range Check(w.h) {
				t.Error(p)
			}
		})
	}
}

// What lists may do that looks like a fault.
func TestToleratedLists(t *testing.T) {
	for name, test := range map[string]struct {
		from func(testing.TB) *world
		do   func(w *world)
	}{
		"a packet of just the least": {withPackets, func(w *world) {
			w.h.Deal = dealtOtherwise(func(a []int64) { a[0], a[1] = 5, a[1]+a[0]-5 })
		}},
		"a unit given when nobody drains any more": {withAckRedis, func(w *world) {
			w.rest()
			w.give(w.user(0), "k", 1)
		}},
		"a unit that is not in the ledger yet": {withAckRedis, func(w *world) {
			w.give(w.user(0), "k", 1)
			w.h.Final.Down = w.h.Count()
		}},
		"a list of a fill that is over": {withAckLedger, func(w *world) {
			w.fill()
			w.plan(0, 0, pb.Phase_PAUSED)
			w.h.ListRead(w.pass(), 0, w.uid, 0, 1, 9)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := test.from(t)
			test.do(w)
			for _, p := range Check(w.h) {
				t.Error(p)
			}
		})
	}
}

// listFaults are planted into histories of sales with lists.
var listFaults = map[string]planted{
	"a fill left out": {withAckLedger, func(w *world) {
		w.plant(0, new(pb.Commit), &pb.Op{Op: &pb.Op_Rebuild{Rebuild: &pb.Rebuild{Fill: 3}}})
	}, "units"},
	"a fill beside another op": {withAckLedger, func(w *world) {
		w.plant(0, new(pb.Commit), &pb.Op{Op: &pb.Op_Rebuild{Rebuild: &pb.Rebuild{Fill: 2}}}, &pb.Op{Op: &pb.Op_Ack{Ack: &pb.Ack{To: 1}}})
	}, "fills"},
	"a fill of a shard without a list": {newWorld, func(w *world) { w.fill() }, "fills"},
	"a fill of a closed shard": {withAckLedger, func(w *world) {
		w.plan(0, 0, pb.Phase_CLOSED)
		w.plant(0, new(pb.Commit), &pb.Op{Op: &pb.Op_Rebuild{Rebuild: &pb.Rebuild{Fill: 2}}})
	}, "fills"},
	"a grab under a fill that is over": {withAckLedger, func(w *world) {
		w.fill()
		w.grab(w.user(0), "k", 1)
		w.change(claimOp("k"), func(_ *pb.Commit, op *pb.Op) { op.GetClaim().Fill = 1 })
	}, "fills"},
	"a claim of nothing by a list": {withAckLedger, func(w *world) {
		op := w.givenOp(1)
		op.GetClaim().Units = nil
		w.asks(op)
	}, "fills grants"},
	"hours that are not declared, of a unit that was drained after them": {withAckLedger, func(w *world) {
		op, g := w.invoke(w.user(0), "k", 1), w.give("user-1", "k", 1)
		w.at += time.Second
		w.answer(op, Answer{Outcome: "sold", Claim: w.drain(g)})
		w.setHours(0, g.GrantedUs+1)
	}, "settings"},
	"a claim without a list": {withAckLedger, func(w *world) {
		a := w.user(0)
		w.invoke(a, "k", 1)
		w.plant(0, new(pb.Commit), claimOf(a, "k", 1))
	}, "fills grants"},
	"two grabs of one user": {withAckLedger, func(w *world) {
		a := w.user(0)
		w.grab(a, "k", 1)
		w.invoke(a, "l", 1)
		g := w.give(a, "l", 2)
		op := claimOf(a, "l", 2)
		op.GetClaim().Fill, op.GetClaim().GrantedUs = 1, g.GrantedUs
		w.plant(0, new(pb.Commit), op)
	}, "limits fills grants"},
	"more than the ledger may lack": {withSmallBacklog, func(w *world) {
		w.drain(w.early(w.user(0), "k", 1))
		w.tooMany(0)
	}, "ahead"},
	"more than the ledger may lack, of the last shard": {withSmallBacklog, func(w *world) { w.tooMany(1) }, "ahead"},
	"more than the ledger may lack, of a shard that has no part of the rest": {withAckLedger, func(w *world) {
		w.anotherRun(spec.AckRedis, 3)
		w.tooMany(1)
	}, "ahead"},
	"more than the ledger may lack, of a shard that has one of the rest": {withAckLedger, func(w *world) {
		w.anotherRun(spec.AckRedis, 3)
		first := w.early(w.user(0), "k", 1)
		w.tooMany(0)
		w.drain(first)
	}, "ahead"},
	"more than the ledger may lack, of a shard that has moved": {withSmallBacklog, func(w *world) {
		first := w.early(w.user(0), "k", 2)
		w.h.Holds(w.pass(), "executor-1, run 1", testUID, 0, aToken, 9*time.Second)
		w.at += 3 * time.Second
		w.fill()
		w.drain(w.early(w.user(0), "k", 1))
		w.drain(first)
	}, "ahead"},
	"more than the ledger may lack, while another node lost its lists": {withSmallBacklog, func(w *world) {
		first := w.early(w.user(0), "k", 2)
		w.h.Lost(w.pass(), 1, 0)
		w.drain(w.early(w.user(0), "k", 3))
		w.drain(first)
	}, "ahead"},
	"more than the ledger may lack, after a loss": {withSmallBacklog, func(w *world) {
		w.h.Lost(w.pass(), 0, 0)
		w.tooMany(0)
	}, "ahead"},
	"more than the ledger may lack, in a later run": {withAckLedger, func(w *world) {
		w.grab(w.user(0), "k", 1)
		w.anotherRun(spec.AckRedis, 1)
		w.tooMany(0)
	}, "ahead"},
	"a claim without a list before the first fill": {declaredListed, func(w *world) {
		w.serve()
		w.asks(claimOf(w.user(0), "k", 1))
	}, "fills grants"},
	"a request twice, the second time as no list gave it": {withAckLedger, func(w *world) {
		a := w.user(0)
		w.grab(a, "k", 1)
		w.plantGrab(a, "k", 2, time.Hour.Microseconds())
	}, "identities"},
	"a unit given to one and stored for another": {withAckLedger, func(w *world) {
		a, b := w.user(0), w.user(0)
		w.invoke(b, "k", 1)
		w.plantGrab(b, "k", 1, w.give(a, "k", 1).GrantedUs)
	}, "grants"},
	"a unit given under one key and stored under another": {withAckLedger, func(w *world) {
		a := w.user(0)
		w.invoke(a, "l", 1)
		w.plantGrab(a, "l", 1, w.give(a, "k", 1).GrantedUs)
	}, "grants"},
	"a unit stored before it was given": {withAckLedger, func(w *world) {
		a := w.user(0)
		w.invoke(a, "k", 1)
		w.plantGrab(a, "k", 1, (w.at + 4*time.Millisecond).Microseconds())
		w.pass()
		w.pass()
		w.give(a, "k", 1)
	}, "grants"},
	"a unit that never came into the ledger, as one did of the run before": {withAckRedis, func(w *world) {
		a := w.user(0)
		w.grab(a, "k", 1)
		w.anotherRun(spec.AckRedis, 10)
		w.give(a, "k", 1)
		w.rest()
	}, "grants"},
	"a unit given after a loss that never came into the ledger": {withAckRedis, func(w *world) {
		w.h.Lost(w.pass(), 0, 0)
		w.give(w.user(0), "k", 1)
		w.rest()
	}, "grants"},
	"a unit that the node had kept as its newest and the ledger lacks": {withAckRedis, func(w *world) {
		w.give(w.user(0), "k", 1)
		w.h.Lost(w.pass(), 0, w.h.Count())
		w.rest()
	}, "grants"},
	"a lost unit told with ack ledger": {withAckLedger, func(w *world) {
		w.early(w.user(0), "k", 1)
		w.h.Lost(w.pass(), 0, 0)
	}, "answers"},
	"a lost unit told to another": {withAckRedis, func(w *world) {
		b := w.user(0)
		w.give(w.user(0), "k", 1)
		w.h.Lost(w.pass(), 0, 0)
		w.answer(w.invoke(b, "k", 1), Answer{Outcome: "sold", Claim: toldOf(ledger.Grab{User: b, Unit: 1})})
	}, "answers"},
	"a lost unit told as another's": {withAckRedis, func(w *world) {
		g := w.give(w.user(0), "k", 1)
		w.h.Lost(w.pass(), 0, 0)
		told := toldOf(g)
		told.User = w.user(0)
		w.answer(w.invoke(g.User, "k", 1), Answer{Outcome: "sold", Claim: told})
	}, "answers"},
	"a lost unit told to another as its user's": {withAckRedis, func(w *world) {
		g := w.give(w.user(0), "k", 1)
		w.h.Lost(w.pass(), 0, 0)
		w.answer(w.invoke(w.user(0), "k", 1), Answer{Outcome: "sold", Claim: toldOf(g)})
	}, "answers"},
	"a lost unit told as another unit": {withAckRedis, func(w *world) {
		g := w.give(w.user(0), "k", 1)
		w.h.Lost(w.pass(), 0, 0)
		told := toldOf(g)
		told.Units = []int64{2}
		w.answer(w.invoke(g.User, "k", 1), Answer{Outcome: "sold", Claim: told})
	}, "answers"},
	"a lost unit told before it was given": {withAckRedis, func(w *world) {
		a := w.user(0)
		w.answer(w.invoke(a, "k", 1), Answer{Outcome: "sold", Claim: toldOf(ledger.Grab{User: a, Unit: 1})})
		w.give(a, "k", 1)
		w.h.Lost(w.pass(), 0, 0)
	}, "answers"},
	"a lost unit told of a run that is not there": {withAckRedis, func(w *world) {
		a := w.user(0)
		w.h.Granted(w.pass(), 0, "fedcba9876543210", 0, a, "k", 1, 0)
		w.grab(w.user(0), "k", 2)
		w.h.Lost(w.pass(), 0, 0)
		w.answer(w.invoke(a, "k", 1), Answer{Outcome: "sold", Claim: toldOf(ledger.Grab{User: a, Unit: 1})})
	}, "grants told answers"},
	"two who are first, and nothing is lost": {withAckRedis, func(w *world) { w.firstTwice(w.user(0), "k", 1) }, "first"},
	"two who are first, and another's unit is lost": {withAckRedis, func(w *world) {
		w.give(w.user(0), "k", 2)
		w.h.Lost(w.pass(), 0, 0)
		w.firstTwice(w.user(0), "k", 1)
	}, "first"},
	"two who are first with ack ledger, and the unit is lost": {withAckLedger, func(w *world) {
		w.firstTwice(w.user(0), "k", 1)
		w.h.Lost(w.pass(), 0, 0)
	}, "first"},
	"two who are first, and their unit of the run before is lost": {withAckRedis, func(w *world) {
		a := w.user(0)
		w.grab(a, "k", 1)
		w.h.Lost(w.pass(), 0, 0)
		w.anotherRun(spec.AckRedis, 10)
		w.firstTwice(a, "k", 2)
	}, "first"},
	"a list of no run":     {withAckLedger, func(w *world) { w.h.ListRead(w.pass(), 0, "fedcba9876543210", 0, 1, 0) }, "looks"},
	"a list of no shard":   {withAckLedger, func(w *world) { w.h.ListRead(w.pass(), 0, w.uid, shards, 1, 0) }, "looks"},
	"a list where is none": {newWorld, func(w *world) { w.h.ListRead(w.pass(), 0, w.uid, 0, 0, 0) }, "looks"},
	"a list before its log": {declaredListed, func(w *world) {
		w.h.ListRead(w.pass(), 0, w.uid, 0, 0, 0)
		w.open()
	}, "looks"},
	"none now though another shard's list is empty": {withAckLedger, func(w *world) {
		w.emptyWhile(nothing, func() { w.h.ListRead(w.pass(), 1, w.uid, 1, 1, 0) }, nothing)
	}, "refusals"},
	"none now though the list was empty before": {withAckLedger, func(w *world) {
		w.emptyWhile(func() { w.h.ListRead(w.pass(), 0, w.uid, 0, 1, 0) }, nothing, nothing)
	}, "refusals"},
	"none now though the list is empty only later": {withAckLedger, func(w *world) {
		w.emptyWhile(nothing, nothing, func() { w.h.ListRead(w.pass(), 0, w.uid, 0, 1, 0) })
	}, "refusals"},
	"none now though the list of the run before is empty": {withAckLedger, func(w *world) {
		w.fill()
		w.anotherRun(spec.AckLedger, 10)
		w.emptyWhile(nothing, func() { w.h.ListRead(w.pass(), 0, testUID, 0, 1, 0) }, nothing)
	}, "refusals"},
	"a unit told to two users with ack ledger, and its node has lost it": {withAckLedger, func(w *world) {
		w.invoke(w.user(1), "never answered", 1)
		w.grab(w.user(0), "k", 1)
		w.h.Lost(w.pass(), 0, 0)
		w.early(w.user(0), "k", 1)
	}, "told answers"},
	"another unit told by a read": {withAckRedis, func(w *world) {
		a := w.user(0)
		w.grab(a, "k", 1)
		told := append(w.claims(a), toldOf(w.give(a, "l", 2)))
		w.read(a)
		w.h.Events[len(w.h.Events)-1].Answer.Claims = told
	}, "grants told answers linear"},
	"packets of units that there are not": {withPackets, func(w *world) {
		given(w)
		w.command("close", func() { w.plan(0, 0, pb.Phase_CLOSED) })
		w.command("destroy", w.destroy)
		w.change(claimOp("a"), func(_ *pb.Commit, op *pb.Op) { op.GetClaim().Units[0] = 0 })
		w.change(claimOp("c"), func(_ *pb.Commit, op *pb.Op) { op.GetClaim().Units[0] = 7 })
	}, "units ending exports grants answers requests linear"},
	"a unit given twice": {withAckLedger, func(w *world) {
		w.grab(w.user(0), "k", 1)
		w.give(w.user(0), "k", 1)
	}, "grants"},
	"a unit that never came into the ledger": {withAckRedis, func(w *world) {
		w.give(w.user(0), "k", 1)
		w.rest()
	}, "grants"},
	"a unit told that never came into the ledger": {withAckRedis, func(w *world) {
		w.early(w.user(0), "k", 1)
		w.rest()
	}, "grants answers"},
	"a unit that the node had kept and the ledger lacks": {withAckRedis, func(w *world) {
		w.early(w.user(0), "k", 1)
		w.h.Lost(w.pass(), 0, w.h.Count())
		w.h.Lost(w.pass(), 1, 0)
		w.rest()
	}, "grants answers"},
	"a grab that no list gave": {withAckLedger, func(w *world) {
		w.grab(w.user(0), "k", 1)
		w.h.Grants = nil
	}, "grants"},
	"a grab of another time": {withAckLedger, func(w *world) {
		w.grab(w.user(0), "k", 1)
		w.h.Grants[0].TimeUs++
	}, "grants"},
	"a list on another node": {withAckLedger, func(w *world) {
		w.grab(w.user(0), "k", 1)
		w.h.Grants[0].Node = 1
		w.h.ListRead(w.pass(), 1, w.uid, 0, 1, 0)
	}, "grants looks"},
	"a list with too much":        {withAckLedger, func(w *world) { w.h.ListRead(w.pass(), 0, w.uid, 0, 1, 4) }, "looks"},
	"a list under a fill to come": {withAckLedger, func(w *world) { w.h.ListRead(w.pass(), 0, w.uid, 0, 2, 0) }, "looks"},
	"a list that gives while paused": {withAckLedger, func(w *world) {
		w.plan(0, 0, pb.Phase_PAUSED)
		w.h.ListRead(w.pass(), 0, w.uid, 0, 1, 0)
	}, "looks"},
	"a unit told to two users": {withAckRedis, func(w *world) {
		w.drain(w.early(w.user(0), "k", 1))
		w.early(w.user(0), "k", 1)
	}, "grants told answers"},
	"two units told to one user": {withAckRedis, func(w *world) {
		a := w.user(0)
		w.drain(w.early(a, "k", 1))
		w.early(a, "l", 2)
	}, "grants told answers"},
	"a unit told that no node gave": {withAckRedis, func(w *world) {
		a := w.user(0)
		w.grab(w.user(0), "k", 1)
		w.answer(w.invoke(a, "k", 1), Answer{Outcome: "sold", Claim: toldOf(ledger.Grab{User: a, Unit: 2})})
	}, "told answers"},
	"an answer before the append": {withAckLedger, func(w *world) {
		w.drain(w.early(w.user(0), "k", 1))
	}, "answers requests"},
	"none now though the list has some": {withAckLedger, func(w *world) {
		op := w.invoke(w.user(0), "k", 1)
		w.h.ListRead(w.pass(), 0, w.uid, 0, 1, 1)
		w.answer(op, Answer{Outcome: "none_now"})
	}, "refusals"},
	"another refund": {withPackets, func(w *world) {
		given(w)
		w.command("close", func() { w.plan(0, 0, pb.Phase_CLOSED) })
		w.command("destroy", w.destroy)
		w.change(func(op *pb.Op) bool { return op.GetSealed() != nil }, func(_ *pb.Commit, op *pb.Op) { op.GetSealed().Refund++ })
	}, "ending"},
	"packets without a seed": {withPackets, func(w *world) {
		w.change(func(op *pb.Op) bool { return op.GetPlanned() != nil }, func(_ *pb.Commit, op *pb.Op) { op.GetPlanned().Seed = nil })
	}, "decode"},
}

// dealt is Deal, by salectl's own means.
func dealt(declaration, seed []byte) (*Packets, error) {
	sale, err := spec.FromJSON(declaration)
	if err != nil || sale.RedPacket == nil || len(seed) != 32 {
		return nil, fmt.Errorf("no red packet, or a seed of %d bytes: %v", len(seed), err)
	}
	r, all := sale.RedPacket, sale.RedPacket.Deal(sale.Stock, [32]byte(seed))
	p := &Packets{Currency: r.Currency, Split: string(r.Split), Total: r.Total, Min: r.Min, Format: r.Format}
	for unit := range sale.Stock {
		p.Amounts = append(p.Amounts, all.Amount(unit+1))
	}
	return p, nil
}
