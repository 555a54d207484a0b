package check

import (
	"fmt"
	"maps"
	"slices"
)

// converged judges a sale that is applied and not closed when all is done: the units that its file
// declares are those that there are, one by one, but for those that refunds took out of it, and
// those that somebody had before a shard was to drop or remove them.
func converged(e *evidence, bad fault) {
	if !e.h.Final.Rested || !e.h.Final.Demanded || len(e.runs) == 0 {
		return
	}
	r := e.runs[len(e.runs)-1]
	newest := r.planned[len(r.planned)-1]
	if r.sealed != nil || !r.has(newest.GetGeneration(), forever) || newest.GetSettings().GetPhase() == phaseClosed || newest.stock() == 0 {
		return
	}
	retired := make(map[int64]bool)
	for _, c := range e.claims {
		for _, unit := range c.units {
			if c.retired && c.at.log.run == r {
				retired[unit] = true
			}
		}
	}
	var toRemove int64 // that no shard has removed, for somebody had them
	for _, p := range r.planned {
		for _, change := range p.GetShards() {
			toRemove += change.GetRemove()
		}
	}
	declared, names := e.declared(newest.GetSpec()), e.names(r)
	left := newest.stock()
	for _, unit := range slices.Sorted(maps.Keys(r.moves)) {
		switch moves := r.moves[unit]; moves[len(moves)-1].to.kind {
		case removed:
			toRemove--
			continue
		case nowhere:
			continue
		}
		if left--; names == nil {
			continue
		}
		if i := slices.Index(declared, names[unit]); i < 0 && r.stayed(unit) {
			left++
		} else if i < 0 {
			bad("run %s ends with unit %d, %q, which is not declared", r.uid, unit, names[unit])
		} else {
			declared = slices.Delete(declared, i, i+1)
		}
	}
	for unit := range retired {
		if i := slices.Index(declared, names[unit]); i >= 0 {
			declared = slices.Delete(declared, i, i+1)
		}
	}
	if left < -max(0, toRemove) || left > int64(len(retired)) || names != nil && len(declared) > 0 {
		bad("run %s ends with %d units fewer than the %d that are declared, and refunds took out %d: %s", r.uid, left, newest.stock(), len(retired), fmt.Sprint(declared))
	}
}

// stayed reports whether a unit is in the sale although a generation was to take it out.
func (r *run) stayed(unit int64) bool {
	for i, p := range r.planned {
		for _, change := range p.GetShards() {
			if among(change.GetDrop(), unit) && r.kept(unit, i) {
				return true
			}
		}
	}
	return false
}
