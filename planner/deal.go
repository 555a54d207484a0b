package planner

import (
	"slices"
	"sort"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// raise deals delta new units to shards with the given limits, so that the limits become as
// equal as possible: the lowest receive theirs first, and the remainder goes one each to the
// first of them. From zero limits, and from limits dealt by spec.Shares, the result equals
// spec.Shares.
func raise(limits []int64, delta int64) []int64 {
	mirrored, enough := make([]int64, len(limits)), make([]int64, len(limits))
	for i, limit := range limits {
		mirrored[len(limits)-1-i], enough[i] = -limit, delta
	}
	add := lower(mirrored, enough, delta)
	slices.Reverse(add)
	return add
}

// lower takes wanted units from shards with the given limits, at most available[i] from each,
// so that the limits become as equal as possible: units leave the highest first, and the remainder is
// taken one each from the last of them. Units may have come by transfer, so a limit may fall
// below 0. The sum of available must be at least wanted.
func lower(limits, available []int64, wanted int64) []int64 {
	taken := func(i int, level int64) int64 { return min(available[i], max(0, limits[i]-level)) }
	bottom := limits[0] - available[0]
	for i, limit := range limits {
		bottom = min(bottom, limit-available[i])
	}
	// The lowest level that frees too few units; one below frees enough.
	level := bottom + int64(sort.Search(int(slices.Max(limits)-bottom), func(above int) bool {
		var sum int64
		for i := range limits {
			if sum += taken(i, bottom+int64(above)); sum >= wanted {
				return false // before the sum overflows
			}
		}
		return true
	}))
	take, left := make([]int64, len(limits)), wanted
	for i := range take {
		take[i] = taken(i, level)
		left -= take[i]
	}
	for i := len(take) - 1; i >= 0 && left > 0; i-- {
		if taken(i, level-1) > take[i] {
			take[i]++
			left--
		}
	}
	return take
}

func sum(numbers []int64) (total int64) {
	for _, n := range numbers {
		total += n
	}
	return total
}

// deal allocates the next n unit numbers.
func deal(planned *pb.Planned, n int64) []*pb.Range {
	if n == 0 {
		return nil
	}
	first := planned.NextUnit
	planned.NextUnit += n
	return []*pb.Range{{First: first, Count: n}}
}

// maxUnit bounds unit numbers, including those of removed units.
const maxUnit = spec.MaxStock
