package executor

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"salectl/api"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/quorum"
	"salectl/rules"
	"salectl/spec"
)

// usersOf returns users whose claims a process decides.
func (c *cluster) usersOf(m *clusterProcess, n int) (users []string) {
	c.t.Helper()
	for i := 0; len(users) < n; i++ {
		user := fmt.Sprint("user-", i)
		if m.owns(spec.HomeShard(user, c.sale.LockCount)) {
			users = append(users, user)
		}
	}
	return users
}

// owns reports whether the process owns a shard, or is about to.
func (m *clusterProcess) owns(shard int) bool { return m.PlaceOf(shard).Owner == m.Me().Address }

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

// TestGivenUpWhileRulesAreRead has a client go away while the owner of the shard reads what it knows of
// the client: the claim is not granted once the store has answered.
func TestGivenUpWhileRulesAreRead(t *testing.T) {
	var users slowUsers
	inClusterAs(t, quorum.DefaultTTL, []int64{50, 50}, func(c *cluster, settings *pb.Settings) {
		c.sale.Users = &spec.Users{Attributes: []spec.Attribute{{Name: "level", Type: spec.TypeInt}}, File: "users.csv", Fresh: spec.Duration(time.Minute), Cached: 10}
		c.sale.Rules = []spec.Rule{{Name: "level", Require: "user.level > 1", Enforce: spec.EnforceDeny}}
		hash, _ := rules.HashFor(c.sale)
		settings.Rules = hash[:]
		users = slowUsers{asked: make(chan string), ready: make(chan struct{}, 1)}
		c.users = func(_ spec.Sale, schema *rules.Schema) (rules.Users, func() error, error) {
			of := users
			of.schema = schema
			return &of, func() error { return nil }, nil
		}
	}, func(c *cluster) {
		a, b := c.start("a", nil), c.start("b", nil)
		defer b.stop()
		defer a.stop()
		shared(a, b)
		user := c.usersOf(b, 1)[0]
		claim := func() Answer {
			ctx, cancel := context.WithTimeout(c.t.Context(), 200*time.Millisecond)
			defer cancel()
			return a.Do(ctx, Request{User: user, Key: "key", Quantity: 1})
		}
		under := make(chan Answer, 1)
		go func() { under <- claim() }()
		<-users.asked
		if got := <-under; got.Outcome != api.Unknown {
			c.t.Errorf("who gives up while another process may decide gets %+v", got)
		}
		time.Sleep(50 * time.Millisecond) // the owner is notified
		users.ready <- struct{}{}
		time.Sleep(50 * time.Millisecond)
		if claims, _, why := lookupUser(c.t.Context(), b, user, api.Page{}); why != "" || len(claims) > 0 {
			c.t.Errorf("who went away has %d claims (%s)", len(claims), why)
		}
	})
}
