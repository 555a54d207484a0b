package executor

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"salectl/api"
	"salectl/backends/embedded"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/backends/redis"
	"salectl/executor/saletest"
	"salectl/internal/services"
	"salectl/spec"
)

// listSite is a site whose units lie in lists on real servers, which are its lock
// nodes as well.
type listSite struct {
	*site
	servers []*services.Redis
}

// newListSite starts servers and applies a sale on them.
func newListSite(t testing.TB, ack spec.Ack, nodes int, args []string, shares ...int64) *listSite {
	t.Helper()
	var addresses []string
	var servers []*services.Redis
	for range nodes {
		r := startRedis(t, args...)
		servers, addresses = append(servers, r), append(addresses, r.Addr())
	}
	s := listSiteAt(t, ack, addresses, nil, shares...)
	s.servers = servers
	return s
}

// startRedis starts a server that the test's end stops.
func startRedis(t testing.TB, args ...string) *services.Redis {
	t.Helper()
	r, err := services.StartRedis(t.Context(), services.RedisOptions{Dir: t.TempDir(), Args: args})
	services.Require(t, err)
	t.Cleanup(r.Stop)
	return r
}

// listSiteAt applies a sale of one unit a user, whose lists are at addresses, as
// far as a planner does without filling them: the serving process does. change changes
// the declaration; nil: it is as it is.
func listSiteAt(t testing.TB, ack spec.Ack, addresses []string, change func(*spec.Sale, *pb.Settings), shares ...int64) *listSite {
	t.Helper()
	s := &listSite{site: &site{t: t, dir: t.TempDir(), host: embedded.ThisHost()}}
	stock := int64(0)
	for _, n := range shares {
		stock += n
	}
	s.sale = saletest.Declared("site", stock, len(shares), 1)
	s.sale.LockTTL = spec.Duration(quorum.MaxTTL) // a process that is not run for as long loses its leases
	s.sale.Engine, s.sale.Ack, s.sale.Backlog = spec.EngineRedis, ack, spec.DefaultBacklog
	s.sale.Redis = &spec.Redis{Nodes: addresses}
	settings := &pb.Settings{PerUserLimit: s.sale.PerUserLimit, Phase: pb.Phase_OPEN}
	if change != nil {
		change(&s.sale, settings)
	}
	s.logs, _ = s.handles()
	saletest.ProvisionAs(t, s.logs, s.sale, shares, settings)
	locks, _ := s.connect()
	for _, n := range locks {
		saletest.Mark(t, n)
	}
	return s
}

// connect opens connections of one more process.
func (s *listSite) connect() (locks []quorum.Node, kept []lists.Node) {
	s.t.Helper()
	nodes, err := redis.Nodes(*s.sale.Redis)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, n := range nodes {
		s.t.Cleanup(func() { _ = n.Close() })
		locks, kept = append(locks, n), append(kept, n.Lists())
	}
	return locks, kept
}

// serve is site's, with the lists.
func (s *listSite) serve() *siteProcess {
	s.t.Helper()
	return s.site.serve(func(c *Config) { c.Nodes, c.Lists = s.connect() })
}

// TestLists races users for the units of lists on two nodes, with each ack: each
// unit once, each user at most once, the same answer again, and all of it in the
// ledger.
func TestLists(t *testing.T) {
	for _, ack := range []spec.Ack{spec.AckLedger, spec.AckRedis} {
		t.Run(string(ack), func(t *testing.T) {
			s := newListSite(t, ack, 2, nil, 40, 1, 25, 34)
			p := s.serve()
			const users = 400
			var got [users]Answer
			var all sync.WaitGroup
			var next atomic.Int64
			for range 50 {
				all.Go(func() {
					for i := next.Add(1) - 1; i < users; i = next.Add(1) - 1 {
						got[i] = finally(p.Do, fmt.Sprint("user-", i), "a")
					}
				})
			}
			all.Wait()
			whose, outcomes := map[int64]int{}, map[api.Outcome]int{}
			for i, a := range got {
				outcomes[a.Outcome]++
				if a.Outcome != api.Sold {
					continue
				}
				unit := a.Claim.Units[0]
				if other, twice := whose[unit]; twice {
					t.Errorf("users %d and %d have unit %d", other, i, unit)
				}
				whose[unit] = i
				again := finally(p.Do, fmt.Sprint("user-", i), "a")
				if again.Outcome != api.Sold || !again.Replayed || again.Claim.Units[0] != unit || again.Claim.ID != a.Claim.ID || !again.Claim.At.Equal(a.Claim.At) {
					t.Errorf("user %d got %+v, and then %+v", i, a, again)
				}
				if other := finally(p.Do, fmt.Sprint("user-", i), "b"); other.Outcome != api.LimitReached || len(other.Claims) != 1 || other.Claims[0].Units[0] != unit {
					t.Errorf("user %d of unit %d got %+v with another key", i, unit, other)
				}
			}
			if outcomes[api.Sold] != 100 || outcomes[api.SoldOut] != users-100 {
				t.Errorf("outcomes %v", outcomes)
			}
			if a := saletest.Audited(t, s.logs, "site"); a.Sold != 100 || a.Users != 100 {
				t.Errorf("audit: %+v", a)
			}
		})
	}
}
