package planner

import (
	"bytes"
	"fmt"

	"salectl/backends/ledger"
	"salectl/spec"
)

// ActionReason says in one word why an action, or a refusal, is due. Action.Reason says the
// same in a sentence, with the generations and names of the case.
type ActionReason string

// The reasons of actions. docs/gitops.md explains each.
const (
	// Asked for, by the file or a command.
	ReasonNew                ActionReason = "new"                 // the sale is new, and so is all that is its
	ReasonNewRun             ActionReason = "new_run"             // an earlier run is destroyed
	ReasonDeclarationChanged ActionReason = "declaration_changed" // the file declares what no generation did
	ReasonPhaseChanges       ActionReason = "phase_changes"       // a list gives in an open sale alone
	ReasonNewNode            ActionReason = "new_node"            // the sale did not have it as a lock node
	ReasonRequested          ActionReason = "requested"           // pause, resume, close, destroy, draw

	// An earlier command did not end, or could not do all.
	ReasonGenerationPending ActionReason = "generation_pending"   // not on every shard
	ReasonNodePending       ActionReason = "node_pending"         // no apply has reached the lock node yet
	ReasonRemovalFellShort  ActionReason = "removal_fell_short"   // units that were to go were claimed before
	ReasonDestroyPending    ActionReason = "destroy_pending"      // the sale is exported, and not deleted
	ReasonLateWrite         ActionReason = "written_after_delete" // a write that was on its way came after destroy

	// Drift: somebody else, or a fault, has changed what there is.
	ReasonOtherGeneration ActionReason = "other_generation"  // the file is as an earlier generation declared
	ReasonPhaseByHand     ActionReason = "phase_set_by_hand" // pause, resume or close, against a declared phase
	ReasonSettingsDiffer  ActionReason = "settings_differ"   // those in force are not those declared
	ReasonMarkerMissing   ActionReason = "marker_missing"    // of a lock node that had it
	ReasonListMissing     ActionReason = "list_missing"      // of a shard, on its node
	ReasonListOff         ActionReason = "list_off"          // it is there, and gives nothing
	ReasonListUnknown     ActionReason = "list_unknown"      // its node cannot be asked

	// Drift that is refused, since nothing mends it but people.
	ReasonTableUnfit ActionReason = "table_unfit" // a setting of the table endangers the ledger, or it is disabled
	ReasonLogMissing ActionReason = "log_missing" // a shard of a live sale has no log
	ReasonLogOlder   ActionReason = "log_older"   // it lacks a generation that every shard had
)

// Reasons are all of them, in the order above: drift comes last, from ReasonOtherGeneration on.
var Reasons = []ActionReason{
	ReasonNew, ReasonNewRun, ReasonDeclarationChanged, ReasonPhaseChanges, ReasonNewNode, ReasonRequested,
	ReasonGenerationPending, ReasonNodePending, ReasonRemovalFellShort, ReasonDestroyPending, ReasonLateWrite,
	ReasonOtherGeneration, ReasonPhaseByHand, ReasonSettingsDiffer, ReasonMarkerMissing,
	ReasonListMissing, ReasonListOff, ReasonListUnknown, ReasonTableUnfit, ReasonLogMissing, ReasonLogOlder,
}

// since finds the generation that has replaced what the file declares, and says who has
// planned it. "": no generation of this run declared that. The file cannot tell which of two
// things has happened, an apply of another file or a file that was taken back.
func since(declaration []byte, sale *ledger.Sale) string {
	for g := sale.Generation() - 1; g >= 1; g-- {
		if p, _ := sale.Planned(g); bytes.Equal(p.GetSpec(), declaration) {
			by, _ := sale.Planned(g + 1)
			return fmt.Sprintf("the file is as generation %d declared, and generation %d by %s has another declaration:"+
				" somebody applied another file, or this one was taken back", g, g+1, by.GetWho())
		}
	}
	return ""
}

// updateReason says why a live sale comes to another generation.
func updateReason(changed, drifted, moved bool, declaration []byte, sale *ledger.Sale) (ActionReason, string) {
	switch {
	case drifted:
		return ReasonSettingsDiffer, "the settings in force are not those that were declared"
	case !changed && moved:
		g := phaseSince(sale)
		by, _ := sale.Planned(g)
		return ReasonPhaseByHand, fmt.Sprintf("its phase was set by hand, in generation %d by %s, to another one than is declared", g, by.GetWho())
	case !changed:
		return ReasonRemovalFellShort, "the shards do not have as many units as declared: an earlier removal fell short"
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

// deleteReason says why something is deleted; live is said of what a live sale has.
func deleteReason(sale *ledger.Sale, live string) (ActionReason, string) {
	switch {
	case sale.Destroyed():
		return ReasonLateWrite, "the sale is destroyed; a write that came late has left this behind"
	case sale.Sealed() != nil:
		return ReasonDestroyPending, "the sale is exported, and an earlier destroy did not end"
	}
	return ReasonRequested, live
}

// DriftError is drift that nothing but people can mend.
type DriftError struct {
	Address string // of the resource, as an Action has it
	Reason  ActionReason
	Err     error // a *Refusal or ledger.ErrCorrupt, which says what is to be done
}

func (e *DriftError) Error() string { return e.Err.Error() }
func (e *DriftError) Unwrap() error { return e.Err }

// damaged is a shard of a live sale whose log is gone, or older than it was.
func damaged(sale *ledger.Sale, shard int, head *ledger.Head) error {
	if head == nil {
		return noLog(sale, shard)
	}
	log, address := spec.ShardLog(sale.UID(), shard, sale.Shards()), shardAddress(shard)
	return &DriftError{Address: address, Reason: ReasonLogOlder, Err: fmt.Errorf("%w: the log of %s (%s) ends with generation %d, and generation %d was on every shard:"+
		" an older copy was put back, and claims that came after it are lost. Put a newer one in its place",
		ledger.ErrCorrupt, address, log, head.Generation, sale.Applied())}
}

// noLog is a shard that must have a log and has none.
func noLog(sale *ledger.Sale, shard int) error {
	log, address := spec.ShardLog(sale.UID(), shard, sale.Shards()), shardAddress(shard)
	return &DriftError{Address: address, Reason: ReasonLogMissing, Err: fmt.Errorf("%w: %s of a live sale has no log (%s)."+
		" It is never made anew, since its claims would be lost; look for what removed it, and put it back from a snapshot or a backup",
		ledger.ErrCorrupt, address, log)}
}
