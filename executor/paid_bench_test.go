package executor

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cel.dev/cel-go/common/types"

	"salectl/api"
	"salectl/backends/clock"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/quorum"
	"salectl/executor/saletest"
	"salectl/internal/wait"
	"salectl/rules"
	"salectl/spec"
)

// paidSale serves a sale whose claims are held for a time.
func paidSale(b *testing.B, stock int64, holdFor time.Duration) *Executor {
	b.Helper()
	settings := &pb.Settings{PerUserLimit: 10, Phase: pb.Phase_OPEN}
	if holdFor > 0 {
		settings.Payment = &pb.Payment{HoldForUs: holdFor.Microseconds(), Late: pb.Payment_REFUSE}
	}
	return benchSale(b, stock, settings)
}

// benchSale serves a sale of five shards.
func benchSale(b *testing.B, stock int64, settings *pb.Settings) *Executor {
	b.Helper()
	const shards = 5
	logs, node := openEmbedded(b)
	sale := saletest.Declared("bench", stock, shards, settings.GetPerUserLimit())
	saletest.ProvisionAs(b, logs, sale, spec.Shares(sale.Stock, shards), settings)
	saletest.Mark(b, node)
	return serve(b, logs, node, sale.Name)
}

// buyers have callers claim one unit after the other, n in all behind those that are
// numbered lower, and then do more with each claim.
func buyers(b *testing.B, e *Executor, callers, from, n int, want api.Outcome, then func(Claim) api.Outcome) {
	b.Helper()
	var next, wrong atomic.Int64
	next.Store(int64(from))
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := next.Add(1); i <= int64(from+n); i = next.Add(1) {
				a := e.Do(context.Background(), Request{User: fmt.Sprintf("user-%011d", i), Key: fmt.Sprintf("key-%012d", i), Quantity: 1})
				if a.Outcome != want || then != nil && then(a.Claim) != api.Sold {
					wrong.Add(1)
				}
			}
		})
	}
	all.Wait()
	if wrong.Load() > 0 {
		b.Errorf("%d buyers had another answer", wrong.Load())
	}
}

// inTurn has callers buy of a sale at once and of another with the answer want, in turn, so
// that both have the same machine: how many claims each, and how long they took.
func inTurn(b *testing.B, callers int, plain, other *Executor, want api.Outcome) (n float64, alone, beside time.Duration) {
	b.Helper()
	const turns = 4
	each := b.N/turns + 1
	b.ResetTimer()
	for turn := range turns {
		began := time.Now()
		buyers(b, plain, callers, turn*each, each, api.Sold, nil)
		alone += time.Since(began)
		began = time.Now()
		buyers(b, other, callers, turn*each, each, want, nil)
		beside += time.Since(began)
	}
	b.StopTimer()
	return float64(turns * each), alone, beside
}

// BenchmarkClaimAndPay is what one process sells where each claim is paid: beside plain
// claims in the same run, of which it is a ratio.
func BenchmarkClaimAndPay(b *testing.B) {
	for _, callers := range []int{200, 2000} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			room := int64(b.N + 5*callers)
			plain, paid := paidSale(b, room, 0), paidSale(b, room, time.Hour)
			took := func(sell func()) time.Duration {
				began := time.Now()
				sell()
				return time.Since(began)
			}
			var alone, both time.Duration
			const turns = 4 // in turn, so that both have the same machine
			each := b.N/turns + 1
			b.ResetTimer()
			for turn := range turns {
				offset := turn * each
				alone += took(func() { buyers(b, plain, callers, offset, each, api.Sold, nil) })
				both += took(func() {
					buyers(b, paid, callers, offset, each, api.Held, func(c Claim) api.Outcome {
						return settle(context.Background(), paid, Settlement{Claim: c.ID, How: api.Confirm, Settlement: api.Settlement{Payment: c.User}}).Outcome
					})
				})
			}
			b.StopTimer()
			n := float64(turns * each)
			b.ReportMetric(n/both.Seconds(), "paid/s")
			b.ReportMetric(n/alone.Seconds(), "claims/s")
			b.ReportMetric(alone.Seconds()/both.Seconds(), "ratio")
		})
	}
}

// BenchmarkExpiries makes 100,000 holds at once that nobody pays, and tells how long after
// the release of the last one all are for sale again.
func BenchmarkExpiries(b *testing.B) {
	const holds, holdFor = 100_000, 8 * time.Second
	for b.Loop() {
		e := paidSale(b, holds+10_000, holdFor)
		began := time.Now()
		buyers(b, e, 2000, 0, holds, api.Held, nil)
		made := time.Since(began)
		last := time.Now().Add(holdFor)
		free := func() (n int64) {
			for _, s := range e.Status().Shards {
				n += s.Available
			}
			return n
		}
		wait.Until(b, "all are for sale again", func() bool { return free() == holds+10_000 })
		b.ReportMetric(made.Seconds(), "s-to-hold")
		b.ReportMetric(time.Since(last).Seconds(), "s-after-release")
	}
}

// sourceFunc is Users.
type sourceFunc func(ids []string) []rules.Attributes

func (f sourceFunc) Lookup(_ context.Context, ids []string) ([]rules.Attributes, error) {
	return f(ids), nil
}

// BenchmarkLookups is the rate of claims of users who are known, beside others who first
// have to be looked up in a store that takes 5 ms, as a ratio of their rate alone.
func BenchmarkLookups(b *testing.B) {
	const shards, callers, strangers = 5, 200, 10
	logs, node := openEmbedded(b)
	sale := saletest.Declared("bench", int64(20*b.N)+10_000_000, shards, 1<<40)
	sale.Users = &spec.Users{Attributes: []spec.Attribute{{Name: "level", Type: spec.TypeInt}}, File: "users.csv", Fresh: spec.Duration(time.Hour), Cached: 1 << 20}
	sale.Rules = []spec.Rule{{Name: "level", Require: "user.level > 0", Enforce: spec.EnforceDeny}}
	hash, _ := rules.HashFor(sale)
	saletest.ProvisionAs(b, logs, sale, spec.Shares(sale.Stock, shards), &pb.Settings{PerUserLimit: sale.PerUserLimit, Phase: pb.Phase_OPEN, Rules: hash[:]})
	saletest.Mark(b, node)
	schema := rules.SchemaFor(sale)
	store := sourceFunc(func(ids []string) (all []rules.Attributes) {
		time.Sleep(5 * time.Millisecond) // that the store takes is what is measured
		for _, id := range ids {
			u := schema.Known(id, []rules.Value{types.Int(1)})
			all = append(all, u)
		}
		return all
	})
	cache, err := rules.NewCache(rules.CacheConfig{Source: store, Clock: clock.System(), Fresh: time.Hour, Timeout: time.Second, Entries: 1 << 20, Batch: 1024})
	if err != nil {
		b.Fatal(err)
	}
	e := serveWith(b, Config{Logs: logs, Nodes: []quorum.Node{node}, Sale: sale.Name, Address: "127.0.0.1:1",
		Users: func(spec.Sale, *rules.Schema) (rules.Users, func() error, error) {
			return cache, func() error { return nil }, nil
		}})
	users := make([]string, 1<<10)
	for i := range users {
		users[i] = fmt.Sprintf("user-%011d", i)
	}
	if _, err := cache.Lookup(b.Context(), users); err != nil {
		b.Fatal(err)
	}
	claim := func(user string) {
		if a := e.Do(context.Background(), Request{User: user, Quantity: 1}); a.Outcome != api.Sold {
			b.Errorf("%+v", a)
		}
	}
	known := func(n int) time.Duration {
		began := time.Now()
		var next atomic.Int64
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for i := next.Add(1); i <= int64(n); i = next.Add(1) {
					claim(users[int(i)%len(users)])
				}
			})
		}
		all.Wait()
		return time.Since(began)
	}
	var stranger atomic.Int64
	beside := func(do func()) {
		over := make(chan struct{})
		var all sync.WaitGroup
		for range strangers {
			all.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
						claim(fmt.Sprint("stranger-", stranger.Add(1)))
					}
				}
			})
		}
		do()
		close(over)
		all.Wait()
	}
	const turns = 6
	var alone, together time.Duration
	b.ResetTimer()
	for range turns {
		alone += known(b.N/turns + 1)
		beside(func() { together += known(b.N/turns + 1) })
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/alone.Seconds(), "claims/s")
	b.ReportMetric(float64(stranger.Load())/together.Seconds(), "lookups/s")
	b.ReportMetric(alone.Seconds()/together.Seconds(), "ratio")
}
