package apply

import (
	"salectl/backends/ledger"
	"salectl/planner"
)

// Progress reports a completed step.
type Progress struct {
	Address string // as in the plan
	Action  string // create, update, delete; before a delete also seal, export
	Done    int    // number of the plan's actions that are done
	Total   int
	Note    string // details, for people
}

// Result is the outcome of Apply or Destroy.
type Result struct {
	Sale       string
	UID        string
	Generation uint64 // that every shard has taken
	// Changed reports whether this run changed anything: it made a table, appended to a log,
	// repaired a marker, exported, or deleted an existing log. It is false for a plan that was
	// carried out before. What Destroy removes from a node does not count, since the node does
	// not report whether it existed. Beside an error, Changed is a lower bound: a call without
	// an answer may have changed something too.
	Changed bool
	// Summary counts the completed actions of the plan.
	Summary planner.Summary
	// Shortfall is the number of units that were to be removed but were claimed first.
	Shortfall int64
	// Unmarked are the lock nodes whose markers could not be written.
	Unmarked []string
	// Refund is the part of a destroyed red packet that was not taken. It is nil if the sale
	// has no red packet or is not sealed.
	Refund *planner.Refund
	// Packets is the public state of the red packet that was applied; nil if the sale has
	// none.
	Packets *ledger.PacketsStatus
	// Export is the path of the file that Destroy wrote or found complete.
	Export string
	// ExportDigest is the SHA-256 of the exported file, as recorded in the sale's log.
	ExportDigest []byte
	// Warnings are failures that do not affect the result.
	Warnings []string
}
