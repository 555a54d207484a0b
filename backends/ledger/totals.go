package ledger

import (
	pb "salectl/backends/ledger/ledgerpb"
)

// What each op does to the totals. The reducer counts with these, and so does a
// draft, which needs the head before its commit is appended.

func (t *Totals) claim(n int64, held bool) {
	t.Available -= n
	if held {
		t.Held += n
	} else {
		t.Sold += n
	}
}

func (t *Totals) settle(n int64, to ClaimState) {
	t.Held -= n
	if to == StateSold {
		t.Sold += n
	} else {
		t.Available += n
	}
}

func (t *Totals) out(n int64) { t.Available -= n; t.InFlight += n }
func (t *Totals) in(n int64)  { t.Available += n }
func (t *Totals) ack(n int64) { t.InFlight -= n }

func (t *Totals) generation(op *pb.Generation, added int64) {
	removed := min(op.GetRemove(), t.Available+added)
	t.Generation = op.GetNumber()
	t.Phase = PhaseName(op.GetSettings().GetPhase())
	t.Limit += added - removed
	t.Available += added - removed
}

func (t *Totals) seal() { t.Phase = PhaseSealed }
