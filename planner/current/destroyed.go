package current

import (
	"context"
	"fmt"
	"time"

	"salectl/backends/ledger"
	"salectl/planner"
)

// ReadHolds reads when the holds of a sale are released. It returns nil if there are none.
func ReadHolds(ctx context.Context, logs ledger.Logs, actual *planner.Actual) *planner.HoldsActual {
	if has, _ := actual.Totals(); !actual.Sale.Live() || has.Held == 0 {
		return nil
	}
	shards, err := ledger.LoadShards(ctx, logs, actual.Sale)
	holds := &planner.HoldsActual{Err: err}
	if _, last, n := planner.HoldTimes(shards); err == nil && n > 0 {
		holds.Last = time.UnixMicro(last)
	}
	return holds
}

// ReadPackets folds the shards of a sale to plan the destroy of a red packet. It returns nil
// unless the sale HasPackets.
func ReadPackets(ctx context.Context, logs ledger.Logs, actual *planner.Actual) *planner.PacketsActual {
	if !actual.HasPackets() {
		return nil
	}
	is := new(planner.PacketsActual)
	for i, s := range actual.Shards {
		if s.Err != nil { // a read would be retried for long
			is.Err = fmt.Errorf("%s: %w", planner.ShardAddress(i), s.Err)
			return is
		}
	}
	is.Ends, is.Err = countPackets(ctx, logs, actual.Sale)
	return is
}

func countPackets(ctx context.Context, logs ledger.Logs, sale *ledger.Sale) (ends planner.Ends, err error) {
	red, err := ledger.RedPacketOf(sale)
	if err != nil {
		return planner.Ends{}, err
	}
	if sale.Applied() == 0 { // it was never on every shard, so no process served it
		ends.Available = red.Packets
		ends.Refund = planner.NewRefund(red.RedPacket, ends.Available, red.Total, 0)
		return ends, nil
	}
	shards, err := ledger.LoadShards(ctx, logs, sale)
	if err != nil {
		return planner.Ends{}, err
	}
	left, err := planner.Untaken(sale, shards)
	if err != nil {
		return planner.Ends{}, err
	}
	for _, s := range shards {
		ends.Sold += s.Sold
		ends.Available += s.Available
		ends.Claims += int64(s.Claims())
	}
	for _, units := range planner.InTransit(shards) {
		ends.InFlight += units.Count()
	}
	ends.Refund = planner.NewRefund(red.RedPacket, ends.Available+ends.InFlight, left, ends.Sold)
	return ends, nil
}
