package models

import (
	"fmt"

	"salectl/sim/models/explore"
)

// Transfers of units between the shards of a sale, and a destroy meanwhile. An append
// is one step here: the append model is about that. What can be out of date is what
// one log records of another, and the notes of destroy about each.

const transferShards = 3

type transferShard struct {
	available, sold uint8                 // sets of units
	out, acked      [transferShards]uint8 // by destination: how many Outs and Acks the log has
	sent            [transferShards]uint8 // by destination: the units of the last Out
	in              [transferShards]uint8 // by source: the last transfer that was taken in
	closed, sealed  bool
	exported        uint8 // the units that the export of this shard accounts for
}

type transferState struct {
	shards       [transferShards]transferShard
	notedClosed  [transferShards]bool // by destroy
	notedSettled [transferShards]bool // no Out without its Ack
	outs         uint8
	killed       bool
	twice        bool // a unit came in where it was
	afterSeal    bool // an op was appended behind a Seal
}

type transferRules struct {
	shards, units int
	inAgain       bool // a transfer that was taken in is taken in again
	outOfClosed   bool // a closed shard sends units
	sealsOpen     bool // destroy closes and seals one shard after the other
	sealsOwnOuts  bool // it waits for the Outs of the shard that it seals, not for all
	inSealed      bool // a sealed shard takes units
}

func (w transferRules) model() explore.Model[transferState] {
	var s transferState
	for u := range w.units {
		s.shards[u%w.shards].available |= 1 << u
	}
	return explore.Model[transferState]{Init: s, Next: w.next, Wrong: w.wrong, Goal: w.goal}
}

func (w transferRules) goal(s transferState) bool {
	for a := range w.shards {
		if !s.shards[a].sealed {
			return false
		}
	}
	return true
}

func (w transferRules) next(s transferState, do explore.Do[transferState]) {
	const buyers = 9
	if a := s.shards[0]; !a.closed && !a.sealed && a.available != 0 { // the demand is there
		t := s
		unit := lowest(a.available)
		t.shards[0].available &^= unit
		t.shards[0].sold |= unit
		do(buyers, t, "shard 0 sells units %03b", unit)
	}
	for a := range w.shards {
		for b := range w.shards {
			if a != b {
				w.transferSteps(s, a, b, do)
			}
		}
		w.destroyStep(s, a, do)
	}
	if !s.killed {
		t := s
		t.killed = true
		t.notedClosed, t.notedSettled = [transferShards]bool{}, [transferShards]bool{}
		do(explore.Fault, t, "destroy is killed, and run again")
	}
}

func lowest(units uint8) uint8 { return units & -units }

// transferSteps are those of a transfer from shard a to shard b.
func (w transferRules) transferSteps(s transferState, a, b int, do explore.Do[transferState]) {
	from, to := s.shards[a], s.shards[b]
	by := explore.Actor(10 + a*transferShards + b)
	underWay := from.out[b] > from.acked[b]
	if !underWay && !from.sealed && (!from.closed || w.outOfClosed) && from.available != 0 && s.outs < 4 {
		t := s
		src := &t.shards[a]
		src.sent[b] = lowest(from.available)
		src.available &^= src.sent[b]
		src.out[b]++
		t.outs++
		do(by, t, "Out of units %03b from shard %d to shard %d", src.sent[b], a, b)
	}
	if underWay && (to.in[a] < from.out[b] || w.inAgain) && (!to.sealed || w.inSealed) {
		t := s
		dst := &t.shards[b]
		t.twice = t.twice || (dst.available|dst.sold)&from.sent[b] != 0
		t.afterSeal = t.afterSeal || to.sealed
		dst.available |= from.sent[b]
		dst.in[a] = from.out[b]
		do(by, t, "In of units %03b in shard %d, from shard %d", from.sent[b], b, a)
	}
	if underWay && to.in[a] >= from.out[b] && !from.sealed {
		t := s
		t.shards[a].acked[b] = from.out[b]
		do(by, t, "Ack in shard %d of the units that shard %d took in", a, b)
	}
}

// destroyStep is what destroy can do with shard a.
func (w transferRules) destroyStep(s transferState, a int, do explore.Do[transferState]) {
	const by = 1
	shard := s.shards[a]
	settled := shard.out == shard.acked
	allClosed, allSettled := true, true
	for b := range w.shards {
		allClosed = allClosed && s.notedClosed[b]
		allSettled = allSettled && s.notedSettled[b]
	}
	if !shard.closed {
		t := s
		t.shards[a].closed = true
		do(by, t, "destroy closes shard %d", a)
	}
	if shard.closed && !s.notedClosed[a] {
		t := s
		t.notedClosed[a] = true
		do(by, t, "destroy reads that shard %d is closed", a)
	}
	if settled && !s.notedSettled[a] && allClosed {
		t := s
		t.notedSettled[a] = true
		do(by, t, "destroy reads that shard %d has no transfer open", a)
	}
	may := allClosed && allSettled
	switch {
	case w.sealsOpen:
		may = shard.closed
	case w.sealsOwnOuts:
		may = shard.closed && settled
	}
	if may && !shard.sealed {
		t := s
		t.shards[a].sealed = true
		t.shards[a].exported = shard.available | shard.sold
		do(by, t, "destroy seals and exports shard %d", a)
	}
}

func (w transferRules) wrong(s transferState) string {
	if s.twice {
		return "a transfer was taken in twice"
	}
	for u := range w.units {
		places := 0
		for a, from := range s.shards {
			places += int((from.available | from.sold) >> u & 1)
			for b, to := range s.shards {
				if from.out[b] > from.acked[b] && to.in[a] < from.out[b] {
					places += int(from.sent[b] >> u & 1)
				}
			}
		}
		if places != 1 {
			return fmt.Sprintf("unit %d is in %d places", u, places)
		}
	}
	if s.afterSeal {
		return "a sealed log has grown: its root is not the exported one"
	}
	accounted := uint8(0)
	for _, shard := range s.shards {
		accounted |= shard.exported
	}
	if w.goal(s) && accounted != 1<<w.units-1 {
		return "a unit is in no export"
	}
	return ""
}

func transferModel() Model {
	two := func(w transferRules) func() explore.Result {
		w.shards, w.units = 2, 2
		return bound(w.model())
	}
	return Model{
		Name:  "transfer",
		About: "transfers between two or three shards, while a destroy that may be killed closes, seals and exports them",
		Rules: []Rule{
			{Name: "seal-last", Marked: true,
				Text:    "`destroy` closes every shard, drives every transfer to its end, seals, exports, appends `Sealed` with roots and digest, and only then deletes.",
				Without: "A shard is sealed with units in transfer: they are in no export, or others' `Out`s have no destination and destroy stands still."},
			{Name: "closed-sends-nothing",
				Text:    "A closed shard takes units and confirms its transfers, but sends none.",
				Without: "An `Out` follows the read that found all transfers complete."},
			{Name: "sealed-takes-nothing",
				Text:    "No log grows after `Seal`, not by a transfer either.",
				Without: "A sealed shard takes a late transfer: the exported root is not its log's."},
			{Name: "in-once",
				Text:    "A destination takes each transfer of a source once, by its number.",
				Without: "Two processes complete the same transfer, and its units arrive twice."},
		},
		Cases: []Case{
			{Name: "two shards, three units", Run: bound(transferRules{shards: 2, units: 3}.model())},
			{Name: "three shards, three units", Large: true, Run: bound(transferRules{shards: 3, units: 3}.model())},
			{Name: "one shard after the other", Off: "seal-last", Finds: "a unit is in no export", Run: two(transferRules{sealsOpen: true})},
			{Name: "a shard when its own transfers are at their end", Off: "seal-last", Finds: explore.Stuck, Run: two(transferRules{sealsOwnOuts: true})},
			{Name: "closed shards send units", Off: "closed-sends-nothing", Finds: "a unit is in no export", Run: two(transferRules{outOfClosed: true})},
			{Name: "sealed shards take units", Off: "sealed-takes-nothing", Finds: "a sealed log has grown: its root is not the exported one",
				Run: two(transferRules{sealsOpen: true, inSealed: true})},
			{Name: "transfers are taken in again", Off: "in-once", Finds: "a transfer was taken in twice", Run: two(transferRules{inAgain: true})},
		},
	}
}
