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
	moved     func([]*Ticket)
	self      holder        // itself, for its tickets
	decided   atomic.Uint64 // requests that were answered, in all

	ledger    *ledgerView
	published *published
}

// conclude removes tickets that are about to be completed from the table underway. Their answers must
// not deny a claim that an earlier request of the same key may yet get, or may have got. mayHave
// reports whether a list may have given a user units that the log lacks.
func (p *pending) conclude(ts []*Ticket, mayHave func(user string) bool) {
	p.decided.Add(uint64(len(ts)))
	for _, t := range ts {
		if (t.maybeDecided || t.answer.Outcome == api.Closed) && t.answer.Denies() && !p.moves(t) {
			p.reconsider(t)
		}
	}
	var refused []*Ticket
	p.underway.mu.Lock()
	for _, t := range ts {
		if p.moves(t) || t.holder.Load() == nil { // the Remote keeps one that moves
			continue
		}
		p.underway.removeAnswered(t)
		switch {
		case t.answer.Outcome == api.Unknown:
			p.doubt(t)
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

// moves reports whether another process is to decide a ticket that has an answer here.
func (p *pending) moves(t *Ticket) bool {
	return t.answer.Elsewhere && !t.fromPeer && p.moved != nil
}

// reconsider keeps a refusal from denying a claim that another process may have accepted before: a
// request may be refused without a look-up of its key. The end of a sale also refuses requests that
// this process may have accepted: a peer whose link was cut sends a request again, and a client
// repeats one.
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

// doubt notes that a request may have been accepted, or may be yet. It is not needed where the log has
// all that a list has given.
func (p *pending) doubt(t *Ticket) {
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
		!p.decides(a) && (p.doubts.Has(r.User, r.Key) || p.nodeQueue.mayHave(r.User))
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

// decides reports whether the refusal of a request that was not looked up also is the answer to all
// requests of its user that are in doubt.
func (p *pending) decides(a Answer) bool {
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

// keepInDoubt keeps a request in doubt, or with anyKey all of a user's, whose user may
// have something of the list which the log lacks: what else is known of that ends with
// the session.
func (p *pending) keepInDoubt(user, key string) {
	if p.nodeQueue.mayLack() {
		p.doubts.Add(p.uid, p.shard, user, key)
	}
}

// Denies reports whether an answer of Recall would deny for good what the owner before may have given
// the user by a list that this process has not filled yet. Then the list decides.
func (p *pending) Denies(a Answer) bool {
	return a.Denies() && a.Outcome.Row().Retry == api.Final && !a.isFinalForUser() && p.nodeQueue.mayLack() && p.published.logCompleteEpoch.Load() == 0
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

// forgetDoubts forgets what was in doubt before this process took the shard over, or before its list
// was filled again: the log has it, or never will. drained and epoch are those of the engine.
func (p *pending) forgetDoubts(drained bool, epoch uint64) {
	p.published.drained.Store(drained)
	if drained || epoch != 0 && epoch != p.published.logCompleteEpoch.Load() {
		p.doubts.forget(p.uid, p.shard)
	}
	if epoch != 0 {
		p.published.logCompleteEpoch.Store(epoch)
	}
}

// UnderWay returns how many requests that came with a key wait for their answer.
func (p *pending) UnderWay() int { return int(p.underway.size.Load()) }

// IsUnderWay reports whether a request of that user and key waits for its answer.
func (p *pending) IsUnderWay(r Request) bool { return p.underway.has(&r) }

// Decided returns how many requests the shard has answered since this process has it, but for those
// that were answered from memory.
func (p *pending) Decided() uint64 { return p.decided.Load() }
