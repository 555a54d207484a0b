package spec

import "github.com/cespare/xxhash/v2"

// Shares splits stock over shards as evenly as possible: stock / lockCount each, and the
// remainder one each to the first shards. The sum is exactly stock.
func Shares(stock int64, lockCount int) []int64 {
	shares := make([]int64, lockCount)
	for i := range shares {
		shares[i] = shareOf(stock, lockCount, i)
	}
	return shares
}

// shareOf returns the part of a total that a shard has.
func shareOf(total int64, lockCount, shard int) int64 {
	each, rest := total/int64(lockCount), total%int64(lockCount)
	if int64(shard) < rest {
		each++
	}
	return each
}

// Allotment returns the number of grabs of one shard's list that the ledger may lack: the
// shard's share of the backlog, at least one. So the owner of a shard can decide alone, and
// over all shards the ledger lacks at most the backlog or, if that is less than their number,
// one each.
func Allotment(backlog int64, lockCount, shard int) int64 {
	return max(shareOf(backlog, lockCount, shard), 1)
}

// HomeShard returns the home shard of a user.
func HomeShard(user string, lockCount int) int {
	return int(xxhash.Sum64String(user) % uint64(lockCount))
}

// ListNode returns the index of the Redis node with a shard's list, in the order of the
// declared nodes.
func ListNode(shard, nodes int) int { return shard % nodes }
