package ledger

// HoldSpan is how a claim lay in its hold.
type HoldSpan struct {
	Claim    int   // which: State.Claim has it
	SinceUs  int64 // the commit of the claim, or of its award, in microseconds since 1970
	EndedUs  int64 // 0: it is held
	Extended bool
	Entry    bool // of a draw that has no unit yet: its hold may begin later
}

// HoldRecords returns how many claims so far were held or refunded, or had a payment that is owed back.
// It never decreases.
func (s *State) HoldRecords() int { return s.claims.holdRecords.Len() }

// HoldOf returns how the i-th of the HoldRecords lay in its hold; false: it was never held. An entry
// that was paid before it got a unit may be held later.
func (s *State) HoldOf(i int) (HoldSpan, bool) {
	d := s.claims.holdRecords.At(uint32(i))
	if d.heldUntil == 0 {
		return HoldSpan{Claim: int(d.claim), Entry: s.claims.records.At(d.claim).state() == StateEntered}, false
	}
	span := HoldSpan{Claim: int(d.claim), SinceUs: s.claims.times[s.claims.records.At(d.claim).slot], Extended: d.extended}
	if d.awarded != 0 {
		span.SinceUs = s.claims.times[d.awarded-1]
	}
	if d.ended != 0 {
		span.EndedUs = s.claims.times[d.ended-1]
	}
	return span, true
}
