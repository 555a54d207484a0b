package shard

import "salectl/api"

// What keeps an answer from denying a claim that was accepted, or may be yet.

// conclude takes requests that are about to be told their answers out of those
// under way. What they are told must not deny a claim that an earlier request of
// the same key may yet get, or may have got. mayHave says whether a user may have
// been given something by a list that the log lacks.
func (s *Shard) conclude(ts []*Ticket, mayHave func(user string) bool) {
	s.decided.Add(uint64(len(ts)))
	for _, t := range ts {
		if (t.tried || t.answer.Outcome == api.Closed) && t.answer.Denies() && !s.moves(t) {
			s.lookBack(t)
		}
	}
	var refused []*Ticket
	s.underway.mu.Lock()
	for _, t := range ts {
		if s.moves(t) || t.in.Load() == nil { // one that moves stays under way, there
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
		if !t.answer.tellsAll() && (s.doubts.Has(t.User, t.Key) || mayHave(t.User)) {
			t.answer.undecide()
			s.keepInDoubt(t.User, t.Key)
		}
	}
}

// moves says whether a request that is answered here is another process's to decide on.
func (s *Shard) moves(t *Ticket) bool {
	return t.answer.Elsewhere && !t.fromPeer && s.moved != nil
}

// lookBack keeps a refusal from denying what another process may have accepted that was
// asked before: whoever refuses a request need not have looked at it. The end of a sale refuses
// requests that this process may have accepted too: a process whose link was cut sends a request
// again, and a buyer repeats one.
func (s *Shard) lookBack(t *Ticket) {
	looked, sure := t.answer.Outcome.Row().Retry != api.Again, s.surely()
	if t.tried && !sure {
		if t.answer.reachesLimit() {
			return
		}
		t.answer.undecide()
		if t.in.Load() != nil {
			s.doubts.Add(s.uid, s.seq.shard, t.User, t.Key)
		}
		return
	}
	if t.settles != nil {
		if !looked || t.answer.Outcome == api.Closed && (t.tried || t.visiting) {
			t.answer.undecide()
		}
		return
	}
	switch had, ok := s.Recall(s.clock(), t.Request); {
	case !ok || had.Denies(): // it was not accepted
	case !(looked && sure) && !had.Claim.Stays(): // what became of it since is not known
		t.answer.undecide()
	default:
		t.answer = t.own(had)
	}
}

// undecide says that nobody knows, in place of a refusal. Where another process may decide,
// whoever asked for a peer asks on there.
func (a *Answer) undecide() {
	elsewhere := a.Elsewhere
	*a = Undecided
	a.Elsewhere = elsewhere
}

// doubt remembers that a request may have been accepted, or may be yet. Where the
// log has all that a list gave it would say so.
func (s *Shard) doubt(t *Ticket) {
	if t.in.Load() != nil && !s.drained.Load() {
		s.doubts.Add(s.uid, s.seq.shard, t.User, t.Key)
	}
}

// Refuse returns the answer to a request that is refused without a look at it:
// a, unless the claim was accepted, or may yet be, under an earlier request of the
// same key.
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

// decides says whether an answer to a request that nobody has looked at also is the answer to
// whatever is in doubt of its user.
func (s *Shard) decides(a Answer) bool {
	return a.tellsAll() && (a.Outcome == api.SoldOut || s.serving.Load())
}

// tellsAll says whether an answer that was decided while the shard was served also is the
// answer to whatever is in doubt of its user: whoever has what a user may have, by the log
// or the list, gets nothing by any other request, nor does anybody where all is sold. It
// stays one when the shard is handed over before it is told.
func (a *Answer) tellsAll() bool { return a.Outcome == api.SoldOut || a.reachesLimit() }

// reachesLimit says whether an answer tells of claims by which its user has all that a user
// may have. That a request asks for more than anybody may have says nothing of the others.
func (a *Answer) reachesLimit() bool { return a.Outcome == api.LimitReached && len(a.Claims) > 0 }

// keepInDoubt keeps a request in doubt, or with anyKey all of a user's, whose user may
// have something of the list which the log lacks: what else is known of that ends with
// the session.
func (s *Shard) keepInDoubt(user, key string) {
	if s.front.mayLack() {
		s.doubts.Add(s.uid, s.seq.shard, user, key)
	}
}

// Denies says whether an answer of Recall would deny for good what the owner before may have
// given the user by a list that this process has not filled yet: the list is to be asked.
func (s *Shard) Denies(a Answer) bool {
	return a.Denies() && a.Outcome.Row().Retry == api.Final && !a.tellsAll() && s.front.mayLack() && s.certain.Load() == 0
}

// left is place's.
func (s *Shard) left(t *Ticket) { s.underway.leave(t) }

// abandoned is place's.
func (s *Shard) abandoned(t *Ticket) {
	s.underway.forsake(t)
	if s.surely() {
		s.keepInDoubt(t.User, t.Key)
	} else { // another process may have decided before
		s.doubts.Add(s.uid, s.seq.shard, t.User, t.Key)
	}
}

// surely is place's: whoever serves a shard has read its log behind all that other
// processes have sent there. With a list that log has what they had given from the list
// when this process has filled it, or the list is off for good.
func (s *Shard) surely() bool {
	return s.serving.Load() && (s.certain.Load() != 0 || s.drained.Load())
}

// settleDoubts forgets what was in doubt before this process took the shard over,
// or before its list was filled anew: the log has it, or never will.
func (s *Shard) settleDoubts() {
	drained, since := s.seq.engine.drained(), s.seq.engine.certain()
	s.drained.Store(drained)
	if drained || since != 0 && since != s.certain.Load() {
		s.doubts.settle(s.uid, s.seq.shard)
	}
	if since != 0 {
		s.certain.Store(since)
	}
}
