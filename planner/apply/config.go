package apply

import (
	"time"

	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/planner"
	"salectl/planner/machine"
	"salectl/units"
)

// Config holds the backends and options of Run and Destroy.
type Config struct {
	machine.Backends
	Options
	// Remember receives from Destroy what users bought, before anything is deleted. Nil: the
	// purchases are not kept.
	Remember Remember
}

// Options are the parameters of an execution that no backend determines.
type Options struct {
	// Writer is 8 random bytes, drawn anew for each run of the program.
	Writer []byte
	// Who is recorded in the sale's log as the planner, as user@host.
	Who string
	// Progress is called once for each address that is done, never concurrently. It may be
	// nil.
	Progress func(Progress)
	// Linger is how long Destroy keeps the sealed logs after their export, so that feeds which
	// are up to date read the end. With 0 it deletes at once.
	Linger time.Duration
	// CancelHolds makes Destroy cancel held claims. Otherwise it waits until each is settled.
	CancelHolds bool
	// Units supplies the payloads of the units that Run adds (PayloadsOf); nil if units are
	// numbers.
	Units *Payloads
	// Key decrypts the payloads of units; nil if units are numbers or public.
	Key *units.Key
	// DrawKey encrypts the secret of a draw that Run begins, and decrypts it for a plan of
	// MakeReveal; nil if neither happens.
	DrawKey *units.Key
}

// Terms are the parameters of the Machine of an execution.
type Terms struct {
	machine.Names
	Options
	Sizes lists.Sizes // of the calls on lists; 0: the defaults
}

func (c Config) terms() Terms { return Terms{Names: c.Names(), Options: c.Options} }

// Progress reports a completed step.
type Progress struct {
	Address string // as in the plan
	Action  string // create, update, delete; before a delete also seal, export
	Done    int    // number of the plan's actions that are done
	Total   int
	Note    string // details, for people
}

// Result is the outcome of Run or Destroy.
type Result struct {
	Sale       string `json:"sale"`
	UID        string `json:"uid"`
	Generation uint64 `json:"generation,omitempty"` // that every shard has taken
	// Changed reports whether this run changed anything: it made a table, appended to a log,
	// repaired a marker, exported, or deleted an existing log. It is false for a plan that was
	// carried out before. What Destroy removes from a node does not count, since the node does
	// not report whether it existed. Beside an error, Changed is a lower bound: a call without
	// an answer may have changed something too.
	Changed bool `json:"changed"`
	// Summary counts the completed actions of the plan.
	Summary planner.Summary `json:"summary"`
	// Shortfall is the number of units that were to be removed but were claimed first.
	Shortfall int64 `json:"shortfall"`
	// Unmarked are the lock nodes whose markers could not be written.
	Unmarked []string `json:"unmarked,omitempty"`
	// Refund is the part of a destroyed red packet that was not taken. It is nil if the sale
	// has no red packet or is not sealed.
	Refund *planner.Refund `json:"refund,omitempty"`
	// Packets is the public state of the red packet that was applied; nil if the sale has
	// none.
	Packets *ledger.PacketsStatus `json:"packets,omitempty"`
	// Export is the path of the file that Destroy wrote or found complete.
	Export string `json:"export,omitempty"`
	// ExportDigest is the SHA-256 of the exported file in hex, as recorded in the sale's log, and
	// Manifest the path of a file with it, in the format of sha256sum -c.
	ExportDigest string `json:"exportSha256,omitempty"`
	Manifest     string `json:"manifest,omitempty"`
	// Warnings are failures that do not affect the result.
	Warnings []string `json:"warnings"`
}
