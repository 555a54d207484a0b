package dashboard

import (
	"fmt"
	"math"
	"net/http/httptest"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/draw"
)

// noon is when all scenes play.
var noon = time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)

// stage is a dashboard of one sale on a clock that a test sets.
type stage struct {
	*Dashboard
	now  clock.Now
	sale string
}

// play shows a sale, second by second, as scene tells it from the first second on.
func play(name string, seconds int, scene func(second int) State) *stage {
	s := &stage{now: clock.Now{Wall: noon, Mono: time.Hour}, sale: name}
	second := 0
	s.Dashboard = New("10.0.0.7:8080", MostViewers, func() clock.Now { return s.now })
	s.Add(Sale{name, func() State { return scene(second) }})
	for ; second < seconds; second++ {
		of, _ := s.named(name)
		of.now(false)
		s.now.Wall, s.now.Mono = s.now.Wall.Add(time.Second), s.now.Mono+time.Second
	}
	return s
}

// open serves it, and returns the address of the page.
func (s *stage) open(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(s.Handler())
	t.Cleanup(func() { s.Close(); server.Close() })
	return server.URL + Path + "sales/" + s.sale
}

var bounds = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// crowd is a sale of so many units on so many shards, to which ever fewer come after a
// rush at the thirtieth second.
func crowd(stock int64, shards int, owners ...string) func(second int) State {
	sold, answers := int64(0), map[api.Outcome]uint64{}
	took := make([]uint64, len(bounds)+1)
	return func(second int) State {
		rush := 0.0
		if second >= 30 {
			rush = math.Exp(-float64(second-30)/90) + .15 + .05*math.Sin(float64(second)/3)
		}
		asked := int64(rush * 800)
		for i, n := range []int64{0, 0, 1, 4, 20, 40, 20, 8, 4, 2, 1} {
			took[i+min(second/40, 3)] += uint64(n * asked / 100)
		}
		now := min(asked*6/10, stock-sold)
		sold += now
		answers = added(answers, map[api.Outcome]int64{api.Sold: now, api.Replayed: asked / 20, api.LimitReached: asked / 10})
		if sold == stock {
			answers = added(answers, map[api.Outcome]int64{api.SoldOut: asked * 6 / 10})
		} else {
			answers = added(answers, map[api.Outcome]int64{api.NoneNow: asked / 50})
		}
		l := State{Answers: answers, Took: histogram(bounds, took), Sale: &api.Sale{
			SaleSummary: api.SaleSummary{
				Sale: "movie-tickets", UID: "28d1fd9f3b50af1c", Phase: "open", Stock: stock, Sold: sold, Available: stock - sold, SoldOut: sold == stock,
				OpensAt: noon.Add(30 * time.Second), Generation: 3,
			},
			PerUserLimit: 2, Known: api.Known{Nodes: nodes(0)},
		}}
		if second < 30 {
			l.Sale.Phase = "scheduled"
		}
		for i, owner := range owners {
			n, asks, passed := shards/len(owners), rush*800, rush*300
			l.Sale.Processes = append(l.Sale.Processes, api.Process{Address: owner, Version: "v1.4.0", State: "serving", Self: i == 0, Up: true,
				Shards: &n, Assigned: n, Requests: &asks, Forwarded: &passed})
		}
		for i := range shards {
			load := math.Round(rush * 800 / float64(shards))
			of := stock / int64(shards)
			mine := min(of, sold/int64(shards)+(sold%int64(shards))*int64(i%3)/2)
			if sold == stock {
				mine = of
			}
			one := api.Shard{Shard: i, State: api.ShardSelling, Owner: owners[i*7%len(owners)], Sold: mine, Available: of - mine, Load: &load}
			if one.Available == 0 {
				one.State = api.ShardSoldOut
			}
			l.Sale.Shards = append(l.Sale.Shards, one)
		}
		return l
	}
}

func added(all map[api.Outcome]uint64, more map[api.Outcome]int64) map[api.Outcome]uint64 {
	sum := map[api.Outcome]uint64{}
	for o, n := range all {
		sum[o] = n
	}
	for o, n := range more {
		if n > 0 {
			sum[o] += uint64(n)
		}
	}
	return sum
}

// nodes are three lock nodes of which some are down.
func nodes(down int) (all []api.Node) {
	for i := range 3 {
		n := api.Node{Name: fmt.Sprintf("10.0.1.%d:6379", i+1), Up: true, Since: noon.Add(-time.Hour)}
		if i < down {
			n.Up, n.Since, n.Error = false, noon.Add(100*time.Second), "dial tcp 10.0.1.1:6379: connect: connection refused"
		}
		all = append(all, n)
	}
	return all
}

// but changes what a scene tells from a second on.
func but(scene func(int) State, from int, change func(*State)) func(int) State {
	return func(second int) State {
		l := scene(second)
		if second >= from {
			change(&l)
		}
		return l
	}
}

func noQuorum(l *State) {
	l.Sale.Phase, l.Sale.Nodes = "stalled", nodes(2)
	for i := range l.Sale.Shards {
		l.Sale.Shards[i].State = api.ShardNoLease
	}
	l.Unready = "lock nodes: no majority of the lock nodes votes: 10.0.1.1:6379 is down since 2026-11-11T12:01:40Z: dial tcp 10.0.1.1:6379: connect: connection refused"
	l.Sale.Problems = []api.SaleProblem{{Kind: "quorum_lost", Level: "error", Message: "no majority of the lock nodes votes", Error: "10.0.1.1:6379 is down"}}
	for _, n := range nodes(2)[:2] {
		l.Sale.Problems = append(l.Sale.Problems, api.SaleProblem{
			Kind: "node_down", Level: "warn", Subject: "node", Where: n.Name, Since: n.Since, Message: "a lock node cannot be used", Error: n.Error,
		})
	}
	l.Took, l.Answers = nil, added(l.Answers, map[api.Outcome]int64{api.NoQuorum: 300})
}

func ledgerDown(l *State) {
	l.Sale.Phase = "stalled"
	for i := range l.Sale.Shards {
		l.Sale.Shards[i].State = api.ShardStalled
	}
	l.Sale.Problems = []api.SaleProblem{{
		Kind: "shards_stalled", Level: "warn", Subject: "shards", Where: "0-63", Since: noon.Add(2 * time.Minute),
		Message: "shards stall: the store does not answer for them, or leaves the result open", Error: "no answer from the region server of sales",
	}}
	l.Unready = "stalled: shards 0-63 of 64 since 2026-11-11T12:02:00Z: no answer from the region server of sales"
}

func away(l *State) {
	l.Unready = "standby: no process is known to own shards 0-20 of 64"
	l.Sale = &api.Sale{SaleSummary: api.SaleSummary{Sale: "movie-tickets", UID: l.Sale.UID, Outcome: api.Standby}, Known: l.Sale.Known}
	l.Sale.Processes[1].Up, l.Sale.Processes[1].Shards = false, nil
	for i := range 21 {
		l.Sale.Shards[i] = api.Shard{Shard: i, State: api.ShardUnknown}
	}
}

func moves(l *State) {
	for i := 0; i < 12; i += 3 {
		l.Sale.Shards[i].State = api.ShardMoving
		l.Sale.Moves = append(l.Sale.Moves, api.Move{Shard: i, From: l.Sale.Shards[i].Owner, To: "10.0.0.9:8080", Stage: "follows"})
	}
	l.Sale.Shards[40].Busy = true
}

func held(l *State) {
	l.Sale.Held = min(l.Sale.Sold, 4321)
	l.Sale.Sold -= l.Sale.Held
	for i := range l.Sale.Shards {
		l.Sale.Shards[i].Held = l.Sale.Shards[i].Sold / 4
		l.Sale.Shards[i].Sold -= l.Sale.Shards[i].Held
	}
	l.Sale.Holds = &api.Holds{Open: 4321, NextRelease: noon.Add(8 * time.Minute), Confirmed: 20391, Expired: 214, Cancelled: 31, Refunded: 4, RefundsDue: 3}
	l.Sale.PaymentCheck = &api.PaymentCheck{Watched: 120}
}

func drawn(l *State) {
	l.Sale.Draw = &draw.Status{Published: draw.Published{Substitutes: 500, Winners: l.Sale.Stock}, Entries: 3 * l.Sale.Sold}
	for i := range l.Sale.Shards {
		l.Sale.Shards[i].State, l.Sale.Shards[i].Entries = api.ShardDrawing, 3*l.Sale.Shards[i].Sold
		l.Sale.Shards[i].Available, l.Sale.Shards[i].Sold = l.Sale.Shards[i].Available+l.Sale.Shards[i].Sold, 0
	}
	l.Sale.Available, l.Sale.Sold, l.Sale.SoldOut, l.Sale.ClosesAt = l.Sale.Stock, 0, false, noon.Add(20*time.Minute)
	l.Answers = map[api.Outcome]uint64{api.Entered: uint64(l.Sale.Draw.Entries), api.Replayed: l.Answers[api.Replayed]}
}

func packets(l *State) {
	l.Sale.Packets = &api.Packets{Currency: "CNY", Total: "100000.00"}
	l.Sale.Lists = &api.Lists{On: 62, Off: 2, Undrained: 1840}
}

var owners = []string{"10.0.0.7:8080", "10.0.0.8:8080", "10.0.0.9:8080"}

// scenes are sales that a page is to show well.
var scenes = map[string]func() *stage{
	"one-shard": func() *stage { return play("movie-tickets", 150, crowd(20_000, 1, owners[0])) },
	"selling":   func() *stage { return play("movie-tickets", 150, but(crowd(50_000, 64, owners...), 120, moves)) },
	"thousand":  func() *stage { return play("movie-tickets", 300, crowd(1_024_000, 1024, owners...)) },
	"sold-out":  func() *stage { return play("movie-tickets", 300, crowd(32_000, 64, owners...)) },
	"no-quorum": func() *stage { return play("movie-tickets", 150, but(crowd(64_000, 64, owners...), 100, noQuorum)) },
	"ledger-down": func() *stage {
		return play("movie-tickets", 150, but(crowd(64_000, 64, owners...), 120, ledgerDown))
	},
	"not-known": func() *stage { return play("movie-tickets", 150, but(crowd(64_000, 64, owners...), 120, away)) },
	"holds":     func() *stage { return play("movie-tickets", 150, but(crowd(64_000, 5, owners[0]), 0, held)) },
	"draw":      func() *stage { return play("movie-tickets", 150, but(crowd(40_000, 8, owners[0]), 0, drawn)) },
	"packets":   func() *stage { return play("movie-tickets", 150, but(crowd(64_000, 64, owners...), 0, packets)) },
	"scheduled": func() *stage { return play("movie-tickets", 20, crowd(64_000, 5, owners[0])) },
}
