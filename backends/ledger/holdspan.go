package ledger

// HoldSpan is the time span of a claim's hold.
type HoldSpan struct {
	Claim   int   // index for State.Claim
	SinceUs int64 // time of the claim's commit, or of its award's, in microseconds since 1970
	EndedUs int64 // 0: still held
}

// HoldRecords returns the number of claims that were held, awarded or refunded, or had a payment owed
// back. It never decreases.
func (h *holds) HoldRecords() int { return h.records.Len() }

// HoldOf returns the span of the hold of the i-th of the HoldRecords; false: it was never held.
func (c *claims) HoldOf(i int) (HoldSpan, bool) {
	d := c.holds.records.At(uint32(i))
	return c.span(d), d.heldUntil != 0
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
