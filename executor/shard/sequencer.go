package shard

import (
	"errors"
	"fmt"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/executor/request"
)

// sequencer decides the requests of one shard and appends the decisions: one commit at a time, with all
// requests that arrived while the last commit was under way. It is a step machine: events (event.go) and
// addRequests change it, and next begins the next commit and returns the effects. Only events change the
// ledger's state, so that other goroutines may read that state under a lock that next does not need.
//
// A sequencer reads its log, appends Own, and then serves until it is stopped, finds another owner in
// the log, or finds the log gone.
type sequencer struct {
	shard   int
	me      []byte // this process, as commits name it
	address string
	totals  *SaleTotals

	state *ledger.State
	appending
	reading
	tally Tally

	mode mode
	ending
	rights      Rights
	generations []*pb.Generation // the changes of the sale's generations to this shard, from generation 1; see Planned

	setBack time.Duration // by how much the log's time was set back most recently; 0: it was never set back
	// returnBlockedUntil is the monotonic time until which a commit that may bring units back waits,
	// because this process has promised its peers that none comes back (SaleTotals.PromiseNoReturn). 0: no
	// commit waits.
	returnBlockedUntil time.Duration
	bounds             ledger.Bounds // of a commit

	requests  requests
	transfers transfers
	awards    awards
	list      *listEngine // nil: the owner decides
}

// appending is the state of the sequencer's reads and appends.
type appending struct {
	writer   *ledger.Writer
	draft    *ledger.Draft // memory of the next commit, which each commit reuses; nil: there was none
	sent     *ledger.Entry // the commit under way, whose outcome is not known yet; nil: none is under way
	sentAt   clock.Now     // when sent was passed to writer
	attempts int           // how often the append of sent was requested
	do       ledger.Do     // the next request of writer to the store, or the event that it reports

	lastErr error // the store's last error; nil: its last reply was good
}

// ending is why a sequencer ends and what it answers then. why and refusal are set from mode stopping on.
type ending struct {
	gentleHalt *Halt          // the gentle Halt that takes effect once no request waits; nil: there is none
	why        error          // why the sequencer ends
	refusal    request.Answer // answer to undecided requests and to later ones
}

// reading is the progress of a sequencer that reads its log.
type reading struct {
	// follows is true while the log is read again and again without rights to append, so that little is
	// left to read when the rights come. followAt is the monotonic time of the next read.
	follows  bool
	followAt time.Duration

	// While loading: the next slot to read, and when the log was first found to have been read that far. A
	// sequencer that reads no further for EndAfter ends.
	progressSlot uint64
	progressAt   clock.Now

	// A log with fewer slots or an earlier generation is an older copy. minSlots is the number of slots that
	// known to this process when it began to read; minGeneration is a generation that every shard has reached.
	minSlots, minGeneration uint64
	rereads                 int // how often the log was read again because it ended too early
}

// mode is the stage of a sequencer's life.
type mode int

const (
	loading    mode = iota // reading the log
	takingOver             // the log was read; Own is to be appended, or its append is under way
	serving
	stopping // nothing new is decided; a commit may be under way
	stopped
)

// Rights are the reason why this process may append: it has the leases of the sale's shards, and it has
// read the sale's log within the last TTL, so that every generation planned before is on its way to the
// shards. Stock does not depend on Rights; they keep a process that is late from interfering.
type Rights struct {
	Lease  quorum.Validity
	ReadAt clock.Now
	TTL    time.Duration
}

// Valid reports whether the process may append at an instant.
func (r Rights) Valid(now clock.Now) bool {
	// A wall clock that was set back by more than TTL since ReadAt is trusted again only after it was
	// compared with the lock nodes' clocks. One that was set forward counts as elapsed time.
	mono, wall := now.Mono-r.ReadAt.Mono, now.Wall.Sub(r.ReadAt.Wall)
	return r.Lease.At(now) && max(mono, wall) < r.TTL && mono-wall <= r.TTL
}

// Effects are the calls, messages and answers that result from the events of a sequencer.
type Effects struct {
	Send     *ledger.Request // the request to the store
	List     *lists.Call     // the call of the node that has the shard's list
	Wake     time.Duration   // Ticked is due at this monotonic time; 0: it is not
	answered []*request.Ticket
	messages []Message
	list     ListEffects // on the node queue
}

// Errors that end a sequencer.
var (
	ErrOtherOwner = errors.New("another process owns the shard now")
	errSealed     = errors.New("the shard is sealed")
	errStalled    = errors.New("the outcome of an append stays unknown")
	errUnreadable = errors.New("the shard's log cannot be read")
)

// newSequencer returns a sequencer in mode loading. Its first effects request a read of the log.
func newSequencer(shard int, log string, me []byte, address string, totals *SaleTotals) *sequencer {
	q := &sequencer{shard: shard, me: me, address: address, totals: totals, state: ledger.NewState(log)}
	q.writer = ledger.NewWriter(log, q.state)
	q.readToEnd()
	q.transfers = newTransfers(shard, totals, q.state, &q.requests)
	return q
}

// followEvery is how often the log is read while another process appends to it.
const followEvery = 50 * time.Millisecond

// setRights sets the rights of this process. With the first rights a sequencer that follows the log reads it
// once more, for the last appends of the earlier owner.
func (q *sequencer) setRights(now clock.Now, r Rights) {
	first := q.follows && r.Valid(now)
	q.rights = r
	if first {
		q.follows = false
		q.readToEndIfIdle()
	}
}

// readToEndIfIdle reads the log to its end if the sequencer does not own the shard yet, and neither a read
// nor an append is under way.
func (q *sequencer) readToEndIfIdle() {
	if q.mode == takingOver && q.sent == nil && q.writer.Idle() {
		q.readToEnd()
	}
}

// readToEnd has the writer read the log to its end. A log that ends before the last slot known to this process
// is an older copy; caughtUp checks that.
func (q *sequencer) readToEnd() {
	q.minSlots = q.totals.Seen(q.shard)
	q.do = q.writer.CatchUp()
}

// follow reads the log to its end every followEvery, while another process may append to it. It returns the
// monotonic time of the next read; 0: the sequencer does not follow the log.
func (q *sequencer) follow(now clock.Now) time.Duration {
	if !q.follows || q.mode != takingOver {
		return 0
	}
	if now.Mono >= q.followAt {
		q.readToEndIfIdle()
		q.followAt = now.Mono + followEvery
	}
	return q.followAt
}

// addRequests adds new requests.
func (q *sequencer) addRequests(ts []*request.Ticket) {
	if q.mode >= stopping {
		for _, t := range ts {
			if t.Take() {
				q.requests.answer(t, q.refusal)
			}
		}
		return
	}
	q.requests.add(ts)
}

// tick handles what is due at a time: the writer's retries and the timeouts of transfers.
func (q *sequencer) tick(now clock.Now) {
	q.handleWriterEvent(now, q.writer.Tick(now))
	q.transfers.handleTimeouts(now)
}

// storeReplied handles the reply to the request under way.
func (q *sequencer) storeReplied(now clock.Now, r ledger.Reply) {
	appending := q.writer.Appending()
	if r.Err != nil && !errors.Is(r.Err, ledger.ErrTaken) {
		q.lastErr = r.Err
	}
	if appending && r.Err != nil && !errors.Is(r.Err, ledger.ErrTooLarge) {
		q.tally.Unknown++
	}
	q.handleWriterEvent(now, q.writer.Done(now, r))
}

// stop ends all decisions. Undecided requests get the answer refusal.
func (q *sequencer) stop(why error, refusal request.Answer) {
	if q.mode >= stopping {
		return
	}
	q.mode, q.why, q.refusal = stopping, why, refusal
	q.requests.refuseAll(refusal)
	q.transfers.stop() // later ticks have no effect
	if q.sent == nil {
		q.mode = stopped
	}
}

// handleWriterEvent handles an event of the writer.
func (q *sequencer) handleWriterEvent(now clock.Now, do ledger.Do) {
	q.do = do
	switch do.Event {
	case ledger.Nothing:
		switch {
		case q.appendingFor(now) > EndAfter:
			q.abandon(fmt.Errorf("shard %d: %w: %w", q.shard, errStalled, q.lastError()), request.Elsewhere(api.NoQuorum))
		case q.mode == stopping && q.stalled(now):
			q.abandon(q.why, q.refusal) // the shard stops in any case
		}
	case ledger.CaughtUp:
		q.caughtUp()
	case ledger.Committed:
		q.committed(now)
	case ledger.Taken:
		q.slotTaken(now)
	case ledger.TooLarge:
		if q.requests.maxBatch == 1 {
			q.sent = nil // the commit is not in the log, and never will be
			q.abandon(fmt.Errorf("shard %d: a commit of one claim: %w", q.shard, ledger.ErrTooLarge), request.Refusal(api.NoQuorum))
			return
		}
		claims := len(q.requests.batch)
		if q.list != nil {
			claims += q.list.draftedGrabs
		}
		q.requests.maxBatch = max(claims/2, 1)
		q.undoBatch()
	case ledger.Gone, ledger.Again:
		q.abandon(ledger.ErrGone, request.Refusal(api.NoQuorum)) // the sale's own log shows whether the sale has ended
	case ledger.Damaged:
		q.abandon(do.Err, request.Refusal(api.NoQuorum))
	}
}

// caughtUp handles the end of a read: the log was read to its end. The sequencer may take the shard over,
// unless the log is gone, sealed or an older copy.
func (q *sequencer) caughtUp() {
	q.lastErr = nil
	switch {
	case q.state.Next() == 0:
		// Only the planner creates logs. If a live sale has no log, the log is gone.
		q.abandon(fmt.Errorf("shard %d: %w", q.shard, ledger.ErrGone), request.Refusal(api.NoQuorum))
	case q.state.Sealed():
		q.abandon(errSealed, request.Refusal(api.Closed))
	case q.state.Next() < q.minSlots || q.state.Generation < q.minGeneration:
		q.logTooShort()
	default:
		q.mode, q.rereads = takingOver, 0
	}
}

// maxRereads is how often a log that ends too early is read again: a read may lag.
const maxRereads = 3

// logTooShort handles a log that ends before the slots or the generation that are known to be in it. The
// sequencer must not append after that end: it would assign units again that were assigned before.
func (q *sequencer) logTooShort() {
	if q.rereads++; q.rereads <= maxRereads {
		q.do = q.writer.CatchUp()
		return
	}
	why := fmt.Sprintf("it ends before slot %d, but this process has read %d slots of it", q.state.Next(), q.minSlots)
	if q.state.Generation < q.minGeneration {
		why = fmt.Sprintf("it ends with generation %d, but generation %d was on every shard", q.state.Generation, q.minGeneration)
	}
	q.abandon(fmt.Errorf("%w: the log of shard %d is an older copy: %s", ledger.ErrCorrupt, q.shard, why), request.Refusal(api.NoQuorum))
}

// slotTaken handles a slot that another process has written: a planner, whose commit changes what can be
// decided, or a new owner, to whom this process yields the shard.
func (q *sequencer) slotTaken(now clock.Now) {
	q.sent, q.lastErr = nil, nil
	q.tally.Taken++
	switch {
	case q.state.Sealed():
		q.abandon(errSealed, request.Refusal(api.Closed))
	case q.mode != takingOver && !q.state.IsOwner(q.me):
		q.abandon(ErrOtherOwner, request.Elsewhere(api.Standby))
	default:
		q.undoBatch()
		q.updateTotals()
		if q.list != nil {
			q.list.list.Observe(now, q.state)
		}
	}
}

// updateTotals sets the shard's entry in the sale's totals.
func (q *sequencer) updateTotals() {
	q.totals.Set(q.shard, q.state.Next(), q.state.Totals, nextReleaseTime(q.state), q.mode == serving || q.mode == stopping)
}

// abandon ends the sequencer now. The outcome of the commit under way stays unknown.
func (q *sequencer) abandon(why error, refusal request.Answer) {
	a := refusal
	if q.sent != nil {
		a.Undecide()
	}
	q.requests.answerBatch(func(*request.Ticket) request.Answer { return a })
	q.transfers.drafted, q.sent, q.do = nil, nil, ledger.Do{}
	q.stop(why, refusal)
	q.mode, q.why, q.refusal = stopped, why, refusal
}

// next returns the effects of the events since its last call. It begins the next commit if none is under way.
func (q *sequencer) next(now clock.Now) Effects {
	switch {
	case q.mode == loading:
		q.awaitLog(now)
	case q.mode == takingOver && !q.writer.Idle(): // the log is read on
	case q.sent == nil && (q.mode == takingOver || q.mode == serving):
		q.beginCommit(now)
		for q.sent == nil && q.returnBlockedUntil == 0 && (q.requests.due > 0 || q.list.due(now)) {
			q.beginCommit(now) // a commit's worth of requests was refused, and more wait
		}
		if q.gentleHalt != nil && q.sent == nil && len(q.requests.waiting) == 0 && q.list.idle(now) {
			q.stop(q.gentleHalt.Why, q.gentleHalt.answer())
		}
	}
	if now.Mono >= q.returnBlockedUntil {
		q.returnBlockedUntil = 0 // the next commit decides the return
	}
	follow := q.follow(now)
	if r := q.do.Send; r != nil && r.Kind == ledger.AppendRequest {
		if q.attempts++; q.attempts > 1 {
			q.tally.Resent++
		}
	}
	e := Effects{Send: q.do.Send, answered: q.requests.takeAnswered(), messages: q.transfers.outbox, Wake: q.do.Wake}
	q.do.Send, q.transfers.outbox = nil, nil
	if e.Wake == 0 {
		e.Wake = clock.Soonest(q.transfers.nextTimeout(), follow, q.returnBlockedUntil)
	}
	if q.list != nil {
		q.list.addEffects(now, &e)
	} else {
		e.Wake = clock.Soonest(e.Wake, q.nextDecision(now))
	}
	return e
}

// awaitLog refuses requests while the log is being read and this process may not append, and abandons a
// log that cannot be read further.
func (q *sequencer) awaitLog(now clock.Now) {
	if !q.rights.Valid(now) {
		q.requests.refuseAll(request.Refusal(api.NoQuorum))
	}
	switch slot := q.state.Next(); {
	case slot != q.progressSlot || q.progressAt == clock.Now{}:
		q.progressSlot, q.progressAt = slot, now
	case now.Since(q.progressAt) > EndAfter:
		q.abandon(fmt.Errorf("shard %d: %w: %w", q.shard, errUnreadable, q.lastError()), request.Elsewhere(api.NoQuorum))
	}
}
