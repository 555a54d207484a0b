package ledger

import (
	pb "salectl/backends/ledger/ledgerpb"
)

// The methods below count the effect of each op on the totals. The reducer uses them, and
// so does a draft, which needs the head before its commit is appended.

func (t *Totals) claim(n int64, held bool) {
	t.Available -= n
	if held {
		t.Held += n
		t.OpenHolds++
	} else {
		t.Sold += n
	}
}

// settle counts the effect of an op on a claim of n units.
func (t *Totals) settle(n int64, op *pb.Settle) {
	switch op.GetHow() {
	case pb.Settle_CONFIRM:
		t.ended(n)
		t.Sold += n
		t.Confirmed++
	case pb.Settle_CANCEL:
		t.ended(n)
		t.Available += n
		t.Cancelled++
	case pb.Settle_EXPIRE:
		t.ended(n)
		t.Available += n
		t.Expired++
	case pb.Settle_REFUND:
		t.Sold -= n
		if op.GetRetire() {
			t.Limit -= n
		} else {
			t.Available += n
		}
		t.Refunded++
	case pb.Settle_RESELL:
		t.Available -= n
		t.Sold += n
		t.Resold++
	case pb.Settle_AWARD:
		t.claim(n, op.GetHeldUntilUs() != 0)
	case pb.Settle_REFUND_DUE:
		t.RefundsDue++
	}
}

func (t *Totals) ended(n int64) { t.Held -= n; t.OpenHolds-- }

func (t *Totals) out(n int64) { t.Available -= n; t.InFlight += n }
func (t *Totals) in(n int64)  { t.Available += n }
func (t *Totals) ack(n int64) { t.InFlight -= n }

func (t *Totals) generation(op *pb.Generation, added int64) {
	t.Generation = op.GetNumber()
	t.Phase = PhaseName(op.GetSettings().GetPhase())
	t.Limit += added
	t.Available += added
}

func (t *Totals) seal() { t.Phase = PhaseSealed }
