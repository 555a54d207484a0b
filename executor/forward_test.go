package executor

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"salectl/api"
	"salectl/backends/quorum"
	"salectl/executor/shard"
	"salectl/spec"
)

// usersOf returns users whose claims a process decides.
func (c *cluster) usersOf(m *clusterProcess, n int) (users []string) {
	c.t.Helper()
	for i := 0; len(users) < n; i++ {
		user := fmt.Sprint("user-", i)
		if m.session().local(spec.HomeShard(user, c.sale.LockCount)) != nil {
			users = append(users, user)
		}
	}
	return users
}

func (m *clusterProcess) session() *session { return m.serving.Load() }

// TestForwardedAndGivenUp has clients go away while the owner of their shard waits for its
// store, which another process has asked for them: a claim that is queued is not granted to
// somebody who has gone, and one that is being decided is answered from the log.
func TestForwardedAndGivenUp(t *testing.T) {
	for name, key := range map[string]string{"with a key": "key", "without": ""} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, quorum.DefaultTTL, []int64{50, 50}, func(c *cluster) {
				a, b := c.start("a", nil), c.start("b", nil)
				defer b.stop()
				defer a.stop()
				shared(a, b)
				users := c.usersOf(b, 3)
				claim := func(user string, d time.Duration) Answer {
					ctx, cancel := context.WithTimeout(c.t.Context(), d)
					defer cancel()
					return a.Do(ctx, Request{User: user, Key: key, Quantity: 1})
				}
				has := func(user string) int {
					claims, _, why := lookupUser(c.t.Context(), b, user, api.Page{})
					if why != "" {
						c.t.Fatalf("the claims of %s cannot be told: %s", user, why)
					}
					return len(claims)
				}

				b.store.all.close()
				under := make(chan Answer, 1)
				go func() { under <- claim(users[0], time.Minute) }()
				synctest.Wait()
				time.Sleep(50 * time.Millisecond) // it is being appended
				if got := claim(users[1], 200*time.Millisecond); got.Outcome != api.Unknown {
					c.t.Errorf("who gives up while another process may decide hears %+v", got)
				}
				time.Sleep(50 * time.Millisecond) // the owner hears of it
				b.store.all.open()
				if got := <-under; got.Outcome != api.Sold {
					c.t.Errorf("the claim that was being decided: %+v", got)
				}
				if got := claim(users[2], time.Minute); got.Outcome != api.Sold {
					c.t.Errorf("a claim behind the one that was given up: %+v", got)
				}
				if n := has(users[0]); n != 1 {
					c.t.Errorf("who waited has %d claims", n)
				}
				if n := has(users[1]); n != 0 {
					c.t.Errorf("who went away before the claim was looked at has %d claims", n)
				}
				if got := claim(users[1], time.Minute); got.Outcome != api.Sold || got.Replayed {
					c.t.Errorf("who comes back hears %+v", got)
				}
			})
		})
	}
}

// TestGivenUpBeforeQueued gives requests up before they are queued, and when they have their
// answer: only the first are withdrawn, once they wait.
func TestGivenUpBeforeQueued(t *testing.T) {
	v := new(inboundLinks).enter("peer", "")
	ticket := func() *shard.Ticket {
		return shard.NewTicket(new(sync.Pool), Request{User: "ann", Key: "key", Quantity: 1}, nil, 0)
	}
	v.begin(1)
	if v.giveUp(1) != nil {
		t.Error("what is not queued yet has a ticket")
	}
	if !v.queued(1, ticket()) {
		t.Error("it waits, though it was given up before")
	}
	v.begin(2)
	v.end(2)
	if v.queued(2, ticket()) || v.giveUp(2) != nil {
		t.Error("what has its answer is withdrawn")
	}
	v.begin(3)
	if third := ticket(); v.queued(3, third) || v.giveUp(3) != third || v.giveUp(3) != nil {
		t.Error("what waits is withdrawn once, when it is given up")
	}
}

// TestForwardedOfAnotherRun has a process ask for the run that it knows of, when the owner serves
// another one: nothing is decided or told for a run that was not asked for.
func TestForwardedOfAnotherRun(t *testing.T) {
	inCluster(t, quorum.DefaultTTL, []int64{50, 50}, func(c *cluster) {
		a, b := c.start("a", nil), c.start("b", nil)
		defer b.stop()
		defer a.stop()
		shared(a, b)
		user := c.usersOf(b, 1)[0]
		claim := func() Answer { return a.Do(c.t.Context(), Request{User: user, Key: "key", Quantity: 1}) }
		synctest.Wait()
		run := b.session().uid
		b.session().uid = "of the next run"
		if got := claim(); got.Accepted() || got.Outcome.Row().Retry != api.Again {
			c.t.Errorf("a claim of another run: %+v", got)
		}
		if claims, _, why := lookupUser(c.t.Context(), a, user, api.Page{}); why != api.Standby {
			c.t.Errorf("the claims of a user of another run: %v, %q", claims, why)
		}
		synctest.Wait()
		b.session().uid = run
		if claims, _, why := lookupUser(c.t.Context(), a, user, api.Page{}); len(claims) > 0 || why != "" {
			c.t.Errorf("after a claim of another run: %v, %q", claims, why)
		}
		if got := claim(); got.Outcome != api.Sold || got.Replayed {
			c.t.Errorf("a claim of the same run: %+v", got)
		}
	})
}
