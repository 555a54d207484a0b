package models

import "salectl/sim/models/explore"

// A log's row in a store that keeps, of each cell, the version with the highest
// timestamp, whenever that was put. Two writers append to it by compare-and-set; the
// clock of the server that the row is on may be set back, or the row may move to
// another server whose clock is behind. In the end the row is deleted.

const (
	cellSlots = 3
	cellClock = 3 // the latest time
)

// version is what a cell shows: who put it, under which timestamp.
type version struct{ writer, stamp uint8 }

type cellState struct {
	clock   uint8
	head    version
	slot    uint8 // the slot that the head names, + 1
	entries [cellSlots]version
	saw     [2]struct { // what each writer has read of the head
		read bool
		head version
		slot uint8
	}
	stored  [cellSlots]uint8 // the writer whose append to a slot succeeded
	deleted bool
}

// cellRules is what can be left out.
type cellRules struct {
	clockStamps bool // a cell's timestamp is the server's time
	deletes     bool // the row is deleted in the end
}

func (w cellRules) stamp(s cellState, slot uint8) uint8 {
	if w.clockStamps {
		return s.clock
	}
	return slot + 1
}

// put shows a new version of a cell, unless the cell has one with a later timestamp.
func put(cell *version, v version) bool {
	if v.stamp < cell.stamp {
		return false
	}
	*cell = v
	return true
}

func (w cellRules) next(s cellState, do explore.Do[cellState]) {
	const clock, planner, writers = 1, 2, 3
	if s.clock < cellClock {
		t := s
		t.clock++
		do(clock, t, "the server's clock goes on to %d", t.clock)
	}
	if s.clock > 0 {
		t := s
		t.clock--
		do(explore.Fault, t, "the server's clock is set back to %d", t.clock)
	}
	if s.deleted {
		return
	}
	for i, saw := range s.saw {
		by := explore.Actor(writers + i)
		if !saw.read {
			t := s
			t.saw[i].read, t.saw[i].head, t.saw[i].slot = true, s.head, s.slot
			do(by, t, "writer %d reads a head that names slot %d", i+1, int(s.slot)-1)
			continue
		}
		t := s
		t.saw[i].read, t.saw[i].head, t.saw[i].slot = false, version{}, 0
		if saw.head != s.head || saw.slot != s.slot || saw.slot == cellSlots {
			do(by, t, "writer %d's append to slot %d is refused", i+1, saw.slot)
			continue
		}
		mine := version{uint8(i) + 1, w.stamp(s, saw.slot)}
		put(&t.entries[saw.slot], mine)
		if put(&t.head, mine) {
			t.slot = saw.slot + 1
		}
		t.stored[saw.slot] = mine.writer
		do(by, t, "writer %d's append to slot %d succeeds, its cells have timestamp %d", i+1, saw.slot, mine.stamp)
	}
	if s.slot == cellSlots && w.deletes {
		t := s
		t.deleted = true
		hidden := w.stamp(s, s.slot-1)
		for i, e := range s.entries {
			if e.stamp <= hidden {
				t.entries[i] = version{}
			}
		}
		do(planner, t, "the planner deletes what has a timestamp up to %d", hidden)
	}
}

func (w cellRules) wrong(s cellState) string {
	for slot, writer := range s.stored {
		switch {
		case s.deleted && s.entries[slot] != version{}:
			return "a cell outlives the delete of its row"
		case !s.deleted && writer != 0 && s.entries[slot].writer != writer:
			return "an append succeeded, and its slot has another's entry"
		}
	}
	return ""
}

func (w cellRules) model() explore.Model[cellState] {
	return explore.Model[cellState]{Next: w.next, Wrong: w.wrong, Goal: func(s cellState) bool { return s.slot == cellSlots && s.deleted == w.deletes }}
}

func cellsModel() Model {
	return Model{
		Name:  "cells",
		About: "a row whose cells show the highest timestamp, two writers, a server clock that is set back",
		Rules: []Rule{{Name: "stamped-by-slot", Marked: true,
			Text:    "An append is one `CheckAndPut` on `h` that puts both cells with slot + 1 as their timestamp: no cell has a clock's time, and one marker deletes up to a slot.",
			Without: "A head with an earlier time stays hidden: two compare-and-sets succeed on the same head, and one append is lost."}},
		Cases: []Case{
			{Name: "two writers", Run: bound(cellRules{deletes: true}.model())},
			{Name: "a cell's timestamp is the server's time", Off: "stamped-by-slot",
				Finds: "an append succeeded, and its slot has another's entry", Run: bound(cellRules{clockStamps: true}.model())},
			{Name: "a delete by the server's time", Off: "stamped-by-slot",
				Finds: "a cell outlives the delete of its row", Run: bound(cellRules{clockStamps: true, deletes: true}.model())},
		},
	}
}
