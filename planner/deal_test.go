package planner

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	_ "salectl/internal/rapidseed"
	"salectl/spec"
)

func TestRaise(t *testing.T) {
	for name, test := range map[string]struct {
		limits []int64
		delta  int64
		want   []int64
	}{
		"from nothing":              {[]int64{0, 0, 0}, 10, []int64{4, 3, 3}},
		"evenly":                    {[]int64{4, 3, 3}, 3, []int64{1, 1, 1}},
		"to the shares of 11":       {[]int64{4, 3, 3}, 1, []int64{0, 1, 0}},
		"the lowest first":          {[]int64{9, 0, 5}, 6, []int64{0, 6, 0}},
		"one is far above":          {[]int64{100, 1, 2}, 4, []int64{0, 3, 1}},
		"below zero":                {[]int64{-3, 3}, 2, []int64{2, 0}},
		"the rest to the first low": {[]int64{5, 1, 1, 1}, 4, []int64{0, 2, 1, 1}},
		"all that can ever be":      {make([]int64, 16), maxUnit, spec.Shares(maxUnit, 16)}, // 16 times half of which overflows
	} {
		t.Run(name, func(t *testing.T) {
			if got := raise(test.limits, test.delta); !slices.Equal(got, test.want) {
				t.Errorf("raise(%v, %d) = %v, want %v", test.limits, test.delta, got, test.want)
			}
		})
	}
}

func TestLower(t *testing.T) {
	for name, test := range map[string]struct {
		limits, available []int64
		wanted            int64
		want              []int64
	}{
		"nothing":                  {[]int64{4, 3}, []int64{4, 3}, 0, []int64{0, 0}},
		"evenly, the last first":   {[]int64{4, 4, 4}, []int64{4, 4, 4}, 4, []int64{1, 1, 2}},
		"only what is available":   {[]int64{4, 4, 4}, []int64{0, 1, 4}, 5, []int64{0, 1, 4}},
		"the highest first":        {[]int64{9, 4, 4}, []int64{9, 4, 4}, 5, []int64{5, 0, 0}},
		"units came by a transfer": {[]int64{1, 9}, []int64{5, 0}, 4, []int64{4, 0}},
		"all":                      {[]int64{4, 3}, []int64{4, 3}, 7, []int64{4, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lower(test.limits, test.available, test.wanted); !slices.Equal(got, test.want) {
				t.Errorf("lower(%v, %v, %d) = %v, want %v", test.limits, test.available, test.wanted, got, test.want)
			}
		})
	}
}

func TestDealsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "shards")
		limits, available := make([]int64, n), make([]int64, n)
		for i := range limits {
			limits[i] = rapid.Int64Range(-50, 500).Draw(t, "limit")
			available[i] = rapid.Int64Range(0, 500).Draw(t, "available")
		}
		delta := rapid.OneOf(rapid.Int64Range(1, 2000), rapid.Int64Range(1, maxUnit)).Draw(t, "delta")
		add := raise(limits, delta)
		if sum(add) != delta || slices.Min(add) < 0 {
			t.Fatalf("raise(%v, %d) = %v", limits, delta, add)
		}
		wanted := rapid.Int64Range(0, sum(available)).Draw(t, "wanted")
		take := lower(limits, available, wanted)
		if sum(take) != wanted {
			t.Fatalf("lower(%v, %v, %d) = %v", limits, available, wanted, take)
		}
		for i := range take {
			if take[i] < 0 || take[i] > available[i] {
				t.Fatalf("lower(%v, %v, %d) = %v", limits, available, wanted, take)
			}
		}
	})
}

// Where nothing was claimed, a sale that grew and shrank has the shares of one
// that was declared so from the start.
func TestDealsLeadToShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "shards")
		limits := spec.Shares(rapid.Int64Range(int64(n), 500).Draw(t, "stock"), n)
		for range 5 {
			next := rapid.Int64Range(int64(n), 500).Draw(t, "next stock")
			switch delta := next - sum(limits); {
			case delta > 0:
				for i, m := range raise(limits, delta) {
					limits[i] += m
				}
			case delta < 0:
				for i, m := range lower(limits, limits, -delta) {
					limits[i] -= m
				}
			}
			if want := spec.Shares(next, n); !slices.Equal(limits, want) {
				t.Fatalf("the limits are %v, want %v", limits, want)
			}
		}
	})
}
