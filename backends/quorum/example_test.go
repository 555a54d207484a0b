package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"salectl/backends/clock"
	"salectl/backends/quorum"
)

// A lease is a context: what must not run without it, runs under it.
func ExampleHold() {
	ctx := context.Background()
	nodes := asNodes(newLiveNodes("a:6379", "b:6379", "c:6379"))
	lease, err := quorum.Hold(ctx, nodes, quorum.Config{Marker: "marker", Address: "10.0.0.7:8080"}, "nightly-report", quorum.Forever)
	if err != nil {
		fmt.Println(err)
		return
	}
	work := func(ctx context.Context) { fmt.Println("working:", ctx.Err() == nil) }
	work(lease.Context())
	fmt.Println("released:", lease.Release(ctx) == nil)
	fmt.Println(context.Cause(lease.Context()))
	// Output:
	// working: true
	// released: true
	// the lease was given back
}

// A caller that does not wait makes one try.
func ExampleHold_once() {
	ctx := context.Background()
	nodes := asNodes(newLiveNodes("a:6379", "b:6379", "c:6379"))
	first, err := quorum.Hold(ctx, nodes, quorum.Config{Marker: "marker", Address: "10.0.0.7:8080"}, "nightly-report", quorum.Forever)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer first.Release(ctx)
	_, err = quorum.Hold(ctx, nodes, quorum.Config{Marker: "marker", Address: "10.0.0.8:8080"}, "nightly-report", 0)
	var why *quorum.Failure
	if errors.Is(err, quorum.ErrRefused) && errors.As(err, &why) {
		holder, _ := why.Holder()
		note, _ := quorum.ParseNote(holder.Note)
		fmt.Println("held by", note.Address)
	}
	// Output:
	// held by 10.0.0.7:8080
}

// Goroutines that want the same key wait in one line, and so do processes.
func ExampleLocks() {
	ctx := context.Background()
	nodes := asNodes(newLiveNodes("a:6379", "b:6379", "c:6379"))
	locks, err := quorum.NewLocks(nodes, quorum.Config{Marker: "marker", Address: "10.0.0.7:8080"}, quorum.Fifo)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	balance := 0
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			lease, err := locks.Acquire(ctx, "balance", quorum.Wait{Timeout: time.Minute})
			if err != nil {
				fmt.Println(err)
				return
			}
			defer lease.Release(ctx)
			balance++
		})
	}
	all.Wait()
	fmt.Println("balance:", balance)
	// Output:
	// balance: 100
}

// Who does not wait for long learns why it was in vain.
func ExampleLocks_Acquire() {
	ctx := context.Background()
	nodes := asNodes(newLiveNodes("a:6379", "b:6379", "c:6379"))
	locks, err := quorum.NewLocks(nodes, quorum.Config{Marker: "marker", Address: "10.0.0.7:8080"}, quorum.Fifo)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	lease, err := locks.Acquire(ctx, "balance", quorum.Wait{Timeout: quorum.Forever})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)
	_, err = locks.Acquire(ctx, "balance", quorum.Wait{Timeout: 10 * time.Millisecond})
	fmt.Println(err)
	// Output:
	// the lease was refused: balance: it could not be acquired within 10ms; another goroutine of this process holds it
}

// A program with an event loop of its own steps the group itself.
func ExampleGroup() {
	nodes := asNodes(newLiveNodes("a:6379", "b:6379", "c:6379"))
	g, err := quorum.NewGroup(quorum.Config{
		Nodes: quorum.Names(nodes), Marker: "marker", TTL: quorum.DefaultTTL, Address: "10.0.0.7:8080",
		Token: quorum.RandomToken, Jitter: rand.Float64,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	replies := make(chan quorum.Reply, len(nodes))
	callers := quorum.NewCallers(nodes)
	defer callers.Close()
	now, timer, over := clock.System(), time.NewTimer(time.Hour), false
	var step func(quorum.Effects)
	step = func(e quorum.Effects) {
		callers.Do(e.Calls, func(r quorum.Reply) { replies <- r })
		if e.Wake > 0 {
			timer.Reset(e.Wake - now().Mono)
		}
		for _, ev := range e.Events {
			switch {
			case ev.Kind == quorum.Freed:
				over = g.State("shard-0") == quorum.Released
			case ev.Kind == quorum.Won && g.State("shard-1") == quorum.Released:
				fmt.Println("shard 0 is ours")
				step(g.Acquire(now(), "shard-1"))
			case ev.Kind == quorum.Won:
				fmt.Println("and shard 1")
				step(g.Release(now(), "", "shard-0"))
			}
		}
	}
	for step(g.Acquire(now(), "shard-0")); !over; {
		select {
		case r := <-replies:
			step(g.Reply(now(), r))
		case <-timer.C:
			step(g.Tick(now()))
		}
	}
	// Output:
	// shard 0 is ours
	// and shard 1
}
