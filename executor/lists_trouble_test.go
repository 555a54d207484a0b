package executor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"salectl/services"
	"salectl/spec"
)

// TestListsNodeHangs stops one of three servers. Who is at home there is told that
// it does not answer, or that nobody knows; all others buy on. When it goes on,
// everybody gets what it gave, or what they have not got yet.
func TestListsNodeHangs(t *testing.T) {
	eachAck(t, func(t *testing.T, ack spec.Ack) {
		t.Parallel()
		s := newListSite(t, ack, 3, always, spec.Shares(4800, 6)...)
		p := s.serve()
		c := newCrowd(t, s, p.Claim)
		c.pace = 50 * time.Millisecond // the others must not sell all they have
		c.race(40, func() {
			c.until(5)
			if err := s.servers[1].Pause(); err != nil {
				t.Fatal(err)
			}
			before := c.count(NoQuorum) + c.count(Unknown)
			c.await("refused", func() bool { return c.count(NoQuorum)+c.count(Unknown) > before+20 })
			hung, others := 0, 0
			for i := 0; hung < 5 || others < 5; i++ {
				user := fmt.Sprint("calm-", i)
				node := spec.ListNode(spec.HomeShard(user, 6), 3)
				switch began, a := time.Now(), p.claim(user, "key"); {
				case node != 1 && a.Outcome == Sold:
					others++
				case node == 1 && (a.Outcome == NoQuorum || a.Outcome == Unknown):
					if hung++; time.Since(began) > 20*time.Second {
						t.Errorf("at a node that hangs it took %v to say %s", time.Since(began), a.Outcome)
					}
				default:
					t.Errorf("%s of node %d: %+v", user, node, a)
					hung, others = hung+1, others+1
				}
			}
			if err := s.servers[1].Continue(); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// trouble is what an operator, or another program, may do to a server. While it
// lasts, a shard whose list is there sells nothing.
type trouble struct {
	says   string // in what Ready says; "": the lists count as on, since only grabs fail
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
	c.says, c.lossy = "another program keeps something else under a key of ours", true
	return c
}

func troubles() map[string]trouble {
	full, replica := commands("CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"), commands("REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE")
	replica.says = "replica"
	taken, stream := foreign(spec.TakenKey(testUID, 0)), foreign(spec.StreamKey(testUID, 0))
	taken.says, stream.says = "", ""
	return map[string]trouble{
		"full": full, "replica": replica,
		"foreign list": foreign(spec.ListKey(testUID, 0)), "foreign taken": taken,
		"foreign stream": stream, "foreign marker": foreign(spec.FillKey(testUID, 0)),
	}
}

// TestListsTroubles has one of three servers refuse to do its work in the middle of
// a race. Its shards sell nothing meanwhile; where a list cannot be drained or filled,
// Ready tells, with the reason. When the trouble is over the sale goes on by itself, and nothing is lost that was not
// deleted.
func TestListsTroubles(t *testing.T) {
	for name, trouble := range troubles() {
		t.Run(name, func(t *testing.T) {
			eachAck(t, func(t *testing.T, ack spec.Ack) {
				t.Parallel()
				if name == "foreign stream" && ack == spec.AckRedis {
					t.Skip("what was not drained is in no list and not in the ledger: only a rebuild brings those units back")
				}
				s := newListSite(t, ack, 3, always, spec.Shares(2400, 6)...)
				p := s.serve()
				c := newCrowd(t, s, p.Claim)
				c.lossy = trouble.lossy && ack == spec.AckRedis
				c.race(40, func() {
					c.until(20)
					trouble.strike(t, s.servers[0])
					before := c.count(Unknown)
					c.await("unknown what it gave", func() bool { return c.count(Unknown) > before+10 })
					if trouble.says != "" {
						c.await("not ready: "+trouble.says, func() bool { return strings.Contains(fmt.Sprint(p.Ready()), trouble.says) })
					}
					c.claims(0, func(user string, a Answer) {
						if a.Accepted() {
							t.Errorf("%s, at home in a shard that cannot sell: %+v", user, a)
						}
					})
					trouble.mend(t, s.servers[0])
				})
				waitFor(t, func() bool { return p.Ready() == nil })
			})
		})
	}
}

// claims asks once for a few users who are at home in a shard.
func (c *crowd) claims(shard int, look func(user string, a Answer)) {
	for i, n := 0, 0; n < 3; i++ {
		if user := fmt.Sprint("home-", i); spec.HomeShard(user, c.s.sale.LockCount) == shard {
			a := c.claim(c.t.Context(), Request{User: user, Key: "key", Quantity: 1})
			c.mu.Lock()
			c.heard(user, a)
			c.mu.Unlock()
			look(user, a)
			n++
		}
	}
}

// TestListsScriptsFlushed takes the scripts out of the servers' caches all the time.
func TestListsScriptsFlushed(t *testing.T) {
	eachAck(t, func(t *testing.T, ack spec.Ack) {
		t.Parallel()
		s := newListSite(t, ack, 2, always, spec.Shares(1200, 4)...)
		p := s.serve()
		c := newCrowd(t, s, p.Claim)
		c.race(40, func() {
			for percent := int64(5); percent < 95; percent += 5 {
				c.until(percent)
				for _, r := range s.servers {
					tell(t, r, "SCRIPT", "FLUSH")
				}
			}
		})
		if n := c.count(Unknown); n > 40 { // of callers without patience
			t.Errorf("%d were told unknown", n)
		}
	})
}
