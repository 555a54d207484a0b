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

// process is this process and its present session, which all parts of a machine use.
type process struct {
	cfg    Config
	stage  stage
	nodes  Nodes
	clock  hostClock
	silent bool // by the last reply, no majority of the lock nodes votes
	out    Effects

	ending   bool // it gives its shards away before it drains
	draining bool
	standby  bool // by the wish of an operator: it owns no shard

	// Of the present session.
	uid     string
	ttl     time.Duration
	traffic *Traffic // nil: it is not known
}

// Config configures a machine. Version, Standby and Lists may be empty; all other fields are required.
type Config struct {
	Sale    string         // the name
	ID      string         // of this start of the process
	Address string         // where the process answers claims
	Version string         // of the program
	Standby bool           // the process is to own no shard
	Nodes   []string       // the lock nodes' names
	Lists   []string       // those of the nodes that keep lists, for engine redis
	Token   func() string  // makes the tokens of leases, each new
	Jitter  func() float64 // from 0 to below 1
}

// stage is how far a session has come.
type stage int

const (
	following stage = iota // there is none: the sale has no live run, as far as is known
	serving                // shards are owned, or may be
	leaving                // what runs is being stopped
)

// retiring reports whether this process is to own no shard any more.
func (p *process) retiring() bool { return p.ending || p.draining || p.standby }

// note returns what this process writes about itself to the lock nodes.
func (p *process) note() Process {
	note := Process{ID: p.cfg.ID, Address: p.cfg.Address, Version: p.cfg.Version}
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

// heard takes in how a lock node is.
func (p *process) heard(now clock.Now, node int, v quorum.NodeView) {
	p.nodes.Replied(now, node, v)
	p.silent = p.nodes.silent(p.silent)
}

// readEvery returns how often the sale's log is read.
func (p *process) readEvery() time.Duration {
	if p.stage == following {
		return followEvery
	}
	return p.ttl / ReadsPerTTL
}

// servable reports whether this process can serve what is declared, with what it was
// given. The lists lie where the ledger says: elsewhere there are others, or
// none.
func (cfg *Config) servable(declared spec.Sale) error {
	var nodes []string
	if declared.Engine == spec.EngineRedis {
		nodes = declared.Redis.Nodes
	}
	if !slices.Equal(nodes, cfg.Lists) {
		return fmt.Errorf("it was applied with engine %s and lists on [%s], and this process was told of lists on [%s]; see that the file says what was applied",
			declared.Engine, strings.Join(nodes, " "), strings.Join(cfg.Lists, " "))
	}
	return nil
}
