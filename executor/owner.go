package executor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/quorum"
	"salectl/executor/shard"
	"salectl/spec"
)

// owner is the step machine by which one process at a time serves a sale. It
// follows the sale's log. While a run of the sale is live it tries for the lease
// of shard 0; with that it takes the other shards' leases, has the sequencers
// started, and tells them how long they may append. When a lease is lost, a
// sequencer ends or the run does, it has the sequencers stopped, gives
// everything back and begins anew: that is one tenure.
//
// Events go in by its methods; next then says what to do.
type owner struct {
	cfg    MachineConfig
	sale   *ledger.Sale
	reader *ledger.Writer // only ever reads
	do     ledger.Do      // what the reader wants done next
	damage error          // the sale's log cannot be followed

	sentAt   clock.Now     // when the read under way was sent
	readAt   clock.Now     // when the last good read was sent: what it found was true then
	nextRead time.Duration // monotonic

	stage     stage
	draining  bool
	readErr   error  // of the last read, nil if it was good
	seen      uint64 // slots of the sale's log that were read once: it is not deleted
	watch     nodeWatch
	clockOff  time.Duration // of this host, where it was too much when it was last known
	offSince  time.Duration // monotonic: since when it is
	silent    bool          // by the last reply, no majority of the lock nodes votes
	restUntil time.Duration // monotonic: no tenure begins before; the next read of the log then begins one
	partUntil time.Duration // monotonic: a drain waits no longer for nodes to confirm a release

	// Of the present tenure.
	uid      string
	declared spec.Sale
	red      *ledger.RedPacket // nil: units are no packets
	ttl      time.Duration
	keys     []string        // of the leases that serving takes, shard 0's first
	locks    quorum.Stats    // of the lease machines before this one
	lease    *quorum.Machine // kept after the tenure, until the nodes know that it is over
	wake     time.Duration   // monotonic: when the lease machine wants to be told the time
	started  bool            // sequencers run
	told     uint64          // the newest generation that they were told of

	out ownerEffects
}

// stage is how far a tenure has come.
type stage int

const (
	following  stage = iota // there is none: the sale has no live run, as far as is known
	trying                  // for shard 0's lease, as a standby
	collecting              // the other shards' leases
	owning                  // sequencers run
	leaving                 // sequencers are being stopped
)

// ownerEffects are what an owner wants done.
type ownerEffects struct {
	read   *ledger.Request
	calls  []quorum.Call
	start  bool          // start the sequencers of sale
	stop   *shard.Halt   // stop them
	rights *shard.Rights // tell them
	plans  bool          // tell them the generations of sale
	events []quorum.Event
	wake   time.Duration
}

// How often the sale's log is read while there is no tenure, how often a ttl
// while there is one, and how long a tenure that ended by itself is followed by
// no other.
const (
	followEvery = 500 * time.Millisecond
	readsPerTTL = 3
	restAfter   = time.Second
)

// Why a tenure ends by itself.
var (
	errNotLive  = errors.New("the sale's run has ended")
	errDraining = errors.New("the process is going down")
	errClock    = errors.New("this host's clock is off the lock nodes' clocks")
)

// tooLate ends a drain that has not come to its end in time.
var tooLate = shard.Halt{Why: errDraining, Refusal: api.Draining}

func newOwner(cfg MachineConfig) *owner {
	o := &owner{cfg: cfg, watch: newNodeWatch(cfg.Nodes)}
	o.forget()
	return o
}

// forget begins to read the sale's log anew.
func (o *owner) forget() {
	log := spec.SaleLog(o.cfg.Sale)
	o.sale = ledger.NewSale(log)
	o.reader = ledger.NewWriter(log, o.sale)
}

// live says whether there is a run to be served, and it is the tenure's if there
// is a tenure.
func (o *owner) live() bool {
	return o.sale.Live() && o.sale.Applied() > 0 && (o.stage == following || o.sale.UID() == o.uid)
}

// read takes in the reply to the read under way.
func (o *owner) read(now clock.Now, r ledger.Reply) {
	o.readErr = r.Err
	o.followed(now, o.reader.Done(now, r))
}

// followed takes in what the reader found out.
func (o *owner) followed(now clock.Now, do ledger.Do) {
	o.do = do
	switch do.Event {
	case ledger.CaughtUp:
		o.readAt = o.sentAt
		o.seen = max(o.seen, o.sale.Next())
		o.nextRead = now.Mono + o.interval()
		o.tell(now)
	case ledger.Gone:
		o.forget()
		o.nextRead = now.Mono + o.interval()
	case ledger.Damaged:
		o.damage = do.Err
	}
}

func (o *owner) interval() time.Duration {
	if o.stage == following {
		return followEvery
	}
	return o.ttl / readsPerTTL
}

// voted takes in a lock node's reply.
func (o *owner) voted(now clock.Now, r quorum.Reply) {
	if lease := o.lease; lease != nil {
		e := lease.Reply(now, r)
		o.readClock(now, lease)
		o.leased(now, e)
		o.watch.heard(now, r.Node, lease.Nodes()[r.Node])
		o.watch.clock(now, r.Node, lease)
		o.silent = silent(lease.Nodes(), o.silent)
		o.tell(now)
	}
}

// tick tells the time.
func (o *owner) tick(now clock.Now) {
	o.followed(now, o.reader.Tick(now))
	if o.lease != nil {
		o.leased(now, o.lease.Tick(now))
	}
}

// ended says that a sequencer has ended. Unless it was told to, what ended it may
// last: a shard is sealed while its sale is still being exported. So the next
// tenure waits a little.
func (o *owner) ended(now clock.Now, why error) {
	if o.stage == owning {
		o.restUntil = now.Mono + restAfter
	}
	o.leave(now, shard.Halt{Why: why, Refusal: api.NoQuorum})
}

// halted says that all sequencers have ended: the leases can go. Where all ended
// by themselves it may come before the first ended does.
func (o *owner) halted(now clock.Now) {
	if o.stage == owning {
		o.restUntil = now.Mono + restAfter
	}
	o.part(now)
}

// part gives the leases back and is done with the tenure. The next does not wait
// until all nodes know: one that is away is told for longer than a ttl, and the
// others might be a majority again meanwhile.
func (o *owner) part(now clock.Now) {
	o.stage, o.started = following, false
	o.partUntil = now.Mono + 3*quorum.CallTimeout(o.ttl)
	o.leased(now, o.lease.Release(now))
}

// drain ends the tenure and begins no other.
func (o *owner) drain(now clock.Now) {
	o.draining = true
	o.leave(now, shard.Halt{Why: errDraining, Refusal: api.Draining, Gentle: true})
}

// gone says whether a drain is complete: no lease is held, and the nodes know or
// had time to hear it twice. One that does not forgets the leases by itself.
func (o *owner) gone(now clock.Now) bool {
	return o.draining && o.stage == following && (o.lease == nil || now.Mono >= o.partUntil)
}

// leased takes in what the lease's machine wants done and has found out.
func (o *owner) leased(now clock.Now, e quorum.Effects) {
	o.out.calls = append(o.out.calls, e.Calls...)
	for _, c := range e.Calls {
		o.watch.asked(now, c.Node)
	}
	o.wake = e.Wake
	for _, event := range e.Events {
		o.out.events = append(o.out.events, event)
		switch event.Kind {
		case quorum.Won:
			o.won(now)
		case quorum.Losing:
			o.leave(now, shard.Halt{Why: event.Cause, Refusal: api.NoQuorum})
			o.tell(now) // beside the releases, which go out at once
		case quorum.Freed:
			if o.stage == following && o.lease != nil { // else a release within this step has told it already
				o.locks = o.locks.Plus(o.lease.Stats())
				o.lease, o.wake = nil, 0
			}
		}
	}
}

func (o *owner) won(now clock.Now) {
	switch o.stage {
	case trying:
		if o.clockOff != 0 { // it could not sell: another may
			o.restUntil = now.Mono + restAfter
			o.part(now)
			return
		}
		o.stage = collecting
		o.leased(now, o.lease.Acquire(now, o.keys[1:]...)) // which wins at once where there are none
	case collecting:
		o.stage, o.started = owning, true
		o.out.start, o.told = true, 0 // next tells the generations, and whoever took the vote in the rights
	}
}

// tell passes on the rights of this process as they are now: none, if its clock
// is off by more than a ttl, since the times it would write are not to be
// trusted. Where that lasts, the tenure ends: a process whose clock is right may sell.
func (o *owner) tell(now clock.Now) {
	if !o.started {
		return
	}
	o.readClock(now, o.lease)
	r := shard.Rights{Lease: o.lease.Validity(), ReadAt: o.readAt, TTL: o.ttl}
	if o.clockOff != 0 {
		r = shard.Rights{}
	}
	o.out.rights = &r
	if o.stage == owning && o.clockOff != 0 && now.Mono-o.offSince > o.ttl {
		o.ended(now, errClock)
	}
}

// readClock takes in how far this host's clock is off. It is too much by more than a
// ttl, and nothing while too few nodes tell the time.
func (o *owner) readClock(now clock.Now, lease *quorum.Machine) {
	off, _ := lease.ClockOff(now)
	switch {
	case off.Abs() <= o.ttl:
		o.clockOff = 0
	case o.clockOff == 0:
		o.clockOff, o.offSince = off, now.Mono
	default:
		o.clockOff = off
	}
}

// leave ends the tenure: sequencers first, then the leases.
func (o *owner) leave(now clock.Now, h shard.Halt) {
	switch {
	case o.stage == following || o.stage == leaving:
	case o.started:
		o.stage, o.out.stop = leaving, &h
	default:
		o.part(now)
	}
}

// parting is what buyers are told whose request was not decided when the run
// ended: that it is closed, if the log says so. A log that is gone says nothing:
// the read may have lagged.
func (o *owner) parting() api.Outcome {
	if o.sale.UID() == o.uid {
		return api.Closed
	}
	return api.Standby
}

// begin begins a tenure, by trying for shard 0's lease. A machine that still has
// releases to send goes on if it serves the new tenure as well; otherwise they
// come first.
func (o *owner) begin(now clock.Now) error {
	declared, err := spec.FromJSON(o.sale.Newest().GetSpec())
	if err != nil {
		return fmt.Errorf("generation %d of sale %s: %w", o.sale.Generation(), o.cfg.Sale, err)
	}
	if o.lease != nil && (o.uid != o.sale.UID() || o.ttl != declared.LockTTL) {
		return nil
	}
	if err := o.servable(declared); err != nil {
		return err
	}
	if o.red, err = ledger.RedPacketOf(o.sale); err != nil {
		return err
	}
	o.uid, o.declared, o.ttl, o.keys = o.sale.UID(), declared, declared.LockTTL, nil
	for shard := range o.sale.Shards() {
		o.keys = append(o.keys, spec.LeaseKey(o.uid, shard))
	}
	if o.lease == nil {
		o.lease, err = quorum.NewMachine(quorum.Config{
			Nodes: o.cfg.Nodes, Marker: spec.Marker(o.uid), TTL: o.ttl, Address: o.cfg.Address,
			Token: o.cfg.Token, Jitter: o.cfg.Jitter,
		})
		if err != nil {
			return err
		}
	}
	o.stage = trying
	o.leased(now, o.lease.Acquire(now, o.keys[0]))
	return nil
}

// servable says whether this process can serve what is declared, with what it was
// given. The lists lie where the ledger says: elsewhere there are others, or
// none.
func (o *owner) servable(declared spec.Sale) error {
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

// plans returns what the generations of the sale's log do to a shard, from the
// first.
func (o *owner) plans(shard int) []*pb.Generation {
	all := make([]*pb.Generation, o.sale.Generation())
	for i := range all {
		all[i] = o.sale.ShardGeneration(uint64(i+1), shard)
	}
	return all
}

// next says what to do after the events taken in. An error ends the owner: it
// cannot know what it would serve.
func (o *owner) next(now clock.Now) (ownerEffects, error) {
	switch {
	case o.damage != nil:
		return ownerEffects{}, o.damage
	case o.stage == following && o.live() && !o.draining && now.Mono >= o.restUntil:
		if err := o.begin(now); err != nil {
			return ownerEffects{}, err
		}
	case o.stage != following && !o.live():
		o.leave(now, shard.Halt{Why: errNotLive, Refusal: o.parting()})
	case o.stage == owning && o.sale.Generation() > o.told:
		o.told, o.out.plans = o.sale.Generation(), true
	}
	if o.reader.Idle() && now.Mono >= o.nextRead {
		o.do = o.reader.CatchUp()
	}
	out := o.out
	o.out = ownerEffects{}
	if out.read = o.do.Send; out.read != nil {
		o.sentAt, o.do.Send = now, nil
	}
	out.wake = clock.Soonest(o.wake, o.do.Wake)
	if o.draining && o.stage == following && !o.gone(now) {
		out.wake = clock.Soonest(out.wake, o.partUntil)
	}
	if o.reader.Idle() {
		out.wake = clock.Soonest(out.wake, o.nextRead)
	}
	return out, nil
}
