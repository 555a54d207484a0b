package export

import (
	"context"

	"salectl/backends/ledger"
	"salectl/spec"
)

// ofSale is what an export needs of the sale's own log, and of that of its units.
type ofSale struct {
	sale    *ledger.Sale
	units   *ledger.LogPart    // nil: the units are numbers, or their payloads are omitted
	packets *ledger.RedPacket  // nil: units are no packets of money
	dealt   *spec.Packets      // the packets; nil: units are no packets, or the file lacks their seed
	draw    *ledger.DrawResult // nil: the sale is no draw
	redact  *redaction         // nil: nothing is redacted
}

// readOfSale reads from the sale's own log, and the heads of a draw's shards, what an export needs.
func readOfSale(ctx context.Context, logs ledger.Logs, sale *ledger.Sale) (*ofSale, error) {
	packets, err := ledger.RedPacketOf(sale)
	if err != nil {
		return nil, err
	}
	x := &ofSale{sale: sale, packets: packets}
	if packets != nil {
		x.dealt = packets.Deal()
	}
	if x.draw, err = ledger.DrawResultOf(sale); x.draw != nil {
		err = x.draw.ReadHeads(ctx, logs, sale)
	}
	return x, err
}
