package shard

import "salectl/api"

// What keeps an answer from denying a claim that was accepted, or may be yet.

// conclude takes requests that are about to be told their answers out of those
// under way. What they are told must not deny a claim that an earlier request of
// the same key may yet get, or may have got. mayHave says whether a user may have
// been given something by a list that the log lacks.
func (s *Shard) conclude(ts []*Ticket, mayHave func(user string) bool) {
	var refused []*Ticket
	s.underway.mu.Lock()
	for _, t := range ts {
		if t.home == nil {
			continue
		}
		s.underway.remove(t)
		switch {
		case t.answer.Outcome == api.Unknown:
			s.doubt(t)
		case t.answer.Denies():
			refused = append(refused, t)
		}
	}
	for _, t := range refused {
		if s.underway.hasBefore(t.User, t.Key, t.hash, t.number) {
			t.answer = Undecided
		}
	}
	s.underway.mu.Unlock()
	for _, t := range refused {
		if !s.decides(t.answer) && (s.doubts.Has(t.User, t.Key) || mayHave(t.User)) {
			t.answer = Undecided
			s.keepInDoubt(t.User, t.Key)
		}
	}
}

// doubt remembers that a request may have been accepted, or may be yet. Where the
// log has all that a list gave it would say so.
func (s *Shard) doubt(t *Ticket) {
	if t.home != nil && !s.drained.Load() {
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
	inDoubt := s.underway.has(r.User, r.Key) ||
		!s.decides(a) && (s.doubts.Has(r.User, r.Key) || s.front.mayHave(r.User))
	// An earlier one may just have been answered. What became of a hold since is not known
	// to a process that may not append.
	if again, ok := s.Recall(s.clock(), r); ok && again.Accepted() && (again.Claim.HeldUntil.IsZero() || a.Outcome.Row().Retry != api.Again) {
		return again
	}
	if inDoubt {
		s.keepInDoubt(r.User, r.Key)
		return Undecided
	}
	return a
}

// decides says whether an answer also is the answer to whatever is in doubt of its
// user: whoever has what a user may have, by the log or the list that this process
// serves, gets nothing by any other request, nor does anybody where all is sold. That a
// request asks for more than anybody may have says nothing of the others.
func (s *Shard) decides(a Answer) bool {
	return a.Outcome == api.SoldOut || a.Outcome == api.LimitReached && len(a.Claims) > 0 && s.serving.Load()
}

// keepInDoubt keeps a request in doubt, or with anyKey all of a user's, whose user may
// have something of the list which the log lacks: what else is known of that ends with
// the tenure.
func (s *Shard) keepInDoubt(user, key string) {
	if s.front.mayLack() {
		s.doubts.Add(s.uid, s.seq.shard, user, key)
	}
}

// settleDoubts forgets what was in doubt before this process took the shard over,
// or before its list was filled anew: the log has it, or never will.
func (s *Shard) settleDoubts() {
	drained, since := s.seq.engine.drained(), s.seq.engine.certain()
	s.drained.Store(drained)
	if drained || since != 0 && since != s.certain {
		s.doubts.settle(s.uid, s.seq.shard)
	}
	if since != 0 {
		s.certain = since
	}
}
