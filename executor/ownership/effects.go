package ownership

import (
	"errors"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/executor/shard"
	"salectl/spec"
)

// Run is a run of the sale, for a session.
type Run struct {
	UID       string
	Shards    int
	Declared  spec.Sale
	RedPacket *ledger.RedPacket // nil: units are no packets
}

// Effects are what a machine wants done.
type Effects struct {
	Read     *ledger.Request
	Calls    []quorum.Call // of the leases
	Roster   []quorum.Call
	Start    *Run       // begin a session
	Open     []Opening  // run the machines of shards
	Rights   []Grant    // tell them
	Halts    []Halting  // stop them
	Plans    bool       // tell them the generations of sale
	Updates  []Outgoing // to peers
	Granted  []int      // shards whose leases a peer has freed for this process
	Dial     []Process  // make links to peers
	Hang     []string   // end those to peers, by id
	Messages []shard.Message
	Ended    *shard.Halt // nothing of the session is left, which ended by this halt
	Events   []quorum.Event
	Wake     time.Duration
}

// Opening starts the machine of a shard.
type Opening struct {
	Shard   int
	Follows bool // without rights: another process owns the shard
}

// Grant gives a shard its rights.
type Grant struct {
	Shard  int
	Rights shard.Rights
}

// Halting stops the machine of a shard.
type Halting struct {
	Shard int
	Halt  shard.Halt
}

// Outgoing is an update that is to be sent.
type Outgoing struct {
	To     string // the id of a peer
	Update *PeerUpdate
}

// Why a session ends, or a shard is given up.
var (
	errNotLive  = errors.New("the sale's run has ended")
	errLost     = errors.New("the sale's log is gone, of a run that has not ended")
	ErrDraining = errors.New("the process is going down")
	errClock    = errors.New("this host's clock is off the lock nodes' clocks")
	errGiven    = errors.New("another process is to own the shard")
	errIsolated = errors.New("this process reaches few of the others, which reach each other")
)

// TooLate ends a drain that has not come to its end in time.
var TooLate = shard.Halt{Why: ErrDraining, Refusal: api.Draining}
