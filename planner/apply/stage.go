package apply

import (
	"fmt"
)

// stage is the current step of an execution. Stages follow the order below; a stage that a
// plan does not need is skipped.
type stage int

const (
	notBegun stage = iota
	askingNodes
	checkingTable
	readingSale
	storingUnits
	appendingPlanned
	bringingShards
	markingNodes
	fillingLists
	notingApplied
	closingEntries
	notingEntries
	notingDrawn
	notingRanked
	settlingTransfers
	sealingShards
	exporting
	notingSealed
	sweepingNodes
	forgettingLists
	deletingLogs
	notingDestroyed
	deletingSale
)

func (s stage) String() string {
	return [...]string{
		"not begun", "asking the lock nodes", "checking the table", "reading the sale's log", "storing what the units are", "appending Planned",
		"bringing the shards to their generation", "marking the lock nodes", "filling the lists", "appending Applied",
		"closing the entries of the shards", "appending EntriesClosed", "appending Drawn", "appending Ranked",
		"ending transfers and holds", "sealing the shards", "exporting", "appending Sealed", "sweeping the lock nodes",
		"deleting the lists", "deleting the shards' logs", "appending Destroyed", "deleting the sale's log",
	}[s]
}

// planned is the knowledge about the plan in the sale's log.
type planned int

const (
	unsent     planned = iota // never sent by this execution
	sent                      // the log may have it
	found                     // the log has it, stored by any process
	stored                    // this execution has stored it
	carriedOut                // it was carried out before: completed actions are no progress
)

// isKnown reports whether the log has the plan.
func (p planned) isKnown() bool { return p >= found }

// begin enters a stage.
func (x *execution) begin(s stage) { x.stage, x.waits = s, "" }

// String describes the progress for people: "apply: appending Planned, slot 7, 3 of 5 shards
// done".
func (x *execution) String() string {
	text := fmt.Sprintf("%s: %v", x.plan.Kind, x.stage)
	if x.waits != "" {
		text += ", waiting " + x.waits
	}
	if x.stage > readingSale || x.sale.Next() > 0 {
		text += fmt.Sprintf(", slot %d", x.sale.Next())
	}
	if x.goal == 0 || len(x.shards) == 0 {
		return text
	}
	done := 0
	for _, s := range x.shards {
		if s.head != nil && s.head.Generation >= x.goal {
			done++
		}
	}
	return fmt.Sprintf("%s, %d of %d shards done", text, done, len(x.shards))
}
