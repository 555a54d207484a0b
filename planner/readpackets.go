package planner

import (
	"context"
	"fmt"

	"salectl/backends/ledger"
)

// ReadPackets folds the shards of a sale to plan the destroy of a red packet. It returns nil
// unless the sale HasPackets.
func ReadPackets(ctx context.Context, logs ledger.Logs, actual *Actual) *PacketsActual {
	if !actual.HasPackets() {
		return nil
	}
	is := new(PacketsActual)
	for i, s := range actual.Shards {
		if s.Err != nil { // a read would be retried for long
			is.Err = fmt.Errorf("%s: %w", ShardAddress(i), s.Err)
			return is
		}
	}
	is.Ends, is.Err = countPackets(ctx, logs, actual.Sale)
	return is
}

func countPackets(ctx context.Context, logs ledger.Logs, sale *ledger.Sale) (ends Ends, err error) {
	red, err := ledger.RedPacketOf(sale)
	if err != nil {
		return Ends{}, err
	}
	if sale.Applied() == 0 { // it was never on every shard, so no process served it
		ends.Available = red.Packets
		ends.Refund = NewRefund(red.RedPacket, ends.Available, red.Total, 0)
		return ends, nil
	}
	shards, err := ledger.LoadShards(ctx, logs, sale)
	if err != nil {
		return Ends{}, err
	}
	left, err := Untaken(sale, shards)
	if err != nil {
		return Ends{}, err
	}
	for _, s := range shards {
		ends.Sold += s.Sold
		ends.Available += s.Available
		ends.Claims += int64(s.Claims())
	}
	for _, units := range InTransit(shards) {
		ends.InFlight += units.Count()
	}
	ends.Refund = NewRefund(red.RedPacket, ends.Available+ends.InFlight, left, ends.Sold)
	return ends, nil
}
