package planner

import (
	"fmt"

	"salectl/backends/ledger"
)

// Refund is what a red packet came to that has ended. Amounts are exact decimals,
// with all digits that the currency has.
type Refund struct {
	Packets       int64  `json:"packets"`       // that nobody took
	Amount        string `json:"amount"`        // of those
	Currency      string `json:"currency"`      // ISO 4217
	Granted       int64  `json:"granted"`       // packets that were taken
	GrantedAmount string `json:"grantedAmount"` // of those
	Total         string `json:"total"`         // of all packets
}

// RefundOf returns what a sealed sale gives back, nil for one that is not sealed
// or had no red packet.
func RefundOf(sale *ledger.Sale) *Refund {
	sealed := sale.Sealed()
	if sealed == nil {
		return nil
	}
	old, err := declared(sale.Newest())
	if err != nil || old.RedPacket == nil {
		return nil
	}
	r := old.RedPacket
	return &Refund{
		Packets: old.Stock - sealed.GetUnitsSold(), Amount: r.Format(sealed.GetRefund()), Currency: r.Currency,
		Granted: sealed.GetUnitsSold(), GrantedAmount: r.Format(r.Total - sealed.GetRefund()), Total: r.Format(r.Total),
	}
}

// refund is the sum of the amounts that nobody took, in minor units; 0 for a sale
// without a red packet. What was taken and what was not must be all there was.
func refund(sale *ledger.Sale, shards []*ledger.State) (int64, error) {
	red, err := ledger.RedPacketOf(sale)
	if red == nil || err != nil {
		return 0, err
	}
	packets := red.Deal()
	var left, taken int64
	for _, s := range shards {
		for _, r := range s.AvailableUnits() {
			for unit := r.First; unit < r.First+r.Count; unit++ {
				left += packets.Amount(unit)
			}
		}
		for i := range s.Claims() {
			taken += packets.Sum(s.Claim(i).Units...)
		}
	}
	if left+taken != red.Total {
		return 0, fmt.Errorf("%w: packets of %s were taken and %s are left, of %s", ledger.ErrCorrupt,
			packets.Format(taken), packets.Format(left), packets.Format(red.Total))
	}
	return left, nil
}
