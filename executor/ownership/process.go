package ownership

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/quorum"
	"salectl/spec"
)

// process is this process and its current session, shared by all parts of a machine.
type process struct {
	cfg    Config
	stage  stage
	nodes  Nodes
	clock  hostClock
	silent bool // by the last replies, no majority of the lock nodes votes
	out    Effects

	ending   bool // it releases its shards before it drains
	draining bool
	standby  bool // an operator's command: it owns no shard

	// Of the current session.
	uid     string
	ttl     time.Duration
	traffic *Traffic // nil: unknown
}

// Config configures a machine. Admin, Version, Standby and Lists may be empty; all other fields are required.
type Config struct {
	Sale    string         // name of the sale
	ID      string         // id of this start of the process
	Address string         // address at which the process answers claims
	Admin   string         // address at which it answers operators; "": none
	Version string         // version of the program
	Standby bool           // the process owns no shard
	Nodes   []string       // names of the lock nodes
	Lists   []string       // names of the nodes with lists, for engine redis
	Token   func() string  // returns a new token for a lease
	Jitter  func() float64 // returns values in [0, 1)
}

// stage is the stage of a session.
type stage int

const (
	following stage = iota // no session: the sale has no known live run
	serving                // the process may own shards
	leaving                // the machines of shards are stopping
)

// retiring reports whether this process must own no more shards.
func (p *process) retiring() bool { return p.ending || p.draining || p.standby }

// note returns the note of this process for the lock nodes.
func (p *process) note() Process {
	note := Process{ID: p.cfg.ID, Address: p.cfg.Address, Admin: p.cfg.Admin, Version: p.cfg.Version}
	switch {
	case p.ending, p.draining:
		note.State = api.ProcessDraining
	case p.standby:
		note.State = api.ProcessStandby
	case p.clock.off != 0:
		note.State = api.ProcessUnable
	}
	return note
}

// send sends an update to a peer.
func (p *process) send(to string, u *PeerUpdate) {
	u.Run = p.uid
	p.out.Updates = append(p.out.Updates, Outgoing{to, u})
}

// noteNode records the health of a lock node.
func (p *process) noteNode(now clock.Now, node int, v quorum.NodeView) {
	p.nodes.Replied(now, node, v)
	p.silent = p.nodes.silent(p.silent)
}

// readEvery returns the interval of reading the sale's log.
func (p *process) readEvery() time.Duration {
	if p.stage == following {
		return followEvery
	}
	return p.ttl / ReadsPerTTL
}

// servable returns an error if this process cannot serve the declaration with its configuration.
// Its lists must be on the nodes that the ledger records: other nodes have other lists, or none.
func (cfg *Config) servable(declared spec.Sale) error {
	var nodes []string
	if declared.Engine == spec.EngineRedis {
		nodes = declared.Redis.Nodes
	}
	if !slices.Equal(nodes, cfg.Lists) {
		return fmt.Errorf("it was applied with engine %s and lists on [%s], but this process was started with lists on [%s]; restart it with a file that has what was applied",
			declared.Engine, strings.Join(nodes, " "), strings.Join(cfg.Lists, " "))
	}
	return nil
}

// hostClock is the error of this host's clock against the lock nodes' clocks.
type hostClock struct {
	known bool          // the lock nodes have reported the time in this session
	off   time.Duration // last known offset from the median of their clocks; 0: at most a ttl
	since time.Duration // monotonic: time at which off became nonzero
}

// read updates the offset, which is 0 up to a ttl. While too few nodes report their time it keeps
// the last known offset.
func (c *hostClock) read(now clock.Now, leases *quorum.Group, ttl time.Duration) {
	off, known := leases.ClockOff(now)
	if !known { // the clock may be right again; handover.advance finds out
		c.known = c.known && c.off == 0
		return
	}
	c.known = true
	switch {
	case off.Abs() <= ttl:
		c.off = 0
	case c.off == 0:
		c.off, c.since = off, now.Mono
	default:
		c.off = off
	}
}

// lost reports whether the clock has been off for more than a ttl, so that this process must
// release its shards.
func (c *hostClock) lost(now clock.Now, ttl time.Duration) bool {
	return c.off != 0 && now.Mono-c.since > ttl
}
