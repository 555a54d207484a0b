package executor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"salectl/api"
	"salectl/backends/quorum"
	"salectl/executor/ownership"
	"salectl/internal/wait"
	"salectl/spec"
)

// TestGivingUp ends contexts of claims at each stage.
func TestGivingUp(t *testing.T) {
	inSite(t, 1, []int64{50}, func(t *testing.T, s *site) {
		p := s.serve(func(c *Config) { c.Queue = 3 })
		p.logs.appends.close()
		ctx, cancel := context.WithCancel(t.Context())
		appended := p.later(ctx, "ann", "1")
		wait.Until(t, "an append is held", func() bool { return p.logs.appends.held.Load() == 1 })
		patient := p.later(t.Context(), "bob", "1")
		wait.Until(t, "a queue of 2", func() bool { return p.Status().Shards[0].Queue == 2 })
		queued := p.later(ctx, "cid", "1")
		wait.Until(t, "a queue of 3", func() bool { return p.Status().Shards[0].Queue == 3 })
		select {
		case a := <-p.later(t.Context(), "dan", "1"):
			if a.Outcome != api.Overloaded || a.RetryAfter == 0 {
				t.Errorf("behind a full queue: %+v", a)
			}
		case <-time.After(30 * time.Second):
			t.Error("behind a full queue it waits")
		}
		cancel()
		if a := <-appended; a.Outcome != api.Unknown || a.RetryAfter == 0 {
			t.Errorf("given up while it was appended: %+v", a)
		}
		if a := <-queued; a.Outcome != api.Overloaded {
			t.Errorf("given up while it was queued: %+v", a)
		}
		p.logs.appends.open()
		if a := <-patient; a.Outcome != api.Sold {
			t.Errorf("the patient one: %+v", a)
		}
		if a := p.claim("ann", "1"); a.Outcome != api.Sold || !a.Replayed {
			t.Errorf("asked again: %+v", a)
		}
		if a := p.claim("eve", "1"); a.Outcome != api.Sold {
			t.Errorf("after the queue was full: %+v", a)
		}
		if claims, _, _ := lookupUser(t.Context(), p, "cid", api.Page{}); len(claims) != 0 {
			t.Errorf("what was given up in the queue was accepted: %v", claims)
		}
	})
}

// TestDrain ends a process that has requests in its hands: one that is being
// appended, and some behind it.
func TestDrain(t *testing.T) {
	begin := func(t *testing.T, s *site, timeout time.Duration) (*siteProcess, []<-chan Answer) {
		p := s.serve(func(c *Config) { c.DrainTimeout = timeout })
		p.logs.appends.close()
		answers := []<-chan Answer{p.later(t.Context(), "ann", "1")}
		wait.Until(t, "an append is held", func() bool { return p.logs.appends.held.Load() == 1 })
		for i := range 9 {
			answers = append(answers, p.later(t.Context(), fmt.Sprint("buyer-", i), "1"))
		}
		wait.Until(t, "a queue of 10", func() bool { return p.Status().Shards[0].Queue == 10 })
		return p, answers
	}
	t.Run("in time", func(t *testing.T) {
		inSite(t, 1, []int64{50}, func(t *testing.T, s *site) {
			before := goleak.IgnoreCurrent()
			p, answers := begin(t, s, time.Minute)
			ended := make(chan error, 1)
			go func() { ended <- p.stop() }()
			wait.Until(t, "the process is draining", func() bool { return p.Ready() == ownership.ErrDraining })
			if a := p.claim("late", "1"); a.Outcome != api.Draining {
				t.Errorf("a claim while it drains: %+v", a)
			}
			p.logs.appends.open()
			for i, c := range answers {
				if a := <-c; a.Outcome != api.Sold {
					t.Errorf("request %d: %+v", i, a)
				}
			}
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			// The handles of the store have goroutines until the test ends.
			goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("salectl/backends/embedded.(*writer).run"))
			if a := p.claim("later", "1"); a.Outcome != api.Draining {
				t.Errorf("a claim after Run has returned: %+v", a)
			}
		})
	})
	t.Run("out of time", func(t *testing.T) {
		inSite(t, 1, []int64{50}, func(t *testing.T, s *site) {
			p, answers := begin(t, s, 10*time.Millisecond)
			if err := p.stop(); err != nil {
				t.Fatal(err)
			}
			for i, c := range answers {
				want := api.Draining
				if i == 0 {
					want = api.Unknown
				}
				if a := <-c; a.Outcome != want {
					t.Errorf("request %d: %+v, want %s", i, a, want)
				}
			}
			p.logs.appends.open()
		})
	})
}

// TestDamagedSale ends Run with an error, and everybody who waits has an answer.
func TestDamagedSale(t *testing.T) {
	inSite(t, 1, []int64{50}, func(t *testing.T, s *site) {
		logs, node := s.handles()
		e := New(Config{Logs: logs, Nodes: []quorum.Node{node}, Sale: s.sale.Name, Address: "127.0.0.1:1"})
		ended := make(chan error, 1)
		go func() { ended <- e.Run(t.Context()) }()
		wait.UntilNil(t, "the process", e.Ready)
		log := spec.SaleLog(s.sale.Name)
		head, entries, err := logs.Read(t.Context(), log, 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		if err := logs.Append(t.Context(), log, uint64(len(entries)), head, []byte(`{"slot":2}`), []byte("garbage")); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err == nil {
			t.Error("Run ends without an error")
		}
		if a := e.Do(t.Context(), Request{User: "ann", Quantity: 1}); a.Outcome != api.NoQuorum {
			t.Errorf("claims are told %+v", a)
		}
		if e.Ready() == nil {
			t.Error("it is ready")
		}
	})
}
