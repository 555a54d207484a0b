package executor

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/executor/saletest"
	"salectl/internal/wait"
)

// TestRaceForTheLastUnit is the bank's example: 100 tickets, 5 locks, and more
// buyers than tickets, some of whom click twice.
func TestRaceForTheLastUnit(t *testing.T) {
	inSite(t, 1, []int64{20, 20, 20, 20, 20}, func(t *testing.T, s *site) {
		p := s.serve(nil)
		read := p.read()
		const users = 5000
		var outcomes sync.Map
		var all sync.WaitGroup
		record := func(user int, key string) {
			if user%50 == 0 { // beside the claims of others
				read()
			}
			a := p.buy(fmt.Sprint("buyer-", user), key)
			outcomes.Store(fmt.Sprint(user, key), a)
		}
		for i := range users {
			all.Go(func() { record(i, "one") })
			if i%5 == 0 {
				all.Go(func() { record(i, "two") })
				all.Go(func() {
					if a := p.buy(fmt.Sprint("buyer-", i), "one"); a.Outcome == api.LimitReached && len(a.Claims) != 1 {
						t.Errorf("a double click: %+v", a)
					}
				})
			}
		}
		all.Wait()
		buyers := make(map[string]bool)
		count := make(map[api.Outcome]int)
		outcomes.Range(func(_, v any) bool {
			a := v.(Answer)
			count[a.Outcome]++
			if a.Accepted() {
				if buyers[a.Claim.User] {
					t.Errorf("%s got two", a.Claim.User)
				}
				buyers[a.Claim.User] = true
				if claims, _, no := lookupUser(t.Context(), p, a.Claim.User, api.Page{}); no != "" || len(claims) != 1 || claims[0].ID != a.Claim.ID {
					t.Errorf("%s has %v, %s; was told %v", a.Claim.User, claims, no, a.Claim)
				}
			}
			return true
		})
		if len(buyers) != 100 || count[api.Sold] != 100 || count[api.Sold]+count[api.SoldOut]+count[api.LimitReached] != users*6/5 {
			t.Errorf("%d buyers, outcomes %v", len(buyers), count)
		}
		if a := saletest.Audited(t, s.logs, s.sale.Name); a.Sold != 100 || a.Users != 100 {
			t.Errorf("audit: %+v", a)
		}
		st := p.Status()
		sold := int64(0)
		for _, shard := range st.Shards {
			sold += shard.Sold
		}
		if sold != 100 || st.Phase != ledger.PhaseOpen || st.PerUser != 1 || st.UID != saletest.UID {
			t.Errorf("status: %+v", st)
		}
	})
}

// TestDoubleClick has one request come many times at once.
func TestDoubleClick(t *testing.T) {
	inSite(t, 5, []int64{50}, func(t *testing.T, s *site) {
		p := s.serve(nil)
		answers := make([]Answer, 50)
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() { answers[i] = p.claim("ann", "key") })
		}
		all.Wait()
		fresh := 0
		for _, a := range answers {
			if a.Outcome != api.Sold || a.Claim.ID != answers[0].Claim.ID || !slices.Equal(a.Claim.Units, answers[0].Claim.Units) {
				t.Errorf("%+v is not %+v", a, answers[0])
			}
			if !a.Replayed {
				fresh++
			}
		}
		if fresh != 1 {
			t.Errorf("%d of them are the first", fresh)
		}
		// Without a key each is a request of its own.
		for i := range 4 {
			if a := p.claim("ann", ""); a.Outcome != api.Sold || a.Replayed {
				t.Errorf("request %d without a key: %+v", i, a)
			}
		}
		if a := p.claim("ann", ""); a.Outcome != api.LimitReached || len(a.Claims) != 5 {
			t.Errorf("one too many: %+v", a)
		}
	})
}

func TestBadRequests(t *testing.T) {
	inSite(t, 1, []int64{5}, func(t *testing.T, s *site) {
		long := string(make([]byte, api.MaxUser+1))
		p := s.serve(nil)
		for name, r := range map[string]Request{
			"no user":       {Quantity: 1},
			"a long user":   {User: long, Quantity: 1},
			"user no text":  {User: "ann\xff", Quantity: 1},
			"a long key":    {User: "ann", Key: long, Quantity: 1},
			"nothing":       {User: "ann"},
			"less":          {User: "ann", Quantity: -1},
			"more than may": {User: "ann", Quantity: api.MaxQuantity + 1},
		} {
			if a := p.Do(t.Context(), r); a.Outcome != api.BadRequest || a.Message == "" {
				t.Errorf("%s: %+v", name, a)
			}
		}
		if a := p.Do(t.Context(), Request{User: "änn\x00", Key: "\xff\x00", Quantity: 1}); a.Outcome != api.Sold {
			t.Errorf("an odd user and key: %+v", a)
		}
	})
}

// TestGenerationsWhileServing raises, pauses, resumes and closes a sale beside
// the process that serves it.
func TestGenerationsWhileServing(t *testing.T) {
	inSite(t, 1000, []int64{2, 2}, func(t *testing.T, s *site) {
		p := s.serve(nil)
		for i := range 4 {
			if a := p.buy("ann", fmt.Sprint(i)); a.Outcome != api.Sold {
				t.Fatalf("%+v", a)
			}
		}
		if a := p.claim("ann", "late"); a.Outcome != api.SoldOut {
			t.Fatalf("%+v", a)
		}
		taken := func(generation uint64) func() bool {
			return func() bool {
				for i := range 2 {
					if saletest.LoadShard(t, s.logs, i, 2).Generation < generation {
						return false
					}
				}
				return true
			}
		}
		saletest.Replan(t, s.logs, s.sale.Name, func(p *pb.Planned) { saletest.Deal(p, 0, 500); saletest.Deal(p, 1, 500) })
		wait.Until(t, "the units that were added are sold", func() bool { return p.claim("ann", "late").Outcome == api.Sold })
		wait.Until(t, "all shards have generation 2", taken(2))
		saletest.Replan(t, s.logs, s.sale.Name, func(p *pb.Planned) { p.Settings.Phase = pb.Phase_PAUSED })
		wait.Until(t, "all shards have generation 3", taken(3))
		if a := p.buy("bob", "1"); a.Outcome != api.Paused {
			t.Errorf("paused: %+v", a)
		}
		saletest.Replan(t, s.logs, s.sale.Name, func(p *pb.Planned) { p.Settings.Phase = pb.Phase_OPEN })
		wait.Until(t, "a unit is sold", func() bool { return p.claim("bob", "1").Outcome == api.Sold })

		// Claims go on all the time; none that begins after every shard has the
		// close may be accepted.
		var closed atomic.Bool
		var all sync.WaitGroup
		for c := range 8 {
			all.Go(func() {
				for i := 0; ; i++ {
					after := closed.Load()
					a := p.claim(fmt.Sprint("caller-", c), fmt.Sprint(i))
					switch {
					case after && a.Outcome != api.Closed:
						t.Errorf("closed: %+v", a)
						return
					case after:
						return
					}
					time.Sleep(50 * time.Millisecond)
				}
			})
		}
		saletest.Replan(t, s.logs, s.sale.Name, func(p *pb.Planned) { p.Settings.Phase = pb.Phase_CLOSED })
		wait.Until(t, "all shards have generation 5", taken(5))
		closed.Store(true)
		claims := saletest.LoadShard(t, s.logs, 0, 2).Claims() + saletest.LoadShard(t, s.logs, 1, 2).Claims()
		all.Wait()
		if n := saletest.LoadShard(t, s.logs, 0, 2).Claims() + saletest.LoadShard(t, s.logs, 1, 2).Claims(); n != claims {
			t.Errorf("%d claims were accepted after the close", n-claims)
		}
		saletest.Audited(t, s.logs, s.sale.Name)
	})
}
