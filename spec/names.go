package spec

import (
	"fmt"
	"strconv"
	"strings"
)

// SaleLog is the name of a sale's own log, and its row key.
func SaleLog(sale string) string { return "sale/" + sale }

// ShardLog is the name of a shard's log, and its row key. It begins with a salt
// of two hex digits that spreads the shards of a sale evenly over a table
// pre-split by salt.
func ShardLog(uid string, shard, lockCount int) string {
	return fmt.Sprintf("%02x/%s/%d", shard*256/lockCount, uid, shard)
}

// LeaseKey is the key of a shard's lease on a lock node.
func LeaseKey(uid string, shard int) string {
	return fmt.Sprintf("salectl:%s:shard:%d", uid, shard)
}

// LeasePrefix is what all lease keys of one run of a sale begin with.
func LeasePrefix(uid string) string { return "salectl:" + uid + ":shard:" }

// Marker is the key of a run's marker on a lock node.
func Marker(uid string) string { return "salectl:" + uid + ":marker" }

// NamedLock is the key of a named lock on a lock node.
func NamedLock(name string) string { return NamedLockPrefix + name }

// NamedLockPrefix is what the keys of all named locks begin with.
const NamedLockPrefix = "salectl:lock:"

// NamedLockMarker is the key of a node's marker for all named locks.
const NamedLockMarker = "salectl:locks"

// KeyPrefix is what every key on a lock node begins with.
const KeyPrefix = "salectl:"

// ParseLeaseKey is LeaseKey backwards; false for a key of another kind.
func ParseLeaseKey(key string) (uid string, shard int, ok bool) {
	rest, ok := strings.CutPrefix(key, KeyPrefix)
	if !ok {
		return "", 0, false
	}
	uid, number, ok := strings.Cut(rest, ":shard:")
	shard, err := strconv.Atoi(number)
	return uid, shard, ok && err == nil && key == LeaseKey(uid, shard)
}
