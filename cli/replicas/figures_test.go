package replicas

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"salectl/api"
)

// wantFigures reports whether figures are wanted: `make replicas` says so. They go by wall
// time, on a machine that does nothing else.
var wantFigures = os.Getenv("SALECTL_FIGURES") != ""

func figures(t *testing.T) {
	t.Helper()
	if !wantFigures {
		t.Skip("make replicas measures this")
	}
}

// processor is the time that processes have taken of the processors, user and system.
func processor(t testing.TB, pids ...int) (sum time.Duration) {
	t.Helper()
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Skip(err)
		}
		_, rest, _ := strings.Cut(string(text), ") ") // behind the program's name
		fields := strings.Fields(rest)
		for _, n := range []int{11, 12} { // utime and stime
			ticks, err := strconv.ParseInt(fields[n], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += time.Duration(ticks) * time.Second / 100
		}
	}
	return sum
}

// processor is the time that all processes of the sale have taken.
func (s *sale) processor() time.Duration {
	s.Helper()
	var pids []int
	for _, r := range s.alive() {
		pids = append(pids, r.cmd.Process.Pid)
	}
	return processor(s, pids...)
}

// TestFiguresOfAClaim prints what a claim costs one process and three, at the same rate,
// by clients that know nothing and by the client that learns who decides, and what it costs
// one process that gets as many as each of the three: in turns, round after round.
func TestFiguresOfAClaim(t *testing.T) {
	figures(t)
	for _, where := range []struct {
		name  string
		store store
		rate  int
	}{{"embedded", embedded, 1000}, {"embedded", embedded, 4000}, {"HBase", cluster, 1000}, {"HBase", cluster, 4000}} {
		t.Run(fmt.Sprint(where.name, "-", where.rate), func(t *testing.T) { cost(t, where.store, where.rate) })
	}
}

func cost(t *testing.T, where store, rate int) {
	const rounds, span = 5, 4 * time.Second
	o := terms{stock: 10_000_000, shards: 12, ttl: 3 * time.Second}
	var sales [2]*sale
	for i, n := range []int{1, 3} {
		sales[i] = applyAs(t, fmt.Sprint("cost-", rate, "-", n), where, o)
		for range n {
			sales[i].add()
		}
		sales[i].settled()
	}
	kinds := []struct {
		name    string
		of      int
		over    string
		follows bool
		rate    int
	}{
		{"one process, HTTP/1.1", 0, "http", false, rate},
		{"three, clients that know nothing", 1, "http", false, rate},
		{"three, clients that learn", 1, "http", true, rate},
		{"one, a third of the claims", 0, "http", false, rate / 3},
		{"one process, streams", 0, "stream", false, rate},
		{"three, streams that know nothing", 1, "stream", false, rate},
		{"three, streams that learn", 1, "stream", true, rate},
		{"one, a third of the claims", 0, "stream", false, rate / 3},
	}
	each := len(kinds) / 2 // of HTTP/1.1 and of streams, the first of which the others are held against
	costs, ratios := make([][]float64, len(kinds)), make([][]float64, len(kinds))
	waits := make([][]time.Duration, len(kinds))
	for round := range rounds {
		for i, k := range kinds {
			s := sales[k.of]
			c := s.comeAs(&crowd{over: k.over, rate: k.rate, once: true, follows: k.follows, name: fmt.Sprint(round, "-", i, "-")})
			time.Sleep(time.Second / 2) // warm up: what is measured is a rate over time
			answered, spent := len(c.answered()), s.processor()
			began := time.Now()
			time.Sleep(span)
			n, used := len(c.answered())-answered, s.processor()-spent
			ended := time.Now()
			c.leave()
			if failed, what := c.failed(); failed > 0 {
				t.Errorf("%s: %d claims failed:\n%s", k.name, failed, what)
			}
			costs[i] = append(costs[i], float64(used.Microseconds())/float64(n))
			ratios[i] = append(ratios[i], costs[i][round]/costs[i/each*each][round])
			waits[i] = append(waits[i], c.waits(began, ended, nil)...)
		}
	}
	for i, k := range kinds {
		slices.Sort(costs[i])
		slices.Sort(ratios[i])
		slices.Sort(waits[i])
		t.Logf("%-34s %4.0f µs of processor a claim (%.0f to %.0f), %.2f of one process's (%.2f to %.2f); %s", k.name,
			costs[i][rounds/2], costs[i][0], costs[i][rounds-1], ratios[i][rounds/2], ratios[i][0], ratios[i][rounds-1], summary(waits[i]))
	}
}

// TestFiguresOfRestarts prints how long claims wait while processes are started anew, ten
// times each.
func TestFiguresOfRestarts(t *testing.T) {
	figures(t)
	t.Run("embedded", func(t *testing.T) { rolling(t, embedded, 10, 200, 3*time.Second) })
	t.Run("HBase", func(t *testing.T) { rolling(t, cluster, 10, 200, 3*time.Second) })
}

// TestFiguresOfAKill prints how long the share of a process that is killed is away, and
// what the others' users notice.
func TestFiguresOfAKill(t *testing.T) {
	figures(t)
	for name, where := range map[string]store{"embedded": embedded, "HBase": cluster} {
		t.Run(name, func(t *testing.T) {
			back, before, after := kill(t, where, 400)
			if back > killTTL+time.Second {
				t.Errorf("its share was back after %v, want at most %v", back, killTTL+time.Second)
			}
			if after > 2*before {
				t.Errorf("p99 of the others was %v and is %v", before, after)
			}
		})
	}
}

// TestFiguresOfATakeover prints how soon each shard of a process that is killed sells again,
// counted from the end of its leases, after 1,000,000 claims.
func TestFiguresOfATakeover(t *testing.T) {
	figures(t)
	for name, where := range map[string]store{"embedded": embedded, "HBase": cluster} {
		t.Run(name, func(t *testing.T) {
			for range 3 {
				takeover(t, where)
			}
		})
	}
}

func takeover(t *testing.T, where store) {
	const claims, shards = 1_000_000, 12
	s := applyAs(t, fmt.Sprint("takeover-", time.Now().UnixMilli()), where, terms{stock: 2 * claims, shards: shards, ttl: killTTL})
	dies, stays := s.add(), s.add()
	dies.ready()
	stays.ready()
	s.settled()
	var clients []*api.Client
	for _, r := range s.all {
		client, err := api.NewClient(api.Config{
			Servers: []string{s.url(r.listen)}, Sale: s.name, Transport: s.transport, Stream: true,
			Attempted: func(api.Attempt) bool { return false }, // the pause before it asks again would count
		})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		clients = append(clients, client)
	}
	sold := func(client *api.Client, user string) bool {
		a, err := client.Claim(t.Context(), api.Request{User: user, Quantity: 1, Key: "key"})
		return err == nil && a.Outcome == api.Sold
	}
	var next, lost atomic.Int64
	var all sync.WaitGroup
	for i := range 2000 {
		all.Go(func() {
			for n := next.Add(1); n <= claims; n = next.Add(1) {
				if !sold(clients[i%len(clients)], fmt.Sprint("user-", n)) {
					lost.Add(1)
				}
			}
		})
	}
	all.Wait()
	if lost.Load() > 0 {
		t.Errorf("%d claims were not sold", lost.Load())
	}
	its := dies.shards()
	dies.kill()
	ends := s.leasesEnd(its)
	ctx, end := context.WithTimeout(t.Context(), patience)
	defer end()
	var mu sync.Mutex
	var back []time.Duration
	for i := range its {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if user := fmt.Sprint("late-", i, "-", n); homeShard(user, shards) == i && sold(clients[1], user) {
					mu.Lock()
					defer mu.Unlock()
					back = append(back, time.Since(ends))
					return
				}
			}
			t.Errorf("shard %d sells to nobody", i)
		})
	}
	all.Wait()
	back = sorted(back)
	t.Logf("the first of its %d shards sold again %v after the end of its leases, the last %v", len(its),
		back[0].Round(time.Millisecond), back[len(back)-1].Round(time.Millisecond))
	stays.stop()
}

// leasesEnd is when the last lease of some shards ends.
func (s *sale) leasesEnd(of map[int]bool) (ends time.Time) {
	s.Helper()
	var status struct {
		Shards []struct{ LeaseLeftSeconds float64 }
	}
	if err := json.Unmarshal([]byte(s.well("status", "--json")), &status); err != nil {
		s.Fatal(err)
	}
	now := time.Now()
	for i := range of {
		if at := now.Add(time.Duration(status.Shards[i].LeaseLeftSeconds * float64(time.Second))); at.After(ends) {
			ends = at
		}
	}
	return ends
}
