package status

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"salectl/backends/clock"
)

// world is a Reporter with a log, and a clock that moves by hand.
type world struct {
	*testing.T
	now clock.Now
	r   Reporter
	out strings.Builder
	log *slog.Logger
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, now: clock.Now{Mono: time.Hour, Wall: time.Unix(1_800_000_000, 0)}}
	w.log = slog.New(slog.NewTextHandler(&w.out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	return w
}

// pass lets time pass, and reports.
func (w *world) pass(d time.Duration, problems ...Problem) {
	w.now.Mono += d
	w.now.Wall = w.now.Wall.Add(d)
	w.r.Report(w.now, problems, w.log)
}

// wrote fails the test unless these lines were written since the last time.
func (w *world) wrote(want ...string) {
	w.Helper()
	got := strings.TrimSuffix(w.out.String(), "\n")
	w.out.Reset()
	if got != strings.Join(want, "\n") {
		w.Errorf("the log has\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// TestReporter reports a problem when it begins, and when it ends.
func TestReporter(t *testing.T) {
	w := newWorld(t)
	down := Problem{Kind: NodeDown, Where: "a:1", Since: w.now.Wall, Why: "refused"}
	other := Problem{Kind: NodeDown, Where: "b:1", Since: w.now.Wall, Why: "refused"}
	w.pass(time.Second)
	w.pass(time.Second, down, Problem{Kind: Clock, Why: "it is ahead by 1h"})
	w.wrote(`level=WARN msg="a lock node cannot be used" node=a:1 since=2027-01-15T08:00:00.000Z why=refused`,
		`level=WARN msg="`+Clock.Began+`" why="it is ahead by 1h" remedy="`+Clock.Remedy+`"`)
	down.Why = "another cause"
	w.pass(time.Second, down, other)
	w.wrote(`level=INFO msg="this host's clock agrees with the lock nodes' again"`,
		`level=WARN msg="a lock node cannot be used" node=b:1 since=2027-01-15T08:00:00.000Z why=refused`)
	w.pass(time.Second, other)
	w.wrote(`level=INFO msg="a lock node can be used again" node=a:1 after=4s`)
}

// TestReporterOfShards writes one line for all shards that have a problem of one kind.
func TestReporterOfShards(t *testing.T) {
	w := newWorld(t)
	began := w.now.Wall
	stalled := func(shards ...int) (all []Problem) {
		for _, i := range shards {
			all = append(all, OfShard(Stalled, i, began.Add(time.Duration(i)*time.Millisecond), "no answer"))
		}
		return all
	}
	const line = `level=WARN msg="shards stall: the store does not answer for them, or leaves the result open" `
	w.pass(time.Second, stalled(7, 1, 2, 3)...)
	w.pass(time.Second, stalled(7, 1, 2, 3)...)
	w.wrote(line + `shards=1-3,7 since=2027-01-15T08:00:00.001Z why="no answer" remedy="` + Stalled.Remedy + `"`)
	w.pass(time.Second, stalled(1, 2, 3, 7, 8, 9)...)
	w.wrote() // the last line is too recent
	w.pass(Quiet, stalled(1, 2, 3, 7, 8, 9)...)
	w.wrote(line + `shards=8-9 since=2027-01-15T08:00:00.008Z why="no answer" remedy="` + Stalled.Remedy + `"`)
	w.pass(time.Second, stalled(1, 3, 7, 8, 9)...)
	w.wrote(`level=INFO msg="shards continue" shards=2 after=13.998s`)
	w.pass(time.Second)
	w.wrote(`level=INFO msg="shards continue" shards=1,3,7-9 after=14.999s`)
	for range 100 {
		w.pass(time.Second, stalled(1)...)
		w.pass(time.Second)
	}
	if lines := strings.Count(w.out.String(), "\n"); lines > 40 {
		t.Errorf("%d lines in 200 s", lines)
	}
}

// TestReporterOfWhatCannotEnd reports a problem again when its cause changes, if it has no end.
func TestReporterOfWhatCannotEnd(t *testing.T) {
	w := newWorld(t)
	broken := func(why string) Problem { return OfShard(ShardLogBroken, 3, time.Time{}, why) }
	line := func(why string) string {
		return `level=ERROR msg="` + ShardLogBroken.Began + `" shards=3 why=` + why + ` remedy="` + ShardLogBroken.Remedy + `"`
	}
	w.pass(time.Second, broken("gone"))
	w.pass(time.Second, broken("gone"))
	w.wrote(line("gone"))
	w.pass(time.Second, broken("damaged"))
	w.wrote(line("damaged"))
	w.pass(time.Second)
	w.wrote()

	// Each cause is reported, though the shards have it at once.
	of := func(shard int, why string) Problem { return OfShard(ShardLogBroken, shard, time.Time{}, why) }
	w.pass(time.Second, of(1, "gone"), of(2, "damaged"), of(5, "gone"))
	w.wrote(strings.Replace(line("gone"), "shards=3", "shards=1,5", 1), strings.Replace(line("damaged"), "shards=3", "shards=2", 1))
}
