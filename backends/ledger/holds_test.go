package ledger

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	pb "salectl/backends/ledger/ledgerpb"
)

// TestQueueAgainstModel makes, extends and ends holds in any order, and holds the queue
// against a list that is sorted.
func TestQueueAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewState(testLog)
		c := &s.claims
		var held []uint32
		release := func(i uint32) int64 { return c.holds.of(i).heldUntil + c.holds.of(i).grace }
		which := func(t *rapid.T) int { return rapid.IntRange(0, len(held)-1).Draw(t, "which") }
		t.Repeat(map[string]func(*rapid.T){
			"hold": func(t *rapid.T) {
				for range rapid.IntRange(1, 8).Draw(t, "holds") {
					n := c.records.Len()
					insertNew(c, uint64(n), 0, &pb.Claim{
						User: fmt.Sprint("u", n), Units: []int64{int64(n + 1)},
						HeldUntilUs: rapid.Int64Range(1, 40).Draw(t, "until"), GraceUs: rapid.Int64Range(0, 9).Draw(t, "grace"),
					})
					held = append(held, uint32(n))
				}
			},
			"extend": func(t *rapid.T) {
				if len(held) > 0 {
					i := held[which(t)]
					c.settle(i, 0, &pb.Settle{How: pb.Settle_EXTEND, HeldUntilUs: c.holds.of(i).heldUntil + rapid.Int64Range(1, 30).Draw(t, "by")})
				}
			},
			"end": func(t *rapid.T) {
				if len(held) > 0 {
					at := which(t)
					c.settle(held[at], 0, &pb.Settle{How: pb.Settle_CONFIRM})
					held = slices.Delete(held, at, at+1)
				}
			},
			"": func(t *rapid.T) {
				slices.Sort(held)
				inOrder := slices.Clone(held)
				slices.SortStableFunc(inOrder, func(a, b uint32) int { return cmp.Compare(release(a), release(b)) })
				var want, wantAll, got, gotAll []uint64
				for _, i := range inOrder {
					want = append(want, uint64(i))
				}
				for _, i := range held {
					wantAll = append(wantAll, uint64(i))
				}
				for _, c := range s.Due(math.MaxInt64, math.MaxInt) {
					got = append(got, c.Slot)
				}
				for _, c := range s.Holds() {
					gotAll = append(gotAll, c.Slot)
				}
				if !slices.Equal(got, want) || !slices.Equal(gotAll, wantAll) {
					t.Fatalf("due are %v, want %v; held are %v, want %v", got, want, gotAll, wantAll)
				}
				if next, ok := s.NextDue(); ok != (len(held) > 0) || ok && next != release(inOrder[0]) {
					t.Fatalf("next is due at %d, %v", next, ok)
				}
			},
		})
	})
}
