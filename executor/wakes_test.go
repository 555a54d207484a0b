package executor

import (
	"testing"
	"time"

	"salectl/backends/clock"
	"salectl/executor/ownership"
)

// TestWakes has the loop of a process with peers sleep until ownership has something to do, unless a
// shard has something for peers or requests wait for one: then it advances, and not more often than
// peers get updates.
func TestWakes(t *testing.T) {
	now := clock.Now{Mono: time.Hour}
	for name, c := range map[string]struct {
		alone, news, waits bool
		advanced           time.Duration // ago
		want               time.Duration // from now
	}{
		"nothing":                    {advanced: time.Second, want: time.Minute},
		"news":                       {news: true, advanced: time.Second, want: 0},
		"news after an advance":      {news: true, advanced: ownership.UpdateEvery / 4, want: ownership.UpdateEvery * 3 / 4},
		"news for nobody":            {alone: true, news: true, advanced: time.Second, want: time.Minute},
		"a request waits":            {waits: true, advanced: time.Second, want: 0},
		"one waits after an advance": {waits: true, advanced: 0, want: ownership.UpdateEvery},
	} {
		t.Run(name, func(t *testing.T) {
			var waiting, news time.Duration
			if c.waits {
				waiting = now.Mono + time.Hour
			}
			if c.news {
				news = now.Mono
			}
			if got := wakeAt(now, now.Mono-c.advanced, now.Mono+time.Minute, waiting, news, !c.alone) - now.Mono; got != c.want {
				t.Errorf("it wakes in %v, want %v", got, c.want)
			}
		})
	}
}
