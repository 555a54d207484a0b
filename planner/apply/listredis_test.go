package apply_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"salectl/backends"
	"salectl/backends/clock"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/internal/services"
	"salectl/internal/wait"
	"salectl/planner"
	"salectl/planner/apply"
	"salectl/planner/current"
	"salectl/planner/machine"
	"salectl/spec"
)

// redisWorld is a red packet on two real servers that sync what they are told,
// with its ledger in files, and buyers who keep what they were told.
type redisWorld struct {
	*testing.T
	servers []*services.Redis
	sale    spec.Sale
	cfg     apply.Config

	mu   sync.Mutex // guards told and n: there is a buyer for each shard
	told map[string]int64
	n    int
}

func newRedisWorld(t *testing.T) *redisWorld {
	w := &redisWorld{T: t, told: make(map[string]int64)}
	w.sale = spec.Sale{
		Name: "red", Run: 1, Stock: 100_000, LockCount: 3, PerUserLimit: 1, LockTTL: spec.Duration(3 * time.Second),
		Engine: spec.EngineRedis, Ack: spec.AckRedis, Backlog: 1000,
		RedPacket: &spec.RedPacket{Currency: "CNY", Scale: 2, Total: 10_000_000, Min: 1, Split: spec.SplitRandom},
		Redis:     &spec.Redis{}, Embedded: &spec.Embedded{Dir: filepath.Join(t.TempDir(), "store")},
	}
	for range 2 {
		server, err := services.StartRedis(t.Context(), services.RedisOptions{
			Dir: t.TempDir(), Args: []string{"--appendonly", "yes", "--appendfsync", "always"},
		})
		services.Require(t, err)
		t.Cleanup(server.Stop)
		w.servers = append(w.servers, server)
		w.sale.Redis.Nodes = append(w.sale.Redis.Nodes, server.Addr())
	}
	store, err := backends.Open(w.sale, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	w.cfg = apply.Config{
		Backends: machine.Backends{
			Logs: store.Logs, Nodes: store.Nodes, Lists: store.Lists, Clock: clock.System(),
			Rand: rand.Reader, Patience: 30 * time.Second,
		},
		Options: apply.Options{Who: "tester@host"},
	}
	return w
}

// run makes a plan and carries it out, as a new process would.
func (w *redisWorld) run(ctx context.Context, plan func(*planner.Actual) (*planner.Plan, error)) error {
	cfg := w.cfg
	cfg.Writer = make([]byte, 8)
	rand.Read(cfg.Writer)
	actual, err := current.Read(ctx, cfg.Backends, w.sale.Name)
	if err != nil {
		return err
	}
	p, err := plan(actual)
	if err == nil {
		_, err = apply.Run(ctx, cfg, p)
	}
	return err
}

func (w *redisWorld) apply(a *planner.Actual) (*planner.Plan, error) { return planner.Make(w.sale, a) }

func phase(to pb.Phase) func(*planner.Actual) (*planner.Plan, error) {
	return func(a *planner.Actual) (*planner.Plan, error) { return planner.MakePhase(a, to) }
}

// buy has new users grab from a shard's list, whatever becomes of its node.
func (w *redisWorld) buy(ctx context.Context, uid string, shard int) {
	node := w.cfg.Lists[spec.ListNode(shard, 2)]
	l := lists.List{UID: uid, Shard: shard}
	pace := time.NewTicker(time.Millisecond)
	defer pace.Stop()
	for ctx.Err() == nil {
		<-pace.C
		state, err := node.Inspect(ctx, l)
		if err != nil || !state.On {
			continue
		}
		b := lists.Batch{List: l, Fill: state.Fill, At: time.Now().UnixMicro()}
		w.mu.Lock()
		for len(b.Users) < 3 {
			w.n++
			if user := fmt.Sprint("user-", w.n); spec.HomeShard(user, 3) == shard {
				b.Users, b.Keys = append(b.Users, user), append(b.Keys, "key")
			}
		}
		w.mu.Unlock()
		given, err := node.Grab(ctx, []lists.Batch{b})
		if err != nil {
			continue
		}
		w.mu.Lock()
		for i, u := range given[0].Units {
			if u.Number > 0 {
				w.told[b.Users[i]] = u.Number
			}
		}
		w.mu.Unlock()
	}
}

// Commands that are interrupted and run again, on servers that are killed and come
// back from their files, while buyers grab: all that those were told is in the
// export, and each packet once.
func TestListsOnServersThatAreKilled(t *testing.T) {
	w := newRedisWorld(t)
	if err := w.run(t.Context(), w.apply); err != nil {
		t.Fatal(err)
	}
	actual, err := current.Read(t.Context(), w.cfg.Backends, "red")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var buyers sync.WaitGroup
	for shard := range 3 {
		buyers.Go(func() { w.buy(ctx, actual.Sale.UID(), shard) })
	}
	for round := range 6 {
		w.wantTold((round + 1) * 100)
		job := phase([]pb.Phase{pb.Phase_PAUSED, pb.Phase_OPEN}[round%2])
		short, cancel := context.WithTimeout(t.Context(), time.Duration(1+7*round)*time.Millisecond)
		done := make(chan error, 1)
		go func() { done <- w.run(short, job) }()
		server := w.servers[round/2%2]
		if err := errors.Join(server.Kill(), server.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		t.Logf("round %d: the first run: %v", round, <-done)
		cancel()
		if err := w.run(t.Context(), job); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if round%2 == 0 {
			if err := w.run(t.Context(), phase(pb.Phase_OPEN)); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop()
	buyers.Wait()
	w.destroy()
}

// wantTold waits until so many more users were told of a packet.
func (w *redisWorld) wantTold(n int) {
	w.Helper()
	wait.Until(w, fmt.Sprint(n, " users to have a packet"), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.told) >= n
	})
}

// destroy checks the export against what buyers were told.
func (w *redisWorld) destroy() {
	w.Helper()
	actual, err := current.Read(w.Context(), w.cfg.Backends, "red")
	if err != nil {
		w.Fatal(err)
	}
	plan, err := planner.MakeDestroy(actual)
	if err != nil {
		w.Fatal(err)
	}
	w.cfg.Writer = []byte("destroys")
	path := filepath.Join(w.TempDir(), "export.ndjson")
	result, err := apply.Destroy(w.Context(), w.cfg, plan, path)
	if err != nil {
		w.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		w.Fatal(err)
	}
	header, shards, err := apply.ReadExport(content)
	if err != nil {
		w.Fatal(err)
	}
	for user, unit := range w.told {
		c, _ := shards[spec.HomeShard(user, 3)].Newest(user, 9)
		if len(c) != 1 || !slices.Equal(c[0].Units, []int64{unit}) {
			w.Fatalf("%s was told of packet %d, the ledger has %+v", user, unit, c)
		}
	}
	w.Logf("%d users were told of a packet, %d have one; given back: %+v", len(w.told), header.Counts.Sold, result.Refund)
	if result.Refund == nil || result.Refund.Granted != header.Counts.Sold || result.Refund.Packets+header.Counts.Sold != w.sale.Stock {
		w.Errorf("the refund is %+v, and %d packets are sold", result.Refund, header.Counts.Sold)
	}
}
