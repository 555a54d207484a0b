package apply

import (
	"fmt"
)

// stage describes the current step of an execution. A stage that a plan does not need is skipped.
type stage string

// Stages, in their order.
const (
	notBegun          stage = "not begun"
	askingNodes       stage = "asking the lock nodes"
	checkingTable     stage = "checking the table"
	readingSale       stage = "reading the sale's log"
	storingUnits      stage = "storing what the units are"
	appendingPlanned  stage = "appending Planned"
	bringingShards    stage = "bringing the shards to their generation"
	markingNodes      stage = "marking the lock nodes"
	fillingLists      stage = "filling the lists"
	notingApplied     stage = "appending Applied"
	closingEntries    stage = "closing the entries of the shards"
	notingEntries     stage = "appending EntriesClosed"
	notingDrawn       stage = "appending Drawn"
	notingRanked      stage = "appending Ranked"
	settlingTransfers stage = "ending transfers and holds"
	sealingShards     stage = "sealing the shards"
	exporting         stage = "exporting"
	notingSealed      stage = "appending Sealed"
	sweepingNodes     stage = "sweeping the lock nodes"
	forgettingLists   stage = "deleting the lists"
	deletingLogs      stage = "deleting the shards' logs"
	notingDestroyed   stage = "appending Destroyed"
	deletingSale      stage = "deleting the sale's log"
)

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
	if x.planned != unsent || x.sale.Next() > 0 {
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
