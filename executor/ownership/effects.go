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

// Run is a run of the sale, in which a session begins.
type Run struct {
	UID       string
	Shards    int
	Declared  spec.Sale
	RedPacket *ledger.RedPacket // nil: units are not packets
}

// Effects are the actions that a Machine requests.
type Effects struct {
	Read     *ledger.Request
	Calls    []quorum.Call // to lock nodes, for leases
	Roster   []quorum.Call // to lock nodes, for the list of processes
	Start    *Run          // nil: no session begins
	Open     []Opening     // shards whose machines start
	Rights   []Grant       // new rights of shards
	Halts    []Halting     // shards whose machines stop
	Plans    bool          // the generations of the sale have changed: announce them to the shards
	Updates  []Outgoing    // for peers
	Granted  []int         // shards whose leases a peer released to this process
	Dial     []Process     // peers to link to
	Hang     []string      // ids of peers whose links end
	Messages []shard.Message
	Ended    *shard.Halt // set when the session is over, to the halt that ended it
	Events   []quorum.Event
	Wake     time.Duration
}

// Opening starts the machine of a shard.
type Opening struct {
	Shard   int
	Follows bool // without rights: another process owns the shard
}

// Grant replaces the rights of a shard.
type Grant struct {
	Shard  int
	Rights shard.Rights
}

// Halting stops the machine of a shard.
type Halting struct {
	Shard int
	Halt  shard.Halt
}

// Outgoing is an update to send.
type Outgoing struct {
	To     string // id of the peer
	Update *PeerUpdate
}

// Causes of the end of a session or of the ownership of a shard.
var (
	errNotLive  = errors.New("the sale's run has ended")
	errLost     = errors.New("the log of a run that has not ended is gone")
	ErrDraining = errors.New("the process is shutting down")
	errClock    = errors.New("this host's clock is off the lock nodes' clocks")
	errGiven    = errors.New("the shard is assigned to another process")
	errIsolated = errors.New("this process is isolated from the other processes")
)

// TooLate is the halt of a drain that was not complete in time.
var TooLate = shard.Halt{Why: ErrDraining, Refusal: api.Draining}
