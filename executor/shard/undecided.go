package shard

import "salectl/api"

// The functions of this file keep an answer from denying a claim that was accepted, or may be yet.

// conclude removes tickets that are about to be completed from the table underway. Their answers must
// not deny a claim that an earlier request of the same key may yet get, or may have got. mayHave
// reports whether a list may have given a user units that the log lacks.
func (s *Shard) conclude(ts []*Ticket, mayHave func(user string) bool) {
	s.decided.Add(uint64(len(ts)))
	for _, t := range ts {
		if (t.maybeDecided || t.answer.Outcome == api.Closed) && t.answer.Denies() && !s.moves(t) {
			s.reconsider(t)
		}
	}
	var refused []*Ticket
	s.underway.mu.Lock()
	for _, t := range ts {
		if s.moves(t) || t.holder.Load() == nil { // the Remote keeps one that moves
			continue
		}
		s.underway.answered(t)
		switch {
		case t.answer.Outcome == api.Unknown:
			s.doubt(t)
		case t.answer.Denies():
			refused = append(refused, t)
		}
	}
	for _, t := range refused {
		if s.underway.hasBefore(t.User, t.Key, t.hash, t.number) {
			t.answer.undecide()
		}
	}
	s.underway.mu.Unlock()
	for _, t := range refused {
		if !t.answer.isFinalForUser() && (s.doubts.Has(t.User, t.Key) || mayHave(t.User)) {
			t.answer.undecide()
			s.keepInDoubt(t.User, t.Key)
		}
	}
}

// moves reports whether another process is to decide a ticket that has an answer here.
func (s *Shard) moves(t *Ticket) bool {
	return t.answer.Elsewhere && !t.fromPeer && s.moved != nil
}

// reconsider keeps a refusal from denying a claim that another process may have accepted before: a
// request may be refused without a look-up of its key. The end of a sale also refuses requests that
// this process may have accepted: a peer whose link was cut sends a request again, and a client
// repeats one.
func (s *Shard) reconsider(t *Ticket) {
	looked, sure := t.answer.Outcome.Row().Retry != api.Again, s.knowsOutcome()
	if t.maybeDecided && !sure {
		if t.answer.reachesLimit() {
			return
		}
		t.answer.undecide()
		if t.holder.Load() != nil {
			s.doubts.Add(s.uid, s.seq.shard, t.User, t.Key)
		}
		return
	}
	if t.Settle != nil {
		if !looked || t.answer.Outcome == api.Closed && (t.maybeDecided || t.fromPeer) {
			t.answer.undecide()
		}
		return
	}
	switch had, ok := s.Recall(s.clock(), t.Request); {
	case !ok || had.Denies(): // it was not accepted
	case !(looked && sure) && !had.Claim.Stays(): // what became of it since is not known
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
func (s *Shard) doubt(t *Ticket) {
	if t.holder.Load() != nil && !s.drained.Load() {
		s.doubts.Add(s.uid, s.seq.shard, t.User, t.Key)
	}
}

// Refuse returns the answer to a request that is refused without a look-up of its key: a, unless an
// earlier request of the same key was accepted, or may be yet.
func (s *Shard) Refuse(r Request, a Answer) Answer {
	if r.Key == "" || !a.Denies() {
		return a
	}
	inDoubt := s.underway.has(&r) ||
		!s.decides(a) && (s.doubts.Has(r.User, r.Key) || s.front.mayHave(r.User))
	// An earlier one may just have been answered. What became of a hold since is not known
	// to a process that may not append, or has yet to read the log.
	now := s.clock()
	if again, ok := s.Recall(now, r); ok && again.Accepted() {
		switch final := a.Outcome.Row().Retry != api.Again; {
		case again.Claim.Stays(), final && s.Serves() && s.May(now):
			return again
		case final:
			return Undecided
		}
	}
	if inDoubt {
		s.keepInDoubt(r.User, r.Key)
		return Undecided
	}
	return a
}

// decides reports whether the refusal of a request that was not looked up also is the answer to all
// requests of its user that are in doubt.
func (s *Shard) decides(a Answer) bool {
	return a.isFinalForUser() && (a.Outcome == api.SoldOut || s.serving.Load())
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
func (s *Shard) keepInDoubt(user, key string) {
	if s.front.mayLack() {
		s.doubts.Add(s.uid, s.seq.shard, user, key)
	}
}

// Denies reports whether an answer of Recall would deny for good what the owner before may have given
// the user by a list that this process has not filled yet. Then the list decides.
func (s *Shard) Denies(a Answer) bool {
	return a.Denies() && a.Outcome.Row().Retry == api.Final && !a.isFinalForUser() && s.front.mayLack() && s.logCompleteEpoch.Load() == 0
}

// withdrawn is holder's.
func (s *Shard) withdrawn(t *Ticket) { s.underway.leave(t) }

// abandoned is holder's.
func (s *Shard) abandoned(t *Ticket) {
	s.underway.abandon(t)
	if s.knowsOutcome() {
		s.keepInDoubt(t.User, t.Key)
	} else { // another process may have decided before
		s.doubts.Add(s.uid, s.seq.shard, t.User, t.Key)
	}
}

// knowsOutcome is holder's: whoever serves a shard has read its log behind all that other
// processes have sent there. With a list that log has what they had given from the list
// when this process has filled it, or the list is off for good.
func (s *Shard) knowsOutcome() bool {
	return s.serving.Load() && (s.logCompleteEpoch.Load() != 0 || s.drained.Load())
}

// forgetDoubts forgets what was in doubt before this process took the shard over, or before its list
// was filled again: the log has it, or never will.
func (s *Shard) forgetDoubts() {
	drained, since := s.seq.engine.drained(), s.seq.engine.logCompleteEpoch()
	s.drained.Store(drained)
	if drained || since != 0 && since != s.logCompleteEpoch.Load() {
		s.doubts.forget(s.uid, s.seq.shard)
	}
	if since != 0 {
		s.logCompleteEpoch.Store(since)
	}
}
