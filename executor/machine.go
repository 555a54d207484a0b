package executor

import (
	"fmt"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/lists"
	"salectl/executor/shard"
)

// MachineConfig is what the machine of a process is made of, whatever runs it. Lists is
// for engine redis only, Sizes may be 0: all else is required.
type MachineConfig struct {
	Sale    string                    // the name
	Address string                    // as Config has it
	Nodes   []string                  // the lock nodes' names
	Lists   []string                  // those of the nodes that keep lists
	Queue   int                       // as Config has it
	Me      []byte                    // 8 bytes, new at each start of a process: as commits name it
	Token   func() string             // makes the tokens of leases, each new
	Key     func() string             // makes the keys of requests that have none, each new
	Jitter  func() float64            // from 0 to below 1
	Sizes   lists.Sizes               // of the calls about lists; 0: the usual ones
	Users   OpenUsers                 // as Config has it
	Ruled   func(rule, result string) // counts what rules have said; nil: nobody does
}

// machine is what Executor and Stepped both run: the owner, and the tenure that it has
// begun, and admission. It makes no call and starts no goroutine: whoever has it makes
// the calls of lead, and runs the shards and batchers of the tenure.
type machine struct {
	*admission
	cfg   MachineConfig
	owner *owner
	clock clock.Clock                         // of the shards
	told  func(shard int) func(time.Duration) // as shard.Config.Answered; nil: nobody counts

	// term is the present tenure; nil: there is none. It outlives that of admission where
	// the sale's log cannot be followed any more.
	term *tenure
}

// lead lets the owner act, and tells the tenure and admission what it has to say; do gets
// the calls that it wants made. Where start is set a tenure has begun, whose shards are to
// be run. An error means that nobody can follow the sale's log: the shards have been told
// to stop.
func (m *machine) lead(now clock.Now, do func(calls.Call)) (ownerEffects, error) {
	out, err := m.owner.next(now)
	if err != nil {
		err = fmt.Errorf("sale %s cannot be served: %w", m.cfg.Sale, err)
		m.lose(m.term, err)
		return out, err
	}
	if out.read != nil {
		do(calls.OfLogs("read sale", shard.CallTimeout, out.read, m.owner.read))
	}
	if out.start {
		m.term = newTenure(now, m.owner, shard.Config{Me: m.cfg.Me, Clock: m.clock, Queue: m.cfg.Queue, Doubts: &m.doubts}, m.told)
		m.tenure.Store(m.term)
	}
	if m.term != nil {
		m.term.told(m.owner, out)
	}
	for _, c := range out.calls { // rights that are over have been told before the leases are given back
		do(calls.OfNode(c, m.owner.voted))
	}
	if out.stop != nil {
		m.term.stop(*out.stop)
	}
	m.show(m.owner)
	return out, nil
}

// drain has the tenure end and no other begin.
func (m *machine) drain(now clock.Now) {
	m.draining.Store(true)
	m.owner.drain(now)
}

// halted says that all shards of the tenure have ended, and no call of theirs is under way.
func (m *machine) halted(now clock.Now) {
	m.tenure.Store(nil)
	for _, u := range m.term.users {
		u.end()
	}
	m.term = nil
	m.owner.halted(now)
}
