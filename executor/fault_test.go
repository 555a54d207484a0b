package executor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"salectl/api"
	"salectl/backends/quorum"
	"salectl/executor/saletest"
	"salectl/executor/shard"
	"salectl/executor/status"
	"salectl/spec"
)

// homes returns the first buyers whose home is a shard.
func (c *cluster) homes(shard, n int) (users []string) {
	for i := 0; len(users) < n; i++ {
		if user := fmt.Sprint("buyer-", i); spec.HomeShard(user, c.sale.LockCount) == shard {
			users = append(users, user)
		}
	}
	return users
}

// TestLockNodesFail takes lock nodes away from a process that serves: two of five
// are not noticed by buyers, a third ends the sale within a ttl, and its return
// brings the sale back by itself.
func TestLockNodesFail(t *testing.T) {
	for _, ttl := range []time.Duration{quorum.MinTTL, quorum.DefaultTTL, quorum.MaxTTL} {
		t.Run(ttl.String(), func(t *testing.T) {
			inCluster(t, ttl, []int64{500, 500}, func(c *cluster) {
				m := c.serve("first", nil)
				defer m.stop()
				users := c.homes(0, 500)
				next := func() (user string) { user, users = users[0], users[1:]; return user }
				c.nodes[1].Hang()
				c.nodes[3].Hang()
				for range 100 {
					m.sells(next())
					time.Sleep(ttl / 30)
				}
				if m.log.count("a lock node cannot be used") != 2 || m.log.count("stopping") != 0 || m.metric("salectl_node_up", "node3") != 0 {
					t.Errorf("after two of five died:\n%s", m.log)
				}
				c.nodes[4].Hang()
				gone := m.within(ttl, "without quorum", func() bool { return m.claim("late").Outcome == api.NoQuorum })
				for range 100 {
					if a := m.claim(next()); a.Outcome != api.NoQuorum {
						t.Fatalf("without a majority a claim gets %+v", a)
					}
					time.Sleep(ttl / 30)
				}
				if why := fmt.Sprint(m.Ready()); !strings.HasPrefix(why, "lock nodes: ") || !strings.Contains(why, "node1 is down since 2") {
					t.Errorf("ready: %s", why)
				}
				c.nodes[4].Resume()
				back := m.within(ttl+time.Second, "back", func() bool { return m.Ready() == nil })
				m.sells(next())
				t.Logf("ended after %v, back after %v", gone, back)
				for name, want := range map[[2]string]func(float64) bool{
					{"salectl_leases_lost_total", ""}:             func(n float64) bool { return n == 2 },
					{"salectl_lock_tries_total", "won"}:           func(n float64) bool { return n >= 2 },
					{"salectl_lock_votes_total", "yes"}:           func(n float64) bool { return n >= 6 },
					{"salectl_lock_votes_total", "failed"}:        func(n float64) bool { return n >= 3 },
					{"salectl_lock_renewals_total", ""}:           func(n float64) bool { return n >= 5 },
					{"salectl_lock_errors_total", "timeoutnode3"}: func(n float64) bool { return n >= 3 },
					{"salectl_lock_acquire_seconds_total", ""}:    func(n float64) bool { return n > 0 },
					{"salectl_lock_forced_releases_total", ""}:    func(n float64) bool { return n == 0 },
				} {
					if n := m.metric(name[0], name[1]); !want(n) {
						t.Errorf("%s %s is %v", name[0], name[1], n)
					}
				}
				nodes := m.Status().Nodes
				if len(nodes) != 5 || nodes[1].Up || nodes[1].Error == "" || !nodes[4].Up || nodes[4].Since.Before(nodes[1].Since) {
					t.Errorf("status: %+v", nodes)
				}
				c.nodes[1].Resume()
				m.within(ttl+time.Second, "told", func() bool { return m.log.count("a lock node can be used again") == 2 })
				c.nodes[3].Resume()
				saletest.Audited(t, c.logs, c.sale.Name)
			})
		})
	}
}

// TestLockNodesForget restarts three of five nodes empty. They abstain until
// whatever they have promised is over, and the sale waits for that long.
func TestLockNodesForget(t *testing.T) {
	inCluster(t, quorum.DefaultTTL, []int64{50}, func(c *cluster) {
		m := c.serve("first", nil)
		defer m.stop()
		m.sells("ann")
		for _, n := range c.nodes[:3] {
			n.RestartEmpty()
		}
		m.within(quorum.DefaultTTL, "without quorum", func() bool { return m.claim("bob").Outcome == api.NoQuorum })
		began := time.Now()
		m.within(time.Second, "told", func() bool { return m.log.count("has lost its memory") == 3 })
		if m.metric("salectl_node_abstaining", "node0") != 1 || m.metric("salectl_node_up", "node0") != 1 {
			t.Error("the metrics do not know that node0 abstains")
		}
		if why := fmt.Sprint(m.Ready()); !strings.Contains(why, "node0 lost its memory and votes again at 2") {
			t.Errorf("ready: %s", why)
		}
		for m.Ready() != nil && time.Since(began) < 20*time.Second {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(began); took < quorum.MaxTTL-quorum.DefaultTTL/3 || took > quorum.MaxTTL+2*time.Second {
			t.Errorf("back after %v", took)
		}
		m.sells("bob")
	})
}

// TestLockNodesCannotVote lets the lock nodes answer every release, and no vote: their
// disks are full. That is what readiness says, and not that another process serves.
func TestLockNodesCannotVote(t *testing.T) {
	inCluster(t, quorum.DefaultTTL, []int64{50}, func(c *cluster) {
		m := c.serve("first", nil)
		defer m.stop()
		m.sells("ann")
		full := errors.New("locks.db: the disk is full")
		for _, n := range m.nodes[:3] {
			n.fails.Store(&full)
		}
		m.within(2*quorum.DefaultTTL, "without quorum", func() bool { return m.claim("bob").Outcome == api.NoQuorum })
		for range 100 {
			if why := fmt.Sprint(m.Ready()); !strings.HasPrefix(why, "lock nodes: ") || !strings.Contains(why, "the disk is full") {
				t.Fatalf("ready: %s", why)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if m.log.count("a lock node can be used again") > 0 {
			t.Errorf("who answers no vote answers again:\n%s", m.log)
		}
		for _, n := range m.nodes {
			n.fails.Store(nil)
		}
		m.within(2*quorum.DefaultTTL, "ready", func() bool { return m.Ready() == nil })
		m.sells("bob")
	})
}

// TestTheOthersTakeOver has one of two processes that share a sale die, come back, and the
// other end.
func TestTheOthersTakeOver(t *testing.T) {
	for _, ttl := range []time.Duration{quorum.MinTTL, quorum.DefaultTTL, quorum.MaxTTL} {
		t.Run(ttl.String(), func(t *testing.T) {
			inCluster(t, ttl, []int64{50, 50}, func(c *cluster) {
				first := c.serve("first", nil)
				second := c.start("second", nil)
				shared(first, second)
				users := append(c.homes(0, 4), c.homes(1, 4)...)
				for i, user := range users[:2] { // each of them has a shard, and sells for the other
					[]*clusterProcess{first, second}[i].sells(user)
				}
				first.sells(users[4])
				second.sells(users[5])
				time.Sleep(2 * ttl)
				first.cut()
				sells := func(m *clusterProcess, user string) func() bool {
					return func() bool { return m.claim(user).Outcome == api.Sold }
				}
				took := second.within(ttl+time.Second, "selling", func() bool { return sells(second, users[2])() && sells(second, users[6])() })
				t.Logf("took over after %v", took)
				for _, user := range []string{users[0], users[1], users[4], users[5]} {
					if a := second.claim(user); a.Outcome != api.Sold || !a.Replayed {
						t.Errorf("%s, asked again: %+v", user, a)
					}
				}
				second.within(time.Second, "ready", func() bool { return second.Ready() == nil })

				// The first comes back: what it is asked for meanwhile it does not accept.
				if a := first.claim(users[3]); a.Accepted() {
					t.Errorf("cut off, the first process says %+v", a)
				}
				first.heal()
				first.within(ttl+time.Second, "selling", sells(first, users[3]))
				shared(first, second)
				second.stop()
				took = first.within(time.Second, "ready", func() bool { return first.Ready() == nil })
				t.Logf("took over from a drain after %v", took)
				first.sells(users[7])
				first.stop()
				if a := saletest.Audited(t, c.logs, c.sale.Name); a.Sold != 8 {
					t.Errorf("audit: %+v", a)
				}
			})
		})
	}
}

// TestStoreHangs stops the store for 20 s. Claims wait or are refused, nothing is
// decided, the leases stay, and it goes on by itself.
func TestStoreHangs(t *testing.T) {
	inCluster(t, quorum.DefaultTTL, []int64{50, 50}, func(c *cluster) {
		first, second := c.serve("first", nil), c.start("second", nil)
		defer first.stop()
		defer second.stop()
		shared(first, second)
		first.sells("ann")
		first.within(2*time.Second, "told", func() bool { return first.log.count("owned=1 of=2 members=2") == 1 })
		owned := first.log.count("this process owns")
		first.store.all.close()
		second.store.all.close()
		began := time.Now()
		waiting := first.later("bob")
		time.Sleep(time.Second)
		queued := first.later("bea")
		if a := <-waiting; a.Outcome != api.Unknown || a.RetryAfter == 0 {
			t.Errorf("a claim under way: %+v", a)
		}
		if a := <-queued; a.Accepted() {
			t.Errorf("a claim behind it: %+v", a)
		}
		for time.Since(began) < 20*time.Second {
			for _, m := range []*clusterProcess{first, second} {
				if a := m.claim("carl"); a.Outcome != api.NoQuorum && a.Outcome != api.Standby || a.RetryAfter == 0 {
					t.Fatalf("after %v: %+v", time.Since(began), a)
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		if why := fmt.Sprint(first.Ready()); !strings.Contains(why, "the sale's log cannot be read: ") {
			t.Errorf("ready: %s", why)
		}
		first.store.all.open()
		second.store.all.open()
		took := first.within(2*time.Second, "selling", func() bool { return first.claim("carl").Outcome == api.Sold })
		t.Logf("goes on after %v", took)
		first.within(2*time.Second, "ready", func() bool { return first.Ready() == nil })
		if a := first.claim("bob"); a.Outcome != api.Sold || !a.Replayed {
			t.Errorf("what was in doubt, asked again: %+v", a)
		}
		// Which of the two has the shards of those who waited is not known.
		both := func(text string) int { return first.log.count(text) + second.log.count(text) }
		first.within(2*time.Second, "told", func() bool { return both("shards continue") >= 1 })
		if first.log.count("this process owns") != owned || both("shards stall") < 1 {
			t.Errorf("their logs:\n%s\n%s", first.log, second.log)
		}
	})
}

// TestOneShardHangs has the store not answer for one log: the others sell.
func TestOneShardHangs(t *testing.T) {
	inCluster(t, quorum.DefaultTTL, []int64{50, 50, 50}, func(c *cluster) {
		c.log = spec.ShardLog(saletest.UID, 1, 3)
		m := c.serve("first", nil)
		defer m.stop()
		m.store.one.close()
		theirs, others := c.homes(1, 8), append(c.homes(0, 20), c.homes(2, 20)...)
		inDoubt := m.later(theirs[0])
		time.Sleep(time.Second)
		patient := m.later(theirs[1]) // waits behind it
		for range 20 {
			m.sells(others[0])
			others = others[1:]
			time.Sleep(150 * time.Millisecond)
		}
		if a := m.claim(theirs[2]); a.Outcome != api.NoQuorum {
			t.Errorf("a new claim on a shard that stalls: %+v", a)
		}
		st := m.Status()
		if len(st.Shards) != 3 || st.Shards[0].Stall != nil || st.Shards[1].Stall == nil || !strings.Contains(st.Shards[1].Stall.Error, "deadline") {
			t.Errorf("status: %+v", st.Shards)
		}
		if why := fmt.Sprint(m.Ready()); !strings.HasPrefix(why, "ledger: shards 1 of 3 are stalled since 2") {
			t.Errorf("ready: %s", why)
		}
		if p := st.Problems; len(p) != 1 || p[0].Kind != status.Stalled || !slices.Equal(p[0].Shards, []int{1}) ||
			!p[0].Since.Equal(st.Shards[1].Stall.Since) || p[0].Why != st.Shards[1].Stall.Error {
			t.Errorf("problems: %+v", p)
		}
		if m.metric("salectl_stalled_shards", "") != 1 || m.metric("salectl_problems", "shards_stalled") != 1 || m.metric("salectl_problems", "node_down") != 0 || m.metric("salectl_appends_total", "unknown") == 0 || m.metric("salectl_vote_seconds", "node0") == 0 {
			t.Error("the metrics do not know of the stall")
		}
		m.store.one.open()
		if a := <-inDoubt; a.Outcome != api.Sold {
			t.Errorf("the claim in doubt: %+v", a)
		}
		if a := <-patient; a.Outcome != api.Sold {
			t.Errorf("a claim that had waited: %+v", a)
		}
		m.within(2*time.Second, "ready", func() bool { return m.Ready() == nil })
		m.sells(theirs[2])
		m.within(2*time.Second, "told", func() bool { return m.log.count("shards continue") == 1 })
		if n, problems := m.metric("salectl_stalled_shards", ""), m.metric("salectl_problems", "shards_stalled"); n != 0 || problems != 0 {
			t.Errorf("%v shards stall, and %v have the problem", n, problems)
		}
	})
}

// TestQueueOfAStall lets no more wait for a shard that stalls than may.
func TestQueueOfAStall(t *testing.T) {
	inCluster(t, quorum.DefaultTTL, []int64{500}, func(c *cluster) {
		c.queue = 50
		c.log = spec.ShardLog(saletest.UID, 0, 1)
		m := c.serve("first", nil)
		defer m.stop()
		m.store.one.close()
		users := c.homes(0, 300)
		answers := []<-chan Answer{m.later(users[0])}
		synctest.Wait()
		for _, user := range users[1:200] {
			answers = append(answers, m.later(user))
		}
		synctest.Wait()
		if n := m.metric("salectl_queue_depth", ""); n != 50 {
			t.Errorf("%v wait", n)
		}
		time.Sleep(shard.StallAfter + time.Second)
		for _, user := range users[200:] {
			if a := m.claim(user); a.Outcome != api.NoQuorum {
				t.Fatalf("while the shard stalls: %+v", a)
			}
		}
		m.store.one.open()
		count := make(map[api.Outcome]int)
		for _, answer := range answers {
			a := <-answer
			count[a.Outcome]++
			if a.Outcome == api.Overloaded && a.RetryAfter == 0 {
				t.Error("who is turned away is not told when to come back")
			}
		}
		if count[api.Sold] != 50 || count[api.Overloaded] != 150 {
			t.Errorf("outcomes %v", count)
		}
	})
}

// TestStoreAwayForLong ends the session after a minute, not before, and begins
// others until the store is there again. A claim whose outcome was not known gets
// the same answer from the serving process then.
func TestStoreAwayForLong(t *testing.T) {
	inCluster(t, quorum.DefaultTTL, []int64{50, 50}, func(c *cluster) {
		first := c.serve("first", nil)
		second := c.start("second", nil)
		defer first.stop()
		defer second.stop()
		shared(first, second)
		waiting := first.later("ann")
		<-waiting
		before := first.ended() + second.ended()
		first.store.all.close()
		second.store.all.close()
		waiting = first.later("bob")
		if a := <-waiting; a.Outcome != api.Unknown || a.RetryAfter == 0 {
			t.Errorf("in doubt: %+v", a)
		}
		time.Sleep(50 * time.Second)
		if first.ended()+second.ended() != before {
			t.Fatalf("given up within a minute:\n%s", first.log)
		}
		time.Sleep(70 * time.Second)
		if first.ended()+second.ended() < before+2 {
			t.Fatalf("not given up after two minutes:\n%s", first.log)
		}
		first.store.all.open()
		second.store.all.open()
		serving := func() *clusterProcess {
			for _, m := range []*clusterProcess{first, second} {
				if m.Ready() == nil {
					return m
				}
			}
			return nil
		}
		first.within(10*time.Second, "served again", func() bool { return serving() != nil })
		m := serving()
		was := m.claim("bob")
		if again := m.claim("bob"); was.Outcome != api.Sold || again.Claim.ID != was.Claim.ID {
			t.Errorf("asked again: %+v, then %+v", was, again)
		}
		m.sells("carl")
	})
}

// TestTakeoverStalls has a log that cannot be read when a session begins: the other
// shards sell, and who claims on this one does not wait in vain.
func TestTakeoverStalls(t *testing.T) {
	inCluster(t, quorum.DefaultTTL, []int64{50, 50}, func(c *cluster) {
		c.log = spec.ShardLog(saletest.UID, 1, 2)
		m := c.start("first", nil)
		defer m.stop()
		m.store.one.close()
		others, theirs := c.homes(0, 1), c.homes(1, 1)
		m.within(10*time.Second, "selling", func() bool { return m.claim(others[0]).Outcome == api.Sold })
		time.Sleep(2 * shard.StallAfter)
		if a := m.claim(theirs[0]); a.Outcome != api.NoQuorum {
			t.Errorf("a claim on the shard: %+v", a)
		}
		if why := fmt.Sprint(m.Ready()); !strings.HasPrefix(why, "ledger: shards 1 of 2 are stalled since 2") {
			t.Errorf("ready: %s", why)
		}
		m.store.one.open()
		m.within(2*time.Second, "ready", func() bool { return m.Ready() == nil })
		m.sells(theirs...)
	})
}

// TestTakeoverReadsSomeAtATime begins to serve many shards without reading all of
// their logs at once.
func TestTakeoverReadsSomeAtATime(t *testing.T) {
	inCluster(t, quorum.DefaultTTL, slices.Repeat([]int64{1}, 3*loadAtOnce), func(c *cluster) {
		m := c.serve("first", nil)
		defer m.stop()
		// The sale's log is read meanwhile.
		if n := m.store.mostReads.Load(); n < loadAtOnce || n > loadAtOnce+1 {
			t.Errorf("%d reads at once", n)
		}
	})
}
