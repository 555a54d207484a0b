package stepped

import (
	"testing"
	"time"

	"salectl/backends/clock"
	"salectl/executor/ownership"
)

// When batchers are due is of a session: what is left of one that has ended must not make a Tick due for
// ever.
func TestForgetsBatchers(t *testing.T) {
	now := clock.Now{Mono: time.Hour, Wall: time.Unix(1_800_000_000, 0)}
	text := func() string { return "text" }
	p := New(Config{
		Config: ownership.Config{Sale: "sale", Nodes: []string{"node"}, Token: text, Jitter: func() float64 { return 0 }},
		Me:     []byte("process1"), Key: text,
	})
	p.Next(now)
	p.batches.wake = now.Mono - 1
	p.Tick(now)
	if _, wake, _ := p.Next(now); wake != 0 && wake <= now.Mono {
		t.Errorf("a Tick was due %v ago", now.Mono-wake)
	}
}
