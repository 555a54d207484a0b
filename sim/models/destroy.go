package models

import "salectl/sim/models/explore"

// destroyState is how far the planner has come with destroying the sale, and what the
// sale's own log and the export have.
type destroyState struct {
	stage    destroyStage
	killed   bool
	exported uint8 // a bit for each request whose claim is in the export
	sealed   bool  // the sale's own log has Sealed
	done     bool  // it has Destroyed
}

type destroyStage uint8

const (
	sealing destroyStage = iota
	exporting
	recording
	deleting
	ending
)

// destroySteps are those of destroy, which may be killed once and run again.
func (w logRules) destroySteps(s logState, do explore.Do[logState]) {
	const by = writing + planner
	t := s
	switch s.destroys.stage {
	case sealing:
		w.sealSteps(s, do)
	case exporting:
		t.export(w)
		t.destroys.stage = recording
		do(by, t, "destroy exports the shard and reads the export back")
	case recording:
		t.destroys.sealed = !w.deletesFirst
		t.destroys.stage = deleting
		if w.deletesFirst {
			do(by, t, "destroy leaves the sale's log for later")
		} else {
			do(by, t, "destroy appends Sealed to the sale's log")
		}
	case deleting:
		t.deleted = true
		t.destroys.stage = ending
		do(by, t, "destroy deletes the shard's row")
	case ending:
		t.destroys.done = true
		do(by, t, "destroy appends Destroyed to the sale's log")
	}
	if !s.destroys.killed && s.destroys.stage > sealing && !s.destroys.done {
		u := s
		u.destroys.killed, u.destroys.stage = true, sealing
		u.writer[planner] = logWriter{life: 1}
		do(explore.Fault, u, "destroy is killed, and run again")
	}
}

// sealSteps are how destroy begins, for the first time or again.
func (w logRules) sealSteps(s logState, do explore.Do[logState]) {
	const by = writing + planner
	read := s.writer[planner].read
	t := s
	switch {
	case s.destroys.sealed:
		t.destroys.stage = deleting
		do(by, t, "destroy finds Sealed in the sale's log: it only deletes")
	case s.deleted:
		t.destroys.exported, t.destroys.stage = 0, ending
		do(by, t, "destroy finds no row, and exports what there is")
	case s.fold(read, w.units).sealed:
		t.destroys.stage = exporting
		do(by, t, "destroy finds the shard sealed")
	case read > 0 && t.send(planner, sealed, read):
		do(by, t, "destroy appends Sealed to the shard in slot %d", read)
	}
}

func (s *logState) export(w logRules) {
	s.destroys.exported = 0
	for r, unit := range s.fold(s.length, w.units).has {
		if unit != 0 {
			s.destroys.exported |= 1 << r
		}
	}
}

func (w logRules) destroyWrong(s logState) string {
	if !s.destroys.done {
		return ""
	}
	for r, unit := range s.answered {
		if unit != 0 && s.destroys.exported>>r&1 == 0 {
			return "a buyer's claim is in no export of the destroyed sale"
		}
	}
	if !w.rowsStay && s.calls == [logCalls]logCall{} && s.revived != [logSlots]uint8{} {
		return "a row outlives its sale"
	}
	return ""
}

func destroyModel() Model {
	with := func(w logRules) logRules {
		w.destroys, w.requests = true, 1
		return w
	}
	return Model{
		Name:  "destroy",
		About: "the same log while destroy seals, exports and deletes it, is killed and repeated; an owner restarts with open appends",
		Rules: []Rule{
			{Name: "sealed-before-delete", Marked: true,
				Text:    "`destroy` closes every shard, drives every transfer to its end, seals, exports, appends `Sealed` with roots and digest, and only then deletes.",
				Without: "Killed after its first delete, destroy finds no row and exports nothing: a claim is in no export."},
			{Name: "gone-is-gone", Marked: true,
				Text:    "A log without a head is gone: a process that finds none stops, and neither resends nor appends `Own`.",
				Without: "A process takes the absent row for an empty log and appends `Own` after the delete: the row outlives its sale."},
		},
		Cases: []Case{
			{Name: "one owner", Run: bound(with(logRules{owners: 1, units: 1, sessions: 1}).model())},
			{Name: "two processes, one of which becomes the owner", Large: true, Run: bound(with(logRules{units: 2, sessions: 1}).model())},
			{Name: "one owner that restarts", Large: true, Run: bound(with(logRules{owners: 1, units: 2, restarts: 1, sessions: 2}).model())},
			{Name: "the sale's log has Sealed after the delete", Off: "sealed-before-delete",
				Finds: "a buyer's claim is in no export of the destroyed sale",
				Run:   bound(with(logRules{deletesFirst: true, units: 2, sessions: 2}).model())},
			{Name: "no row is an empty log", Off: "gone-is-gone", Finds: "a row outlives its sale",
				Run: bound(with(logRules{emptyIsLog: true, units: 2, sessions: 2}).model())},
		},
	}
}
