package replicas

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"salectl/internal/services/scripts"
)

// way is what the peers of a process reach it by.
type way struct{ *toxiproxy.Proxy }

// wayTo makes a process be called by a way of its own.
func (r *replica) wayTo() way {
	r.sale.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	w := way{toxiproxy.NewProxy(server, r.name, scripts.FreeAddress(r.sale), r.listen)}
	scripts.Listen(r.sale, w.Start)
	r.sale.Cleanup(func() { w.Stop() })
	r.called = w.Listen
	r.args = append(r.args, "--advertise", r.called)
	return w
}

// set has a way be cut, or lead on again.
func (w way) set(s *sale, open bool) {
	s.Helper()
	if open {
		scripts.Listen(s, w.Start)
		return
	}
	w.Stop()
}

// swallow has a way take what is sent, and pass nothing on; undo ends that.
func (w way) swallow(s *sale) (undo func()) {
	s.Helper()
	for _, stream := range []string{"upstream", "downstream"} {
		if _, err := w.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(`{"type": "timeout", "stream": %q, "attributes": {"timeout": 0}}`, stream))); err != nil {
			s.Fatal(err)
		}
	}
	return func() { w.Toxics.ResetToxics(s.Context()) }
}

// While processes cannot reach each other each answers for its own shards, and nothing is
// sold twice; when they can again all is as it was.
func TestLinksCut(t *testing.T) {
	t.Parallel()
	const rate = 80
	s := apply(t, embedded, terms{stock: 1_000_000, shards: 12, ttl: calmTTL})
	var ways []way
	for range 3 {
		ways = append(ways, s.prepare().wayTo())
	}
	for _, r := range s.all {
		r.start()
	}
	s.settled()
	crowds := []*crowd{s.come("http", rate), s.come("stream", rate)}
	some := func(n int) {
		for _, c := range crowds {
			c.some(n)
		}
	}
	some(rate)
	owns, err := s.all[0].owners()
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range s.all[:1] {
		for _, how := range []string{"cut", "swallowed"} {
			from := time.Now()
			s.note("what peers send to %s is %s", r.name, how)
			undo := func() { ways[i].set(s, true) }
			if how == "cut" {
				ways[i].set(s, false)
			} else {
				undo = ways[i].swallow(s)
			}
			some(rate)
			undo()
			mended := time.Now()
			s.settled()
			s.note("it is mended after %v, and they agree after %v", mended.Sub(from).Round(time.Millisecond), time.Since(mended).Round(time.Millisecond))
		}
	}
	if now, err := s.all[0].owners(); err != nil || fmt.Sprint(now) != fmt.Sprint(owns) {
		t.Errorf("the shards were %v's and are %v's (%v); nobody left", owns, now, err)
	}
	mended := time.Now()
	some(rate)
	for _, c := range crowds {
		c.leave()
		if n, what := c.failedSince(mended); n > 0 {
			t.Errorf("%d claims failed over %s when all were linked again:\n%s", n, c.over, what)
		}
		n, what := c.failed()
		t.Logf("over %s %d claims of %d were put off:\n%s", c.over, n, len(c.answered()), what)
	}
	s.books(crowds...)
}
