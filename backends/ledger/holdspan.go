package ledger

// HoldSpan is when the hold of a claim began and ended.
type HoldSpan struct {
	Claim   int   // which: State.Claim has it
	SinceUs int64 // the commit of the claim, or of its award, in microseconds since 1970
	EndedUs int64 // 0: it is held
}

// HoldRecords returns how many claims so far were held or refunded, or had a payment that is owed back.
// It never decreases.
func (s *State) HoldRecords() int { return s.claims.holdRecords.Len() }

// HoldOf returns when the hold of the i-th of the HoldRecords began and ended; false: it was never held.
func (s *State) HoldOf(i int) (HoldSpan, bool) {
	d := s.claims.holdRecords.At(uint32(i))
	return s.claims.span(d), d.heldUntil != 0
}

func (c *claims) span(d *holdRecord) HoldSpan {
	span := HoldSpan{Claim: int(d.claim), SinceUs: c.times[c.records.At(d.claim).slot]}
	if d.awarded != 0 {
		span.SinceUs = c.times[d.awarded-1]
	}
	if d.ended != 0 {
		span.EndedUs = c.times[d.ended-1]
	}
	return span
}
