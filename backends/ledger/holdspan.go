package ledger

// HoldSpan is how a claim lay in its hold.
type HoldSpan struct {
	SinceUs  int64 // the commit of the claim, in microseconds since 1970
	EndedUs  int64 // 0: it is held
	Extended bool
}

// Deals returns how many claims were held or refunded so far. There are only ever more.
func (s *State) Deals() int { return s.claims.deals.len() }

// HoldOf returns how the i-th of the Deals lay in its hold; false: it was sold at once, and
// refunded since. Of a claim that was refunded or sold after it had expired, the end of
// the hold is not kept: it is told as the time of that change, or of its release if
// that came before.
func (s *State) HoldOf(i int) (HoldSpan, bool) {
	d := s.claims.deals.at(uint32(i))
	if d.heldUntil == 0 {
		return HoldSpan{}, false
	}
	r := s.claims.records.at(d.claim)
	span := HoldSpan{SinceUs: s.claims.times[r.slot], Extended: d.extended}
	if r.state == StateHeld {
		return span, true
	}
	span.EndedUs = s.claims.times[d.settled-1]
	if r.state == StateSold || r.state == StateRefunded {
		span.EndedUs = min(span.EndedUs, d.heldUntil+d.grace)
	}
	return span, true
}
