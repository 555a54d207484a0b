package quorum_test

import (
	"testing"
	"time"

	"salectl/backends/clock"
	"salectl/backends/quorum"
)

// BenchmarkMachine is what stepping costs: on three nodes, one acquire and one
// renewal, each with its three replies, and the release, without any I/O.
func BenchmarkMachine(b *testing.B) {
	m, err := quorum.NewMachine(quorum.Config{
		Nodes: []string{"a", "b", "c"}, Marker: "marker", TTL: ttl,
		Token: func() string { return "token" }, Jitter: func() float64 { return 0 },
	})
	if err != nil {
		b.Fatal(err)
	}
	now := clock.Now{Wall: epoch}
	yes := quorum.BallotReply{Yes: []bool{true}, Holders: make([]quorum.Holding, 1), Time: epoch}
	answer := func(e quorum.Effects) {
		for _, c := range e.Calls {
			m.Reply(now, quorum.Reply{Node: c.Node, Seq: c.Seq, Ballot: yes})
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		answer(m.Acquire(now, "salectl:uid:shard:0"))
		now.Mono += ttl / 3
		now.Wall = now.Wall.Add(ttl / 3)
		answer(m.Tick(now))
		if !m.Valid(now) {
			b.Fatal("not held")
		}
		answer(m.Release(now))
	}
}

// BenchmarkValid is what the check before each append costs.
func BenchmarkValid(b *testing.B) {
	m, err := quorum.NewMachine(quorum.Config{
		Nodes: []string{"a"}, TTL: ttl,
		Token: func() string { return "token" }, Jitter: func() float64 { return 0 },
	})
	if err != nil {
		b.Fatal(err)
	}
	now := clock.Now{Wall: epoch}
	for _, c := range m.Acquire(now, "k").Calls {
		m.Reply(now, quorum.Reply{Node: c.Node, Seq: c.Seq, Ballot: quorum.BallotReply{
			Yes: []bool{true}, Holders: make([]quorum.Holding, 1), Time: time.Unix(0, 0)}})
	}
	for b.Loop() {
		if !m.Valid(now) {
			b.Fatal("not held")
		}
	}
}

// BenchmarkGroup steps a group of 1,024 held keys on 5 nodes: a tick for which nothing
// is due, and a renewal with all its replies.
func BenchmarkGroup(b *testing.B) {
	now := clock.Now{Mono: time.Hour, Wall: epoch}
	pass := func(d time.Duration) { now.Mono, now.Wall = now.Mono+d, now.Wall.Add(d) }
	setup := func(b *testing.B) (*quorum.Group, func(quorum.Effects)) {
		b.ReportAllocs()
		g, err := quorum.NewGroup(quorum.Config{
			Nodes: []string{"n0", "n1", "n2", "n3", "n4"}, Marker: "marker", TTL: 3 * time.Second, Address: "here",
			Token: func() string { return "token" }, Jitter: func() float64 { return 0.5 },
		})
		if err != nil {
			b.Fatal(err)
		}
		answer := func(e quorum.Effects) {
			for len(e.Calls) > 0 {
				var more []quorum.Call
				for _, c := range e.Calls {
					n := len(c.Vote.Requests)
					r := quorum.BallotReply{Yes: make([]bool, n), Holders: make([]quorum.Holding, n), Time: now.Wall}
					for i := range r.Yes {
						r.Yes[i] = true
					}
					more = append(more, g.Reply(now, quorum.Reply{Node: c.Node, Seq: c.Seq, Ballot: r}).Calls...)
				}
				e.Calls = more
			}
		}
		answer(g.Acquire(now, keysTo(1024)...))
		if len(g.Keys()) != 1024 {
			b.Fatal("not all keys are held")
		}
		return g, answer
	}
	b.Run("tick", func(b *testing.B) {
		g, answer := setup(b)
		for b.Loop() {
			pass(time.Microsecond)
			answer(g.Tick(now))
		}
	})
	b.Run("renewal", func(b *testing.B) {
		g, answer := setup(b)
		for b.Loop() {
			pass(time.Second)
			answer(g.Tick(now))
		}
	})
}
