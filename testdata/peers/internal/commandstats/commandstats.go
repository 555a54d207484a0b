// Package commandstats reads the numbers of commands of Redis servers.
package commandstats

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Counts is how many calls of each command some servers ever got, those that
// scripts made included.
type Counts map[string]int64

// Of reads the counts of some servers and adds them.
func Of(ctx context.Context, servers []*redis.Client) (Counts, error) {
	counts := make(Counts)
	for _, s := range servers {
		text, err := s.Info(ctx, "commandstats").Result()
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) { // cmdstat_set:calls=12,usec=34,…
			name, stats, ok := strings.Cut(line, ":calls=")
			if !ok {
				continue
			}
			calls, _, _ := strings.Cut(stats, ",")
			n, err := strconv.ParseInt(calls, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("the statistics of Redis: %q: %w", line, err)
			}
			counts[strings.TrimPrefix(name, "cmdstat_")] += n
		}
	}
	return counts, nil
}

// All adds up all commands but the questions of who counts.
func (c Counts) All() (all int64) {
	for name, n := range c {
		if name != "info" {
			all += n
		}
	}
	return all
}

// Scripts is how many scripts clients had run.
func (c Counts) Scripts() int64 { return c["eval"] + c["evalsha"] }
