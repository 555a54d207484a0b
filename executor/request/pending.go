package request

import (
	"sync/atomic"

	"salectl/api"
	"salectl/backends/clock"
)

// Pending has the requests of a shard whose outcome is not known to their requesters: those without an
// answer, and those answered with Unknown. Pending prevents answers that deny a claim which was accepted, or
// may be yet. All methods are safe for concurrent use.
//
// All exported fields but Forwards and Listed are required.
type Pending struct {
	Decider  Decider
	Number   int       // of the shard
	UID      string    // of the run
	Underway *Underway // tickets of the shard
	Doubts   *Doubts
	Clock    clock.Clock
	Forwards bool // tickets are forwarded where another process is to decide them
	Listed   bool // a list grants the shard's units

	decided           atomic.Uint64 // number of requests answered by tickets
	drained           atomic.Bool   // the shard's list is off, and the log has all its grabs
	logCompletePeriod atomic.Uint64 // the last period above 0 that ForgetDoubts got; 0: none yet
}

// Decider is the shard that decides the requests, as Pending reads it. All methods are safe for concurrent
// use.
type Decider interface {
	// Recall answers a request from memory, if the ledger's state decides it.
	Recall(now clock.Now, r Request) (Answer, bool)
	// Serves reports whether this process has taken the shard over, and serves it.
	Serves() bool
	// May reports whether this process may append to the shard.
	May(now clock.Now) bool
	// MayHave reports whether a list may have given a user a unit that the log lacks.
	MayHave(user string) bool
}

// Hold makes p the holder of a ticket that came with a key, and adds the ticket to the table Underway unless it
// is there already.
func (p *Pending) Hold(t *Ticket) {
	if !t.Keyed() {
		return
	}
	if !t.Held() {
		p.Underway.enter(t)
	}
	t.holder.Store(p)
}

// Enter adds a ticket that is being queued on the shard to the table Underway. The caller holds the lock of
// the queue: tickets of one key are answered in the order in which they have entered.
func (p *Pending) Enter(t *Ticket) {
	p.Hold(t)
	t.state.CompareAndSwap(ticketTaken, ticketWaiting) // a ticket that has waited for a peer was taken; it may be withdrawn again
}

// Conclude prepares answered tickets for their completion. It removes them from the table Underway, except
// those that are decided again here or elsewhere. It replaces by Undecided each answer that would deny a
// claim that an earlier request of the same key may yet get, or may have got. mayHave reports whether a
// list may have given a user units that the log lacks.
func (p *Pending) Conclude(ts []*Ticket, mayHave func(user string) bool) {
	p.decided.Add(uint64(len(ts)))
	for _, t := range ts {
		if (t.MaybeDecided || t.Answer.Outcome == api.Closed) && t.Answer.Denies() && !p.NeedsForwarding(t) {
			p.reconsider(t)
		}
	}
	var refused []*Ticket
	p.Underway.mu.Lock()
	for _, t := range ts {
		if p.NeedsForwarding(t) || !t.Held() { // a ticket to be forwarded stays in the table
			continue
		}
		p.Underway.removeAnswered(t)
		switch {
		case t.Answer.Outcome == api.Unknown:
			p.AddDoubt(t)
		case t.Answer.Denies():
			refused = append(refused, t)
		}
	}
	for _, t := range refused {
		if p.Underway.hasBefore(t) {
			t.Answer.Undecide()
		}
	}
	p.Underway.mu.Unlock()
	for _, t := range refused {
		if !t.Answer.isFinalForUser() && (p.Doubts.Has(t.User, t.Key) || mayHave(t.User)) {
			t.Answer.Undecide()
			p.KeepInDoubt(t.User, t.Key)
		}
	}
}

// NeedsForwarding reports whether another process is to decide a ticket that has an answer here.
func (p *Pending) NeedsForwarding(t *Ticket) bool {
	return t.Answer.Elsewhere && !t.fromPeer && p.Forwards
}

// reconsider replaces a refusal that would deny an accepted claim: by the claim if the log has it, and by
// Undecided if its outcome or present state is unknown here. Another process may have accepted the claim,
// and a request may be refused without a lookup of its key. At the end of a sale this process may have
// accepted it, too: a peer whose link was cut sends a request again, and a client repeats one.
func (p *Pending) reconsider(t *Ticket) {
	final, sure := t.Answer.Outcome.Row().Retry != api.Again, p.OutcomeKnown()
	if t.MaybeDecided && !sure {
		if t.Answer.reachesLimit() {
			return
		}
		t.Answer.Undecide()
		if t.Held() {
			p.Doubts.Add(p.UID, p.Number, t.User, t.Key)
		}
		return
	}
	if t.Settle != nil {
		if !final || t.Answer.Outcome == api.Closed && (t.MaybeDecided || t.fromPeer) {
			t.Answer.Undecide()
		}
		return
	}
	switch had, ok := p.Decider.Recall(p.Clock(), t.Request); {
	case !ok || had.Denies(): // it was not accepted
	case !(final && sure) && !had.Claim.IsFinal(): // its present state is unknown
		t.Answer.Undecide()
	default:
		t.Answer = t.ForRequester(had)
	}
}

// AddDoubt records in Doubts that a request with a key may have been accepted, or may be yet. It does nothing
// while the list is off and the log has all its grabs.
func (p *Pending) AddDoubt(t *Ticket) {
	if t.Held() && !p.drained.Load() {
		p.Doubts.Add(p.UID, p.Number, t.User, t.Key)
	}
}

// Refuse returns the answer to a request that is refused without a lookup of its key: a, unless an
// earlier request of the same key was accepted, or may be yet.
func (p *Pending) Refuse(r Request, a Answer) Answer {
	if r.Key == "" || !a.Denies() {
		return a
	}
	inDoubt := p.Contradicted(&r, &a) || !p.EndsDoubts(&a) && p.Decider.MayHave(r.User)
	// An earlier request may just have been answered. A process that may not append, or has yet
	// to read the log, does not have the present state of a hold.
	now := p.Clock()
	if again, ok := p.Decider.Recall(now, r); ok && again.Accepted() {
		switch final := a.Outcome.Row().Retry != api.Again; {
		case again.Claim.IsFinal(), final && p.Decider.Serves() && p.Decider.May(now):
			return again
		case final:
			return Undecided
		}
	}
	if inDoubt {
		p.KeepInDoubt(r.User, r.Key)
		return Undecided
	}
	return a
}

// Contradicted reports whether a denies the claim of r while an earlier request of the same key is under way, or
// is in doubt.
func (p *Pending) Contradicted(r *Request, a *Answer) bool {
	return r.Key != "" && (p.Underway.Has(r) || !p.EndsDoubts(a) && p.Doubts.Has(r.User, r.Key)) && a.Denies()
}

// EndsDoubts reports whether a refusal without a lookup of the key also is the answer to all requests of the
// user that are in doubt. For a process that does not serve the shard that holds only if all is sold.
func (p *Pending) EndsDoubts(a *Answer) bool {
	return a.isFinalForUser() && (a.Outcome == api.SoldOut || p.Decider.Serves())
}

// KeepInDoubt adds a doubt for a request, or with AnyKey for all requests of a user, while the log may
// lack grabs of the list. The doubt outlives the session; the NodeQueue, which also records such grabs,
// does not.
func (p *Pending) KeepInDoubt(user, key string) {
	if p.mayLack() {
		p.Doubts.Add(p.UID, p.Number, user, key)
	}
}

// ListMayContradict reports whether a, a final refusal by Recall, may be wrong: under an earlier owner the
// list may have given the user a unit that the log lacks, because this process has not filled the list yet.
// The caller then queues the request, and the list decides.
func (p *Pending) ListMayContradict(a *Answer) bool {
	return p.mayLack() && p.logCompletePeriod.Load() == 0 && !a.isFinalForUser() && a.Denies() && a.Outcome.Row().Retry == api.Final
}

// Abandoned records that the requester has gone, though the request may be accepted.
func (p *Pending) Abandoned(t *Ticket) {
	p.Underway.Abandon(t)
	if p.OutcomeKnown() {
		p.KeepInDoubt(t.User, t.Key)
	} else { // another process may have decided the request
		p.Doubts.Add(p.UID, p.Number, t.User, t.Key)
	}
}

// OutcomeKnown reports whether the outcome of a claim that another process may have decided is known to this
// one. A process that serves a shard has read the log behind all that other processes have sent
// there. With a list, the log has all that other processes have given from the list once this process has
// filled the list, or once the list is off for good.
func (p *Pending) OutcomeKnown() bool {
	return p.Decider.Serves() && (p.logCompletePeriod.Load() != 0 || p.drained.Load())
}

// mayLack reports whether the log may lack units that a list granted.
func (p *Pending) mayLack() bool { return p.Listed && !p.drained.Load() }

// ForgetDoubts records whether the list is drained, and the period, above 0 once the log has all that earlier
// owners and fills have given. If the list is drained, or a period begins, it forgets the shard's doubts: the
// log has the claims that were in doubt, or never will.
func (p *Pending) ForgetDoubts(drained bool, period uint64) {
	p.drained.Store(drained)
	if drained || period != 0 && period != p.logCompletePeriod.Load() {
		p.Doubts.forget(p.UID, p.Number)
	}
	if period != 0 {
		p.logCompletePeriod.Store(period)
	}
}

// Decided returns how many requests the shard has answered since this process opened it, without those that
// were answered from memory.
func (p *Pending) Decided() uint64 { return p.decided.Load() }
