package spec

import "github.com/cespare/xxhash/v2"

// Shares splits stock over shards as evenly as it goes: stock / lockCount each,
// and the remainder one each to the first shards. The sum is exactly stock.
func Shares(stock int64, lockCount int) []int64 {
	shares := make([]int64, lockCount)
	each, rest := stock/int64(lockCount), stock%int64(lockCount)
	for i := range shares {
		shares[i] = each
		if int64(i) < rest {
			shares[i]++
		}
	}
	return shares
}

// Allotment is how many claims the ledger may lack of those that one shard's list has
// given: the shard's share of the backlog, or one. So whoever owns a shard can tell by
// itself, and of all shards the ledger lacks no more than the backlog or, where that is
// less than their number, one of each.
func Allotment(backlog int64, lockCount, shard int) int64 {
	each, rest := backlog/int64(lockCount), backlog%int64(lockCount)
	if int64(shard) < rest {
		each++
	}
	return max(each, 1)
}

// HomeShard is the shard that keeps all that is known of a user.
func HomeShard(user string, lockCount int) int {
	return int(xxhash.Sum64String(user) % uint64(lockCount))
}

// ListNode is the index of the Redis node that has a shard's list, in the order
// in which the declaration names the nodes.
func ListNode(shard, nodes int) int { return shard % nodes }
