package spec

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestShares(t *testing.T) {
	for _, c := range []struct {
		stock int64
		locks int
		want  []int64
	}{
		{100, 5, []int64{20, 20, 20, 20, 20}},
		{103, 5, []int64{21, 21, 21, 20, 20}},
		{5, 5, []int64{1, 1, 1, 1, 1}},
		{7, 1, []int64{7}},
		{math.MaxInt64, 2, []int64{math.MaxInt64/2 + 1, math.MaxInt64 / 2}},
	} {
		if got := Shares(c.stock, c.locks); !slices.Equal(got, c.want) {
			t.Errorf("%d over %d: got %v, want %v", c.stock, c.locks, got, c.want)
		}
	}
}

func TestSharesSumUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		locks := rapid.IntRange(1, MaxLockCount).Draw(t, "locks")
		stock := rapid.Int64Min(int64(locks)).Draw(t, "stock")
		shares := Shares(stock, locks)
		sum := int64(0)
		for _, n := range shares {
			sum += n
		}
		if len(shares) != locks || sum != stock {
			t.Fatalf("%d shares, %d in all", len(shares), sum)
		}
		// The larger ones come first, and by no more than one.
		if !slices.IsSortedFunc(shares, func(a, b int64) int { return int(b - a) }) || shares[0]-shares[locks-1] > 1 {
			t.Fatalf("uneven: %v", shares)
		}
	})
}

func TestAllotment(t *testing.T) {
	for _, c := range []struct {
		backlog int64
		locks   int
		want    []int64
	}{
		{10, 1, []int64{10}},
		{10, 3, []int64{4, 3, 3}},
		{3, 3, []int64{1, 1, 1}},
		{3, 5, []int64{1, 1, 1, 1, 1}}, // each may lack one
		{MaxBacklog, 2, []int64{MaxBacklog / 2, MaxBacklog / 2}},
	} {
		for i, want := range c.want {
			if got := Allotment(c.backlog, c.locks, i); got != want {
				t.Errorf("of %d over %d, shard %d has %d, want %d", c.backlog, c.locks, i, got, want)
			}
		}
	}
}

func TestAllotmentsSumUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		locks, backlog := rapid.IntRange(1, MaxLockCount).Draw(t, "locks"), rapid.Int64Range(1, MaxBacklog).Draw(t, "backlog")
		sum := int64(0)
		for i := range locks {
			sum += Allotment(backlog, locks, i)
		}
		if sum != max(backlog, int64(locks)) {
			t.Fatalf("%d in all", sum)
		}
	})
}

func TestHomeShard(t *testing.T) {
	// A user's shard is where the ledger has that user; another hash would
	// forget everybody. xxHash64 of the empty string is ef46db3751d8e999.
	if got, want := HomeShard("", 1024), 0xef46db3751d8e999%1024; uint64(got) != uint64(want)%1024 {
		t.Errorf("got %d, want %d", got, uint64(want)%1024)
	}
	counts := make([]int, 5)
	for i := range 10_000 {
		counts[HomeShard(fmt.Sprintf("user-%d", i), len(counts))]++
	}
	for shard, n := range counts {
		if n < 1800 || n > 2200 {
			t.Errorf("shard %d is home to %d of 10,000 users", shard, n)
		}
	}
}

// A list that is read on another node is an empty list.
func TestListNode(t *testing.T) {
	for shard, want := range []int{0, 1, 2, 0, 1, 2, 0} {
		if got := ListNode(shard, 3); got != want {
			t.Errorf("shard %d of three nodes: got %d, want %d", shard, got, want)
		}
	}
	if got := ListNode(1023, 1); got != 0 {
		t.Errorf("the only node is 0, not %d", got)
	}
}
