package executor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/executor/saletest"
	"salectl/internal/wait"
	"salectl/spec"
)

// crowd is users who race for the units of lists while something befalls the
// servers or the processes. It remembers what each was told, and holds the sale to
// it in the end.
type crowd struct {
	t       testing.TB
	s       *listSite
	claim   func(context.Context, Request) Answer
	lossy   bool // the fault takes away what ack redis has promised
	stock   int64
	patient bool // all callers are

	all     sync.WaitGroup
	stopped bool // with mu

	mu       sync.Mutex
	changed  *sync.Cond          // queue, busy, bound, has or stopped
	bound    int64               // of units, at which nobody asks
	queue    []string            // who is still to ask
	busy     int                 // who asks
	has      map[string]Claim    // what each was told to have
	whose    map[int64]string    // the same, by unit
	outcomes map[api.Outcome]int // of all requests
	last     map[string]Answer   // of each user
}

// newCrowd is a crowd that asks one or more processes.
func newCrowd(t testing.TB, s *listSite, claim func(context.Context, Request) Answer) *crowd {
	c := &crowd{
		t: t, s: s, claim: claim, stock: s.sale.Stock,
		has: make(map[string]Claim), whose: make(map[int64]string),
		outcomes: make(map[api.Outcome]int), last: make(map[string]Answer),
	}
	c.changed = sync.NewCond(&c.mu)
	return c
}

// anyOf asks processes until one serves.
func anyOf(ps ...*siteProcess) func(context.Context, Request) Answer {
	return func(ctx context.Context, r Request) (a Answer) {
		for _, i := range rand.Perm(len(ps)) {
			switch a = ps[i].Do(ctx, r); a.Outcome {
			case api.Standby, api.Draining:
				continue
			}
			return a
		}
		return a
	}
}

// begin lets users ask, until each has an answer that is for good. A quarter come
// twice. Half of the callers have little patience. They stop when half of the stock is
// sold, until at or end is called.
func (c *crowd) begin(users, callers int) {
	c.bound = c.stock / 2
	for i := range users {
		c.queue = append(c.queue, fmt.Sprint("user-", i))
		if i%4 == 0 {
			c.queue = append(c.queue, fmt.Sprint("user-", i))
		}
	}
	rand.Shuffle(len(c.queue), func(i, j int) { c.queue[i], c.queue[j] = c.queue[j], c.queue[i] })
	for i := range callers {
		c.all.Go(func() {
			for {
				user, ok := c.take()
				if !ok {
					return
				}
				patience := 30 * time.Second
				if i%2 == 1 && !c.patient {
					patience = time.Duration(20+rand.IntN(300)) * time.Millisecond
				}
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				a := c.claim(ctx, Request{User: user, Key: "key", Quantity: 1})
				cancel()
				again := c.give(user, a)
				// Buyers pause. That is the load, and no state: without it callers who are
				// refused take the processors from the sale.
				most := 20 * time.Millisecond
				if again {
					most = 200 * time.Millisecond
				}
				time.Sleep(rand.N(most))
			}
		})
	}
	c.t.Cleanup(c.stop)
}

// take returns who asks next; false: nobody is left.
func (c *crowd) take() (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.stopped && (int64(len(c.has)) >= c.bound || len(c.queue) == 0 && c.busy > 0) {
		c.changed.Wait()
	}
	if c.stopped || len(c.queue) == 0 {
		return "", false
	}
	user := c.queue[0]
	c.queue = c.queue[1:]
	c.busy++
	return user, true
}

// give takes in what a user was told. Who may ask again does.
func (c *crowd) give(user string, a Answer) (again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy--
	c.heard(user, a)
	switch a.Outcome {
	case api.Sold, api.LimitReached, api.SoldOut, api.Closed:
	case api.NoneNow, api.NoQuorum, api.Unknown, api.Overloaded, api.Standby, api.Draining, api.Paused, api.NotOpen:
		c.queue = append(c.queue, user)
		again = true
	default:
		c.t.Errorf("%s: %+v", user, a)
	}
	c.changed.Broadcast()
	return again
}

// heard is give for somebody who is not in the queue. c.mu is held.
func (c *crowd) heard(user string, a Answer) {
	c.outcomes[a.Outcome]++
	c.last[user] = a
	if !a.Accepted() {
		return
	}
	unit := a.Claim.Units[0]
	if was, ok := c.has[user]; ok && was.Units[0] != unit && !c.lossy {
		c.t.Errorf("%s was told to have unit %d, and then unit %d", user, was.Units[0], unit)
	}
	if was, ok := c.whose[unit]; ok && was != user && !c.lossy {
		c.t.Errorf("%s and %s were told to have unit %d", was, user, unit)
	}
	c.has[user], c.whose[unit] = a.Claim, user
}

// told returns what the users were told to have so far.
func (c *crowd) told() map[string]Claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	told := make(map[string]Claim, len(c.has))
	for user, claim := range c.has {
		told[user] = claim
	}
	return told
}

func (c *crowd) sold() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(len(c.has))
}

// count returns how many requests came to an outcome.
func (c *crowd) count(o api.Outcome) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.outcomes[o]
}

// at does something when that share of the stock, in percent, was told to somebody, while
// buyers ask on. However late it is done, the crowd does not sell out before.
func (c *crowd) at(percent int64, do func()) {
	c.t.Helper()
	c.bounded(c.stock * (percent + 25) / 100)
	c.await(fmt.Sprintf("%d%% sold", percent), func() bool { return c.sold() >= c.stock*percent/100 })
	do()
	c.bounded(math.MaxInt64)
}

func (c *crowd) bounded(units int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bound = units
	c.changed.Broadcast()
}

// await waits for a state.
func (c *crowd) await(what string, ok func() bool) {
	c.t.Helper()
	wait.UntilNil(c.t, what, func() error {
		if ok() {
			return nil
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		return fmt.Errorf("outcomes %v, %d have units of %d, %d wait", c.outcomes, len(c.has), c.stock, len(c.queue)+c.busy)
	})
}

// end waits until everybody has an answer that is for good.
func (c *crowd) end() {
	c.t.Helper()
	c.bounded(math.MaxInt64)
	c.await("all answered", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.queue)+c.busy == 0
	})
	c.all.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t.Logf("outcomes %v", c.outcomes)
}

// stop ends the race before everybody has an answer.
func (c *crowd) stop() {
	c.mu.Lock()
	c.stopped = true
	c.changed.Broadcast()
	c.mu.Unlock()
	c.all.Wait()
}

// one asks for a user until the answer is for good.
func (c *crowd) one(user, key string) Answer { return finally(c.claim, user, key) }

// finally claims a unit again and again until the answer is for good.
func finally(claim func(context.Context, Request) Answer, user, key string) (a Answer) {
	_ = wait.Poll(wait.Limit, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		switch a = claim(ctx, Request{User: user, Key: key, Quantity: 1}); a.Outcome {
		case api.Sold, api.LimitReached, api.SoldOut, api.Closed:
			return nil
		}
		return errors.New(string(a.Outcome))
	})
	return a
}

// sellOut has new users buy what is left, if anything is, until they are told that
// all is sold.
func (c *crowd) sellOut() {
	c.t.Helper()
	var all sync.WaitGroup
	var next atomic.Int64
	for range 20 {
		all.Go(func() {
			for {
				user := fmt.Sprint("late-", next.Add(1))
				a := c.one(user, "key")
				c.mu.Lock()
				c.heard(user, a)
				c.mu.Unlock()
				if a.Outcome != api.Sold {
					if a.Outcome != api.SoldOut {
						c.t.Errorf("%s, who comes when it is over, gets %+v", user, a)
					}
					return
				}
			}
		})
	}
	all.Wait()
}

// askAgain asks for all who were told to have a unit: they are told the same.
func (c *crowd) askAgain() {
	c.t.Helper()
	told := c.told()
	users := make(chan string, len(told))
	for user := range told {
		users <- user
	}
	close(users)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for user := range users {
				was, again := told[user], c.one(user, "key")
				switch {
				case c.lossy && (again.Outcome == api.SoldOut || again.Outcome == api.Sold):
				case again.Outcome != api.Sold || !again.Replayed || again.Claim.ID != was.ID || !slices.Equal(again.Claim.Units, was.Units) || !again.Claim.At.Equal(was.At):
					c.t.Errorf("%s was told %+v, and then %+v", user, was, again)
				}
			}
		})
	}
	all.Wait()
}

// inLedger returns what each user has in the ledger, which must be one unit.
func (c *crowd) inLedger() map[string]ledger.Claim {
	c.t.Helper()
	has, whose := make(map[string]ledger.Claim), make(map[int64]string)
	shards := c.s.sale.LockCount
	for shard := range shards {
		state := saletest.LoadShard(c.t, c.s.logs, shard, shards)
		for i := range state.Claims() {
			claim := state.Claim(i)
			if was, twice := has[claim.User]; twice {
				c.t.Errorf("in the ledger %s has units %d and %d", claim.User, was.Units, claim.Units)
			}
			if spec.HomeShard(claim.User, shards) != shard {
				c.t.Errorf("%s has unit %d of shard %d, which is not theirs", claim.User, claim.Units, shard)
			}
			for _, unit := range claim.Units {
				if was, twice := whose[unit]; twice {
					c.t.Errorf("in the ledger %s and %s have unit %d", was, claim.User, unit)
				}
				whose[unit] = claim.User
			}
			has[claim.User] = claim
		}
	}
	return has
}

// kept checks that the ledger has all that was told before it is read. With ack
// ledger that holds at every moment.
func (c *crowd) kept() {
	c.t.Helper()
	told := c.told()
	in := c.inLedger()
	missing := 0
	for user, claim := range told {
		if got, ok := in[user]; !ok || !slices.Equal(got.Units, claim.Units) {
			if missing++; missing <= 5 {
				c.t.Errorf("%s was told to have unit %d, and the ledger has %+v", user, claim.Units, got.Units)
			}
		}
	}
	if missing > 5 {
		c.t.Errorf("the ledger lacks %d of %d that were told", missing, len(told))
	}
}

// watchLedger is kept whenever another twentieth of the stock was told to somebody, until
// the function returned is called. Only with ack ledger does it do anything.
func (c *crowd) watchLedger() (stop func()) {
	if c.s.sale.Ack != spec.AckLedger {
		return func() {}
	}
	over, ended := false, make(chan struct{}) // over with c.mu
	step := c.stock / 20
	go func() {
		defer close(ended)
		for checked := int64(0); ; checked = c.sold() {
			c.mu.Lock()
			for !over && int64(len(c.has)) < checked+step {
				c.changed.Wait()
			}
			last := over
			c.mu.Unlock()
			if c.kept(); last {
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		c.mu.Lock()
		over = true
		c.changed.Broadcast()
		c.mu.Unlock()
		<-ended
	})
}

// settle holds the sale to its promises when all is calm: the last units are sold
// by themselves, who asks again is told the same, and the ledger has it all.
func (c *crowd) settle() {
	c.t.Helper()
	c.sellOut()
	c.await("all in the ledger", func() bool { return int64(len(c.inLedger())) == c.stock })
	c.askAgain()
	if !c.lossy {
		c.kept()
	}
	a := saletest.Audited(c.t, c.s.logs, c.s.sale.Name)
	if a.Sold != c.stock || a.Users != c.stock || a.Available != 0 || a.InFlight != 0 {
		c.t.Errorf("audit: %+v, want all of %d sold", a, c.stock)
	}
}

// race is one whole race: users for all the units and a third more, in which
// strike does its worst.
func (c *crowd) race(callers int, strike func()) {
	c.t.Helper()
	stop := c.watchLedger()
	defer stop()
	c.begin(int(c.stock)*4/3, callers)
	strike()
	c.end()
	stop()
	c.settle()
}

// eachAck runs a test under each ack.
func eachAck(t *testing.T, test func(*testing.T, spec.Ack)) {
	for _, ack := range []spec.Ack{spec.AckLedger, spec.AckRedis} {
		t.Run(string(ack), func(t *testing.T) { test(t, ack) })
	}
}
