package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/feed"
	"salectl/backends/ledger"
	"salectl/sim/check"
)

// unfed is a stream under which nobody follows the sales of TestWorldsThatFailed: those worlds
// are as they were when they failed.
const unfed = 948

// consumer follows the ledger, as an order system does: what it makes of a batch and the
// position behind it become durable together, and a process of it that comes after one that was
// killed goes on there.
type consumer struct {
	process
	random
	now    bool   // it begins at the end of what there is
	feed   int    // that it follows, as the history has it
	stored string // the position; "": it begins
	ended  bool   // for good

	payloads bool         // its events have the payloads of units
	adding   *payloadFeed // of the present process; nil: they have not
}

// drawConsumers are those who follow the sale of a world.
func (w *world) drawConsumers(r random) {
	if !r.chance(0.25) {
		return
	}
	for i := range 1 + r.IntN(2) {
		w.consumers = append(w.consumers, w.newConsumer(i, w.Options.random(forFeeds, i+1), r.chance(0.2)))
	}
}

func (w *world) newConsumer(i int, r random, now bool) *consumer {
	c := &consumer{random: r, now: now}
	c.process = process{w: w, name: fmt.Sprintf("consumer-%d", i), host: atClients}
	c.died = func(back time.Duration) {
		c.adding.end()
		w.after(back, c.begin)
	}
	return c
}

// scheduleConsumers draws when they begin and what befalls them.
func (w *world) scheduleConsumers() {
	for _, c := range w.consumers {
		w.at(c.between(0, w.Until), c.follow)
		for range c.IntN(6) {
			w.at(c.between(0, w.Until), func() {
				if w.fault("world", "consumer killed") {
					c.kill(w.comeback(c.random))
				}
			})
		}
		for range c.IntN(3) {
			w.at(c.between(0, w.Until), func() {
				if w.fault("world", "consumer paused") {
					c.pause(c.spread(50*time.Millisecond, 20*time.Second), c.chance(0.3))
				}
			})
		}
	}
}

// follow begins a feed.
func (c *consumer) follow() {
	c.feed, c.stored = c.w.history.Followed(c.w.now, c.now), ""
	c.w.history.Feeds[c.feed].Payloads = c.payloads
	c.begin()
}

// begin starts a process that goes on with the feed.
func (c *consumer) begin() {
	if c.ended {
		return
	}
	config := feed.Config{Sale: saleName, Now: c.now && c.stored == "", Commits: true}
	if c.stored != "" {
		at, err := feed.ParsePosition(c.stored)
		if err != nil {
			c.w.history.Unfollowed(c.w.now, c.feed, check.FeedFailed, err.Error())
			return
		}
		config.From = &at
	}
	m := &followMachine{consumer: c, Reader: feed.New(config)}
	if c.payloads {
		c.adding = newPayloadFeed(m.Reader)
	}
	c.process.ended = func() { c.after(m.err) }
	c.start(m, c.w.clock(c.random))
}

// after is what follows when a feed has ended by itself: the one of the sale's next run, or the
// same from its beginning if it came too late.
func (c *consumer) after(err error) {
	how, text := check.FeedEnded, ""
	switch {
	case err == nil:
		c.w.hit("feed ended")
	case errors.Is(err, feed.ErrGone):
		how, text = check.FeedGone, err.Error()
		c.w.hit("feed gone")
	case errors.Is(err, ledger.ErrGone): // there is no sale yet, or none any more
		how, text = check.FeedNoSale, err.Error()
	default:
		how, text = check.FeedFailed, err.Error()
	}
	c.w.history.Unfollowed(c.w.now, c.feed, how, text)
	if how != check.FeedFailed && !c.ended {
		c.w.after(c.spread(time.Second, 20*time.Second), func() {
			if !c.ended {
				c.follow()
			}
		})
	}
}

// lastFeeds is how long consumers go on when all is done: what was stored by then comes to them.
const lastFeeds = 30 * time.Second

// stop ends it when the world has come to its end.
func (c *consumer) stop() {
	c.ended = true
	c.adding.end()
	if c.alive {
		c.alive = false
		c.life++
		c.w.history.Unfollowed(c.w.now, c.feed, check.FeedStopped, "")
	}
}

// followMachine is a feed's reader as a process.
type followMachine struct {
	*consumer
	*feed.Reader
	batch *feed.Batch // taken, and not acted on yet
	until time.Duration
	err   error
}

func (m *followMachine) tick(now clock.Now) {
	if m.adding.under() {
		m.adding.logs.tick(now)
	}
}

func (m *followMachine) next(now clock.Now) (made []calls.Call, wake time.Duration, gone bool) {
	for {
		if m.adding.under() {
			more, wake, added := m.adding.logs.next(now)
			if made = append(made, more...); !added {
				return made, wake, false
			}
			m.adding.end()
			if m.err = m.adding.err; m.err != nil {
				return made, 0, true
			}
			m.w.hit("payloads added to events")
		}
		more, wake, done, err := m.Reader.Next(now)
		made = append(made, more...)
		if m.batch == nil {
			if m.batch = m.Take(); m.batch != nil {
				m.until = now.Mono
				if m.chance(0.1) { // it is slow
					m.until += m.spread(time.Millisecond, 2*time.Second)
				}
				if m.adding != nil {
					m.adding.begin(m.batch)
					continue
				}
			}
		}
		switch {
		case m.batch != nil && m.until > now.Mono:
			return made, m.until, false
		case m.batch != nil:
			m.act()
		default:
			m.err = err
			return made, wake, done
		}
	}
}

// act makes a batch and its position durable.
func (m *followMachine) act() {
	lines := make([][]byte, len(m.batch.Events))
	for i, e := range m.batch.Events {
		line, err := json.Marshal(e)
		if err != nil {
			panic(err)
		}
		lines[i] = line
	}
	m.w.history.Fed(m.w.now, m.feed, lines)
	m.w.hit("feed acted on")
	m.stored, m.batch = m.batch.Position.String(), nil
	if m.chance(0.05) {
		m.w.at(m.w.now, func() {
			if m.w.fault("world", "consumer killed") {
				m.kill(m.w.comeback(m.random))
			}
		})
	}
}
