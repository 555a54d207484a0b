package ledger

import (
	"testing"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// One packet is a red packet, and so are as many as a list may have; a sale of
// units is none.
func TestRedPacketOf(t *testing.T) {
	for count, good := range map[int64]bool{0: false, 1: true, spec.MaxRedisStock: true, spec.MaxRedisStock + 1: false} {
		red := &RedPacket{spec.RedPacket{Currency: "CNY", Scale: 2, Total: 5 * max(count, 1), Min: 5, Split: spec.SplitRandom}, count, TestSeed, TestUID}
		if err := red.Validate(); (err == nil) != good {
			t.Errorf("%d packets: %v", count, err)
		}
	}
	w := PacketsWorld(t, func(_ *pb.Planned, s *spec.Sale) { s.RedPacket = nil })
	if red, err := RedPacketOf(w.Sale); red != nil || err != nil {
		t.Errorf("%+v, %v", red, err)
	}
}
