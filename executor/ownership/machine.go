// Package ownership decides which process of a sale owns which shard.
package ownership

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/executor/shard"
	"salectl/spec"
)

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

// owner is the step machine by which a process takes its share of a sale. It follows the
// sale's log. While a run of the sale is live there is a session: the process says on the
// lock nodes that it is there, finds its peers, takes the leases of the shards that it
// should own, has their machines run, and tells them how long they may append (share.go).
// When the run ends it has all stopped and gives everything back.
//
// Events go in by its methods; next then says what to do.
type Machine struct {
	cfg    Config
	me     string // the process's id
	sale   *ledger.Sale
	reader *ledger.Writer // only ever reads
	do     ledger.Do      // what the reader wants done next
	damage error          // the sale's log cannot be followed

	sentAt   clock.Now     // when the read under way was sent
	readAt   clock.Now     // when the last good read was sent: what it found was true then
	nextRead time.Duration // monotonic

	stage      stage
	ending     bool // it gives its shards away before it drains
	draining   bool
	standby    bool    // by the wish of an operator: it owns no shard
	readErr    error   // of the last read, nil if it was good
	seen       uint64  // slots of the sale's log that were read once: it is not deleted
	missing    *Logged // the live run whose log is gone; nil: there is none
	watch      Nodes
	clockKnown bool          // the lock nodes have told the time in this session
	clockOff   time.Duration // of this host, where it was too much when it was last known
	offSince   time.Duration // monotonic: since when it is
	silent     bool          // by the last reply, no majority of the lock nodes votes
	partUntil  time.Duration // monotonic: a drain waits no longer for nodes to confirm a release

	// Of the present session.
	uid        string
	ttl        time.Duration
	halt       shard.Halt     // for leaving
	locks      quorum.Stats   // of the leases before these
	leases     *quorum.Group  // kept after the session, until the nodes know that it is over
	wake       time.Duration  // monotonic: when the leases want to be told the time
	roster     *quorum.Roster // who is there; kept as the leases are
	rosterWake time.Duration  // monotonic
	told       uint64         // the newest generation that the shards were told of
	toldRanks  bool           // they were told the ranks of their entries
	shares
	peers

	out Effects
}

// stage is how far a session has come.
type stage int

const (
	following stage = iota // there is none: the sale has no live run, as far as is known
	serving                // shards are owned, or may be
	leaving                // what runs is being stopped
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
	Read    *ledger.Request
	Calls   []quorum.Call // of the leases
	Roster  []quorum.Call
	Start   *Run       // begin a session
	Open    []Opening  // run the machines of shards
	Rights  []Grant    // tell them
	Halts   []Halting  // stop them
	Plans   bool       // tell them the generations of sale
	Updates []Outgoing // to peers
	Given   []int      // shards whose leases a peer has freed for this process
	Dial    []Process  // make links to peers
	Hang    []string   // end those to peers, by id
	Moves   []shard.Message
	Ended   *shard.Halt // nothing of the session is left, which ended by this halt
	Events  []quorum.Event
	Wake    time.Duration
}

// ReadsPerTTL is how often a ttl the sale's log is read while there is a session.
const ReadsPerTTL = 3

// How often the sale's log is read while there is no session, and how long a shard that ended by
// itself is left alone.
const (
	followEvery = 500 * time.Millisecond
	restAfter   = time.Second
)

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

// New returns a machine that begins to read the sale's log.
func New(cfg Config) *Machine {
	o := &Machine{cfg: cfg, me: cfg.ID, standby: cfg.Standby, watch: NewNodes(cfg.Nodes)}
	o.peers = newPeers()
	o.forget()
	return o
}

// Serve gives the machine the totals of the session that it has started, and warm, which reports
// whether the machine of a shard has read its log to the end.
func (o *Machine) Serve(totals *shard.SaleTotals, warm func(i int) bool) {
	o.totals, o.warm = totals, warm
}

// Serving reports whether shards are owned, or may be.
func (o *Machine) Serving() bool { return o.stage == serving }

// Sale returns the sale's log as it was read last.
func (o *Machine) Sale() *ledger.Sale { return o.sale }

// SetTraffic sets the traffic that peers are sent.
func (o *Machine) SetTraffic(t Traffic) { o.traffic = &t }

// StandsBy reports whether an operator has this process own no shard.
func (o *Machine) StandsBy() bool { return o.standby }

// forget begins to read the sale's log anew.
func (o *Machine) forget() {
	log := spec.SaleLog(o.cfg.Sale)
	o.sale = ledger.NewSale(log)
	o.reader = ledger.NewWriter(log, o.sale)
}

// live reports whether there is a run to be served, and it is the session's if there
// is a session.
func (o *Machine) live() bool {
	return o.sale.Live() && o.sale.Applied() > 0 && (o.stage == following || o.sale.UID() == o.uid)
}

// read takes in the reply to the read under way.
func (o *Machine) SaleRead(now clock.Now, r ledger.Reply) {
	o.readErr = r.Err
	o.followed(now, o.reader.Done(now, r))
}

// followed takes in what the reader found out.
func (o *Machine) followed(now clock.Now, do ledger.Do) {
	o.do = do
	switch do.Event {
	case ledger.CaughtUp:
		o.readAt = o.sentAt
		if o.missing != nil && o.sale.Run() >= o.missing.Run {
			o.missing = nil
		}
		o.seen = max(o.seen, o.sale.Next())
		o.nextRead = now.Mono + o.interval()
		o.grantAll(now)
	case ledger.Gone:
		if o.sale.Live() {
			was := o.logged()
			o.missing = &was
		}
		o.forget()
		o.nextRead = now.Mono + o.interval()
	case ledger.Damaged:
		o.damage = do.Err
	}
}

func (o *Machine) interval() time.Duration {
	if o.stage == following {
		return followEvery
	}
	return o.ttl / ReadsPerTTL
}

// voted takes in a lock node's reply.
func (o *Machine) LeaseReply(now clock.Now, r quorum.Reply) {
	if o.leases == nil {
		return
	}
	e := o.leases.Reply(now, r)
	o.readClock(now)
	o.leased(now, e)
	o.heard(now, r.Node, o.leases.Nodes()[r.Node])
	o.watch.clock(now, r.Node, o.leases)
	o.grantAll(now)
}

// heard takes in how a lock node is.
func (o *Machine) heard(now clock.Now, node int, v quorum.NodeView) {
	o.watch.Replied(now, node, v)
	o.silent = o.watch.silent(o.silent)
}

// rosterReply takes in a lock node's reply to a call of the roster. Of a process that wants no lease,
// such as one on standby, these replies alone show how the nodes are; not whether one
// abstains, which only a vote tells.
func (o *Machine) RosterReply(now clock.Now, r quorum.Reply) {
	if o.roster == nil {
		return
	}
	if !slices.ContainsFunc(o.shares.all, func(s share) bool { return s.stage != away }) {
		v := quorum.NodeView{Err: r.Err}
		if until := o.watch[r.Node].VotesFrom; until.After(now.Wall) {
			v.VotesFrom = until
		}
		o.heard(now, r.Node, v)
	}
	o.discovered(now, o.roster.Reply(now, r))
}

// tick tells the time.
func (o *Machine) Tick(now clock.Now) {
	o.followed(now, o.reader.Tick(now))
	if o.leases != nil {
		o.leased(now, o.leases.Tick(now))
	}
	if o.roster != nil {
		o.discovered(now, o.roster.Tick(now))
	}
}

// leave ends the session: what runs first, then the leases.
func (o *Machine) leave(now clock.Now, h shard.Halt) {
	if o.stage != serving {
		return
	}
	o.stage, o.halt = leaving, h
	for i := range o.shares.all {
		o.stop(now, i, h, "")
	}
	o.endIfIdle(now)
}

// endIfIdle ends the session when none of its machines runs any more. The next session does not wait
// until all nodes have the release: a node that is away is sent it for longer than a ttl, and the
// others may be a majority again meanwhile.
func (o *Machine) endIfIdle(now clock.Now) {
	if o.stage != leaving || o.shares.running() {
		return
	}
	h := o.halt
	o.stage, o.out.Ended = following, &h
	o.partUntil = now.Mono + 3*quorum.CallTimeout(o.ttl)
	o.leased(now, o.leases.Release(now, "", o.shares.keys...))
	o.discovered(now, o.roster.Leave(now))
	for _, id := range o.peers.ids() {
		o.hangUp(id)
	}
	o.shares.all, o.peers = nil, newPeers()
}

// drain ends the session and begins no other. Peers have had the time to take what was to
// be given to them: see retire.
func (o *Machine) Drain(now clock.Now) {
	o.draining = true
	o.leave(now, shard.Halt{Why: ErrDraining, Refusal: api.Draining, Gentle: true})
}

// gone reports whether a drain is complete: no lease is held, and the nodes know or
// had time to hear it twice. One that does not forgets the leases by itself.
func (o *Machine) Gone(now clock.Now) bool {
	return o.draining && o.stage == following && (o.leases == nil || now.Mono >= o.partUntil)
}

// leased takes in what the leases want done and have found out.
func (o *Machine) leased(now clock.Now, e quorum.Effects) {
	o.out.Calls = append(o.out.Calls, e.Calls...)
	for _, c := range e.Calls {
		o.watch.Called(now, c.Node)
	}
	o.wake = e.Wake
	for _, event := range e.Events {
		o.out.Events = append(o.out.Events, event)
		for _, key := range event.Keys {
			_, i, _ := spec.ParseLeaseKey(key)
			switch event.Kind {
			case quorum.Won:
				o.won(now, i)
			case quorum.Losing:
				o.lost(now, i, event.Cause)
			}
		}
	}
}

// parted forgets the leases and the roster of a session that has ended, when the nodes know
// of its end or had their time.
func (o *Machine) parted() {
	if o.stage == following && o.leases != nil && o.leases.Settled() && o.roster.Gone() {
		o.locks = o.locks.Plus(o.leases.Stats())
		o.leases, o.roster, o.wake, o.rosterWake = nil, nil, 0, 0
	}
}

// readClock takes in how far this host's clock is off. It is too much by more than a
// ttl, and nothing while too few nodes tell the time.
func (o *Machine) readClock(now clock.Now) {
	off, known := o.leases.ClockOff(now)
	if !known { // what was wrong may be right again; share finds out
		o.clockKnown = o.clockKnown && o.clockOff == 0
		return
	}
	o.clockKnown = true
	switch {
	case off.Abs() <= o.ttl:
		o.clockOff = 0
	case o.clockOff == 0:
		o.clockOff, o.offSince = off, now.Mono
	default:
		o.clockOff = off
	}
}

// clockLost reports whether this host's clock has been wrong for so long that another
// process is to sell.
func (o *Machine) clockLost(now clock.Now) bool {
	return o.clockOff != 0 && now.Mono-o.offSince > o.ttl
}

// parting is what buyers are told whose request was not decided when the run
// ended: that it is closed, if the log says so. A log that is gone says nothing:
// the read may have lagged.
func (o *Machine) parting() api.Outcome {
	if o.sale.UID() == o.uid {
		return api.Closed
	}
	return api.Standby
}

// begin begins a session. Leases that still have releases to send go on if they serve the
// new session as well; otherwise they come first.
func (o *Machine) begin(now clock.Now) error {
	declared, err := spec.FromJSON(o.sale.Newest().GetSpec())
	if err != nil {
		return fmt.Errorf("generation %d of sale %s: %w", o.sale.Generation(), o.cfg.Sale, err)
	}
	if o.leases != nil && (o.uid != o.sale.UID() || o.ttl != declared.LockTTL) {
		return nil
	}
	if err := o.servable(declared); err != nil {
		return err
	}
	red, err := ledger.RedPacketOf(o.sale)
	if err != nil {
		return err
	}
	o.uid, o.ttl, o.told = o.sale.UID(), declared.LockTTL, 0
	o.toldRanks = false
	o.clockKnown = false
	if o.leases == nil {
		o.leases, err = quorum.NewGroup(quorum.Config{
			Nodes: o.cfg.Nodes, Marker: spec.Marker(o.uid), TTL: o.ttl, Address: o.cfg.Address,
			Token: o.cfg.Token, Jitter: o.cfg.Jitter, Waiter: o.me,
		})
		if err != nil {
			return err
		}
	}
	o.shares = newShares(o.uid, o.sale.Shards())
	o.stage = serving
	o.out.Start = &Run{UID: o.uid, Shards: o.sale.Shards(), Declared: declared, RedPacket: red}
	return o.announce(now)
}

// servable reports whether this process can serve what is declared, with what it was
// given. The lists lie where the ledger says: elsewhere there are others, or
// none.
func (o *Machine) servable(declared spec.Sale) error {
	var nodes []string
	if declared.Engine == spec.EngineRedis {
		nodes = declared.Redis.Nodes
	}
	if !slices.Equal(nodes, o.cfg.Lists) {
		return fmt.Errorf("it was applied with engine %s and lists on [%s], and this process was told of lists on [%s]; see that the file says what was applied",
			declared.Engine, strings.Join(nodes, " "), strings.Join(o.cfg.Lists, " "))
	}
	return nil
}

// Advance says what to do after the events taken in. An error ends the owner: it
// cannot know what it would serve.
func (o *Machine) Advance(now clock.Now) (Effects, error) {
	o.parted()
	switch {
	case o.damage != nil:
		return Effects{}, o.damage
	case o.stage == following && o.live() && !o.draining:
		if err := o.begin(now); err != nil {
			return Effects{}, err
		}
	case o.stage != following && !o.live():
		why := errNotLive
		if o.missing != nil {
			why = errLost
		}
		o.leave(now, shard.Halt{Why: why, Refusal: o.parting()})
	}
	if o.stage == serving && o.totals != nil { // else the session is about to begin
		if o.sale.Generation() > o.told || o.sale.Ranked() != o.toldRanks {
			o.told, o.toldRanks, o.out.Plans = o.sale.Generation(), o.sale.Ranked(), true
		}
		o.share(now)
		o.broadcast(now)
	}
	if o.reader.Idle() && now.Mono >= o.nextRead {
		o.do = o.reader.CatchUp()
	}
	out := o.out
	o.out = Effects{}
	if out.Read = o.do.Send; out.Read != nil {
		o.sentAt, o.do.Send = now, nil
	}
	out.Wake = clock.Soonest(o.wake, o.do.Wake)
	if o.roster != nil {
		out.Wake = clock.Soonest(out.Wake, o.rosterWake)
	}
	if o.stage == serving {
		out.Wake = clock.Soonest(out.Wake, clock.Soonest(o.shares.wake, o.peers.wake))
	}
	if o.draining && o.stage == following && !o.Gone(now) {
		out.Wake = clock.Soonest(out.Wake, o.partUntil)
	}
	if o.reader.Idle() {
		out.Wake = clock.Soonest(out.Wake, o.nextRead)
	}
	return out, nil
}
