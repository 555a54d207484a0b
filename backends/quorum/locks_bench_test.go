package quorum_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"salectl/backends/quorum"
)

// yesNode grants and frees all requests at once.
type yesNode struct {
	quorum.Node
	name string
}

func (n yesNode) Name() string { return n.name }

func (n yesNode) Vote(_ context.Context, b quorum.Ballot) (quorum.BallotReply, error) {
	yes := make([]bool, len(b.Requests))
	for i := range yes {
		yes[i] = true
	}
	return quorum.BallotReply{Yes: yes, Holders: make([]quorum.Holding, len(yes)), Time: time.Now()}, nil
}

func (n yesNode) Release(_ context.Context, requests []quorum.LeaseRequest) (int, error) {
	return len(requests), nil
}

// BenchmarkLocks is what a lock and its release cost beside the calls of the
// nodes: new is a key that nobody had before, handed on one for which the next
// waits.
func BenchmarkLocks(b *testing.B) {
	locks, err := quorum.NewLocks([]quorum.Node{yesNode{name: "a"}, yesNode{name: "b"}, yesNode{name: "c"}},
		quorum.Config{Marker: "marker", Address: "here:1"}, quorum.Fifo)
	if err != nil {
		b.Fatal(err)
	}
	defer locks.Close()
	lock := func(b *testing.B, key string) {
		l, err := locks.Acquire(b.Context(), key, quorum.Wait{Timeout: quorum.Forever})
		if err == nil {
			err = l.Release(b.Context())
		}
		if err != nil {
			b.Error(err)
		}
	}
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			lock(b, fmt.Sprint("key-", i))
		}
	})
	b.Run("handed on", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				lock(b, "key")
			}
		})
	})
}
