package executor

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/embedded"
	"salectl/backends/quorum"
)

// TestClockThatWasSet sets the clock of the one host that a sale is on. Nothing is
// decided by a clock that nobody vouches for, by a process that serves or one that
// begins to; when it is right again, or trusted, the sale goes on.
func TestClockThatWasSet(t *testing.T) {
	host := embedded.ThisHost()
	if host.Booted == nil {
		t.Skip("there is no clock here that cannot be set")
	}
	var off atomic.Int64
	said := new(lines)
	says := func(text string) func() bool { return func() bool { return strings.Contains(said.String(), text) } }
	wrong := func(now time.Time) time.Time { return now.Add(time.Duration(off.Load())) }
	host.Kept = nil
	host.Wall = func() time.Time { return wrong(time.Now()) }
	s := newSite(t, 100, 100)
	serve := func() *process {
		node, err := embedded.OpenNode(s.dir, host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { node.Close() })
		return s.process(func(c *Config) {
			right := clock.System()
			c.Nodes, c.Logger = []quorum.Node{node}, slog.New(slog.NewTextHandler(said, nil))
			c.Clock = func() clock.Now {
				now := right()
				now.Wall = wrong(now.Wall)
				return now
			}
		})
	}
	sells := func(p *process) bool {
		return p.Claim(t.Context(), Request{User: "ann", Quantity: 1}).Outcome == api.Sold
	}
	refuses := func(p *process) bool {
		err := p.Ready()
		return err != nil && strings.Contains(err.Error(), "clock") && p.Claim(t.Context(), Request{User: "bob", Quantity: 1}).Outcome == api.NoQuorum
	}

	p := serve()
	waitFor(t, func() bool { return sells(p) })
	off.Store(int64(61*time.Minute + 30*time.Second))
	waitFor(t, func() bool { return refuses(p) })
	waitFor(t, says(`level=WARN msg="this host's clock is off the lock nodes': no claim is accepted until it is right" sale=site ahead=1h1m`)) // and some seconds: it is measured
	off.Store(0)
	waitFor(t, func() bool { return sells(p) })
	waitFor(t, says(`level=INFO msg="this host's clock agrees with the lock nodes' again"`))
	off.Store(int64(-61 * time.Minute))
	waitFor(t, func() bool { return refuses(p) })
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}

	p = serve()
	waitFor(t, func() bool { return refuses(p) })
	node, err := embedded.OpenNode(s.dir, host)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(node.TrustClock(t.Context()), node.Close()); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return sells(p) })
}
