package check

import (
	"bytes"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
	"salectl/spec"
)

const raffleCloses = time.Minute

var raffleLink = draw.Link([]byte("a secret"))

// raffleOf is a sale that is a draw, of three units on each of two shards, with so many
// substitutes. Four users have entered, two of each shard.
func raffleOf(t testing.TB, substitutes int64, beacon *spec.Beacon) *world {
	w := emptyWorld(t)
	terms := draw.Terms{Closes: "1970-01-01T00:01:00Z", Substitutes: substitutes}
	if beacon != nil {
		terms.Beacon = &draw.Beacon{Name: beacon.Name, Round: beacon.Round, Fallback: string(beacon.Fallback)}
	}
	end := terms.Commitment(w.uid, raffleLink)
	w.draw, w.closes = &pb.Draw{Commitment: end[:]}, raffleCloses
	declared := spec.Sale{
		Name: "tickets", Run: 1, Stock: 6, LockCount: shards, PerUserLimit: 1, LockTTL: spec.Duration(time.Second), ClosesAt: time.UnixMicro(0).Add(raffleCloses),
		Embedded: &spec.Embedded{}, Queue: &spec.Queue{Order: spec.OrderDraw, Depth: 1}, Draw: &spec.Draw{KeyEnv: "KEY", Substitutes: substitutes, Beacon: beacon},
	}
	text, err := declared.JSON()
	if err != nil {
		t.Fatal(err)
	}
	w.said = string(text)
	w.serve()
	for i := range shards {
		w.enters(w.user(i), "k")
		w.enters(w.user(i), "k")
	}
	return w
}

func raffle(t testing.TB) *world { return raffleOf(t, 0, nil) }

// closedRaffle is a raffle whose shards have said which entries they have.
func closedRaffle(t testing.TB) *world {
	w := raffle(t)
	w.lastEntry(0)
	w.lastEntry(1)
	return w
}

// published is a raffle whose entries are published.
func published(t testing.TB) *world {
	w := closedRaffle(t)
	w.publish()
	return w
}

// revealed is a raffle of which all have a rank.
func revealed(t testing.TB) *world {
	w := published(t)
	w.draws(nil)
	w.ranks()
	return w
}

// enters has a user enter.
func (w *world) enters(user, key string) {
	w.t.Helper()
	op := w.invoke(user, key, 1)
	w.answer(op, Answer{Outcome: api.Entered, Claim: w.store(user, key, 1)})
}

// lastEntry has a shard say which entries it has, after the close.
func (w *world) lastEntry(shard int) {
	w.at = max(w.at, raffleCloses+10*time.Second)
	w.append(shard, func(d *ledger.Draft) { d.Entries() })
}

// trees are what the shards have.
func (w *world) trees() (all []draw.Tree) {
	for _, s := range w.shards {
		labels := labelsOf(s)
		all = append(all, draw.Tree{Entries: int64(len(labels)), Root: draw.Root(labels)})
	}
	return all
}

// labelsOf returns the labels of a shard's entries, in the order of its log.
func labelsOf(s *ledger.State) (labels []draw.Digest) {
	for _, e := range s.DrawEntries(0) {
		labels = append(labels, e.Label)
	}
	return labels
}

func closedOp(trees []draw.Tree, change func(*pb.EntriesClosed)) *pb.Op {
	op := ledger.NewEntriesClosed(trees)
	if change != nil {
		change(op)
	}
	return &pb.Op{Op: &pb.Op_EntriesClosed{EntriesClosed: op}}
}

func (w *world) publish() { w.say(closedOp(w.trees(), nil)) }

// entries are all there are, in their order once they are published.
func (w *world) entries(beacon []byte) []draw.Entry {
	var all []draw.Entry
	for i, s := range w.shards {
		all = append(all, s.DrawEntries(i)...)
	}
	return draw.NewOrder(w.uid, draw.RootOf(w.trees()), raffleLink, beacon).Lowest(all, 100)
}

func (w *world) drawnOp(beacon []byte, change func(*pb.Drawn)) *pb.Op {
	op := &pb.Drawn{Link: raffleLink[:], Beacon: beacon, Ranks: int64(len(w.entries(beacon)))}
	if change != nil {
		change(op)
	}
	return &pb.Op{Op: &pb.Op_Drawn{Drawn: op}}
}

func (w *world) draws(beacon []byte) { w.say(w.drawnOp(beacon, nil)) }

func (w *world) ranksOp(change func(*pb.Ranked)) *pb.Op {
	op := ledger.NewRanked(1, w.entries(w.sale.Drawn().GetBeacon()))
	if change != nil {
		change(op)
	}
	return &pb.Op{Op: &pb.Op_Ranked{Ranked: op}}
}

func (w *world) ranks() { w.say(w.ranksOp(nil)) }

// ranked returns the entry that has a rank.
func (w *world) ranked(rank int) (shard int, c ledger.Claim) {
	at := w.entries(w.sale.Drawn().GetBeacon())[rank-1]
	c, _ = w.shards[at.Shard].ClaimAt(at.Slot, at.Index)
	return at.Shard, c
}

// award gives the entry of a rank its unit.
func (w *world) award(rank int) {
	w.t.Helper()
	shard, c := w.ranked(rank)
	w.append(shard, func(d *ledger.Draft) {
		if v := d.Award(c); v.Kind != ledger.SettleDone {
			w.t.Fatalf("the award of %d comes to %d", rank, v.Kind)
		}
	})
}

// firstHere is an entry of shard 0 and its rank.
func (w *world) firstHere() (rank int, c ledger.Claim) {
	for rank = 1; ; rank++ {
		if shard, c := w.ranked(rank); shard == 0 {
			return rank, c
		}
	}
}

// awardOp is the award of the first entry of shard 0.
func (w *world) awardOp(change func(*pb.Settle)) *pb.Op {
	c := w.shards[0].Claim(0)
	op := &pb.Settle{Slot: c.Slot, Index: uint32(c.Index), How: pb.Settle_AWARD, Units: []int64{1}}
	if change != nil {
		change(op)
	}
	return &pb.Op{Op: &pb.Op_Settle{Settle: op}}
}

func entryOp(user, key string) *pb.Op {
	return &pb.Op{Op: &pb.Op_Claim{Claim: &pb.Claim{User: user, Key: []byte(key), Entry: true}}}
}

func entriesOp(tree draw.Tree) *pb.Op {
	return &pb.Op{Op: &pb.Op_Entries{Entries: &pb.Entries{Count: tree.Entries, Root: tree.Root[:]}}}
}

// told is what a user of shard 0 is told of an entry.
func (w *world) told(c ledger.Claim, outcome api.Outcome) Answer {
	all := w.claims(c.User)
	return Answer{Outcome: outcome, Claim: all[len(all)-1], Replayed: true}
}

// TestToleratedDraws has draws take all ways that are right.
func TestToleratedDraws(t *testing.T) {
	beacon := func(f spec.Fallback) *spec.Beacon { return &spec.Beacon{Name: "drand", Round: "7", Fallback: f} }
	for name, test := range map[string]struct {
		from func(testing.TB) *world
		do   func(*world)
	}{
		"awarded": {revealed, func(w *world) {
			for rank := 4; rank > 0; rank-- {
				w.award(rank)
			}
			_, c := w.firstHere()
			w.answer(w.invoke(c.User, "k", 1), w.told(c, api.Sold))
			w.at += time.Minute
			w.refuse(c.User, "another", 1, api.Closed)
			w.h.Final.Rested, w.h.Final.Demanded, w.h.Final.Down = true, true, w.h.Count()
		}},
		"asked again before": {raffle, func(w *world) {
			c := w.shards[0].Claim(0)
			w.answer(w.invoke(c.User, "k", 1), w.told(c, api.Entered))
			w.refuse(c.User, "another", 1, api.LimitReached)
			w.does(c, api.Cancelled, "", Answer{Outcome: api.NotDrawn}, nil)
			w.does(c, api.Sold, "p", Answer{Outcome: api.NotDrawn, RefundDue: true}, func(d *ledger.Draft) { d.Late(c, "p") })
		}},
		"a substitute": {func(t testing.TB) *world {
			w := raffleOf(t, 2, nil)
			for range 4 {
				w.enters(w.user(1), "k")
			}
			w.enters(w.user(0), "k")
			return w
		}, func(w *world) {
			w.lastEntry(1)
			w.lastEntry(0)
			w.lastEntry(0) // a planner says it too
			w.publish()
			w.say(w.drawnOp(nil, func(d *pb.Drawn) { d.Ranks = 8 }))
			w.say(w.ranksOp(func(r *pb.Ranked) { r.Shards, r.Slots, r.Indexes = r.Shards[:3], r.Slots[:3], r.Indexes[:3] }))
			w.say(w.ranksOp(func(r *pb.Ranked) {
				r.First, r.Shards, r.Slots, r.Indexes = 4, r.Shards[3:8], r.Slots[3:8], r.Indexes[3:8]
			}))
			shard, c := w.ranked(9)
			w.answer(w.invoke(c.User, "k", 1), Answer{Outcome: api.NotDrawn})
			w.move(1-shard, shard, 3)
			for rank := 1; rank <= 8; rank++ {
				if at, _ := w.ranked(rank); at == shard && rank < 7 {
					w.award(rank)
				}
			}
		}},
		"by a beacon": {func(t testing.TB) *world { return raffleOf(t, 0, beacon(spec.FallbackNone)) }, func(w *world) {
			w.h.Beacon = []byte{1, 2}
			w.lastEntry(0)
			w.lastEntry(1)
			w.publish()
			w.draws([]byte{1, 2})
			w.ranks()
		}},
		"without the beacon's value": {func(t testing.TB) *world { return raffleOf(t, 0, beacon(spec.FallbackSecret)) }, func(w *world) {
			w.h.Beacon = []byte{1, 2}
			w.lastEntry(0)
			w.lastEntry(1)
			w.publish()
			w.draws(nil)
			w.ranks()
		}},
		"destroyed": {revealed, func(w *world) { w.award(2); w.close() }},
		"destroyed before the close": {raffle, func(w *world) {
			w.close()
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

// drawFaults are what is found of a draw.
var drawFaults = map[string]planted{
	"entries published twice":        {published, func(w *world) { w.plantInSale(closedOp(w.trees(), nil)) }, "decode"},
	"revealed before it is known of": {closedRaffle, func(w *world) { w.plantInSale(w.drawnOp(nil, nil)) }, "decode"},
	"revealed twice": {published, func(w *world) {
		w.draws(nil)
		w.plantInSale(w.drawnOp(nil, nil))
	}, "decode draws"},
	"ranks out of order": {revealed, func(w *world) { w.plantInSale(w.ranksOp(nil)) }, "decode"},

	"an entry where there is no draw": {newWorld, func(w *world) {
		a := w.user(0)
		w.invoke(a, "k", 1)
		w.plantOp(entryOp(a, "k"))
	}, "units"},
	"a second entry": {raffle, func(w *world) {
		user := w.shards[0].Claim(0).User
		w.invoke(user, "l", 1)
		w.plantOp(entryOp(user, "l"))
	}, "units"},
	"an entry with a unit": {raffle, func(w *world) {
		a := w.user(0)
		w.invoke(a, "k", 1)
		op := entryOp(a, "k")
		op.GetClaim().GraceUs = 1
		w.plantOp(op)
	}, "units"},
	"an award of two units": {revealed, func(w *world) { w.plantOp(w.awardOp(func(s *pb.Settle) { s.Units = []int64{1, 2} })) }, "units"},
	"an award of what is awarded": {revealed, func(w *world) {
		w.plantOp(w.awardOp(nil))
		w.plantOp(w.awardOp(func(s *pb.Settle) { s.Units = []int64{2} }))
	}, "units"},
	"an award that is held where nobody pays": {revealed, func(w *world) {
		w.plantOp(w.awardOp(func(s *pb.Settle) { s.GraceUs = 1 }))
	}, "units"},

	"a second commitment": {raffle, func(w *world) {
		w.plantInSale(&pb.Op{Op: &pb.Op_Planned{Planned: &pb.Planned{
			Generation: 2, Uid: w.uid, Run: w.run, Shards: make([]*pb.ShardChange, shards), NextUnit: w.next, Draw: w.draw,
			Settings: &pb.Settings{PerUserLimit: 1, Phase: pb.Phase_OPEN, Draw: true, ClosesAtUs: w.closes.Microseconds()},
		}}})
	}, "draws"},
	"a draw of another sale": {newWorld, func(w *world) { w.plantInSale(closedOp(w.trees(), nil)) }, "draws"},
	"a draw that is not declared": {func(t testing.TB) *world {
		w := emptyWorld(t)
		w.draw, w.closes, w.said = &pb.Draw{Commitment: make([]byte, 32)}, raffleCloses, `{"perUserLimit":1,"closesAt":"1970-01-01T00:01:00Z"}`
		w.serve()
		return w
	}, nothingTo, "settings"},
	"other entries than there are": {closedRaffle, func(w *world) { w.plantOp(entriesOp(draw.Tree{Entries: 2})) }, "draws"},
	"the last entry too soon":      {raffle, func(w *world) { w.plantOp(entriesOp(w.trees()[0])) }, "draws"},
	"an entry after the last": {raffle, func(w *world) {
		a := w.user(0)
		labels := append(labelsOf(w.shards[0]), draw.Label(w.uid, a, "k"))
		w.invoke(a, "k", 1)
		w.at = raffleCloses
		w.plant(0, new(pb.Commit), entriesOp(draw.Tree{Entries: 3, Root: draw.Root(labels)}), entryOp(a, "k"))
	}, "phases draws"},
	"roots of one shard": {closedRaffle, func(w *world) { w.plantInSale(closedOp(w.trees()[:1], nil)) }, "draws"},
	"another number of entries": {closedRaffle, func(w *world) {
		w.plantInSale(closedOp(w.trees(), func(c *pb.EntriesClosed) { c.Counts[1]++ }))
	}, "draws"},
	"entries of a shard that has not said them": {raffle, func(w *world) {
		w.lastEntry(1)
		w.plantInSale(closedOp(w.trees(), nil))
	}, "draws"},
	"another root of all": {closedRaffle, func(w *world) {
		w.plantInSale(closedOp(w.trees(), func(c *pb.EntriesClosed) { c.Root[0]++ }))
	}, "draws"},
	"another secret": {published, func(w *world) {
		w.plantInSale(w.drawnOp(nil, func(d *pb.Drawn) { d.Link = bytes.Repeat([]byte{1}, 32) }))
	}, "draws"},
	"the secret told before": {func(t testing.TB) *world {
		w := raffle(t)
		w.enters(w.user(0), string(raffleLink[:]))
		return w
	}, func(w *world) {
		w.lastEntry(0)
		w.lastEntry(1)
		w.publish()
		w.draws(nil)
	}, "draws"},
	"a value of no beacon": {published, func(w *world) { w.plantInSale(w.drawnOp([]byte{1}, nil)) }, "draws"},
	"too few ranks": {published, func(w *world) {
		w.plantInSale(w.drawnOp(nil, func(d *pb.Drawn) { d.Ranks = 3 }))
	}, "draws"},
	"a rank too many": {revealed, func(w *world) {
		w.plantInSale(w.ranksOp(func(r *pb.Ranked) {
			r.First, r.Shards, r.Slots, r.Indexes = 5, r.Shards[:1], r.Slots[:1], r.Indexes[:1]
		}))
	}, "draws"},
	"two ranks exchanged": {published, func(w *world) {
		w.draws(nil)
		w.plantInSale(w.ranksOp(func(r *pb.Ranked) {
			for _, list := range [][]uint32{r.Shards, r.Indexes} {
				list[0], list[1] = list[1], list[0]
			}
			r.Slots[0], r.Slots[1] = r.Slots[1], r.Slots[0]
		}))
	}, "draws"},

	"an award before the ranks": {published, func(w *world) { w.draws(nil); w.plantOp(w.awardOp(nil)) }, "awards"},
	"an award out of turn": {func(t testing.TB) *world {
		w := raffle(t)
		for range 5 {
			w.enters(w.user(0), "k")
		}
		w.plan(0, 1, pb.Phase_OPEN) // now there are 4
		w.lastEntry(0)
		w.lastEntry(1)
		w.publish()
		w.say(w.drawnOp(nil, func(d *pb.Drawn) { d.Ranks = 6 }))
		w.say(w.ranksOp(func(r *pb.Ranked) { r.Shards, r.Slots, r.Indexes = r.Shards[:6], r.Slots[:6], r.Indexes[:6] }))
		return w
	}, func(w *world) {
		for rank := 5; ; rank++ {
			if shard, c := w.ranked(rank); shard == 0 {
				w.plantOp(w.awardOp(func(s *pb.Settle) { s.Slot, s.Index = c.Slot, uint32(c.Index) }))
				return
			}
		}
	}, "awards"},
	"told to have lost before the draw": {published, func(w *world) {
		w.refuse(w.shards[0].Claim(0).User, "k", 1, api.NotDrawn)
	}, "refusals"},
	"told to have lost with a rank": {revealed, func(w *world) {
		w.refuse(w.shards[0].Claim(0).User, "k", 1, api.NotDrawn)
	}, "refusals"},
	"told of a unit that is not there": {revealed, func(w *world) {
		c := w.shards[0].Claim(0)
		w.answer(w.invoke(c.User, "k", 1), w.told(c, api.Sold))
	}, "given answers"},
	"sold out, in a draw": {raffle, func(w *world) { w.refuse(w.user(0), "k", 1, api.SoldOut) }, "refusals"},
	"a winner without a unit": {revealed, func(w *world) {
		for rank := 2; rank <= 4; rank++ {
			w.award(rank)
		}
		w.at += time.Minute
		_, c := w.ranked(2)
		w.answer(w.invoke(c.User, "k", 1), w.told(c, api.Sold))
		w.h.Final.Rested, w.h.Final.Demanded, w.h.Final.Down = true, true, w.h.Count()
	}, "progress"},
	"an export that leaves out a rank": {revealed, func(w *world) {
		w.close()
		x := &w.h.Exports[0]
		x.Bytes = bytes.Replace(x.Bytes, []byte(`,"rank":3`), nil, 1)
	}, "ending exports"},
}
