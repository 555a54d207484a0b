package examples

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"salectl/api"
)

// The tests share a database, and some set traps in it, so they run one after the other.
func TestOrders(t *testing.T) {
	t.Run("killed", ordersKilled)
	t.Run("one-transaction", ordersInOneTransaction)
	t.Run("commit-under-way", ordersCommitUnderWay)
	t.Run("two-consumers", ordersOfTwoConsumers)
	t.Run("older-table", ordersInAnOlderTable)
	t.Run("states", ordersOfEveryState)
	t.Run("packets", ordersOfPackets)
	t.Run("draw", ordersOfDraw)
}

// The consumer is killed 20 times, and PostgreSQL once, while a crowd buys: in the end the table
// has each claim once, as the export has it.
func ordersKilled(t *testing.T) {
	const lives = 20
	claims := 20_000
	if os.Getenv("SALECTL_FIGURES") != "" {
		claims = 100_000
	}
	s := newShop(t, "killed", claims)
	_, err := ordersProgram()
	s.check(err)
	share := claims / (lives + 1)
	position := "SELECT position FROM feed_position WHERE sale = 'killed'"
	var bought sync.WaitGroup
	began, start, wrote := time.Now(), time.Duration(0), 0
	for life := range lives {
		bought.Wait()
		from := life * share
		if life == 0 { // the first consumer makes the tables, and may write all that there is
			from = share / 2
			s.crowd(0, from)
			s.begun()
		}
		bought.Go(func() { s.crowd(from, (life+1)*share) })
		before, lived := s.query(position), time.Now()
		c := s.consumer()
		writes := func() { s.eventually("the consumer to write", func() bool { return s.query(position) != before }) }
		if life == 0 {
			writes()
			start = time.Since(lived)
		}
		if life == lives/2 {
			writes()
			pause(50 * time.Millisecond)
			s.check(s.db.Kill())
			if err := c.Wait(); err == nil {
				t.Error("the consumer did not mind that PostgreSQL was killed")
			}
			s.check(s.db.Start(t.Context()))
			c = s.consumer()
		}
		if life%2 == 0 { // while it writes, or at any moment
			writes()
			pause(50 * time.Millisecond)
		} else {
			pause(2 * start)
		}
		kill(c)
		if s.query(position) != before {
			wrote++
		}
	}
	bought.Go(func() { s.crowd(lives*share, claims) })
	last := s.consumer()
	bought.Wait()
	made := time.Since(began)
	s.same(claims)
	t.Logf("%d of the %d consumers that were killed had written something", wrote, lives)
	t.Logf("%d claims of which the crowd made the last after %v, and the table had all after %v", claims, made.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	each := claims / len(ends)
	if got, want := s.query("SELECT state, count(*) FROM orders WHERE {sale} GROUP BY state ORDER BY state"),
		fmt.Sprintf("cancelled|%d\nheld|%[1]d\nrefunded|%[1]d\nsold|%d", each, 2*each); got != want {
		t.Errorf("the table has these states:\n%s\nwant\n%s", got, want)
	}
	s.check(last.Process.Signal(syscall.SIGTERM))
	if err := last.Wait(); err != nil {
		t.Errorf("signalled to end, the consumer ended with %v:\n%s", err, s.output())
	}
}

// Where the position cannot be written there are no orders; and where orders cannot be written,
// or not be committed, the position has not moved, so that they come later.
func ordersInOneTransaction(t *testing.T) {
	s := newShop(t, "one-transaction", 100)
	s.begun()
	s.crowd(0, 10)
	for table, code := range map[string]string{
		"orders": "RAISE 'the disk is full'",
		// Positions before the first claim are written.
		"feed_position": "IF EXISTS (SELECT FROM orders WHERE run LIKE '%/one-transaction/%') THEN RAISE 'the disk is full'; END IF",
	} {
		for _, when := range []string{"IMMEDIATE", "DEFERRED"} {
			spring := s.trap(table, when, code)
			if err := s.consumer().Wait(); err == nil || !strings.Contains(s.output(), "the disk is full") {
				t.Errorf("%s, %s: the consumer ended with %v:\n%s", table, when, err, s.output())
			}
			if got := s.query("SELECT count(*) FROM orders WHERE {sale}"); got != "0" {
				t.Errorf("nobody can write %s (%s), and there are %s orders", table, when, got)
			}
			spring()
			s.check(s.log.Truncate(0))
		}
	}
	s.consumer()
	s.same(10)
}

// A consumer is killed while PostgreSQL commits what it has written: the next one waits for that,
// and goes on behind it.
func ordersCommitUnderWay(t *testing.T) {
	s := newShop(t, "commit-under-way", 100)
	s.begun()
	s.trap("orders", "DEFERRED", "PERFORM pg_advisory_xact_lock(42)")
	s.crowd(0, 1)
	holder := "SELECT pg_advisory_lock(42), pg_sleep(600)"
	held := make(chan error, 1)
	go func() { _, err := s.db.Query(context.Background(), holder); held <- err }()
	s.eventually("the lock to be held", func() bool {
		return s.answers("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'", "1")
	})
	waiting := func(n string) {
		s.t.Helper()
		s.eventually(n+" to wait", func() bool {
			return s.answers("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'", n)
		})
	}
	first := s.consumer()
	waiting("1")
	kill(first)
	second := s.consumer()
	waiting("2")
	s.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
	if err := <-held; err == nil {
		t.Error("the lock was held to its end")
	}
	s.crowd(1, 10)
	s.same(10)
	s.check(second.Process.Signal(syscall.SIGTERM))
	if err := second.Wait(); err != nil {
		t.Errorf("the second consumer ended with %v:\n%s", err, s.output())
	}
}

// Of two consumers one ends. The other goes on to the end of the sale. Its position is none in
// another ledger, whose orders come beside those that are there.
func ordersOfTwoConsumers(t *testing.T) {
	s := newShop(t, "two-consumers", 1000)
	s.begun()
	ended := make(chan error, 2)
	for range 2 {
		c := s.consumer()
		go func() { ended <- c.Wait() }()
	}
	users := 0
	s.eventually("one of them to end", func() bool {
		users++
		s.settle(s.buy(fmt.Sprint("user-", users)), api.Confirm, "pay") // the sale cannot end with open holds
		return len(ended) > 0
	})
	if err := <-ended; err == nil || !strings.Contains(s.output(), "another consumer writes the orders of two-consumers") {
		t.Errorf("it ended with %v:\n%s", err, s.output())
	}
	all := fmt.Sprint(users)
	s.same(users)

	s.salectl("destroy", "--yes")
	if err := <-ended; err != nil {
		t.Errorf("at the end of the sale it ended with %v:\n%s", err, s.output())
	}
	s.check(s.log.Truncate(0))
	const begin = "DELETE FROM feed_position WHERE sale = 'two-consumers'"
	if err := s.consumer().Wait(); err != nil || !strings.Contains(s.output(), "the table has all of it") || !strings.Contains(s.output(), begin) {
		t.Errorf("after the end of the sale it ended with %v:\n%s", err, s.output())
	}

	s.check(s.log.Truncate(0))
	text, err := os.ReadFile(s.file())
	s.check(err)
	s.check(os.WriteFile(s.file(), bytes.Replace(text, []byte("dir: .salectl"), []byte("dir: another"), 1), 0o600))
	s.salectl("apply", "--yes")
	if err := s.consumer().Wait(); err == nil || !strings.Contains(s.output(), "the position is not of this sale's ledger") || !strings.Contains(s.output(), begin) {
		t.Errorf("in another ledger it ended with %v:\n%s", err, s.output())
	}
	s.query(begin)
	s.begun()
	if got := s.query("SELECT count(*) FROM orders WHERE {sale}"); got != all {
		t.Errorf("of the %s orders of the ledger before there are %s", all, got)
	}
}

// pause lasts for a random part of d: what comes next is to happen at any moment, which no state
// names.
func pause(d time.Duration) { time.Sleep(rand.N(d)) }
