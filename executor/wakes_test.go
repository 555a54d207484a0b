package executor

import (
	"context"
	"sync"
	"testing"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/executor/ownership"
	"salectl/executor/shard"
)

// TestWakes has the loop of a process with peers sleep until the owner has something to do,
// unless a shard has something for peers or requests wait for one: then it looks, and not more
// often than peers are told something.
func TestWakes(t *testing.T) {
	now := clock.Now{Mono: time.Hour}
	theirs := now.Mono + time.Minute
	remote := func() *shard.Remote {
		return shard.NewRemote(shard.RemoteConfig{Queue: func() int { return 10 }, Doubts: new(shard.Doubts)})
	}
	for name, c := range map[string]struct {
		alone, news, waits bool
		looked             time.Duration // ago
		want               time.Duration // from now
		due                bool
	}{
		"nothing":                {looked: time.Second, want: time.Minute},
		"news":                   {news: true, looked: time.Second, want: 0, due: true},
		"news after a look":      {news: true, looked: ownership.UpdateEvery / 4, want: ownership.UpdateEvery * 3 / 4, due: true},
		"news for nobody":        {alone: true, news: true, looked: time.Second, want: time.Minute},
		"a request waits":        {waits: true, looked: time.Second, want: 0},
		"one waits after a look": {waits: true, looked: 0, want: ownership.UpdateEvery},
	} {
		t.Run(name, func(t *testing.T) {
			r := &runner{
				machine: machine{owner: new(ownership.Machine), session: &session{totals: shard.NewSaleTotals(2), remotes: []*shard.Remote{remote(), remote()}}},
				looked:  now.Mono - c.looked, dialing: map[string]context.CancelFunc{"peer": func() {}},
			}
			if c.alone {
				clear(r.dialing)
			}
			if c.news {
				r.session.totals.Set(0, 1, ledger.Totals{Limit: 5, Available: 5}, time.Time{}, true)
			}
			if c.waits {
				r.session.remotes[1].Offer(now, shard.NewTicket(new(sync.Pool), shard.Request{User: "alice", Key: "1", Quantity: 1}, nil, now.Mono))
			}
			if got := r.wakes(now, theirs) - now.Mono; got != c.want {
				t.Errorf("it wakes in %v, want %v", got, c.want)
			}
			if r.due(now, theirs) != c.due {
				t.Errorf("there is something to do: %v, want %v", !c.due, c.due)
			}
			if !r.due(now, now.Mono) {
				t.Error("the owner has something to do, and the loop would not")
			}
		})
	}
}
