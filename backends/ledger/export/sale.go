package export

import (
	"context"
	"fmt"

	"salectl/backends/ledger"
	"salectl/spec"
)

// ofSale is what an export needs of the sale's own log, and of that of its units.
type ofSale struct {
	sale    *ledger.Sale
	units   *ledger.LogPart    // nil: the units are numbers, or what they are is left out
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

// loadOfSale is readOfSale of a log that is yet to be read.
func loadOfSale(ctx context.Context, logs ledger.Logs, name, uid string) (*ofSale, error) {
	sale := ledger.NewSale(spec.SaleLog(name))
	if _, err := ledger.Load(ctx, logs, sale.Log(), sale); err != nil {
		return nil, fmt.Errorf("exporting: %w", err)
	}
	if sale.UID() != uid {
		return nil, fmt.Errorf("exporting run %s of sale %s, whose log has run %q: %w", uid, name, sale.UID(), ledger.ErrGone)
	}
	return readOfSale(ctx, logs, sale)
}

// readOfSale takes from the sale's own log what an export needs of it.
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
