package shard

import (
	"sync/atomic"

	"salectl/api"
	"salectl/backends/clock"
)

// pending are the requests of a shard whose outcome is not known to their requesters: admitted and not
// answered, and answered with Unknown. It keeps an answer from denying a claim that was accepted, or
// may be yet. All methods are safe for concurrent use.
type pending struct {
	underway  *underway
	doubts    *Doubts
	uid       string // of the run
	shard     int
	nodeQueue nodeQueue
	clock     clock.Clock
	forward   func([]*Ticket)
	self      holder        // itself, for its tickets
	decided   atomic.Uint64 // requests that were answered, in all

	ledger    *ledgerView
	published *published
}

// conclude prepares answered tickets for their completion. It removes them from the table underway, except
// those that are decided again here or elsewhere. It replaces by Undecided each answer that would deny a
// claim that an earlier request of the same key may yet get, or may have got. mayHave reports whether a
// list may have given a user units that the log lacks.
func (p *pending) conclude(ts []*Ticket, mayHave func(user string) bool) {
	p.decided.Add(uint64(len(ts)))
	for _, t := range ts {
		if (t.maybeDecided || t.answer.Outcome == api.Closed) && t.answer.Denies() && !p.needsForwarding(t) {
			p.reconsider(t)
		}
	}
	var refused []*Ticket
	p.underway.mu.Lock()
	for _, t := range ts {
		if p.needsForwarding(t) || t.holder.Load() == nil { // the Remote keeps one that moves
			continue
		}
		p.underway.removeAnswered(t)
		switch {
		case t.answer.Outcome == api.Unknown:
			p.addDoubt(t)
		case t.answer.Denies():
			refused = append(refused, t)
		}
	}
	for _, t := range refused {
		if p.underway.hasBefore(t.User, t.Key, t.hash, t.number) {
			t.answer.undecide()
		}
	}
	p.underway.mu.Unlock()
	for _, t := range refused {
		if !t.answer.isFinalForUser() && (p.doubts.Has(t.User, t.Key) || mayHave(t.User)) {
			t.answer.undecide()
			p.keepInDoubt(t.User, t.Key)
		}
	}
}

// needsForwarding reports whether another process is to decide a ticket that has an answer here.
func (p *pending) needsForwarding(t *Ticket) bool {
	return t.answer.Elsewhere && !t.fromPeer && p.forward != nil
}

// reconsider replaces a refusal that would deny an accepted claim: by the claim if the log has it, and by
// Undecided if its outcome or present state is unknown here. Another process may have accepted the claim,
// and a request may be refused without a look-up of its key. At the end of a sale this process may have
// accepted it, too: a peer whose link was cut sends a request again, and a client repeats one.
func (p *pending) reconsider(t *Ticket) {
	looked, sure := t.answer.Outcome.Row().Retry != api.Again, p.published.knowsOutcome()
	if t.maybeDecided && !sure {
		if t.answer.reachesLimit() {
			return
		}
		t.answer.undecide()
		if t.holder.Load() != nil {
			p.doubts.Add(p.uid, p.shard, t.User, t.Key)
		}
		return
	}
	if t.Settle != nil {
		if !looked || t.answer.Outcome == api.Closed && (t.maybeDecided || t.fromPeer) {
			t.answer.undecide()
		}
		return
	}
	switch had, ok := p.ledger.Recall(p.clock(), t.Request); {
	case !ok || had.Denies(): // it was not accepted
	case !(looked && sure) && !had.Claim.IsFinal(): // what became of it since is not known
		t.answer.undecide()
	default:
		t.answer = t.forRequester(had)
	}
}

// undecide replaces a refusal by unknown. It keeps Elsewhere, so that a peer forwards the request to
// the process that may decide it.
func (a *Answer) undecide() {
	elsewhere := a.Elsewhere
	*a = Undecided
	a.Elsewhere = elsewhere
}

// addDoubt records in Doubts that a request with a key may have been accepted, or may be yet. It does nothing
// while the list is off and the log has all its grabs.
func (p *pending) addDoubt(t *Ticket) {
	if t.holder.Load() != nil && !p.published.drained.Load() {
		p.doubts.Add(p.uid, p.shard, t.User, t.Key)
	}
}

// Refuse returns the answer to a request that is refused without a look-up of its key: a, unless an
// earlier request of the same key was accepted, or may be yet.
func (p *pending) Refuse(r Request, a Answer) Answer {
	if r.Key == "" || !a.Denies() {
		return a
	}
	inDoubt := p.underway.has(&r) ||
		!p.endsDoubts(a) && (p.doubts.Has(r.User, r.Key) || p.nodeQueue.mayHave(r.User))
	// An earlier one may just have been answered. What became of a hold since is not known
	// to a process that may not append, or has yet to read the log.
	now := p.clock()
	if again, ok := p.ledger.Recall(now, r); ok && again.Accepted() {
		switch final := a.Outcome.Row().Retry != api.Again; {
		case again.Claim.IsFinal(), final && p.published.Serves() && p.published.May(now):
			return again
		case final:
			return Undecided
		}
	}
	if inDoubt {
		p.keepInDoubt(r.User, r.Key)
		return Undecided
	}
	return a
}

// endsDoubts reports whether a refusal without a look-up of the key also is the answer to all requests of the
// user that are in doubt. A process that does not serve the shard knows that only if all is sold.
func (p *pending) endsDoubts(a Answer) bool {
	return a.isFinalForUser() && (a.Outcome == api.SoldOut || p.published.serving.Load())
}

// isFinalForUser reports whether an answer also is the answer to all requests of its user that are in
// doubt: a user who has the limit, by the log or the list, gets nothing by any other request, and
// nobody does when all is sold. That stays true if the shard is handed over before the answer is
// sent.
func (a *Answer) isFinalForUser() bool { return a.Outcome == api.SoldOut || a.reachesLimit() }

// reachesLimit reports whether an answer lists claims that reach the user's limit. The refusal of a
// request for more than the limit proves nothing about other requests.
func (a *Answer) reachesLimit() bool { return a.Outcome == api.LimitReached && len(a.Claims) > 0 }

// keepInDoubt adds a doubt for a request, or with AnyKey for all requests of a user, while the log may
// lack grabs of the list. The shard queue's record of these grabs ends with the session; the doubt
// outlives the session.
func (p *pending) keepInDoubt(user, key string) {
	if p.nodeQueue.mayLack() {
		p.doubts.Add(p.uid, p.shard, user, key)
	}
}

// ListMayContradict reports whether a, a final refusal by Recall, may be wrong: under an earlier owner the
// list may have given the user a unit that the log lacks, because this process has not filled the list yet.
// The caller then queues the request, and the list decides.
func (p *pending) ListMayContradict(a Answer) bool {
	return a.Denies() && a.Outcome.Row().Retry == api.Final && !a.isFinalForUser() && p.nodeQueue.mayLack() && p.published.logCompletePeriod.Load() == 0
}

// withdrawn implements holder.
func (p *pending) withdrawn(t *Ticket) { p.underway.leave(t) }

// abandoned implements holder.
func (p *pending) abandoned(t *Ticket) {
	p.underway.abandon(t)
	if p.published.knowsOutcome() {
		p.keepInDoubt(t.User, t.Key)
	} else { // another process may have decided before
		p.doubts.Add(p.uid, p.shard, t.User, t.Key)
	}
}

// knowsOutcome implements holder.
func (p *pending) knowsOutcome() bool { return p.published.knowsOutcome() }

// forgetDoubts publishes the engine's drained and logCompletePeriod. If the engine is drained, or the
// period has changed, it forgets the shard's doubts: the log has the claims that were in doubt, or never
// will.
func (p *pending) forgetDoubts(drained bool, epoch uint64) {
	p.published.drained.Store(drained)
	if drained || epoch != 0 && epoch != p.published.logCompletePeriod.Load() {
		p.doubts.forget(p.uid, p.shard)
	}
	if epoch != 0 {
		p.published.logCompletePeriod.Store(epoch)
	}
}

// UnderWay returns how many requests that came with a key wait for their answer.
func (p *pending) UnderWay() int { return int(p.underway.size.Load()) }

// IsUnderWay reports whether a request of that user and key waits for its answer.
func (p *pending) IsUnderWay(r Request) bool { return p.underway.has(&r) }

// Decided returns how many requests the shard has answered since this process has it, but for those
// that were answered from memory.
func (p *pending) Decided() uint64 { return p.decided.Load() }
