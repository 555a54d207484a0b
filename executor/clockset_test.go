package executor

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/embedded"
	"salectl/internal/wait"
)

// TestClockThatWasSet sets the clock of the one host that a sale is on. Nothing is
// decided by a clock that nobody vouches for, by a process that serves or one that
// begins to; when it is right again, or trusted, the sale goes on.
func TestClockThatWasSet(t *testing.T) {
	synctest.Test(t, clockThatWasSet)
}

func clockThatWasSet(t *testing.T) {
	var off atomic.Int64
	began := time.Now()
	said := new(lines)
	says := func(text string) func() bool { return func() bool { return strings.Contains(said.String(), text) } }
	wrong := func(now time.Time) time.Time { return now.Add(time.Duration(off.Load())) }
	host := embedded.Host{
		Wall:   func() time.Time { return wrong(time.Now()) },
		Booted: func() (string, time.Duration) { return "boot", time.Hour + time.Since(began) },
	}
	s := newSite(t, host, 100, 100)
	serve := func() *siteProcess {
		return s.process(func(c *Config) {
			right := clock.System()
			c.Logger = slog.New(slog.NewTextHandler(said, nil))
			c.Clock = func() clock.Now {
				now := right()
				now.Wall = wrong(now.Wall)
				return now
			}
		})
	}
	sells := func(p *siteProcess) bool {
		return p.Do(t.Context(), Request{User: "ann", Quantity: 1}).Outcome == api.Sold
	}
	refuses := func(p *siteProcess) bool {
		err := p.Ready()
		return err != nil && strings.Contains(err.Error(), "clock") && p.Do(t.Context(), Request{User: "bob", Quantity: 1}).Outcome == api.NoQuorum
	}

	p := serve()
	wait.Until(t, "the process sells", func() bool { return sells(p) })
	off.Store(int64(61*time.Minute + 30*time.Second))
	wait.Until(t, "the process refuses claims by a wrong clock", func() bool { return refuses(p) })
	wait.Until(t, "the log has the line", says(`level=WARN msg="this host's clock differs from the lock nodes' clocks: no claim is accepted until it is right" sale=site why="it is ahead by 1h1m`)) // and some seconds: it is measured
	off.Store(0)
	wait.Until(t, "the process sells", func() bool { return sells(p) })
	wait.Until(t, "the log has the line", says(`level=INFO msg="this host's clock agrees with the lock nodes' again"`))
	off.Store(int64(-61 * time.Minute))
	wait.Until(t, "the process refuses claims by a wrong clock", func() bool { return refuses(p) })
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}

	p = serve()
	wait.Until(t, "the process refuses claims by a wrong clock", func() bool { return refuses(p) })
	_, node := s.handles()
	if err := node.(*embedded.Node).TrustClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the process sells", func() bool { return sells(p) })
}
