package planner

import (
	"bytes"
	"fmt"

	"salectl/backends/ledger"
	"salectl/spec"
)

// ActionReason is the code of the reason of an action or refusal. Action.Reason is the same as
// a sentence, with the generations and names of the case.
type ActionReason string

// Reasons of actions, explained in docs/gitops.md, whose test reads this list.
const (
	// Requested by the file or a command.
	ReasonNew                ActionReason = "new"                 // the sale is new, with all its resources
	ReasonNewRun             ActionReason = "new_run"             // an earlier run is destroyed
	ReasonDeclarationChanged ActionReason = "declaration_changed" // the file declares what no generation did
	ReasonPhaseChanges       ActionReason = "phase_changes"       // only a list of an open sale is on
	ReasonNewNode            ActionReason = "new_node"            // the node is new to the sale
	ReasonRequested          ActionReason = "requested"           // pause, resume, close, destroy, draw

	// Left undone by an earlier command.
	ReasonGenerationPending ActionReason = "generation_pending"   // not on every shard
	ReasonNodePending       ActionReason = "node_pending"         // no apply has reached the lock node
	ReasonRemovalFellShort  ActionReason = "removal_fell_short"   // units to be removed were claimed first
	ReasonDestroyPending    ActionReason = "destroy_pending"      // the sale is exported and not deleted
	ReasonLateWrite         ActionReason = "written_after_delete" // a pending write arrived after destroy

	// Drift: another party or a fault has changed the state.
	ReasonOtherGeneration ActionReason = "other_generation"  // the file equals the declaration of an earlier generation
	ReasonPhaseByHand     ActionReason = "phase_set_by_hand" // pause, resume or close, against a declared phase
	ReasonSettingsDiffer  ActionReason = "settings_differ"   // the settings in force are not those declared
	ReasonMarkerMissing   ActionReason = "marker_missing"    // a lock node that had the marker lacks it
	ReasonListMissing     ActionReason = "list_missing"      // a shard has no list on its node
	ReasonListOff         ActionReason = "list_off"          // the list exists and is off
	ReasonListUnknown     ActionReason = "list_unknown"      // the node of the list cannot be queried

	// Drift that is refused, since only people can repair it.
	ReasonTableUnfit ActionReason = "table_unfit" // the table is disabled, or a setting endangers the ledger
	ReasonLogMissing ActionReason = "log_missing" // a shard of a live sale has no log
	ReasonLogOlder   ActionReason = "log_older"   // a shard's log lacks a generation that every shard had
)

// since describes the generation that replaced the declaration in the file, and its author. It
// returns "" if no generation of this run declared that. The file does not show whether
// another file was applied or this one was reverted.
func since(declaration []byte, sale *ledger.Sale) string {
	for g := sale.Generation() - 1; g >= 1; g-- {
		if bytes.Equal(sale.Planned(g).GetSpec(), declaration) {
			return fmt.Sprintf("the file has the declaration of generation %d, but generation %d by %s has another:"+
				" another file was applied, or this one was reverted", g, g+1, sale.Planned(g+1).GetWho())
		}
	}
	return ""
}

// updateReason returns why a live sale receives another generation.
func updateReason(changed, drifted, moved bool, declaration []byte, sale *ledger.Sale) (ActionReason, string) {
	switch {
	case drifted:
		return ReasonSettingsDiffer, "the settings in force differ from the declared ones"
	case !changed && moved:
		g := phaseSince(sale)
		return ReasonPhaseByHand, fmt.Sprintf("its phase was set manually in generation %d by %s, and differs from the declared one", g, sale.Planned(g).GetWho())
	case !changed:
		return ReasonRemovalFellShort, "the shards do not have the declared number of units: an earlier removal fell short"
	}
	why, text := ReasonDeclarationChanged, "the declaration has changed"
	if earlier := since(declaration, sale); earlier != "" {
		why, text = ReasonOtherGeneration, earlier
	}
	if sale.Applied() < sale.Generation() {
		text += fmt.Sprintf("; generation %d is completed first", sale.Generation())
	}
	return why, text
}

// deleteReason returns why a resource is deleted; live is the text for a live sale.
func deleteReason(sale *ledger.Sale, live string) (ActionReason, string) {
	switch {
	case sale.Destroyed():
		return ReasonLateWrite, "the sale is destroyed; a late write has left this behind"
	case sale.Sealed() != nil:
		return ReasonDestroyPending, "the sale is exported, and an earlier destroy did not finish"
	}
	return ReasonRequested, live
}

// DriftError is drift that only people can repair.
type DriftError struct {
	Address string // address of the resource, as in Action
	Reason  ActionReason
	Err     error // wraps a *Refusal with the remedy, and ledger.ErrCorrupt if a log is damaged
}

func (e *DriftError) Error() string { return e.Err.Error() }
func (e *DriftError) Unwrap() error { return e.Err }

// DamagedError returns the error for a shard of a live sale whose log is gone, if head is nil, or
// older than before.
func DamagedError(sale *ledger.Sale, shard int, head *ledger.Head) error {
	log, drift := spec.ShardLog(sale.UID(), shard, sale.Shards()), &DriftError{Address: ShardAddress(shard), Reason: ReasonLogMissing}
	refusal := Refuse("%s of a live sale has no log (%s)", drift.Address, log).
		With("The log is never created anew, since its claims would be lost. Find out what deleted it, and restore it from a snapshot or a backup.")
	if head != nil {
		drift.Reason = ReasonLogOlder
		refusal = Refuse("the log of %s (%s) ends with generation %d, and generation %d was on every shard: an older copy was restored, which lacks later claims",
			drift.Address, log, head.Generation, sale.Applied()).With("Restore a newer copy.")
	}
	drift.Err = fmt.Errorf("%w: %w", ledger.ErrCorrupt, refusal)
	return drift
}

// phaseSince returns the generation that set the current phase of a run.
func phaseSince(sale *ledger.Sale) uint64 {
	g, now := sale.Generation(), sale.Newest().GetSettings().GetPhase()
	for g > 1 && sale.Planned(g-1).GetSettings().GetPhase() == now {
		g--
	}
	return g
}
