package executor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"salectl/api"
	"salectl/executor/saletest"
	"salectl/internal/services"
	"salectl/internal/wait"
	"salectl/spec"
)

// TestListsNodeHangs stops one of three servers. Who is at home there is told that
// it does not answer, or that nobody knows; all others buy on. When it goes on,
// everybody gets what it gave, or what they have not got yet.
func TestListsNodeHangs(t *testing.T) {
	eachAck(t, func(t *testing.T, ack spec.Ack) {
		t.Parallel()
		s := newListSite(t, ack, 3, always, spec.Shares(900, 6)...)
		p := s.serve()
		c := newCrowd(t, s, p.Do)
		c.race(10, func() {
			c.at(5, func() { mustDo(t, s.servers[1].Pause()) })
			before := c.count(api.NoQuorum) + c.count(api.Unknown)
			c.await("refused", func() bool { return c.count(api.NoQuorum)+c.count(api.Unknown) > before+5 })
			var calm sync.WaitGroup
			for i, hung, others := 0, 0, 0; hung < 5 || others < 5; i++ {
				user := fmt.Sprint("calm-", i)
				node := spec.ListNode(spec.HomeShard(user, 6), 3)
				if node == 1 {
					hung++
				} else {
					others++
				}
				calm.Go(func() {
					if node != 1 {
						if a := c.one(user, "key"); a.Outcome != api.Sold {
							t.Errorf("%s of node %d: %+v", user, node, a)
						}
						return
					}
					ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
					defer cancel()
					a := p.Do(ctx, Request{User: user, Key: "key", Quantity: 1})
					if a.Outcome != api.NoQuorum && a.Outcome != api.Unknown && a.Outcome != api.Standby {
						t.Errorf("%s of the node that hangs: %+v", user, a)
					}
					if ctx.Err() != nil {
						t.Errorf("at a node that hangs it took %v to say %s", wait.Limit, a.Outcome)
					}
				})
			}
			calm.Wait()
			const says = "lock nodes: shards 1,4 of 6"
			c.await("not ready: "+says, func() bool { return strings.Contains(fmt.Sprint(p.Ready()), says) })
			mustDo(t, s.servers[1].Continue())
		})
		wait.UntilNil(t, "the process", p.Ready)
	})
}

// trouble is what an operator, or another program, may do to a server. While it
// lasts, a shard whose list is there sells nothing.
type trouble struct {
	says   string // in what Ready says
	strike func(testing.TB, *services.Redis)
	mend   func(testing.TB, *services.Redis)
	lossy  bool // what only the server knew is gone
}

// commands are what an operator says to a server.
func commands(strike, mend string) trouble {
	say := func(command string) func(testing.TB, *services.Redis) {
		return func(t testing.TB, r *services.Redis) {
			var args []any
			for _, word := range strings.Fields(command) {
				args = append(args, word)
			}
			tell(t, r, args...)
		}
	}
	return trouble{strike: say(strike), mend: say(mend)}
}

// foreign is another program that puts something else in the place of a key. We
// touch nothing that is not ours: it is for the operator to delete it.
func foreign(key string) trouble {
	c := commands("SET "+key+" foreign", "DEL "+key)
	c.says, c.lossy = "another program stores other data under a key of salectl", true
	return c
}

func troubles() map[string]trouble {
	full, replica := commands("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"), commands("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE")
	replica.says = "replica"
	full.says = "it has reached maxmemory"
	return map[string]trouble{
		"full": full, "replica": replica,
		"foreign list": foreign(spec.ListKey(saletest.UID, 0)), "foreign taken": foreign(spec.TakenKey(saletest.UID, 0)),
		"foreign stream": foreign(spec.StreamKey(saletest.UID, 0)), "foreign marker": foreign(spec.FillKey(saletest.UID, 0)),
	}
}

// TestListsTroubles has one of three servers refuse to do its work in the middle of
// a race. Its shards sell nothing meanwhile, and Ready tells, with the reason. When
// the trouble is over the sale goes on by itself, and nothing is lost that was not
// deleted.
func TestListsTroubles(t *testing.T) {
	for name, trouble := range troubles() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachAck(t, func(t *testing.T, ack spec.Ack) {
				t.Parallel()
				s := newListSite(t, ack, 3, always, spec.Shares(480, 6)...)
				p := s.serve()
				c := newCrowd(t, s, p.Do)
				c.lossy = trouble.lossy && ack == spec.AckRedis
				c.race(40, func() {
					before := 0
					c.at(20, func() {
						before = c.count(api.Unknown)
						trouble.strike(t, s.servers[0])
					})
					c.await("unknown what it gave", func() bool { return c.count(api.Unknown) > before+10 })
					c.await("not ready: "+trouble.says, func() bool { return strings.Contains(fmt.Sprint(p.Ready()), trouble.says) })
					c.claims(0, func(user string, a Answer) {
						if a.Accepted() {
							t.Errorf("%s, at home in a shard that cannot sell: %+v", user, a)
						}
					})
					trouble.mend(t, s.servers[0])
				})
				wait.UntilNil(t, "the process", p.Ready)
			})
		})
	}
}

// claims asks once for a few users who are at home in a shard.
func (c *crowd) claims(shard int, look func(user string, a Answer)) {
	var all sync.WaitGroup
	for i, n := 0, 0; n < 3; i++ {
		user := fmt.Sprint("home-", i)
		if spec.HomeShard(user, c.s.sale.LockCount) != shard {
			continue
		}
		n++
		all.Go(func() {
			a := c.claim(c.t.Context(), Request{User: user, Key: "key", Quantity: 1})
			c.mu.Lock()
			c.heard(user, a)
			c.mu.Unlock()
			look(user, a)
		})
	}
	all.Wait()
}

// TestListsScriptsFlushed takes the scripts out of the servers' caches all the time.
func TestListsScriptsFlushed(t *testing.T) {
	eachAck(t, func(t *testing.T, ack spec.Ack) {
		t.Parallel()
		s := newListSite(t, ack, 2, always, spec.Shares(480, 4)...)
		p := s.serve()
		c := newCrowd(t, s, p.Do)
		c.patient = true
		c.race(40, func() {
			for percent := int64(5); percent < 95; percent += 5 {
				c.at(percent, func() {
					for _, r := range s.servers {
						tell(t, r, "SCRIPT", "FLUSH")
					}
				})
			}
		})
		if n := c.count(api.Unknown); n > 40 { // for whom the machine was too slow
			t.Errorf("%d were told unknown", n)
		}
	})
}
