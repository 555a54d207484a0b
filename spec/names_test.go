package spec

import (
	"fmt"
	"strings"
	"testing"
)

// These keys stand in stores. If this test fails, the change that made it fail
// must go, not the test.
func TestNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{SaleLog("movie-tickets"), "sale/movie-tickets"},
		{ShardLog("u1", 0, 5), "00/u1/0"},
		{ShardLog("u1", 4, 5), "cc/u1/4"},
		{ShardLog("u1", 1023, 1024), "ff/u1/1023"},
		{LeaseKey("u1", 12), "salectl:u1:shard:12"},
		{LeasePrefix("u1"), "salectl:u1:shard:"},
		{Marker("u1"), "salectl:u1:marker"},
		{ListKey("u1", 0), "salectl:u1:list:0"},
		{TakenKey("u1", 7), "salectl:u1:taken:7"},
		{StreamKey("u1", 12), "salectl:u1:stream:12"},
		{FillKey("u1", 1023), "salectl:u1:fill:1023"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}

// The salts of a sale's shards must spread evenly, and no two keys be equal.
func TestShardLogs(t *testing.T) {
	for _, locks := range []int{1, 2, 5, 255, 256, 257, MaxLockCount} {
		seen, salts := map[string]bool{}, map[string]int{}
		for shard := range locks {
			log := ShardLog("u1", shard, locks)
			if seen[log] || !strings.HasPrefix(LeaseKey("u1", shard), LeasePrefix("u1")) {
				t.Errorf("%d of %d: %s", shard, locks, log)
			}
			seen[log] = true
			salt, rest, _ := strings.Cut(log, "/")
			if salts[salt]++; len(salt) != 2 || rest != fmt.Sprintf("u1/%d", shard) {
				t.Errorf("%d of %d: %s", shard, locks, log)
			}
		}
		for salt, n := range salts {
			if most := (locks + 255) / 256; n > most {
				t.Errorf("%d of %d shards have the salt %s", n, locks, salt)
			}
		}
	}
}
