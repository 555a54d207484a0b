package executor

import (
	"strings"
	"testing"

	"salectl/api"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/quorum"
	"salectl/executor/saletest"
	"salectl/internal/services"
	"salectl/internal/wait"
	"salectl/spec"
)

// TestListsKilled kills one of three servers again and again in the middle of a
// race, and starts it again from its append-only file. Nothing is lost.
func TestListsKilled(t *testing.T) {
	eachAck(t, func(t *testing.T, ack spec.Ack) {
		t.Parallel()
		s := newListSite(t, ack, 3, always, spec.Shares(600, 6)...)
		p := s.serve()
		c := newCrowd(t, s, p.Do)
		c.race(40, func() {
			for _, percent := range []int64{10, 30, 50} {
				c.at(percent, func() { restart(t, s.servers[0]) })
			}
		})
	})
}

// TestListsOnlyServerKilled kills the only server, which abstains from leases for a
// while then.
func TestListsOnlyServerKilled(t *testing.T) {
	eachAck(t, func(t *testing.T, ack spec.Ack) {
		t.Parallel()
		server := startRedis(t, always...)
		s := listSiteAt(t, ack, []string{server.Addr()}, func(sale *spec.Sale, _ *pb.Settings) {
			sale.LockTTL = spec.Duration(quorum.MinTTL) // ends while the server abstains
		}, 400, 0, 500)
		p := s.serve()
		c := newCrowd(t, s, p.Do)
		c.race(40, func() {
			c.at(40, func() {
				restart(t, server)
				c.await("the leases are lost", func() bool { return p.told("salectl_leases_lost_total") > 0 })
			})
		})
	})
}

// forgetting are ways in which a server comes to know less than it has said. Each
// is prepared before the race, and struck in the middle by what it returns.
var forgetting = map[string]struct {
	args    []string
	proxied bool
	keeps   bool // the stream survives: nothing that was told is lost
	prepare func(t *testing.T, s *listSite, step func(*services.Redis)) (early, strike func())
}{
	"old snapshot": {prepare: func(t *testing.T, s *listSite, _ func(*services.Redis)) (early, strike func()) {
		return func() { tell(t, s.servers[0], "SAVE") }, func() { restart(t, s.servers[0]) }
	}},
	"empty": {prepare: func(t *testing.T, s *listSite, _ func(*services.Redis)) (early, strike func()) {
		return func() {}, func() { restart(t, s.servers[0]) }
	}},
	"flushed": {prepare: func(t *testing.T, s *listSite, _ func(*services.Redis)) (early, strike func()) {
		return func() {}, func() { tell(t, s.servers[0], "FLUSHALL") }
	}},
	"flushed twice": {prepare: func(t *testing.T, s *listSite, _ func(*services.Redis)) (early, strike func()) {
		flush := func() { tell(t, s.servers[0], "FLUSHALL") }
		return flush, flush
	}},
	"replaced": {proxied: true, prepare: func(t *testing.T, s *listSite, step func(*services.Redis)) (early, strike func()) {
		other := startRedis(t)
		return func() {}, func() { step(other) }
	}},
	"failed over to a lagging replica": {proxied: true, args: []string{"--repl-diskless-sync-delay", "0"},
		prepare: func(t *testing.T, s *listSite, step func(*services.Redis)) (early, strike func()) {
			replica := startRedis(t)
			return func() {
					follow(t, replica, s.servers[0])
					wait.Until(t, "the replica has the marker", func() bool { return tell(t, replica, "EXISTS", spec.FillKey(saletest.UID, 0)) == int64(1) })
					tell(t, replica, "REPLICAOF", "NO", "ONE") // it lags from here on
				}, func() {
					if err := s.servers[0].Kill(); err != nil {
						t.Fatal(err)
					}
					step(replica)
				}
		}},
	"list deleted": {keeps: true, prepare: func(t *testing.T, s *listSite, _ func(*services.Redis)) (early, strike func()) {
		return func() {}, func() { tell(t, s.servers[0], "DEL", spec.ListKey(saletest.UID, 0)) }
	}},
	"marker deleted": {keeps: true, prepare: func(t *testing.T, s *listSite, _ func(*services.Redis)) (early, strike func()) {
		return func() {}, func() { tell(t, s.servers[0], "DEL", spec.FillKey(saletest.UID, 0)) }
	}},
}

// TestListsForgotten has one of three servers lose its memory or a part of it, or fall
// back into the past, in the middle of a race. With ack ledger all that was told is
// kept, and with ack redis where the stream survives; else the sale goes on, and no
// unit is in the ledger twice.
func TestListsForgotten(t *testing.T) {
	for name, fault := range forgetting {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachAck(t, func(t *testing.T, ack spec.Ack) {
				t.Parallel()
				first := startRedis(t, fault.args...)
				address, step := first.Addr(), func(*services.Redis) {}
				if fault.proxied {
					address, step = switchTo(t, first)
				}
				others := []*services.Redis{startRedis(t), startRedis(t)}
				s := listSiteAt(t, ack, []string{address, others[0].Addr(), others[1].Addr()}, nil, spec.Shares(480, 6)...)
				s.servers = append([]*services.Redis{first}, others...)
				early, strike := fault.prepare(t, s, step)
				p := s.serve()
				c := newCrowd(t, s, p.Do)
				c.lossy = ack == spec.AckRedis && !fault.keeps
				c.race(40, func() {
					c.at(20, early)
					c.at(50, strike)
				})
				if n := p.voids(); n != 0 {
					t.Errorf("%v grabs were given from a list that was not to be trusted", n)
				}
				if c.count(api.SoldOut) == 0 {
					t.Error("nobody was told that all is sold")
				}
			})
		})
	}
}

// voids returns how many grabs the ledger could not take.
func (p *siteProcess) voids() float64 { return p.told("salectl_void_grabs_total") }

// told returns what a metric comes to over all its labels: of a histogram how many were
// observed.
func (p *siteProcess) told(name string) (all float64) {
	p.t.Helper()
	for of, v := range scrape(p.t, p.Executor) {
		if of == name || strings.HasPrefix(of, name+" ") {
			all += v
		}
	}
	return all
}
