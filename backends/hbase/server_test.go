package hbase

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"salectl/backends/ledger"
	"salectl/internal/services"
	"salectl/internal/wait"
)

// mustPause freezes the HBase of all tests; the test's end lets it go on.
func mustPause(t *testing.T, h *services.HBase) {
	t.Helper()
	if err := h.Pause(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Continue() })
}

func mustContinue(t *testing.T, h *services.HBase) {
	t.Helper()
	if err := h.Continue(); err != nil {
		t.Fatal(err)
	}
}

// TestKilled kills HBase in the middle of appends.
func TestKilled(t *testing.T) {
	h := mustStandalone(t)
	c := startCrowd(t, mustOpen(t), newPrefix(), 8, 2000)
	for range 2 {
		c.more(t, 50)
		if err := h.Kill(); err != nil {
			t.Fatal(err)
		}
		c.suffer(t)
		begin := time.Now()
		if err := h.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		started := time.Since(begin)
		t.Logf("it started within %v, and %v later all rows accepted writes", started, c.more(t, 20))
	}
	c.check(t, mustOpen(t))
}

// TestFrozen freezes HBase for longer than a connection is patient, and lets it
// go on.
func TestFrozen(t *testing.T) {
	h := mustStandalone(t)
	c := startCrowd(t, mustOpen(t), newPrefix(), 8, 2000)
	c.more(t, 50)
	mustPause(t, h)
	c.suffer(t)
	c.suffer(t)
	mustContinue(t, h)
	t.Logf("all rows accepted writes again after %v", c.more(t, 20))
	c.check(t, mustOpen(t))
}

// Every call returns soon after its context has ended, whatever state the
// servers and the connection are in, and nothing that it began stays behind.
func TestCallsEndWithTheirContext(t *testing.T) {
	h := mustStandalone(t)
	mustOpen(t) // the table is there
	leaks := goleak.IgnoreCurrent()
	used, unused := mustOpen(t), mustOpen(t)
	prefix := newPrefix()
	fill(t, used, prefix+"log", 1, 1) // now the region of this prefix is known
	const most, slack = 300 * time.Millisecond, 2 * time.Second
	inTime := func(name string, call func(context.Context) error) {
		ctx, cancel := context.WithTimeout(t.Context(), most)
		defer cancel()
		begin := time.Now()
		err := call(ctx)
		if after := time.Since(begin); after > most+slack {
			t.Errorf("%s returned after %v: %v", name, after, err)
		}
		if err == nil || errors.Is(err, ledger.ErrTaken) || errors.Is(err, ledger.ErrNoTable) || errors.Is(err, ledger.ErrTableUnfit) {
			t.Errorf("%s of a frozen server: %v", name, err)
		}
	}
	mustPause(t, h)
	var all sync.WaitGroup
	for i := range 20 { // the connection takes no more after some of these
		all.Go(func() {
			inTime("Append of 1 MB", func(ctx context.Context) error {
				return used.Append(ctx, fmt.Sprint(prefix, i), 0, nil, head(0), make([]byte, 1<<20))
			})
		})
	}
	all.Wait()
	for _, logs := range []*Logs{used, unused} {
		for name, call := range callsOf(logs) {
			inTime(name, call)
		}
	}
	// To close is a call, too.
	begin := time.Now()
	for _, logs := range []*Logs{used, unused} {
		if err := logs.Close(); err != nil {
			t.Error(err)
		}
	}
	if after := time.Since(begin); after > 2*slack {
		t.Errorf("both were closed after %v", after)
	}
	if err := goleak.Find(leaks); err != nil {
		t.Error(err)
	}
	mustContinue(t, h)
}

// While a server is frozen, callers come and go, and what they have begun goes
// with them.
func TestFrozenForLong(t *testing.T) {
	h := mustStandalone(t)
	logs := mustOpen(t)
	prefix := newPrefix()
	for i := range 64 {
		fill(t, logs, fmt.Sprintf("%02x/%s%d", i*4, prefix, i), 1, 100)
	}
	mustPause(t, h)
	before, most, calls := runtime.NumGoroutine(), 0, 0
	for range 40 { // some of which find that the connection is given up
		var all sync.WaitGroup
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		for i := range 64 {
			all.Go(func() {
				log := fmt.Sprintf("%02x/%s%d", i*4, prefix, i)
				if err := logs.Append(ctx, log, 1, head(0), head(1), []byte("x")); err == nil {
					t.Error("a frozen server has stored something")
				}
			})
		}
		all.Wait()
		cancel()
		calls += 64
		most = max(most, runtime.NumGoroutine()-before)
	}
	t.Logf("%d calls left at most %d goroutines at a time", calls, most)
	if most > 64*10 {
		t.Errorf("%d calls left %d goroutines", calls, most)
	}
	mustContinue(t, h)
	wait.UntilNil(t, "a head that was stored before", func() error {
		heads, err := logs.Heads(t.Context(), []string{"00/" + prefix + "0"})
		if err == nil && heads[0] == nil {
			err = errors.New("there is none")
		}
		return err
	})
}
