package spec

import (
	"fmt"
	"strconv"
	"strings"
)

// SaleLog returns the name of a sale's own log, which is also its row key.
func SaleLog(sale string) string { return "sale/" + sale }

// CopyPrefix is the name prefix of copies of sales made by rehearsals. No document can use it:
// a DNS label has no underscore.
const CopyPrefix = "rehearsal_"

// ShardLog returns the name of a shard's log, which is also its row key. Its prefix is a salt
// of two hex digits that spreads shards evenly over a table pre-split by salt.
func ShardLog(uid string, shard, lockCount int) string {
	return fmt.Sprintf("%02x/%s/%d", shard*256/lockCount, uid, shard)
}

// LogUID returns the uid in a name of ShardLog.
func LogUID(log string) string {
	_, rest, _ := strings.Cut(log, "/")
	uid, _, _ := strings.Cut(rest, "/")
	return uid
}

// UnitsLog returns the name of a run's log of payloads, which is also its row key.
func UnitsLog(uid string) string { return "00/" + uid + "/units" }

// LeaseKey returns the key of a shard's lease on a lock node.
func LeaseKey(uid string, shard int) string {
	return fmt.Sprintf("salectl:%s:shard:%d", uid, shard)
}

// LeasePrefix returns the prefix of all lease keys of a run.
func LeasePrefix(uid string) string { return "salectl:" + uid + ":shard:" }

// Marker returns the key of a run's marker on a lock node.
func Marker(uid string) string { return "salectl:" + uid + ":marker" }

// SaleMarker returns the key of the marker of a sale's name on a lock node. It exists while a
// run of the sale does.
func SaleMarker(sale string) string { return KeyPrefix + "sale:" + sale + ":marker" }

// ListKey returns the key of a shard's unclaimed units on its node, a list of unit numbers.
// This and the next three are keys of the Redis engine.
func ListKey(uid string, shard int) string { return engineKey(uid, "list", shard) }

// TakenKey returns the key of the units given by a shard, a hash by user.
func TakenKey(uid string, shard int) string { return engineKey(uid, "taken", shard) }

// StreamKey returns the key of a shard's grabs that the ledger may lack, a stream.
func StreamKey(uid string, shard int) string { return engineKey(uid, "stream", shard) }

// FillKey returns the key of the marker of a shard's lists, a hash.
func FillKey(uid string, shard int) string { return engineKey(uid, "fill", shard) }

func engineKey(uid, what string, shard int) string {
	return KeyPrefix + uid + ":" + what + ":" + strconv.Itoa(shard)
}

// NamedLock returns the key of a named lock on a lock node.
func NamedLock(name string) string { return NamedLockPrefix + name }

// NamedLockPrefix is the prefix of the keys of all named locks.
const NamedLockPrefix = "salectl:lock:"

// NamedLockMarker is the key of a node's marker for all named locks.
const NamedLockMarker = "salectl:locks"

// KeyPrefix is the prefix of all keys on a lock node.
const KeyPrefix = "salectl:"

// ParseLeaseKey parses a key of LeaseKey; false for any other key.
func ParseLeaseKey(key string) (uid string, shard int, ok bool) {
	rest, ok := strings.CutPrefix(key, KeyPrefix)
	if !ok {
		return "", 0, false
	}
	uid, number, ok := strings.Cut(rest, ":shard:")
	shard, err := strconv.Atoi(number)
	return uid, shard, ok && err == nil && key == LeaseKey(uid, shard)
}
