package check

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/feed"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/memory"
)

// follower is a consumer of what a world has stored.
type follower struct {
	w      *world
	number int
	reader *feed.Reader
	logs   *memory.Logs
	read   map[string]int // entries of each log that are in logs
	now    clock.Now
}

// consume begins a feed.
func (w *world) consume(now bool) *follower {
	return &follower{
		w: w, number: w.h.Followed(w.pass(), now), reader: feed.New(feed.Config{Sale: "tickets", Now: now, Commits: true}),
		logs: memory.NewStore().Handle(nil), read: make(map[string]int), now: clock.Now{Mono: time.Second, Wall: time.Unix(0, 0)},
	}
}

// hear has it told what was stored meanwhile.
func (f *follower) hear() *follower {
	f.w.t.Helper()
	for name, entries := range f.w.h.Logs {
		for _, e := range entries[f.read[name]:] {
			prev, _, err := f.logs.Read(context.Background(), name, 0, 0)
			if err == nil {
				err = f.logs.Append(context.Background(), name, e.Slot, prev, e.Head, e.Bytes)
			}
			if err != nil {
				f.w.t.Fatal(err)
			}
			f.read[name]++
		}
	}
	for {
		made, wake, done, err := f.reader.Next(f.now)
		b := f.reader.Take()
		if b != nil {
			var lines [][]byte
			for _, e := range b.Events {
				line, err := json.Marshal(e)
				if err != nil {
					f.w.t.Fatal(err)
				}
				lines = append(lines, line)
			}
			f.w.h.Fed(f.w.pass(), f.number, lines)
		}
		switch {
		case done && err != nil:
			f.w.t.Fatal(err)
		case done:
			f.ends(FeedEnded)
			return f
		case b != nil && len(b.Events) == 1: // there was nothing new
			return f
		}
		for _, c := range made {
			c.Took(f.now, c.Do(context.Background(), calls.Ends{Logs: f.logs}), nil)
		}
		f.now.Mono = max(f.now.Mono, wake)
	}
}

// ends ends the feed.
func (f *follower) ends(how How) { f.w.h.Unfollowed(f.w.pass(), f.number, how, "") }

// withFeed is a sale that is open, and a feed of it that goes on.
func withFeed(t testing.TB) *world {
	w := newWorld(t)
	f := w.consume(false).hear()
	w.buy(w.user(0), "k", 1)
	w.move(0, 1, 1)
	w.hold(w.user(1), "expired", 1, pb.Settle_EXPIRE)
	f.hear()
	return w
}

// line changes the first line of a kind with a text in it that the feed of a world was told.
func (w *world) line(kind string, from, to string) {
	w.t.Helper()
	for _, b := range w.h.Feeds[0].Batches {
		for i, line := range b.Lines {
			if bytes.Contains(line, []byte(`"type":"salectl.`+kind+`"`)) && bytes.Contains(line, []byte(from)) {
				b.Lines[i] = bytes.Replace(line, []byte(from), []byte(to), 1)
				return
			}
		}
	}
	w.t.Fatalf("nothing of %s that says %s was told", kind, from)
}

// feedFaults are planted into what those were told who follow the ledger.
var feedFaults = map[string]planted{
	"a feed's batch without its position": {withFeed, func(w *world) {
		b := &w.h.Feeds[0].Batches[0]
		b.Lines = b.Lines[:len(b.Lines)-1]
	}, "feeds"},
	"a feed's line that was cut": {withFeed, func(w *world) {
		b := &w.h.Feeds[0].Batches[0]
		b.Lines[0] = b.Lines[0][:9]
	}, "feeds"},
	"a feed that leaves out a slot": {withFeed, func(w *world) {
		w.line("commit", `"slot":`, `"slot":1`)
	}, "feeds"},
	"a feed that alters a slot": {withFeed, func(w *world) {
		w.line("commit", `"commit":"`, `"commit":"AAAA`)
	}, "feeds"},
	"a feed that tells what is not stored yet": {withFeed, func(w *world) {
		w.h.Feeds[0].Batches[0].Seq = 1
	}, "feeds"},
	"a feed without the payloads of units": {func(t testing.TB) *world {
		w := named(t)
		w.buy(w.user(0), "k", 1)
		w.consume(false).hear()
		return w
	}, func(w *world) { w.h.Feeds[0].Payloads = true }, "feeds"},
	"a feed that tells another user": {withFeed, func(w *world) {
		w.line("claim.sold", `"user":"`, `"user":"x`)
	}, "feeds"},
	"a feed that leaves out what became of a claim": {withFeed, func(w *world) {
		w.line("claim.expired", "claim.expired", "claim.extended")
	}, "feeds"},
	"a feed whose order is not that of its sequence": {withFeed, func(w *world) {
		w.line("claim.sold", `"sequence":"`, `"sequence":"-`)
	}, "feeds"},
	"a feed that promised that nothing so old would come": {withFeed, func(w *world) {
		w.line("resolved", `"through":"19`, `"through":"29`)
	}, "feeds"},
	"a feed that tells of a shard's generation too early": {withFeed, func(w *world) {
		f := w.consume(false).hear()
		batches := w.h.Feeds[f.number].Batches
		sale, shards := batches[0].Lines, batches[1].Lines
		batches[1].Lines = slices.Concat(shards[:2], sale[:len(sale)-1], shards[2:])
		w.h.Feeds[f.number].Batches = batches[1:]
	}, "feeds"},
	"a feed whose position is behind what was told": {withFeed, func(w *world) {
		w.line("resolved", `"slots":`, `"slots":1`)
	}, "feeds"},
	"a feed whose position is of another history": {withFeed, func(w *world) {
		w.line("resolved", `"hash":"`, `"hash":"00`)
	}, "feeds"},
	"a feed that ends though the sale does not": {withFeed, func(w *world) {
		w.h.Unfollowed(w.pass(), 0, FeedEnded, "")
	}, "feeds"},
	"a feed whose logs are said to be gone": {withFeed, func(w *world) {
		w.h.Unfollowed(w.pass(), 0, FeedGone, "")
	}, "feeds"},
	"a feed whose logs are said to be gone though it lacks the end alone": {newWorld, func(w *world) {
		f := w.consume(false)
		w.command("close", func() { w.plan(0, 0, pb.Phase_CLOSED) })
		w.command("destroy", func() {
			w.sealShards()
			f.hear()
			w.noteSealed()
			w.erase()
		})
		f.ends(FeedGone)
	}, "feeds"},
	"a feed whose sale is said not to be there": {withFeed, func(w *world) {
		w.h.Unfollowed(w.pass(), 0, FeedNoSale, "")
	}, "feeds"},
	"a feed that fails": {withFeed, func(w *world) {
		w.h.Unfollowed(w.pass(), 0, FeedFailed, errors.ErrUnsupported.Error())
	}, "feeds"},
	"a feed that tells nothing": {withFeed, func(w *world) {
		f := w.consume(false)
		w.at += time.Hour
		f.ends(FeedStopped)
		w.h.Final.Rested = true
	}, "feeds"},
	"a feed that tells no more": {withFeed, func(w *world) {
		w.buy(w.user(1), "later", 1)
		w.at += time.Hour
		w.h.Unfollowed(w.pass(), 0, FeedStopped, "")
		w.h.Final.Rested = true
	}, "feeds"},
	"a sale that is told to be sealed too early": {withFeed, func(w *world) {
		f := w.consume(false).hear()
		w.command("close", func() { w.plan(0, 0, pb.Phase_CLOSED) })
		w.command("destroy", w.destroy)
		f.hear()
		batches := w.h.Feeds[f.number].Batches
		lines := batches[len(batches)-1].Lines
		seal, end := lines[len(lines)-7:len(lines)-5], lines[len(lines)-5:len(lines)-3]
		copy(lines[len(lines)-7:], slices.Concat(end, seal))
	}, "feeds"},
}

// What feeds may do, beside what they do in most worlds.
func TestToleratedFeeds(t *testing.T) {
	for name, test := range map[string]struct {
		from func(testing.TB) *world
		do   func(w *world)
	}{
		"goes on": {withFeed, func(*world) {}},
		"with the payloads of units": {named, func(w *world) {
			w.buy(w.user(0), "k", 1)
			w.consume(false).hear()
			w.line("claim.sold", `"units":[1]`, `"units":[1],"payloads":[{"unit":"A1"}]`)
			w.h.Feeds[0].Payloads = true
		}},
		"from now on": {withFeed, func(w *world) {
			f := w.consume(true).hear()
			w.buy(w.user(0), "k", 1)
			f.hear()
		}},
		"from now on, of a log that a late create begins anew": {emptyWorld, func(w *world) {
			w.plan(3, 0, pb.Phase_OPEN)
			w.consume(true).hear()
			w.plan(0, 0, pb.Phase_OPEN)
			w.command("close", func() { w.plan(0, 0, pb.Phase_CLOSED) })
			w.command("destroy", w.destroy)
			w.late(0, 1, func(c *pb.Commit) { c.Writer = []byte("planner2") })
		}},
		"to the end of the sale": {newWorld, func(w *world) {
			f := w.consume(false).hear()
			w.command("close", func() { w.plan(0, 0, pb.Phase_CLOSED) })
			w.command("destroy", w.destroy)
			f.hear()
		}},
		"from behind the seal": {newWorld, func(w *world) {
			f := w.consume(true)
			w.command("close", func() { w.plan(0, 0, pb.Phase_CLOSED) })
			w.command("destroy", func() {
				w.sealShards()
				w.noteSealed()
				f.hear()
				w.erase()
			})
			f.hear()
		}},
		"stopped amid the sale": {withFeed, func(w *world) {
			w.buy(w.user(1), "later", 1)
			w.h.Unfollowed(w.pass(), 0, FeedStopped, "")
		}},
		"too late": {withFeed, func(w *world) {
			w.command("close", func() { w.plan(0, 0, pb.Phase_CLOSED) })
			w.command("destroy", w.destroy)
			w.h.Unfollowed(w.pass(), 0, FeedGone, "")
		}},
		"too early": {emptyWorld, func(w *world) { w.consume(false).ends(FeedNoSale) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := test.from(t)
			test.do(w)
			for _, p := range Check(w.h) {
				t.Error(p)
			}
		})
	}
}
