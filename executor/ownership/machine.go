// Package ownership decides which process of a sale owns which shard.
//
// # Guarantees
//
// A process appends to a shard's log with Rights only, which a Machine grants it while it has the
// shard's lease, the sale's log was read within a ttl, and this host's clock is not off. Rights end
// with the lease, before the lock nodes may grant it to another process. Each shard is owned by one of
// the processes that reach each other: the assigned one where both it and the present owner agree,
// else the first that gets the lease. A shard moves between two live processes without a ttl passing,
// and a shard whose owner has died is owned again about a ttl and a second later. The commits that
// count are decided by the shard's log alone, so a wrong lease costs time, and no unit is sold twice.
//
// # What is left to callers
//
// A Machine makes no call and starts no goroutine. Callers pass in replies of the store (SaleRead) and
// of lock nodes (LeaseReply, RosterReply), updates of peers (Receive), links made and cut (Linked),
// ends of shards' machines (ShardEnded), operators' commands (StandBy, Retire, Drain) and the time
// (Tick). After one or more of them they call Advance and carry out its Effects. They call Tick at the
// time of its Wake. A caller starts a session with the Run of Effects.Start, and passes its totals to
// Serve before the next Advance. Calls may fail, repeat and be late; updates may be lost.
//
// # The session of a process (stage)
//
//	following  the sale's log is read; it has no live run, as far as is known
//	    -> serving    a run is live: Start
//	serving    this process is announced, finds peers, and owns shards
//	    -> leaving    the run has ended, its log is gone, or the process drains: Halts
//	leaving    machines of shards are stopping
//	    -> following  the last has ended: leases are released, Ended
//
// # A shard in this process (shareStage), while the session is serving
//
//	away       another process owns it, or none
//	    -> trying     it has no reachable owner, and is assigned here or to no process that takes it
//	    -> warming    the owner has accepted the request for it, or this process is its fallback
//	trying     its lease is tried for, nothing runs
//	    -> owned      the lease is won: Open
//	    -> away       another process owns it, or is assigned it
//	warming    its machine follows the log, which another process appends to
//	    -> taking     the owner has granted it or is unreachable
//	    -> stopping   it is assigned to another process
//	taking     its machine follows the log, and the lease is tried for
//	    -> owned      the lease is won
//	    -> warming    its owner has it still
//	    -> stopping   it is assigned to another process
//	owned      its lease is held, and its machine runs
//	    -> stopping   the lease is lost, the assigned process has requested it and read its log, this
//	                  host's clock is off, or this process is isolated
//	stopping   its machine is stopping
//	    -> away       it has ended: the lease is released, to the assigned process if it has read the log
//
// A machine that ends by itself leaves the shard away, from any stage, and the shard rests for a
// second.
//
// # Files
//
// Each of these files calls only files before it: effects, assign, nodes, salelog, process, peers (state of
// the peers), handover (stages of shards), roster (the lock nodes' list of processes), soldout, updates (to
// and from peers), machine. status serves operators and status reports.
package ownership

import (
	"fmt"
	"slices"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/executor/shard"
	"salectl/executor/status"
	"salectl/spec"
)

// Machine is the step machine by which a process owns its share of a sale. Pass it events by its
// methods, and call Advance for the actions that follow.
type Machine struct {
	process
	log        saleLog
	peers      peers
	assignment assignment
	handover   handover
	roster     roster
	updates    updates

	halt           shard.Halt    // cause of the stage leaving
	partUntil      time.Duration // monotonic: time until which a drain waits for nodes to confirm a release
	locks          quorum.Stats  // of the leases of earlier sessions
	announced      uint64        // newest generation announced to the shards
	announcedRanks bool          // the ranks of entries are announced to the shards
}

// New returns a Machine that begins to read the sale's log.
func New(cfg Config) *Machine {
	m := &Machine{process: process{cfg: cfg, standby: cfg.Standby, nodes: NewNodes(cfg.Nodes)}, log: saleLog{name: spec.SaleLog(cfg.Sale)}}
	m.log.restart()
	m.peers.process = &m.process
	m.handover = handover{process: &m.process, log: &m.log, peers: &m.peers, assignment: &m.assignment}
	m.roster = roster{process: &m.process, peers: &m.peers, assignment: &m.assignment}
	m.updates = updates{process: &m.process, peers: &m.peers, handover: &m.handover, roster: &m.roster}
	m.reset(0)
	return m
}

// reset resets the state of a session of n shards; 0: there is no session.
func (m *Machine) reset(n int) {
	m.peers.begin(n)
	m.assignment = assignment{desired: make([]string, n)}
	m.handover.begin(n)
	m.updates.collection = collection{handover: &m.handover}
	m.updates.sentAt, m.updates.allAt, m.updates.wake = 0, 0, 0
	m.traffic = nil
}

// Serve passes the machine the totals of the session that has started. warm reports whether the
// machine of a shard has read its log to the end.
func (m *Machine) Serve(totals *shard.SaleTotals, warm func(i int) bool) {
	m.updates.collection.totals, m.handover.caughtUp = totals, warm
}

// Serving reports whether this process may own shards.
func (m *Machine) Serving() bool { return m.stage == serving }

// Sale returns the sale as of the last read of its log.
func (m *Machine) Sale() *ledger.Sale { return m.log.sale }

// SetTraffic sets the traffic that updates report to peers.
func (m *Machine) SetTraffic(t Traffic) { m.traffic = &t }

// StandsBy reports whether an operator has put this process on standby, so that it owns no shard.
func (m *Machine) StandsBy() bool { return m.standby }

// live reports whether the sale has a live, applied run. In a session it must be the session's run.
func (m *Machine) live() bool {
	return m.log.sale.Live() && m.log.sale.Applied() > 0 && (m.stage == following || m.log.sale.UID() == m.uid)
}

// SaleRead receives the reply to the read under way.
func (m *Machine) SaleRead(now clock.Now, r ledger.Reply) {
	m.log.readErr = r.Err
	if m.log.take(now, m.log.reader.Done(now, r), m.readEvery()) {
		m.handover.grantAll(now)
	}
}

// LeaseReply receives a lock node's reply to a call for the leases.
func (m *Machine) LeaseReply(now clock.Now, r quorum.Reply) {
	if m.handover.leases == nil {
		return
	}
	e := m.handover.leases.Reply(now, r)
	m.clock.read(now, m.handover.leases, m.ttl)
	m.handover.leased(now, e)
	m.noteNode(now, r.Node, m.handover.leases.Node(r.Node))
	m.nodes.clock(now, r.Node, m.handover.leases)
	m.handover.grantAll(now)
}

// RosterReply receives a lock node's reply to a call of the roster. For a process without leases,
// such as one on standby, only these replies show the health of the nodes. They do not show whether
// a node abstains, which only a vote reports.
func (m *Machine) RosterReply(now clock.Now, r quorum.Reply) {
	if m.roster.entries == nil {
		return
	}
	if !slices.ContainsFunc(m.handover.all, func(s share) bool { return s.stage != away }) {
		v := quorum.NodeView{Err: r.Err}
		if until := m.nodes[r.Node].VotesFrom; until.After(now.Wall) {
			v.VotesFrom = until
		}
		m.noteNode(now, r.Node, v)
	}
	m.roster.discovered(now, m.roster.entries.Reply(now, r))
}

// Tick receives the time.
func (m *Machine) Tick(now clock.Now) {
	if m.log.take(now, m.log.reader.Tick(now), m.readEvery()) {
		m.handover.grantAll(now)
	}
	if m.handover.leases != nil {
		m.handover.leased(now, m.handover.leases.Tick(now))
	}
	if m.roster.entries != nil {
		m.roster.discovered(now, m.roster.entries.Tick(now))
	}
}

// leave ends the session: first the machines of shards, then the leases.
func (m *Machine) leave(now clock.Now, h shard.Halt) {
	if m.stage != serving {
		return
	}
	m.stage, m.halt = leaving, h
	for i := range m.handover.all {
		m.handover.stop(now, i, h, "")
	}
	m.endIfIdle(now)
}

// endIfIdle ends the session when none of its machines runs any more. The next session does not
// wait until all nodes have the release. An unreachable node is sent it for longer than a ttl, and
// the others may be a majority again before.
func (m *Machine) endIfIdle(now clock.Now) {
	if m.stage != leaving || slices.ContainsFunc(m.handover.all, func(s share) bool { return s.runs }) {
		return
	}
	m.stage, m.out.Ended = following, new(m.halt)
	m.partUntil = now.Mono + 3*quorum.CallTimeout(m.ttl)
	m.handover.leased(now, m.handover.leases.Release(now, "", m.handover.keys...))
	m.roster.discovered(now, m.roster.entries.Leave(now))
	for _, id := range m.peers.ids() {
		m.roster.hangUp(id)
	}
	m.reset(0)
}

// Drain ends the session and begins no other. Call Retire before, so that peers have time to take
// the shards.
func (m *Machine) Drain(now clock.Now) {
	m.draining = true
	m.leave(now, shard.Halt{Why: ErrDraining, Refusal: api.Draining, Gentle: true})
}

// Drained reports whether a drain is complete: no lease is held, and each node has confirmed the
// release or had time to receive it twice. A node that has not received it lets the leases expire.
func (m *Machine) Drained(now clock.Now) bool {
	return m.draining && m.stage == following && (m.handover.leases == nil || now.Mono >= m.partUntil)
}

// parted drops the leases and the roster of an ended session, after the nodes have confirmed its
// end or had their time.
func (m *Machine) parted() {
	if m.stage == following && m.handover.leases != nil && m.handover.leases.Idle() && m.roster.entries.Deregistered() {
		m.locks = m.locks.Plus(m.handover.leases.Stats())
		m.handover.leases, m.roster.entries, m.handover.leaseWake, m.roster.wake = nil, nil, 0, 0
	}
}

// begin begins a session. Leases with unsent releases are kept if they fit the new session.
// Otherwise the session waits for them.
func (m *Machine) begin(now clock.Now) error {
	declared, err := spec.FromJSON(m.log.sale.Newest().GetSpec())
	if err != nil {
		return fmt.Errorf("generation %d of sale %s: %w", m.log.sale.Generation(), m.cfg.Sale, err)
	}
	if m.handover.leases != nil && (m.uid != m.log.sale.UID() || m.ttl != time.Duration(declared.LockTTL)) {
		return nil
	}
	if err := m.cfg.servable(declared); err != nil {
		return err
	}
	red, err := ledger.RedPacketOf(m.log.sale)
	if err != nil {
		return err
	}
	m.uid, m.ttl, m.announced = m.log.sale.UID(), time.Duration(declared.LockTTL), 0
	m.announcedRanks = false
	m.clock.known = false
	if m.handover.leases == nil {
		m.handover.leases, err = quorum.NewGroup(quorum.Config{
			Nodes: m.cfg.Nodes, Marker: spec.Marker(m.uid), TTL: m.ttl, Address: m.cfg.Address,
			Token: m.cfg.Token, Jitter: m.cfg.Jitter, Waiter: m.cfg.ID,
		})
		if err != nil {
			return err
		}
	}
	m.reset(m.log.sale.Shards())
	m.stage = serving
	m.out.Start = &Run{UID: m.uid, Shards: m.log.sale.Shards(), Declared: declared, RedPacket: red}
	return m.roster.announce(now)
}

// Advance returns the actions that follow from the events so far. After an error the machine is
// unusable: the state of the sale is unknown.
func (m *Machine) Advance(now clock.Now) (Effects, error) {
	m.parted()
	switch {
	case m.log.damage != nil:
		return Effects{}, m.log.damage
	case m.stage == following && m.live() && !m.draining:
		if err := m.begin(now); err != nil {
			return Effects{}, err
		}
	case m.stage != following && !m.live():
		why := errNotLive
		if m.log.missing != nil {
			why = errLost
		}
		m.leave(now, shard.Halt{Why: why, Refusal: m.log.parting(m.uid)})
	}
	if m.stage == serving && m.updates.collection.totals != nil { // otherwise the session is about to begin
		if m.log.sale.Generation() > m.announced || m.log.sale.Ranked() != m.announcedRanks {
			m.announced, m.announcedRanks, m.out.Plans = m.log.sale.Generation(), m.log.sale.Ranked(), true
		}
		m.handover.advance(now)
		m.updates.broadcast(now)
	}
	read, wake := m.log.next(now)
	out := m.out
	m.out = Effects{}
	out.Read, out.Wake = read, clock.Soonest(m.handover.leaseWake, wake)
	if m.roster.entries != nil {
		out.Wake = clock.Soonest(out.Wake, m.roster.wake)
	}
	if m.stage == serving {
		out.Wake = clock.Soonest(out.Wake, m.handover.wake, m.updates.wake)
	}
	if m.draining && m.stage == following && !m.Drained(now) {
		out.Wake = clock.Soonest(out.Wake, m.partUntil)
	}
	return out, nil
}

// Receive receives an update of a peer.
func (m *Machine) Receive(now clock.Now, from string, u *PeerUpdate) { m.updates.receive(now, from, u) }

// Discover reads the list of processes if an unknown peer has made a link to this process.
func (m *Machine) Discover(now clock.Now, from string) { m.roster.discover(now, from) }

// Linked records that the link to a peer was made (up) or cut.
func (m *Machine) Linked(now clock.Now, id string, up bool) { m.peers.linked(now, id, up) }

// ShardEnded records that the machine of a shard has ended and has no call under way.
func (m *Machine) ShardEnded(now clock.Now, i int) {
	if i < len(m.handover.all) {
		m.handover.ended(now, i)
		m.endIfIdle(now)
	}
}

// PeerProblems returns the peers that this process does not reach, and whether it is isolated.
func (m *Machine) PeerProblems(now clock.Now) []status.Problem { return m.peers.problems(now) }

// Route is the owner of a shard and its address.
type Route struct {
	Owner   string // the id of a process; "": unknown
	Address string // where it answers
	Epoch   uint64 // of the shard's log under it: higher is newer
}

// Route returns the peer that reports to own a shard. If none does, the owner is "", and lost
// reports whether the last owner has lost the shard. That owner may still have it for a ttl, or
// while the lock nodes do not reply.
func (m *Machine) Route(now clock.Now, i int) (r Route, lost bool) {
	id := m.peers.holder[i]
	if id == "" {
		return r, !m.silent && m.handover.all[i].free(now, m.ttl)
	}
	p := m.peers.all[id]
	return Route{Owner: id, Address: p.Address, Epoch: p.owns[i]}, false
}

// NextUpdate returns the monotonic time from which peers may be sent an update; 0: there are no peers.
func (m *Machine) NextUpdate() time.Duration {
	if m.stage != serving || len(m.peers.all) == 0 {
		return 0
	}
	return m.updates.sentAt + UpdateEvery
}
