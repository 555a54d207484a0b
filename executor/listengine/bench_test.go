package listengine

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"salectl/backends/clock"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/executor/request"
	"salectl/executor/saletest"
	"salectl/executor/shard"
	"salectl/spec"
)

// BenchmarkGrabCalls is what a request costs the process that asks a node for it: to queue
// it, to put it into a call of 512, to take in what the node gave, and that the ledger has
// it. The node takes no time.
func BenchmarkGrabCalls(b *testing.B) {
	for _, shards := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			now := clock.Now{Mono: time.Hour, Wall: time.Unix(1_800_000_000, 0)}
			g := New(spec.AckRedis, 10_000)
			var queues []*queue
			for i := range shards {
				s := shard.New(shard.Config{
					Shard: i, Log: fmt.Sprint("log-", i), Writer: []byte("12345678"), Address: "a:1", UID: saletest.UID,
					Totals: shard.NewSaleTotals(shards), Doubts: new(request.Doubts), Clock: func() clock.Now { return now },
				})
				s.SetRights(shard.Rights{Lease: saletest.Lease(b, now), ReadAt: now, TTL: quorum.DefaultTTL})
				g.AddShard(s, lists.List{UID: saletest.UID, Shard: i}, lists.Sizes{}, spec.MaxBacklog, now)
				queues = append(queues, g.queueOf(s))
				queues[i].setFill(now, 1)
				queues[i].post = func(shard.Event) bool { return true }
			}
			users := make([]string, maxPerCall)
			for i := range users {
				users[i] = fmt.Sprint("user-", i)
			}
			pool, call := new(sync.Pool), new(Call)
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += maxPerCall {
				for i, user := range users {
					x := request.NewTicket(pool, request.Request{User: user, Key: "key", Quantity: 1}, nil, now.Mono)
					if o := queues[i%shards].Offer(now, x); o != "" {
						b.Fatal(o)
					}
				}
				if ask, _ := g.Next(now, call); !ask {
					b.Fatal("it asks for nobody")
				}
				given := make([]lists.Given, len(call.Batches))
				for i, batch := range call.Batches {
					given[i] = lists.Given{Units: make([]lists.Unit, len(batch.Users))}
					for n := range given[i].Units {
						given[i].Units[n].Number = int64(n + 1)
					}
				}
				g.HandleReply(now, call, given, nil)
				for i, q := range call.queues {
					q.markLogged(call.Batches[i].Users)
				}
			}
		})
	}
}
