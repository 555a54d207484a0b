package main

import (
	"context"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// contender hands packets out, those of one prepare in its life, by run or by grab.
type contender interface {
	// prepare makes packets, generated ahead, ready to be grabbed.
	prepare(ctx context.Context, packets []packet) error
	// run has callers grab, each waiting for its answer, until no packet is left.
	// It returns how many they were given, and how long that took.
	run(ctx context.Context, callers int) (grabs int, took time.Duration, err error)
	// grab requests a packet for one user. False: the user has one, or none is left.
	// It is safe for concurrent use.
	grab(ctx context.Context, user string) (bool, error)
	// taken reads back the packets that have a user, in any order.
	taken(ctx context.Context) ([]packet, error)
	close() error
}

// opener returns a contender on an empty Redis, for so many callers at once.
type opener func(address string, callers int) contender

// untilEmpty has callers request packets for a number of users at a time until grab reports that
// nothing is left. It returns how many packets they got, and how long that took.
func untilEmpty(ctx context.Context, callers, atATime int, grab func(ctx context.Context, users []string) (got int, over bool, err error)) (int, time.Duration, error) {
	runtime.GC() // what others left behind is not its burden
	all, ctx := errgroup.WithContext(ctx)
	var requested, grabs atomic.Int64
	begin := time.Now()
	for range callers {
		all.Go(func() error {
			users := make([]string, atATime)
			for {
				first := requested.Add(int64(atATime)) - int64(atATime)
				for i := range users {
					users[i] = user(first + int64(i))
				}
				got, over, err := grab(ctx, users)
				grabs.Add(int64(got))
				if err != nil || over {
					return err
				}
			}
		})
	}
	err := all.Wait()
	return int(grabs.Load()), time.Since(begin), err
}

// greedy is of how many users one asks under the name of the one before.
const greedy = 1000

// user has 16 bytes and is the number of the request, from 0 on. Some repeat it, at about the same
// time.
func user(i int64) string {
	if i%greedy == greedy-1 {
		i--
	}
	return "user-" + strconv.FormatInt(10_000_000_000+i, 10)
}
