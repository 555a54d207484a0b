package export

import (
	"context"

	"salectl/backends/ledger"
)

// ofSale is what an export needs of the sale's own log, and of that of its units.
type ofSale struct {
	sale    *ledger.Sale
	units   *ledger.LogPart    // nil: the units are numbers, or their payloads are omitted
	packets *redPacket         // nil: units are no packets of money
	draw    *ledger.DrawResult // nil: the sale is no draw
	redact  *redaction         // nil: nothing is redacted
}

func (x *ofSale) amounts(units []int64) []string {
	if x == nil {
		return nil
	}
	return x.packets.amounts(units)
}

// readOfSale reads from the sale's own log, and the heads of a draw's shards, what an export needs.
func readOfSale(ctx context.Context, logs ledger.Logs, sale *ledger.Sale) (*ofSale, error) {
	packets, err := packetsOf(sale)
	if err != nil {
		return nil, err
	}
	drawn, err := ledger.DrawResultOf(sale)
	if err == nil && drawn != nil {
		err = drawn.ReadHeads(ctx, logs, sale)
	}
	return &ofSale{sale: sale, packets: packets, draw: drawn}, err
}
