package examples

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	"salectl/executor"
	"salectl/internal/services"
	"salectl/internal/wait"
	"salectl/planner"
	"salectl/planner/apply"
	"salectl/planner/current"
	"salectl/planner/machine"
	"salectl/spec"
)

// luck is a red packet that is raced for in this process, on real servers.
type luck struct {
	t     *testing.T
	sale  spec.Sale
	store *backends.Store
	users []atomic.Int64 // by unit: the user who received it, from 1; 0: nobody
	money atomic.Int64   // that users received, in minor units
	count [3]atomic.Int64
}

// The final answer to a user.
const (
	gotOne = iota
	hadOne
	tooLate
)

// newLuck applies a red packet of so many, on a Redis that syncs each grant.
func newLuck(t *testing.T, ack spec.Ack, packets int64) *luck {
	t.Helper()
	node, err := services.StartRedis(t.Context(), services.RedisOptions{
		Dir: t.TempDir(), Args: []string{"--appendonly", "yes", "--appendfsync", "always"},
	})
	services.Require(t, err)
	t.Cleanup(node.Stop)
	l := &luck{t: t, users: make([]atomic.Int64, packets+1), sale: spec.Sale{
		Name: "luck", Run: 1, Stock: packets, LockCount: 8, PerUserLimit: 1, LockTTL: spec.Duration(10 * time.Second),
		Engine: spec.EngineRedis, Ack: ack, Backlog: spec.DefaultBacklog,
		RedPacket: &spec.RedPacket{Currency: "CNY", Scale: 2, Total: 77 * packets, Min: 1, Split: spec.SplitRandom},
		Redis:     &spec.Redis{Nodes: []string{node.Addr()}},
		Embedded:  &spec.Embedded{Dir: filepath.Join(t.TempDir(), "ledger")},
	}}
	if l.store, err = backends.Open(l.sale, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.store.Close() })
	actual, err := current.Read(t.Context(), l.planning().Backends, l.sale.Name)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := planner.Make(l.sale, actual)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := apply.Run(t.Context(), l.planning(), plan); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *luck) planning() apply.Config {
	writer := make([]byte, 8)
	rand.Read(writer) // never fails
	return apply.Config{
		Backends: machine.Backends{Logs: l.store.Logs, Nodes: l.store.Nodes, Lists: l.store.Lists, Clock: clock.System(), Rand: rand.Reader},
		Options:  apply.Options{Writer: writer, Who: "test@here"},
	}
}

// race lets users in, 2,000 at a time, each of whom repeats a claim until there is an answer
// that will not change. Every tenth claims once more, with another key. It ends
// when the ledger has all that was given.
func (l *luck) race(users int64) {
	l.t.Helper()
	e := executor.New(executor.Config{
		Logs: l.store.Logs, Nodes: l.store.Nodes, Lists: l.store.Lists, Sale: l.sale.Name, Address: "here:1",
	})
	ctx, stop := context.WithCancel(context.WithoutCancel(l.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			l.t.Error(err)
		}
	}()
	wait.UntilNil(l.t, "the sale to be served", e.Ready)
	began := time.Now()
	var next atomic.Int64
	var all sync.WaitGroup
	for range 2000 {
		all.Go(func() {
			for i := next.Add(1); i <= users; i = next.Add(1) {
				l.grab(e, i, "first")
				if i%10 == 0 {
					l.grab(e, i, "second")
				}
				// Who is refused from memory never waits. Without this 2,000 of them have
				// the processors for 10 ms each in turn, and renewals of leases wait.
				runtime.Gosched()
			}
		})
	}
	all.Wait()
	l.t.Logf("%d users in %v: %d got a packet, %d had one, %d came too late", users, time.Since(began).Round(time.Millisecond),
		l.count[gotOne].Load(), l.count[hadOne].Load(), l.count[tooLate].Load())
}

func (l *luck) grab(e *executor.Executor, user int64, key string) {
	var a executor.Answer
	_ = wait.Poll(wait.Limit, func() error {
		a = e.Do(l.t.Context(), executor.Request{User: fmt.Sprint("user-", user), Key: key, Quantity: 1})
		return undecided(a.Outcome)
	})
	switch a.Outcome {
	case api.Sold:
		unit := a.Claim.Units[0]
		if !l.users[unit].CompareAndSwap(0, user) {
			l.t.Errorf("packet %d was given to the users %d and %d", unit, l.users[unit].Load(), user)
		}
		l.money.Add(a.Claim.Packets.Amount(unit))
		l.count[gotOne].Add(1)
	case api.LimitReached:
		if len(a.Claims) != 1 || l.users[a.Claims[0].Units[0]].Load() != user {
			l.t.Errorf("user %d receives the claims %+v", user, a.Claims)
		}
		l.count[hadOne].Add(1)
	case api.SoldOut:
		l.count[tooLate].Add(1)
	default:
		l.t.Errorf("user %d: %+v", user, a)
	}
}

// accounted compares the answers to users with the ledger: every one of them has
// that packet there, and nobody else has any.
func (l *luck) accounted() {
	l.t.Helper()
	audit, err := audit.Run(l.t.Context(), l.store.Logs, l.sale.Name, ledger.NewState, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	got := l.count[gotOne].Load()
	if p := audit.Packets; !audit.OK || audit.Sold != got || audit.Users != got || p == nil ||
		p.Taken != got || p.Granted != l.sale.RedPacket.Format(l.money.Load()) {
		l.t.Errorf("users received %d packets of %s; the audit has %+v, %+v", got, l.sale.RedPacket.Format(l.money.Load()), audit, audit.Packets)
	}
	sale := ledger.NewSale(spec.SaleLog(l.sale.Name))
	_, err = ledger.Load(l.t.Context(), l.store.Logs, spec.SaleLog(l.sale.Name), sale)
	shards, loadErr := ledger.LoadShards(l.t.Context(), l.store.Logs, sale)
	if err := errors.Join(err, loadErr); err != nil {
		l.t.Fatal(err)
	}
	claims := int64(0)
	for _, s := range shards {
		for i := range s.Claims() {
			c := s.Claim(i)
			claims++
			if unit := c.Units[0]; fmt.Sprint("user-", l.users[unit].Load()) != c.User || len(c.Units) != 1 {
				l.t.Errorf("the ledger gives the packets %v to %s; user %d received it", c.Units, c.User, l.users[unit].Load())
			}
		}
	}
	if claims != got {
		l.t.Errorf("the ledger has %d claims, and users received %d", claims, got)
	}
}

// refunded destroys the sale and returns what nobody took.
func (l *luck) refunded() *planner.Refund {
	l.t.Helper()
	actual, err := current.ReadSale(l.t.Context(), l.planning().Backends, l.sale.Name)
	if err != nil {
		l.t.Fatal(err)
	}
	plan, err := planner.MakeDestroy(actual)
	if err != nil {
		l.t.Fatal(err)
	}
	result, err := apply.Destroy(l.t.Context(), l.planning(), plan, filepath.Join(l.t.TempDir(), "end.ndjson"))
	if err != nil {
		l.t.Fatal(err)
	}
	return result.Refund
}

// TestRedPacketRace has a million users race for a hundred thousand packets: each
// packet once, each user at most once, the sum exact, and all of it in the ledger.
func TestRedPacketRace(t *testing.T) {
	users, packets := int64(1_000_000), int64(100_000)
	if testing.Short() {
		users, packets = users/20, packets/20
	}
	for _, ack := range []spec.Ack{spec.AckLedger, spec.AckRedis} {
		t.Run(string(ack), func(t *testing.T) {
			l := newLuck(t, ack, packets)
			l.race(users)
			if l.count[gotOne].Load() != packets || l.money.Load() != l.sale.RedPacket.Total {
				t.Errorf("%d packets of %s were given, of %d of %s", l.count[gotOne].Load(),
					l.sale.RedPacket.Format(l.money.Load()), packets, l.sale.RedPacket.Format(l.sale.RedPacket.Total))
			}
			if all := l.count[gotOne].Load() + l.count[hadOne].Load() + l.count[tooLate].Load(); all != users+users/10 {
				t.Errorf("%d answers to %d requests", all, users+users/10)
			}
			l.accounted()
		})
	}
}

// TestRedPacketRefund ends a race before all packets are taken: what is given back
// is what nobody received, to the cent.
func TestRedPacketRefund(t *testing.T) {
	const users, packets = 12_345, 20_000
	for _, ack := range []spec.Ack{spec.AckLedger, spec.AckRedis} {
		t.Run(string(ack), func(t *testing.T) {
			t.Parallel()
			l := newLuck(t, ack, packets)
			l.race(users)
			if l.count[gotOne].Load() != users || l.count[hadOne].Load() != users/10 {
				t.Errorf("%d users got a packet, and %d of them claimed again", l.count[gotOne].Load(), l.count[hadOne].Load())
			}
			l.accounted()
			red, money := l.sale.RedPacket, l.money.Load()
			want := planner.Refund{
				Packets: packets - users, Amount: red.Format(red.Total - money), Currency: "CNY",
				Granted: users, GrantedAmount: red.Format(money), Total: red.Format(red.Total),
			}
			if got := l.refunded(); got == nil || *got != want {
				t.Errorf("the refund is %+v, want %+v", got, want)
			}
		})
	}
}
