package models

import (
	"math/bits"

	"salectl/sim/models/explore"
)

// Two applies of different stock, one of which stands still for a while. Each plans in
// the sale's own log and then assigns units to two shards, one after the other.

// planState has units as sets of their numbers.
type planState struct {
	planned [2]uint8 // the apply of each generation in the sale's log, + 1
	shards  [2]struct {
		units uint8
		slots uint8 // appended so far
		taken uint8 // the newest generation that it has
	}
	applies [2]struct {
		generation uint8    // its own, 0: not planned yet
		shard      uint8    // the one that it sees to next
		slots      [2]uint8 // of each shard, as it read them
		units      [2]uint8
		done       bool
	}
}

type planRules struct {
	anyOrder bool // a shard takes what the apply works out from what it has read of the shards
	stock    [2]uint8
}

func (w planRules) next(s planState, do explore.Do[planState]) {
	for a := range s.applies {
		by := explore.Actor(a + 1)
		t := s
		me := &t.applies[a]
		switch i := me.shard; {
		case me.generation == 0:
			if a == 1 && s.planned[0] == 0 {
				continue // the second begins when the first has planned
			}
			me.generation = uint8(a) + 1
			t.planned[a] = uint8(a) + 1
			for i, shard := range s.shards {
				me.slots[i], me.units[i] = shard.slots, shard.units
			}
			do(by, t, "apply %d plans a stock of %d; the shards have units %03b and %03b", a+1, w.stock[a], me.units[0], me.units[1])
		case me.done:
		case i == 2:
			me.done = true
			do(by, t, "apply %d is through", a+1)
		case w.anyOrder:
			w.assignAsRead(t, a, by, do)
		default:
			shard := &t.shards[i]
			if shard.taken >= me.generation {
				me.shard++
				do(by, t, "apply %d finds that shard %d has its generation", a+1, i)
				continue
			}
			shard.taken++
			shard.slots++
			units := w.share(shard.taken, int(i))
			shard.units |= units
			do(by, t, "apply %d assigns shard %d generation %d, with units %03b", a+1, i, shard.taken, units)
		}
	}
}

// share is what the plan of a generation lists for a shard: of the numbers that are
// new with it every second.
func (w planRules) share(generation uint8, shard int) (units uint8) {
	first := uint8(0)
	if generation > 1 {
		first = w.stock[generation-2]
	}
	for u := first; u < w.stock[generation-1]; u++ {
		if int(u)%2 == shard {
			units |= 1 << u
		}
	}
	return units
}

// assignAsRead assigns to a shard the numbers that the apply has read in no shard.
func (w planRules) assignAsRead(t planState, a int, by explore.Actor, do explore.Do[planState]) {
	me := &t.applies[a]
	i := me.shard
	shard := &t.shards[i]
	if me.slots[i] != shard.slots {
		me.slots[i], me.units[i] = shard.slots, shard.units
		do(by, t, "apply %d finds another's entry in shard %d, and reads that it has units %03b", a+1, i, shard.units)
		return
	}
	used, mine := me.units[0]|me.units[1], uint8(0)
	for j := range int(i) + 1 {
		lacks := (int(w.stock[a])+1-j)/2 - bits.OnesCount8(me.units[j])
		for u := uint8(0); u < w.stock[a] && lacks > 0; u++ {
			if used>>u&1 == 0 {
				used |= 1 << u
				lacks--
				if j == int(i) {
					mine |= 1 << u
				}
			}
		}
	}
	me.shard++
	if mine != 0 {
		shard.units |= mine
		shard.slots++
		me.units[i] |= mine
		me.slots[i]++
	}
	do(by, t, "apply %d assigns shard %d units %03b, which it has read in no shard", a+1, i, mine)
}

func (w planRules) wrong(s planState) string {
	units := s.shards[0].units | s.shards[1].units
	switch {
	case s.shards[0].units&s.shards[1].units != 0:
		return "a unit is in two shards"
	case s.applies[1].done && bits.OnesCount8(units) != int(w.stock[1]):
		return "the stock is not that of the last apply"
	}
	return ""
}

func (w planRules) model() explore.Model[planState] {
	return explore.Model[planState]{Next: w.next, Wrong: w.wrong,
		Goal: func(s planState) bool { return s.applies[1].done }}
}

func plansModel() Model {
	return Model{
		Name:  "plans",
		About: "two overlapping applies, two shards",
		Rules: []Rule{{Name: "generations-in-order", Marked: true,
			Text:    "`Planned` lists for each shard the exact units to add and how many to remove; shards take generations in order, each once, appended by the owner or, without one, by the planner.",
			Without: "Each apply assigns the numbers that it saw in no shard: both add one unit to two shards."}},
		Cases: []Case{
			{Name: "stock 2, then 4", Run: bound(planRules{stock: [2]uint8{2, 4}}.model())},
			{Name: "stock 4, then 7", Run: bound(planRules{stock: [2]uint8{4, 7}}.model())},
			{Name: "numbers that were seen nowhere", Off: "generations-in-order", Finds: "a unit is in two shards",
				Run: bound(planRules{anyOrder: true, stock: [2]uint8{2, 4}}.model())},
		},
	}
}
