package listengine

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/executor/request"
	"salectl/executor/saletest"
	"salectl/executor/shard"
	"salectl/spec"
)

// counted is a Batcher of two shards, without a node, of each of which the ledger may
// lack as many grabs.
type counted struct {
	*testing.T
	g        *Batcher
	queues   []*queue
	now      clock.Now
	unit     int64
	noRights bool

	posted    [2][]shard.Event        // by shard: the events for its sequencer
	completed map[*request.Ticket]int // how often each ticket was completed; see watch
}

func newCounted(t *testing.T, most int64) *counted {
	return newCountedOf(t, most, true, func(*shard.Config) {})
}

// newCountedOf is newCounted with shards of another configuration. listed means that lists are the engines
// of the shards; else only their requests wait in the queues.
func newCountedOf(t *testing.T, most int64, listed bool, change func(*shard.Config)) *counted {
	c := &counted{T: t, completed: map[*request.Ticket]int{}, g: New(spec.AckRedis, 100), now: clock.Now{Mono: time.Hour, Wall: time.Unix(1_800_000_000, 0)}}
	for i := range 2 {
		cfg := shard.Config{
			Shard: i, Log: fmt.Sprint("log-", i), Writer: []byte("12345678"), Address: "a:1", UID: saletest.UID,
			Totals: shard.NewSaleTotals(2), Doubts: new(request.Doubts), Clock: func() clock.Now { return c.now },
		}
		change(&cfg)
		s, l := shard.New(cfg), lists.List{UID: saletest.UID, Shard: i}
		if listed {
			c.g.AddShard(s, l, lists.Sizes{}, most, c.now)
		} else {
			c.g.add(s, l, most, c.now)
		}
		c.queues = append(c.queues, c.g.queueOf(s))
		c.queues[i].setFill(c.now, 1)
		c.recordPosts(i)
	}
	return c
}

// setFill has the list give units under a fill from now on; 0: it gives none.
func (q *queue) setFill(now clock.Now, fill uint64) {
	q.ApplyEffects(now, shard.ListEffects{Fill: fill})
}

// markLogged has the ledger have the grabs of these users.
func (q *queue) markLogged(users []string) {
	q.ApplyEffects(q.offSince, shard.ListEffects{Fill: q.fill, LoggedUsers: users})
}

// requeue queues a ticket that got no unit before.
func (q *queue) requeue(t *request.Ticket) {
	q.ApplyEffects(q.offSince, shard.ListEffects{Fill: q.fill, Requeued: []*request.Ticket{t}})
}

// drain turns the list off, with all its grabs in the ledger.
func (q *queue) drain(refusal func(*request.Ticket) request.Answer) {
	q.ApplyEffects(q.shard.Clock(), shard.ListEffects{Refusal: refusal})
}

func closed(*request.Ticket) request.Answer { return request.Answer{Outcome: api.Closed} }

// recordPosts records the events that a queue posts from now on.
func (c *counted) recordPosts(of int) {
	q := c.queues[of]
	post := q.post
	q.post = func(e shard.Event) bool {
		c.posted[of] = append(c.posted[of], e)
		return post(e)
	}
}

// grant gives the process its rights for now, unless it is to have none.
func (c *counted) grant() {
	for _, q := range c.queues {
		r := shard.Rights{}
		if !c.noRights {
			r = shard.Rights{Lease: saletest.Lease(c, c.now), ReadAt: c.now, TTL: quorum.DefaultTTL}
		}
		q.shard.SetRights(r)
	}
}

func (c *counted) offer(users ...string) {
	for _, user := range users {
		if o := c.queues[0].Offer(c.now, request.NewTicket(new(sync.Pool), request.Request{User: user, Key: "key", Quantity: 1}, nil, c.now.Mono)); o != "" {
			c.Errorf("%s: %s", user, o)
		}
	}
}

// asks makes the next call of the node, which must be for these users.
func (c *counted) asks(users ...string) *Call {
	c.Helper()
	c.now.Mono += RetryDelay
	call := new(Call)
	c.grant()
	c.g.Next(c.now, call)
	var asked []string
	for _, b := range call.Batches {
		asked = append(asked, b.Users...)
	}
	if !slices.Equal(asked, users) {
		c.Fatalf("%q are asked for, want %q", asked, users)
	}
	return call
}

// gives answers a call: each has a unit, perhaps from before.
func (c *counted) gives(call *Call, before bool) {
	given := lists.Given{}
	for _, key := range call.Batches[0].Keys {
		c.unit++
		u := lists.Unit{Number: c.unit}
		if before {
			u.Before, u.Key, u.At = true, key, 1
		}
		given.Units = append(given.Units, u)
	}
	c.g.HandleReply(c.now, call, []lists.Given{given}, nil)
}

func (c *counted) lacks(want int64) {
	c.Helper()
	if got := c.queues[0].backlog.size(); got != want {
		c.Errorf("the ledger lacks %d, want %d", got, want)
	}
	if n := c.queues[0].backlog.reserved; n != 0 {
		c.Errorf("%d are counted for calls that are over", n)
	}
	if b := c.queues[1].backlog; b.size() != 0 || b.reserved != 0 {
		c.Errorf("another shard has %+v", b)
	}
}

func TestBacklogCounts(t *testing.T) {
	lost := errors.New("the reply is lost")
	open := func(t *testing.T) *counted {
		c := newCounted(t, 3)
		c.offer("a", "b", "c", "d")
		return c
	}
	t.Run("given", func(t *testing.T) {
		c := open(t)
		c.gives(c.asks("a", "b", "c"), false)
		c.lacks(3)
		c.asks()
		c.queues[0].markLogged([]string{"b"})
		c.lacks(2)
	})
	t.Run("a reply that is lost", func(t *testing.T) {
		c := open(t)
		c.g.HandleReply(c.now, c.asks("a", "b", "c"), nil, lost)
		c.lacks(3)
		c.queues[0].markLogged([]string{"a"})
		c.lacks(2)
		c.gives(c.asks("a", "b", "c"), true)
		c.lacks(2)
		c.queues[0].markLogged([]string{"b", "c"})
		c.lacks(0)
	})
	t.Run("a call that was not sent", func(t *testing.T) {
		c := open(t)
		c.g.HandleReply(c.now, c.asks("a", "b", "c"), nil, quorum.ErrUnsent)
		c.lacks(0)
		c.g.HandleReply(c.now, c.asks("a"), nil, quorum.ErrUnsent) // one tells whether the node answers
		c.lacks(0)
	})
	t.Run("a node that is silent", func(t *testing.T) {
		c := open(t)
		c.g.SetMaxUnlogged(c.queues[0].shard, 4)
		c.offer("e", "f")
		c.g.HandleReply(c.now, c.asks("a", "b", "c", "d"), nil, lost)
		c.now.Mono += shard.StallAfter
		c.g.HandleReply(c.now, c.asks("a", "b", "c", "d"), nil, lost) // who waits has waited for too long
		c.lacks(4)
		if n := c.queues[0].State(c.now).Waiting; n != 0 {
			t.Errorf("%d wait still", n)
		}
		c.queues[0].setFill(c.now, 2)
		c.lacks(0)
		c.offer("g", "h")
		c.g.HandleReply(c.now, c.asks("g"), nil, lost)
		c.asks("g") // no other before it has its answer
	})
	t.Run("a drainer that overtakes the reply", func(t *testing.T) {
		c := open(t)
		call := c.asks("a", "b", "c")
		c.queues[0].markLogged([]string{"a", "c"})
		c.gives(call, false)
		c.lacks(1)
		call = c.asks("d")
		c.queues[0].markLogged([]string{"d"})
		c.g.HandleReply(c.now, call, nil, lost)
		c.lacks(1)
	})
	t.Run("a list that is off", func(t *testing.T) {
		c := open(t)
		call := c.asks("a", "b", "c")
		c.queues[0].setFill(c.now, 0)
		c.gives(call, false)
		c.lacks(3)
		c.queues[0].setFill(c.now, 2)
		c.lacks(0)
	})
	t.Run("a list that was filled anew", func(t *testing.T) {
		c := open(t)
		call := c.asks("a", "b", "c")
		c.queues[0].setFill(c.now, 2)
		c.gives(call, false)
		c.lacks(0)
		c.gives(c.asks("d"), false)
		c.lacks(1)
	})
	t.Run("a list that was filled anew, and a reply that is lost", func(t *testing.T) {
		c := open(t)
		call := c.asks("a", "b", "c")
		c.queues[0].setFill(c.now, 2)
		c.g.HandleReply(c.now, call, nil, lost)
		c.lacks(0)
	})
	t.Run("a user who has a unit and asks once more", func(t *testing.T) {
		c := open(t)
		c.gives(c.asks("a", "b", "c"), false)
		c.queues[0].markLogged([]string{"b", "c"})
		c.g.SetMaxUnlogged(c.queues[0].shard, 2)
		c.offer("a")
		c.gives(c.asks("d", "a"), true) // only of d it is not known
		c.lacks(1)
		c.offer("a", "e")
		c.gives(c.asks("a", "e"), true)
		c.lacks(1)
	})
	t.Run("a shard that has ended", func(t *testing.T) {
		c := open(t)
		call := c.asks("a", "b", "c")
		c.queues[0].ShutDown(request.Refusal(api.Standby))
		c.gives(call, false)
		c.lacks(0)
	})
	t.Run("users for whom nobody asks any more", func(t *testing.T) {
		c := open(t)
		c.g.HandleReply(c.now, c.asks("a", "b", "c"), nil, lost)
		call := c.asks("a", "b", "c")
		c.g.HandleReply(c.now, call, []lists.Given{{Units: make([]lists.Unit, 3)}}, nil) // the list is empty: a late call may find some yet
		c.lacks(3)
		c.posted[0] = nil
		c.asks()
		if len(c.posted[0]) != 1 {
			t.Error("their list is not filled anew")
		}
	})
}

// TestFreeStuck has a list filled anew exactly when its users would be counted for ever.
func TestFreeStuck(t *testing.T) {
	for name, test := range map[string]struct {
		change func(c *counted, q *queue)
		events int  // that the shard hears
		wakes  bool // it is looked again
	}{
		"stuck":                           {func(*counted, *queue) {}, 1, true},
		"nobody may have something":       {func(_ *counted, q *queue) { q.setState("a", q.users["a"], 0) }, 0, false},
		"the list is off":                 {func(_ *counted, q *queue) { q.fill = 0 }, 0, false},
		"the ledger is not that far back": {func(_ *counted, q *queue) { q.setState("lacks one", q.users["lacks one"], 0) }, 0, true},
		"another shard's is": {func(c *counted, q *queue) {
			q.setState("lacks one", q.users["lacks one"], 0)
			c.queues[0].backlog.unlogged = 3
		}, 0, true},
		"a call is under way": {func(_ *counted, q *queue) { q.setState("b", q.users["b"], inFlight) }, 0, true},
		"the node does not answer": {func(c *counted, q *queue) {
			q.failed = failure{since: c.now, last: c.now, err: errors.New("it is silent")}
			q.retryAt = c.now.Mono - StuckCheckEvery + 1
		}, 0, true},
		"the node did not answer, and nobody may ask it": {func(c *counted, q *queue) {
			q.failed = failure{since: c.now, last: c.now, err: errors.New("it is silent")}
			q.retryAt = c.now.Mono - StuckCheckEvery
		}, 1, true},
		"somebody asks again": {func(c *counted, q *queue) {
			q.tickets = []*request.Ticket{{Request: request.Request{User: "c"}}, {Request: request.Request{User: "a"}, Decision: request.Decision{SentToList: true}}}
		}, 0, true},
		"somebody else asks": {func(c *counted, q *queue) { q.tickets = []*request.Ticket{{Request: request.Request{User: "c"}}} }, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCounted(t, 3)
			q := c.queues[1] // behind a shard of which nothing is in doubt
			for _, user := range []string{"lacks one", "lacks another"} {
				q.setState(user, q.users[user], unloggedGrab)
			}
			q.setState("a", q.users["a"], unsure)
			test.change(c, q)
			wake := c.g.rebuildStuck(c.now)
			if e := c.posted[1]; len(e) != test.events || len(e) > 0 && e[0] != shard.Event(shard.FillLost{Fill: 1}) {
				t.Errorf("events %v, want %d", e, test.events)
			}
			want := time.Duration(0)
			if test.wakes {
				want = c.now.Mono + StuckCheckEvery
			}
			if wake != want {
				t.Errorf("it is looked again at %v, want %v", wake, want)
			}
		})
	}
}

// TestGivenInDoubtAfterTheSession has a process lose a shard while the ledger lacks what
// its list gave. Whoever heard sold must not hear that nothing was accepted.
func TestGivenInDoubtAfterTheSession(t *testing.T) {
	refused := request.Answer{Outcome: api.NoQuorum}
	for name, lose := range map[string]func(c *counted, ask func(users ...string) *Call){
		"after the answer": func(c *counted, ask func(users ...string) *Call) {
			c.gives(ask("ann"), false)
			c.queues[0].ShutDown(request.Refusal(api.Standby))
		},
		"before the answer": func(c *counted, ask func(users ...string) *Call) {
			call := ask("ann")
			c.queues[0].ShutDown(request.Refusal(api.Standby))
			c.gives(call, false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCounted(t, 10)
			s := c.g.queues[0].shard
			lose(c, func(users ...string) *Call {
				c.offer(users...)
				return c.asks(users...)
			})
			for user, want := range map[string]api.Outcome{"ann": api.Unknown, "bob": api.NoQuorum} {
				if a := s.Refuse(request.Request{User: user, Key: "key", Quantity: 1}, refused); a.Outcome != want {
					t.Errorf("%s hears %q, want %q", user, a.Outcome, want)
				}
			}
			s.ForgetDoubts(false, 7)
			if a := s.Refuse(request.Request{User: "ann", Key: "key", Quantity: 1}, refused); a.Outcome != api.NoQuorum {
				t.Errorf("ann hears %q when the shard was read", a.Outcome)
			}
		})
	}
}

// TestClosedListTellsWhatItGave has somebody ask again whose answer was lost, when
// the list has closed.
func TestClosedListTellsWhatItGave(t *testing.T) {
	c := newCounted(t, 10)
	tickets := make(map[string]*request.Ticket)
	for _, user := range []string{"has", "has under another key", "has nothing"} {
		tickets[user] = request.NewTicket(new(sync.Pool), request.Request{User: user, Key: "key", Quantity: 1}, nil, c.now.Mono)
		if o := c.queues[0].Offer(c.now, tickets[user]); o != "" {
			t.Fatal(o)
		}
	}
	call := c.asks("has", "has under another key", "has nothing")
	c.g.HandleReply(c.now, call, []lists.Given{{Why: lists.ErrClosed, Units: []lists.Unit{
		{Number: 1, Before: true, Key: "key", At: 5}, {Number: 2, Before: true, Key: "first", At: 5}, {},
	}}}, nil)
	for user, want := range map[string]api.Outcome{"has": api.Sold, "has under another key": api.Closed, "has nothing": api.Closed} {
		if got := tickets[user].Answer; got.Outcome != want {
			t.Errorf("who %s hears %+v, want %s", user, got, want)
		}
	}
	if got := tickets["has"].Answer; !got.Replayed || got.Claim.ID != (request.ClaimID{Unit: 1}) || got.Claim.At != time.UnixMicro(5) {
		t.Errorf("who has a unit hears %+v", got)
	}
}
