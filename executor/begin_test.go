package executor

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cel.dev/cel-go/common/types"

	"salectl/api"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/quorum"
	"salectl/executor/saletest"
	"salectl/internal/wait"
	"salectl/rules"
	"salectl/spec"
)

// begun is a request that was begun, and what came of it.
type begun struct {
	t      *testing.T
	cancel func()
	told   atomic.Int32
	answer chan Answer
}

func (b *begun) answered(a Answer) {
	if b.told.Add(1) > 1 {
		b.t.Errorf("told twice: %+v", a)
		return
	}
	b.answer <- a
}

func begin(t *testing.T, e *Executor, r Request) *begun {
	b := &begun{t: t, answer: make(chan Answer, 1)}
	b.cancel = e.Begin(r, b.answered)
	return b
}

// Begin answers as Claim does, and once.
func TestBegin(t *testing.T) {
	inSite(t, 1, []int64{40, 30, 30}, func(t *testing.T, s *site) {
		p := s.serve(nil)
		var all []*begun
		for i := range 300 {
			all = append(all, begin(t, p.Executor, Request{User: fmt.Sprint("user-", i%150), Key: "k", Quantity: 1}))
		}
		sold, soldOut := 0, 0
		for i, b := range all {
			a := <-b.answer
			b.cancel() // too late
			switch {
			case a.Outcome == api.Sold && !a.Replayed:
				sold++
			case a.Outcome == api.Sold:
			case a.Outcome == api.SoldOut, a.Outcome == api.NoneNow:
				soldOut++
			default:
				t.Errorf("request %d: %+v", i, a)
			}
			if again := p.buy(fmt.Sprint("user-", i%150), "k"); a.Accepted() && (again.Outcome != api.Sold || !again.Replayed || again.Claim.ID != a.Claim.ID) {
				t.Errorf("request %d: %+v, asked again %+v", i, a, again)
			}
		}
		if sold > 100 || soldOut == 0 {
			t.Errorf("%d are sold, %d are told that there is nothing", sold, soldOut)
		}
		if bad := <-begin(t, p.Executor, Request{User: "", Quantity: 1}).answer; bad.Outcome != api.BadRequest {
			t.Errorf("a bad request: %+v", bad)
		}
	})
}

// A request that is given up was surely not accepted while it waits; after that nobody
// knows until it is asked again.
func TestBeginGivesUp(t *testing.T) {
	inSite(t, 5, []int64{10}, func(t *testing.T, s *site) {
		p := s.serve(nil)
		p.logs.appends.close()
		taken := begin(t, p.Executor, Request{User: "ada", Key: "k", Quantity: 1})
		wait.Until(t, "an append is held", func() bool { return p.logs.appends.held.Load() > 0 })
		waits := begin(t, p.Executor, Request{User: "bob", Key: "k", Quantity: 1})
		waits.cancel()
		waits.cancel()
		if a := <-waits.answer; a.Outcome != api.Overloaded {
			t.Errorf("one that waits: %+v", a)
		}
		taken.cancel()
		if a := <-taken.answer; a.Outcome != api.Unknown {
			t.Errorf("one that is being decided: %+v", a)
		}
		p.logs.appends.open()
		if a := p.claim("ada", "k"); a.Outcome != api.Sold || !a.Replayed {
			t.Errorf("asked again: %+v", a)
		}
		if a := p.claim("bob", "k"); a.Outcome != api.Sold || a.Replayed {
			t.Errorf("asked again: %+v", a)
		}
	})
}

// Answers and those who give up may meet: each is told one thing, which is true.
func TestBeginRaces(t *testing.T) {
	inSite(t, 1, []int64{1000, 1000}, func(t *testing.T, s *site) {
		p := s.serve(nil)
		const users = 1500
		var all sync.WaitGroup
		var told [users]Answer
		for i := range users {
			all.Go(func() {
				b := begin(t, p.Executor, Request{User: fmt.Sprint("user-", i), Key: "k", Quantity: 1})
				if rand.IntN(2) == 0 {
					for range rand.IntN(1000) { // in real time: in a bubble all are answered before a sleep ends
						runtime.Gosched()
					}
					b.cancel()
				}
				told[i] = <-b.answer
			})
		}
		all.Wait()
		outcomes := map[api.Outcome]int{}
		for i, a := range told {
			outcomes[a.Outcome]++
			has, _, _ := lookupUser(t.Context(), p, fmt.Sprint("user-", i), api.Page{})
			switch a.Outcome {
			case api.Sold:
				if len(has) != 1 || has[0].ID != a.Claim.ID {
					t.Errorf("user %d was told %+v and has %+v", i, a, has)
				}
			case api.Overloaded:
				if len(has) != 0 {
					t.Errorf("user %d was told %+v and has %+v", i, a, has)
				}
			case api.Unknown:
			default:
				t.Errorf("user %d was told %+v", i, a)
			}
		}
		t.Log(outcomes)
	})
}

// BeginSettle is Settle.
func TestBeginSettle(t *testing.T) {
	inSite(t, 1, []int64{10, 10}, func(t *testing.T, s *site) {
		p := s.serve(nil)
		a := p.claim("ada", "k")
		settle := func(x Settlement) Answer {
			t.Helper()
			b := &begun{t: t, answer: make(chan Answer, 1)}
			b.cancel = p.Begin(Request{Settle: &x}, b.answered)
			return <-b.answer
		}
		x := Settlement{Claim: a.Claim.ID, How: api.Refund, Settlement: api.Settlement{Who: "me"}}
		if got := settle(x); got.Outcome != api.Refunded || got.Replayed || got.Claim.ID != a.Claim.ID {
			t.Errorf("a refund: %+v", got)
		}
		if got := settle(x); got.Outcome != api.Refunded || !got.Replayed {
			t.Errorf("once more: %+v", got)
		}
		if got := settle(Settlement{Claim: ClaimID{Shard: 7}, How: api.Refund}); got.Outcome != api.NoSuchClaim {
			t.Errorf("of no claim: %+v", got)
		}
	})
}

// slowUsers has users of level 2, whose attributes are known when the test says so.
type slowUsers struct {
	schema *rules.Schema
	asked  chan string
	ready  chan struct{}
}

func (s *slowUsers) Lookup(ctx context.Context, ids []string) (all []rules.Attributes, err error) {
	if len(ids) == 0 { // the process reads ahead
		return nil, nil
	}
	s.asked <- ids[0]
	select {
	case <-s.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for _, id := range ids {
		user := s.schema.Known(id, []rules.Value{types.Int(2)})
		all = append(all, user)
	}
	return all, nil
}

// Where a store has to be asked about a user, Begin does not wait for it.
func TestBeginAsksAStore(t *testing.T) {
	users := &slowUsers{asked: make(chan string), ready: make(chan struct{}, 1)}
	logs, node := openEmbedded(t)
	sale := saletest.Declared("ruled", 10, 1, 1)
	sale.Users = &spec.Users{Attributes: []spec.Attribute{{Name: "level", Type: "int"}}, File: "users.csv", Fresh: spec.Duration(time.Minute), Cached: 10}
	sale.Rules = []spec.Rule{{Name: "level", Require: "user.level > 1", Message: "Not you.", Enforce: spec.EnforceDeny}}
	hash, _ := rules.HashFor(sale)
	saletest.ProvisionAs(t, logs, sale, []int64{10}, &pb.Settings{PerUserLimit: 1, Phase: pb.Phase_OPEN, Rules: hash[:]})
	saletest.Mark(t, node)
	e := serveWith(t, Config{Logs: logs, Nodes: []quorum.Node{node}, Sale: sale.Name, Address: "127.0.0.1:1",
		Users: func(_ spec.Sale, schema *rules.Schema) (rules.Users, func() error, error) {
			users.schema = schema
			return users, func() error { return nil }, nil
		}})
	one := begin(t, e, Request{User: "bob", Key: "k", Quantity: 1}) // returns before the store does
	if id := <-users.asked; id != "bob" {
		t.Errorf("asked about %s", id)
	}
	users.ready <- struct{}{}
	if a := <-one.answer; a.Outcome != api.Sold {
		t.Errorf("bob: %+v", a)
	}
	two := begin(t, e, Request{User: "eve", Key: "k", Quantity: 1})
	<-users.asked
	two.cancel()
	if a := <-two.answer; a.Outcome != api.NotChecked {
		t.Errorf("eve gives up: %+v", a)
	}
}

// A process says where claims are decided while it serves.
func TestPlace(t *testing.T) {
	inSite(t, 1, []int64{3, 3, 4}, func(t *testing.T, s *site) {
		p := s.serve(nil)
		want := Place{Shard: spec.HomeShard("ada", 3), Shards: 3, Owner: "127.0.0.1:1"}
		if got := p.Place("ada"); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if got := p.PlaceOf(2); got != (Place{Shard: 2, Shards: 3, Owner: "127.0.0.1:1"}) {
			t.Errorf("%+v", got)
		}
		if got := p.PlaceOf(3); got != (Place{}) {
			t.Errorf("a shard that there is not: %+v", got)
		}
		if err := p.stop(); err != nil {
			t.Error(err)
		}
		if got := p.Place("ada"); got != (Place{}) {
			t.Errorf("%+v by a process that does not serve", got)
		}
	})
}
