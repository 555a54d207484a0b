package spec

import (
	"fmt"
	"strconv"
	"strings"
)

// SaleLog is the name of a sale's own log, and its row key.
func SaleLog(sale string) string { return "sale/" + sale }

// CopyPrefix begins the name of each copy of a sale that a rehearsal sells. No document can name a
// sale so: a DNS label has no underscore.
const CopyPrefix = "rehearsal_"

// ShardLog is the name of a shard's log, and its row key. It begins with a salt
// of two hex digits that spreads the shards of a sale evenly over a table
// pre-split by salt.
func ShardLog(uid string, shard, lockCount int) string {
	return fmt.Sprintf("%02x/%s/%d", shard*256/lockCount, uid, shard)
}

// LogUID returns the run that a log of ShardLog is of.
func LogUID(log string) string {
	_, rest, _ := strings.Cut(log, "/")
	uid, _, _ := strings.Cut(rest, "/")
	return uid
}

// UnitsLog is the name of the log of what the units of a run are, and its row key.
func UnitsLog(uid string) string { return "00/" + uid + "/units" }

// LeaseKey is the key of a shard's lease on a lock node.
func LeaseKey(uid string, shard int) string {
	return fmt.Sprintf("salectl:%s:shard:%d", uid, shard)
}

// LeasePrefix is what all lease keys of one run of a sale begin with.
func LeasePrefix(uid string) string { return "salectl:" + uid + ":shard:" }

// Marker is the key of a run's marker on a lock node.
func Marker(uid string) string { return "salectl:" + uid + ":marker" }

// SaleMarker is the key of the marker of a sale's name on a lock node, which is there while a run of
// the sale is.
func SaleMarker(sale string) string { return KeyPrefix + "sale:" + sale + ":marker" }

// ListKey is the key of a shard's unclaimed units on its node, a list of unit
// numbers. This and the next three are keys of the Redis engine.
func ListKey(uid string, shard int) string { return engineKey(uid, "list", shard) }

// TakenKey is the key of who was given what by a shard, a hash by user.
func TakenKey(uid string, shard int) string { return engineKey(uid, "taken", shard) }

// StreamKey is the key of a shard's grants that the ledger may lack, a stream.
func StreamKey(uid string, shard int) string { return engineKey(uid, "stream", shard) }

// FillKey is the key of the marker of a shard's lists, a hash.
func FillKey(uid string, shard int) string { return engineKey(uid, "fill", shard) }

func engineKey(uid, what string, shard int) string {
	return KeyPrefix + uid + ":" + what + ":" + strconv.Itoa(shard)
}

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
