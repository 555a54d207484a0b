package listengine

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/memory"
	"salectl/backends/quorum"
	"salectl/executor/request"
	"salectl/executor/saletest"
	"salectl/executor/shard"
	"salectl/spec"
)

// newCountedAs is newCounted with another ack, and a bound that many requests do not
// come to.
func newCountedAs(t *testing.T, ack spec.Ack, most int64) *counted {
	return newCounted(t, most).as(ack)
}

func (c *counted) as(ack spec.Ack) *counted {
	c.g.ack, c.g.bound = ack, 10_000
	return c
}

// wait has a user's request wait on a shard.
func (c *counted) wait(of int, user string) *request.Ticket {
	c.Helper()
	return c.queued(of, c.watch(request.NewTicket(new(sync.Pool), request.Request{User: user, Key: "key", Quantity: 1}, nil, c.now.Mono)))
}

// waitKeyless is wait for a request without a key, for which the process makes the key "key".
func (c *counted) waitKeyless(of int, user string) *request.Ticket {
	c.Helper()
	return c.queued(of, c.watch(keyless(user, "key", c.now.Mono)))
}

// watch counts how often a ticket is completed.
func (c *counted) watch(x *request.Ticket) *request.Ticket {
	x.OnAnswer(request.WaiterFunc(func() { c.completed[x]++ }))
	return x
}

func (c *counted) queued(of int, x *request.Ticket) *request.Ticket {
	c.Helper()
	if o := c.queues[of].Offer(c.now, x); o != "" {
		c.Fatalf("%s: %s", x.User, o)
	}
	return x
}

// keyless returns a ticket for a request without a key, for which the process makes a key.
func keyless(user, key string, now time.Duration) *request.Ticket {
	return request.NewTicket(new(sync.Pool), request.Request{User: user, Quantity: 1}, func() string { return key }, now)
}

// next returns the next call of the node, nil if there is none, and when to look again.
func (c *counted) next() (*Call, time.Duration) {
	call := new(Call)
	c.grant()
	ask, wake := c.g.Next(c.now, call)
	if !ask {
		return nil, wake
	}
	return call, wake
}

// nothing answers a call: the list is empty.
func (c *counted) nothing(call *Call) {
	c.g.HandleReply(c.now, call, []lists.Given{{Units: make([]lists.Unit, len(call.Batches[0].Users))}}, nil)
}

// told fails the test unless a ticket has that answer, "" for none.
func (c *counted) told(x *request.Ticket, want api.Outcome) request.Answer {
	c.Helper()
	switch {
	case want == "" && c.completed[x] == 0:
	case want == "" || c.completed[x] != 1 || x.Answer.Outcome != want:
		c.Errorf("%s was told %d times, %+v, want %q", x.User, c.completed[x], x.Answer, want)
	}
	return x.Answer
}

// TestGrabberWakes wakes whoever makes the calls when there may be something to ask.
func TestGrabberWakes(t *testing.T) {
	woken := func(c *counted) bool {
		select {
		case <-c.g.wake:
			return true
		default:
			return false
		}
	}
	want := func(c *counted, what string, want bool) {
		c.Helper()
		if got := woken(c); got != want {
			c.Errorf("%s: woken %v", what, got)
		}
	}
	c := newCountedAs(t, spec.AckRedis, 100)
	woken(c)
	a := c.wait(0, "a")
	want(c, "somebody comes", true)
	c.wait(0, "b")
	want(c, "another comes", false) // it is known that somebody waits
	call, _ := c.next()
	want(c, "all are asked for", false)
	c.gives(call, false)
	want(c, "a call is over", true)
	c.told(a, api.Sold)
	c.queues[0].markLogged([]string{"a"})
	want(c, "the ledger has more", true)
	c.queues[0].setFill(c.now, 1)
	want(c, "the list gives as before", false)
	c.queues[0].setFill(c.now, 2)
	want(c, "the list gives again", true)
	c.queues[0].requeue(request.NewTicket(new(sync.Pool), request.Request{User: "d", Key: "key", Quantity: 1}, nil, c.now.Mono))
	want(c, "units have come", true)
	for i := range maxPerCall {
		c.wait(0, fmt.Sprint("many-", i))
	}
	woken(c)
	c.g.SetMaxUnlogged(c.queues[0].shard, 10_000)
	if call, _ := c.next(); len(call.Batches[0].Users) != maxPerCall {
		t.Errorf("%d are asked for", len(call.Batches[0].Users))
	}
	want(c, "more wait than go into a call", true)
}

// TestGrabCalls holds who goes together into a call, and when there is one.
func TestGrabCalls(t *testing.T) {
	sizes := func(call *Call) (all [][2]int) {
		if call == nil {
			return nil
		}
		for i, b := range call.Batches {
			all = append(all, [2]int{b.List.Shard, len(b.Users)})
			if len(b.Users) != len(b.Keys) || len(b.Users) != len(call.tickets[i]) || b.Fill != 1 || b.At != call.queues[i].shard.Clock().Wall.UnixMicro() {
				t.Errorf("%+v", b)
			}
		}
		return all
	}
	want := func(t *testing.T, got, want [][2]int) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("asks shards for %v, want %v", got, want)
		}
	}
	crowd := func(c *counted, shard, n int) {
		for i := range n {
			c.wait(shard, fmt.Sprint("user-", shard, "-", i))
		}
	}
	t.Run("as many as go in, and each shard first in its turn", func(t *testing.T) {
		c := newCountedAs(t, spec.AckLedger, 10_000)
		crowd(c, 0, 400)
		crowd(c, 1, 700)
		first, _ := c.next()
		want(t, sizes(first), [][2]int{{0, 400}, {1, maxPerCall - 400}})
		second, _ := c.next()
		want(t, sizes(second), [][2]int{{1, maxPerCall}})
		if third, wake := c.next(); third != nil || wake != 0 {
			t.Errorf("with two calls under way it asks %v, or at %v", sizes(third), wake)
		}
		if n := c.queues[1].State(c.now).Waiting; n != 700 {
			t.Errorf("%d wait on shard 1", n)
		}
		c.g.HandleReply(c.now, first, []lists.Given{{Why: lists.ErrFill}, {Why: lists.ErrFill}}, nil)
		if third, _ := c.next(); third != nil {
			t.Errorf("of lists that are off it asks %v", sizes(third))
		}
	})
	t.Run("nobody twice at a time, and who has gone not at all", func(t *testing.T) {
		c := newCountedAs(t, spec.AckLedger, 10_000)
		c.wait(0, "a")
		c.wait(0, "b").Withdraw()
		c.wait(0, "a")
		c.wait(0, "c")
		first, _ := c.next()
		if got := first.Batches[0].Users; !slices.Equal(got, []string{"a", "c"}) {
			t.Errorf("it asks for %q", got)
		}
		if second, _ := c.next(); second != nil {
			t.Errorf("it asks for %q", second.Batches[0].Users)
		}
		c.gives(first, false)
		second, _ := c.next()
		if got := second.Batches[0].Users; !slices.Equal(got, []string{"a"}) {
			t.Errorf("it asks for %q", got)
		}
	})
	t.Run("each shard's crowd in its turn", func(t *testing.T) {
		c := newCountedAs(t, spec.AckLedger, 10_000)
		crowd(c, 0, 2*maxPerCall)
		crowd(c, 1, 2*maxPerCall)
		call := new(Call) // whoever makes calls uses one again and again
		for turn := range 4 {
			c.grant()
			if ask, _ := c.g.Next(c.now, call); !ask {
				t.Fatal("it asks for nobody")
			}
			want(t, sizes(call), [][2]int{{turn % 2, maxPerCall}})
			c.gives(call, false)
		}
	})
	t.Run("as many as go in, also of those who are asked for again", func(t *testing.T) {
		c := newCountedAs(t, spec.AckLedger, 10_000)
		crowd(c, 0, 400)
		crowd(c, 1, 700)
		first, _ := c.next()
		second, _ := c.next()
		for _, call := range []*Call{first, second} {
			c.g.HandleReply(c.now, call, nil, errors.New("the reply is lost"))
		}
		c.now.Mono += RetryDelay
		again, _ := c.next()
		want(t, sizes(again), [][2]int{{0, 400}, {1, maxPerCall - 400}})
	})
	t.Run("nobody of a list that is off", func(t *testing.T) {
		c := newCountedAs(t, spec.AckLedger, 10_000)
		c.queues[1].setFill(c.now, 0)
		crowd(c, 1, 3)
		if call, wake := c.next(); call != nil || wake != 0 {
			t.Errorf("it asks %v, or at %v", sizes(call), wake)
		}
		crowd(c, 0, 1)
		<-c.g.wake
		call, _ := c.next()
		want(t, sizes(call), [][2]int{{0, 1}})
		if len(c.g.wake) != 0 {
			t.Error("it wakes others for those whose list is off")
		}
	})
	t.Run("after a pause, where one failed", func(t *testing.T) {
		c := newCountedAs(t, spec.AckLedger, 10_000)
		c.wait(0, "a")
		call, _ := c.next()
		c.g.HandleReply(c.now, call, nil, quorum.ErrUnsent)
		again := c.now.Mono + RetryDelay
		c.now.Mono = again - 1
		if call, wake := c.next(); call != nil || wake != again {
			t.Errorf("it asks %v, or at %v", sizes(call), wake)
		}
		c.now.Mono = again
		if call, _ = c.next(); call == nil {
			t.Error("it does not ask when the pause is over")
		}
		c.g.HandleReply(c.now, call, nil, quorum.ErrUnsent)
		c.queues[0].drain(closed)
		if call, wake := c.next(); call != nil || wake != 0 {
			t.Errorf("with nobody it asks %v, or at %v", sizes(call), wake)
		}
	})
	t.Run("nobody without rights", func(t *testing.T) {
		c := newCountedAs(t, spec.AckLedger, 10_000)
		x, y, z := c.wait(0, "a"), c.wait(1, "b"), c.wait(0, "c")
		y.SentToList, c.noRights = true, true
		z.Withdraw()
		if call, wake := c.next(); call != nil || wake != 0 {
			t.Errorf("it asks %v, or at %v", sizes(call), wake)
		}
		if a := c.told(x, api.NoQuorum); a.RetryAfter != time.Second {
			t.Errorf("%+v", a)
		}
		c.told(y, api.Unknown) // who was asked for before may have something
		c.told(z, "")
		if n := c.queues[0].State(c.now).Waiting + c.queues[1].State(c.now).Waiting; n != 0 {
			t.Errorf("%d wait still", n)
		}
	})
}

// TestGrabberRefuses says at once why nothing can be had.
func TestGrabberRefuses(t *testing.T) {
	c := newCountedAs(t, spec.AckRedis, 2)
	offer := func(want api.Outcome) {
		t.Helper()
		if got := c.queues[0].Offer(c.now, request.NewTicket(new(sync.Pool), request.Request{User: fmt.Sprint(c.unit), Key: "key", Quantity: 1}, nil, c.now.Mono)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		c.unit++
	}
	offer("")
	c.queues[0].setFill(c.now, 0)
	waits := c.wait(0, "waits")
	c.now.Mono += shard.StallAfter - 1
	offer("")
	c.queues[0].setFill(c.now, 0)
	c.told(waits, "")
	c.now.Mono++
	offer(api.NoQuorum)
	c.queues[0].setFill(c.now, 0)
	if a := c.told(waits, api.NoQuorum); a.Message != NodeSilent.Message {
		t.Errorf("%+v", a)
	}
	c.queues[0].setFill(c.now, 2)
	c.g.bound = 2
	offer("")
	call, _ := c.next()
	offer("")
	offer(api.Overloaded) // one is asked for, and one waits
	c.gives(call, false)
	c.g.bound = 3
	offer("")
	call, _ = c.next()
	c.gives(call, false)
	offer(api.Overloaded) // the ledger lacks as many as it may
	c.queues[0].ShutDown(request.Refusal(api.Draining))
	offer(api.Draining)
	x := c.watch(request.NewTicket(new(sync.Pool), request.Request{User: "x", Key: "key", Quantity: 1}, nil, c.now.Mono))
	c.queues[0].requeue(x)
	if a := c.told(x, api.Draining); a.RetryAfter != time.Second {
		t.Errorf("%+v", a)
	}
	if on, behind := c.queues[0].fill != 0, c.queues[0].backlog.unlogged; on || behind != 0 {
		t.Errorf("on %v, behind %d", on, behind)
	}
}

// TestGrabberReports has a sequencer receive each entry of the stream, and what is to be drained at once.
func TestGrabberReports(t *testing.T) {
	heard := func(c *counted, want int) {
		c.Helper()
		if got := len(c.posted[0]); got != want {
			c.Errorf("%d events, want %d", got, want)
		}
		c.posted[0] = nil
	}
	call := func(c *counted, user string) *Call {
		c.wait(0, user)
		call, _ := c.next()
		return call
	}
	t.Run("ack redis", func(t *testing.T) {
		c := newCountedAs(t, spec.AckRedis, 8)
		c.gives(call(c, "a"), false)
		heard(c, 1)
		c.gives(call(c, "b"), false)
		heard(c, 1)
		if given, behind := c.queues[0].given, c.queues[0].backlog.unlogged; given != 2 || behind != 2 {
			t.Errorf("%d given, %d behind", given, behind)
		}
		c.queues[0].markLogged([]string{"a"})
		c.gives(call(c, "a"), true)
		heard(c, 0)
		for _, user := range []string{"c", "d", "e", "f"} {
			c.gives(call(c, user), false)
			if e := c.posted[0]; len(e) != 1 || e[0].(shard.GrabsDone).DrainNow != (user == "f") {
				t.Errorf("after %s: %v; the ledger lacks more than half of what it may after f", user, e)
			}
			heard(c, 1)
		}
		if c.queues[0].State(c.now).Idle() || !c.queues[1].State(c.now).Idle() {
			t.Errorf("busy: %v, %v", !c.queues[0].State(c.now).Idle(), !c.queues[1].State(c.now).Idle())
		}
	})
	t.Run("ack ledger", func(t *testing.T) {
		c := newCountedAs(t, spec.AckLedger, 8)
		for _, user := range []string{"a", "b"} {
			c.gives(call(c, user), false)
			if e := c.posted[0]; len(e) != 1 || len(e[0].(shard.GrabsDone).Unlogged) != 1 {
				t.Errorf("%v: want one that waits for the ledger", e)
			}
			heard(c, 1)
		}
	})
	t.Run("an empty list", func(t *testing.T) {
		c := newCountedAs(t, spec.AckRedis, 8)
		x := c.wait(0, "a")
		first, _ := c.next()
		c.nothing(first)
		if e := c.posted[0]; len(e) != 1 || len(e[0].(shard.GrabsDone).Short) != 1 || x.SentToList {
			t.Errorf("%v, asked: %v", e, x.SentToList)
		}
		heard(c, 1)
		c.nothing(call(c, "b"))
		heard(c, 1) // each waits for units
		if !c.queues[0].State(c.now).Idle() {
			t.Error("busy")
		}
	})
	t.Run("a list that is lost", func(t *testing.T) {
		c := newCountedAs(t, spec.AckRedis, 8)
		x := c.wait(0, "a")
		first, _ := c.next()
		c.g.HandleReply(c.now, first, []lists.Given{{Why: lists.ErrFill}}, nil)
		heard(c, 1)
		if on := c.queues[0].fill != 0; on || c.queues[0].State(c.now).Waiting != 1 || !x.Withdraw() {
			t.Errorf("on: %v, %d wait", on, c.queues[0].State(c.now).Waiting)
		}
		// A reply from before does not turn off what gives again.
		c.wait(0, "b")
		c.queues[0].setFill(c.now, 2)
		late, _ := c.next()
		c.queues[0].setFill(c.now, 3)
		c.g.HandleReply(c.now, late, []lists.Given{{Why: lists.ErrFill}}, nil)
		if on := c.queues[0].fill != 0; !on {
			t.Error("it is off")
		}
	})
	t.Run("a sequencer that has ended", func(t *testing.T) {
		for ack, want := range map[spec.Ack][2]api.Outcome{spec.AckLedger: {api.Unknown, api.Standby}, spec.AckRedis: {api.Sold, api.Standby}} {
			c := newCountedAs(t, ack, 8)
			x, y, z := c.wait(0, "a"), c.wait(0, "b"), c.wait(0, "c")
			both, _ := c.next()
			end(c.queues[0].shard, shard.Halt{Why: errors.New("the end"), Refusal: api.Standby})
			x.OnAnswer(request.WaiterFunc(func() { z.Withdraw(); c.completed[x]++ })) // at once, if x has its answer before
			c.g.HandleReply(c.now, both, []lists.Given{{Units: []lists.Unit{{Number: 1}, {}, {}}}}, nil)
			c.told(x, want[0])
			if ack == spec.AckRedis {
				c.told(z, "")
			}
			if a := c.told(y, want[1]); a.RetryAfter != time.Second {
				t.Errorf("%+v", a)
			}
		}
	})
}

// TestGrabberHours tells those who come too early when to come, and those who come too
// late that it is closed.
func TestGrabberHours(t *testing.T) {
	for why, want := range map[error]request.Answer{
		lists.ErrNotOpen: {Outcome: api.NotOpen, RetryAfter: 5 * time.Second},
		lists.ErrClosed:  {Outcome: api.Closed},
	} {
		c := newCountedAs(t, spec.AckRedis, 8)
		asked := []*request.Ticket{c.wait(0, "a"), c.wait(0, "has a unit"), c.wait(0, "b")}
		call, _ := c.next()
		units := []lists.Unit{{}, {Number: 1, Before: true, Key: "another"}, {}}
		c.g.HandleReply(c.now, call, []lists.Given{{Why: why, OpensAt: call.Batches[0].At + 5_000_000, Units: units}}, nil)
		for _, x := range asked {
			if a := c.told(x, want.Outcome); a.RetryAfter != want.RetryAfter {
				t.Errorf("%s: %+v, want %+v", x.User, a, want)
			}
		}
		c.lacks(0)
	}
}

// TestGrabberSilence has a node not answer: who waits for long is told so, and that
// nobody knows where the node may have given something.
func TestGrabberSilence(t *testing.T) {
	lost := errors.New("the reply is lost")
	c := newCountedAs(t, spec.AckLedger, 100)
	begun := c.now
	asked := c.wait(0, "asked")
	call, _ := c.next()
	early, gone := c.wait(0, "early"), c.wait(0, "gone")
	gone.Withdraw()
	c.now.Mono++
	later := c.wait(0, "later")
	c.now.Mono = begun.Mono + shard.StallAfter - 1
	c.g.HandleReply(c.now, call, nil, lost)
	c.told(asked, "")
	c.now.Mono += RetryDelay
	if s := c.queues[0].State(c.now).Stall; s == nil || s.Error != lost.Error() || !s.Since.Equal(begun.Wall) || !s.Node {
		t.Errorf("stall %+v", s)
	}
	call, _ = c.next()
	if got := call.Batches[0].Users; !slices.Equal(got, []string{"asked"}) {
		t.Errorf("while it is silent it is asked for %q", got)
	}
	c.now.Mono = begun.Mono + shard.StallAfter + RetryDelay
	later.QueuedAt = c.now.Mono - shard.StallAfter + 1
	c.g.HandleReply(c.now, call, nil, lost)
	c.told(asked, api.Unknown)
	if a := c.told(early, api.NoQuorum); a.Message != NodeSilent.Message {
		t.Errorf("%+v", a)
	}
	c.told(gone, "")
	c.told(later, "")
	c.now.Mono += RetryDelay
	call, _ = c.next()
	c.g.HandleReply(c.now, call, nil, quorum.ErrUnsent) // nothing can have been given
	c.told(later, api.NoQuorum)
	last := c.now
	c.now.Mono = last.Mono + 2*shard.StallAfter
	if c.queues[0].State(c.now).Stall == nil {
		t.Error("the failure is no news any more")
	}
	c.now.Mono++
	if c.queues[0].State(c.now).Stall != nil {
		t.Error("the failure is news still")
	}
	x := c.wait(0, "x")
	call, _ = c.next()
	c.gives(call, false)
	if c.queues[0].State(c.now).Stall != nil {
		t.Error("it stalls though the node answers")
	}
	c.told(x, "")
}

// TestGrabberFull refuses those who wait on a shard of which the ledger lacks as much as
// it may, but for those who may have something. Other shards give meanwhile.
func TestGrabberFull(t *testing.T) {
	c := newCountedAs(t, spec.AckRedis, 2)
	x, y := c.wait(0, "a"), c.wait(0, "b")
	first, _ := c.next()
	z := c.wait(0, "c")
	if call, wake := c.next(); call != nil || wake != 0 {
		t.Errorf("it asks again, or at %v", wake) // all that the ledger may lack is asked for
	}
	c.told(z, "")
	z.SentToList = true
	c.gives(first, false)
	c.told(x, api.Sold)
	c.told(y, api.Sold)
	fresh := c.keptWaiting(0, "d")
	other := c.wait(1, "e")
	call, _ := c.next()
	if len(call.Batches) != 1 || !slices.Equal(call.Batches[0].Users, []string{"e"}) {
		t.Errorf("it asks for %v", call.Batches)
	}
	c.told(z, "")
	if a := c.told(fresh, api.Overloaded); a.RetryAfter != time.Second {
		t.Errorf("%+v", a)
	}
	c.gives(call, false)
	c.told(other, api.Sold)
	z.SentToList = false
	if call, wake := c.next(); call != nil || wake != 0 {
		t.Errorf("it asks again, or at %v", wake)
	}
	c.told(z, api.Overloaded)
	c.queues[0].markLogged([]string{"a"})
	c.wait(0, "f")
	c.gives(c.asks("f"), false)
	c.wait(1, "g")
	c.gives(c.asks("g"), false)
	for i := range c.queues {
		if o := c.queues[i].Offer(c.now, request.NewTicket(new(sync.Pool), request.Request{User: "h", Key: "key", Quantity: 1}, nil, c.now.Mono)); o != api.Overloaded {
			t.Errorf("shard %d: %q", i, o)
		}
	}
}

// keptWaiting has a request wait that was let in before the ledger fell behind.
func (c *counted) keptWaiting(of int, user string) *request.Ticket {
	x := c.watch(request.NewTicket(new(sync.Pool), request.Request{User: user, Key: "key", Quantity: 1}, nil, c.now.Mono))
	c.queues[of].shard.Enter(x)
	c.queues[of].tickets = append(c.queues[of].tickets, x)
	return x
}

// TestGrabberTakesOver has a process give of a shard that moves in as soon as its list
// gives, whatever the other shards are about.
func TestGrabberTakesOver(t *testing.T) {
	c := newCountedAs(t, spec.AckRedis, 2)
	c.queues[0].setFill(c.now, 0) // its list is read, and filled anew
	c.wait(0, "a")
	c.wait(1, "b")
	c.gives(c.asks("b"), false)
	c.queues[0].setFill(c.now, 2)
	c.gives(c.asks("a"), false)
	for i, q := range c.queues {
		if n := q.backlog.size(); n != 1 {
			t.Errorf("of shard %d the ledger lacks %d", i, n)
		}
	}
}

// TestAllot changes how much the ledger may lack while requests wait.
func TestAllot(t *testing.T) {
	c := newCountedAs(t, spec.AckRedis, 1)
	c.wait(0, "a")
	first := c.asks("a")
	b, d := c.wait(0, "b"), c.wait(0, "d")
	c.asks()
	for len(c.g.wake) > 0 {
		<-c.g.wake
	}
	c.g.SetMaxUnlogged(c.queues[0].shard, 2)
	if len(c.g.wake) != 1 {
		t.Error("nobody is woken")
	}
	second := c.asks("b")
	c.g.SetMaxUnlogged(c.queues[0].shard, 1)
	c.gives(first, false)
	c.gives(second, false)
	c.told(b, api.Sold)
	c.lacks(2) // what it lacks already stays
	c.asks()
	c.told(d, api.Overloaded)
	c.queues[0].markLogged([]string{"a"})
	if o := c.queues[0].Offer(c.now, request.NewTicket(new(sync.Pool), request.Request{User: "e", Key: "key", Quantity: 1}, nil, c.now.Mono)); o != api.Overloaded {
		t.Errorf("%q, and the ledger lacks as many as it may", o)
	}
	c.queues[0].markLogged([]string{"b"})
	c.offer("e")
	c.asks("e")
}

// TestGrabberDropsDoubts ends the doubt about a request when the node's answer decides
// it: with ack ledger any answer that names a unit, with ack redis only one that was
// given under another key, for the log may lack what was given now.
func TestGrabberDropsDoubts(t *testing.T) {
	first, same, other := lists.Unit{Number: 1}, lists.Unit{Number: 1, Before: true, Key: "key"}, lists.Unit{Number: 1, Before: true, Key: "first"}
	for name, test := range map[string]struct {
		ack    spec.Ack
		unit   lists.Unit
		minted bool
		stays  bool
	}{
		"ack ledger, given now":                 {spec.AckLedger, first, false, false},
		"ack ledger, given before":              {spec.AckLedger, same, false, false},
		"ack ledger, given under another key":   {spec.AckLedger, other, false, false},
		"ack ledger, nothing":                   {spec.AckLedger, lists.Unit{}, false, true},
		"ack ledger, of a request without keys": {spec.AckLedger, first, true, true},
		"ack redis, given now":                  {spec.AckRedis, first, false, true},
		"ack redis, given before":               {spec.AckRedis, same, false, true},
		"ack redis, given under another key":    {spec.AckRedis, other, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCountedAs(t, test.ack, 8)
			s := c.queues[0].shard
			x := c.watch(request.NewTicket(new(sync.Pool), request.Request{User: "a", Key: "key", Quantity: 1}, nil, c.now.Mono))
			if test.minted {
				x = c.watch(keyless("a", "key", c.now.Mono))
			}
			if o := c.queues[0].Offer(c.now, x); o != "" {
				t.Fatal(o)
			}
			s.Doubts.Add(saletest.UID, 0, "a", "key")
			call, _ := c.next()
			c.g.HandleReply(c.now, call, []lists.Given{{Units: []lists.Unit{test.unit}}}, nil)
			if s.Doubts.Has("a", "key") != test.stays {
				t.Errorf("in doubt: %v", !test.stays)
			}
		})
	}
}

// keyed has a user's request wait that came with a key, so that it can be asked again.
func (c *counted) keyed(of int, user string) *request.Ticket {
	c.Helper()
	x := c.watch(request.NewTicket(new(sync.Pool), request.Request{User: user, Key: "key", Quantity: 1}, nil, c.now.Mono))
	if o := c.queues[of].Offer(c.now, x); o != "" {
		c.Fatalf("%s: %s", user, o)
	}
	return x
}

// TestGrabberAsksAgain has calls for a request fail in different ways. Whoever may have
// been given something cannot go as if nothing had happened, and hears in the end that
// nobody knows; all others hear that they got nothing.
func TestGrabberAsksAgain(t *testing.T) {
	lost, off, empty := errors.New("the reply is lost"), lists.ErrFill, errors.New("the list is empty")
	for name, test := range map[string]struct {
		replies []error
		mayHave bool // it may have been given something
		end     api.Outcome
	}{
		"a call that was not sent":                     {[]error{quorum.ErrUnsent}, false, api.NoQuorum},
		"a reply that is lost":                         {[]error{lost}, true, api.Unknown},
		"lost, then not sent":                          {[]error{lost, quorum.ErrUnsent}, true, api.Unknown},
		"not sent, then lost":                          {[]error{quorum.ErrUnsent, lost}, true, api.Unknown},
		"a list that is off":                           {[]error{off}, false, api.NoQuorum},
		"a reply that is lost, and a list that is off": {[]error{lost, off}, true, api.Unknown},
		"a reply that is lost, and an empty list":      {[]error{lost, empty}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCountedAs(t, spec.AckRedis, 100)
			x, s := c.keyed(0, "a"), c.queues[0].shard
			for _, reply := range test.replies {
				c.now.Mono += RetryDelay
				call, _ := c.next()
				switch reply {
				case off:
					c.g.HandleReply(c.now, call, []lists.Given{{Why: off}}, nil)
				case empty:
					c.nothing(call)
				default:
					c.g.HandleReply(c.now, call, nil, reply)
				}
			}
			if s.Doubts.Has("a", "key") != test.mayHave {
				t.Errorf("in doubt: %v", !test.mayHave)
			}
			if test.end == "" { // it waits for units, and has none
				if x.SentToList || !x.Withdraw() {
					t.Error("it cannot be withdrawn")
				}
				return
			}
			waits := x.Take()
			if waits == test.mayHave {
				t.Errorf("it may be withdrawn: %v", waits)
			}
			if waits {
				x.PutBack()
			}
			c.queues[0].setFill(c.now, 2)
			c.now.Mono = x.QueuedAt + shard.StallAfter
			call, _ := c.next()
			c.g.HandleReply(c.now, call, nil, quorum.ErrUnsent)
			c.told(x, test.end)
		})
	}
}

// TestGrabberGivesUp ends the wait of all who have waited for too long when a call
// fails: of those it was for, and of those who were not asked for at all. Who waits to
// be asked for again waits on.
func TestGrabberGivesUp(t *testing.T) {
	lost := errors.New("the reply is lost")
	c := newCountedAs(t, spec.AckLedger, 100)
	again := c.wait(0, "again")
	first, _ := c.next()
	inCall := []*request.Ticket{c.wait(0, "b"), c.wait(0, "c")}
	second, _ := c.next()
	queued := []*request.Ticket{c.wait(0, "d"), c.wait(0, "e")}
	c.g.HandleReply(c.now, first, nil, lost)
	c.now.Mono += shard.StallAfter
	c.g.HandleReply(c.now, second, nil, lost)
	for _, x := range inCall {
		c.told(x, api.Unknown)
	}
	for _, x := range queued {
		c.told(x, api.NoQuorum)
	}
	c.told(again, "")
	c.gives(c.asks("again"), false)
	unanswered := 0
	for _, e := range c.posted[0] {
		if e.(shard.GrabsDone).Unanswered {
			unanswered++
		}
	}
	if n := len(c.posted[0]); n != 3 || unanswered != 2 {
		t.Errorf("the sequencer receives %d events, %d of them of calls without a reply; want 3 and 2", n, unanswered)
	}
}

// TestGrabberHandsOver has the sequencer end for another process while a call is under way:
// what it gave, and who got nothing, is not told here but asked for there.
func TestGrabberHandsOver(t *testing.T) {
	var moved []*request.Ticket
	c := newCountedOf(t, 100, true, func(cfg *shard.Config) { cfg.Forward = func(ts []*request.Ticket) { moved = append(moved, ts...) } }).as(spec.AckLedger)
	x, y := c.keyed(0, "a"), c.keyed(0, "b")
	s := c.queues[0].shard
	call, _ := c.next()
	end(s, shard.Halt{Why: errors.New("another process owns it"), Refusal: api.NoQuorum, Elsewhere: true})
	c.gives(call, false)
	c.told(x, "")
	c.told(y, "")
	if len(moved) != 2 || !s.Underway.Has(&request.Request{User: "a", Key: "key"}) || !s.Underway.Has(&request.Request{User: "b", Key: "key"}) {
		t.Errorf("%d are handed over; a is under way: %v", len(moved), s.Underway.Has(&request.Request{User: "a", Key: "key"}))
	}
}

// TestGrabberTellsOfLimits has a shard go to another process while its node is asked for
// somebody who has a unit by another key: that stays the answer, though the log lacks the
// unit, and also where the owner before was asked.
func TestGrabberTellsOfLimits(t *testing.T) {
	for _, tried := range []bool{false, true} {
		c := newCountedAs(t, spec.AckRedis, 100)
		c.wait(0, "a")
		first, _ := c.next()
		c.gives(first, false)
		x := c.keyed(0, "a")
		x.MaybeDecided = tried
		call, _ := c.next()
		s := c.queues[0].shard
		c.queues[0].ShutDown(elsewhere(api.NoQuorum))
		c.g.HandleReply(c.now, call, []lists.Given{{Units: []lists.Unit{{Number: 1, Before: true, Key: "another"}}}}, nil)
		if !s.Doubts.Has("a", request.AnyKey) {
			t.Fatal("nobody is in doubt")
		}
		c.told(x, api.LimitReached)
	}
}

// TestDeniesBeforeTheListIsFilled has the owner before perhaps have given a user something:
// no final answer of the log's denies that before the list is filled anew, or off with all
// in the log.
func TestDeniesBeforeTheListIsFilled(t *testing.T) {
	for name, c := range map[string]struct {
		certain uint64
		drained bool
		answer  request.Answer
		want    bool
	}{
		"closed, and not filled":         {0, false, request.Answer{Outcome: api.Closed}, true},
		"paused, and not filled":         {0, false, request.Answer{Outcome: api.Paused}, false},
		"the limit by claims in the log": {0, false, request.Answer{Outcome: api.LimitReached, Claims: make([]request.Claim, 1)}, false},
		"more than anybody may have":     {0, false, request.Answer{Outcome: api.LimitReached}, true},
		"what the user has":              {0, false, request.Answer{Outcome: api.Sold}, false},
		"closed, and filled":             {3, false, request.Answer{Outcome: api.Closed}, false},
		"closed, and all is in the log":  {0, true, request.Answer{Outcome: api.Closed}, false},
		"all are sold, by the log":       {0, false, request.Answer{Outcome: api.SoldOut}, false},
	} {
		s := newCountedAs(t, spec.AckRedis, 100).queues[0].shard
		s.ForgetDoubts(c.drained, c.certain)
		if got := s.ListMayContradict(&c.answer); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestGrabberTriedElsewhere has a request come home that the owner before may have had a
// node give something: until the list is filled anew by this process nobody here knows,
// though the shard's log is read.
func TestGrabberTriedElsewhere(t *testing.T) {
	for name, end := range map[string]struct {
		fill uint64 // under which this process has had the list give
		how  func(c *counted, x *request.Ticket) request.Answer
		want api.Outcome
	}{
		"while the list is filled": {0, func(c *counted, x *request.Ticket) request.Answer {
			c.now.Mono += shard.StallAfter
			c.queues[0].setFill(c.now, 0)
			return c.told(x, api.Unknown)
		}, api.Unknown},
		"while the list is filled, for somebody who goes": {0, func(_ *counted, x *request.Ticket) request.Answer { return x.Cancel() }, api.Unknown},
		"without rights": {0, func(c *counted, x *request.Ticket) request.Answer {
			c.noRights = true
			c.next()
			return c.told(x, api.Unknown)
		}, api.Unknown},
		"filled, and off again": {2, func(c *counted, x *request.Ticket) request.Answer {
			c.now.Mono += shard.StallAfter
			c.queues[0].setFill(c.now, 0)
			return c.told(x, api.NoQuorum)
		}, api.NoQuorum},
		"filled, and somebody goes": {2, func(_ *counted, x *request.Ticket) request.Answer { return x.Cancel() }, api.Overloaded},
	} {
		t.Run(name, func(t *testing.T) {
			c := served(t, spec.AckLedger, 100, true)
			s := c.queues[0].shard
			s.ForgetDoubts(false, end.fill)
			c.queues[0].setFill(c.now, 0)
			x := c.watch(request.NewTicket(new(sync.Pool), request.Request{User: "a", Key: "key", Quantity: 1}, nil, c.now.Mono))
			x.MaybeDecided = true
			if o := c.queues[0].Offer(c.now, x); o != "" {
				t.Fatal(o)
			}
			if a := end.how(c, x); a.Outcome != end.want {
				t.Errorf("it is told %+v, want %q", a, end.want)
			}
			if want := end.want == api.Unknown; s.Doubts.Has("a", "key") != want {
				t.Errorf("in doubt: %v", !want)
			}
		})
	}
}

// TestGrabberRefusesNobodyWhoHas has requests wait for a list of which the owner before had
// given something: when it is filled the log has that, and whoever has it is told so,
// however all others are refused.
func TestGrabberRefusesNobodyWhoHas(t *testing.T) {
	for name, refusal := range map[string]struct {
		how             func(c *counted)
		has, hasAnother api.Outcome // who has it under this key, or under another one
	}{
		"while the ledger is as far behind as it may be": {func(c *counted) {
			c.queues[0].setFill(c.now, 2)
			c.queues[0].setState("somebody", c.queues[0].users["somebody"], unloggedGrab)
			c.next()
		}, api.Sold, api.Overloaded},
		"without rights": {func(c *counted) {
			c.queues[0].setFill(c.now, 2)
			c.noRights = true
			c.next()
		}, api.Sold, api.NoQuorum},
		"while the list is off": {func(c *counted) {
			c.now.Mono += shard.StallAfter
			c.queues[0].setFill(c.now, 0)
		}, api.Sold, api.NoQuorum},
		"for good":                   {func(c *counted) { c.queues[0].ShutDown(request.Answer{Outcome: api.Closed}) }, api.Sold, api.Closed},
		"where another is to decide": {func(c *counted) { c.queues[0].ShutDown(elsewhere(api.Standby)) }, api.Standby, api.Standby},
	} {
		t.Run(name, func(t *testing.T) {
			c := served(t, spec.AckLedger, 1, false, request.Request{User: "ann", Key: "key"}, request.Request{User: "bob", Key: "another"})
			c.queues[0].setFill(c.now, 0)
			has, mints, hasAnother, hasNothing := c.wait(0, "ann"), c.waitKeyless(0, "ann"), c.wait(0, "bob"), c.wait(0, "cid")
			c.queues[0].shard.ForgetDoubts(false, 2)
			refusal.how(c)
			if a := c.told(has, refusal.has); a.Outcome == api.Sold && (!a.Replayed || len(a.Claim.Units) != 1) {
				t.Errorf("%+v", a)
			}
			if a := c.told(mints, refusal.has); a.Replayed {
				t.Errorf("%+v", a)
			}
			c.told(hasAnother, refusal.hasAnother)
			c.told(hasNothing, refusal.hasAnother)
		})
	}
}

// TestGrabberKeyless has requests answered with the claim that the log has for their keys. Only one
// that came with its key is a repetition.
func TestGrabberKeyless(t *testing.T) {
	for name, end := range map[string]func(c *counted, x *request.Ticket) request.Answer{
		"the list is off for good": func(c *counted, x *request.Ticket) request.Answer {
			c.queues[0].drain(func(x *request.Ticket) request.Answer {
				a, _ := c.queues[0].shard.Recall(c.now, x.Request)
				return a
			})
			return c.told(x, api.Sold)
		},
		"nobody waits for it": func(_ *counted, x *request.Ticket) request.Answer { return x.Cancel() },
	} {
		for _, isKeyless := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, keyless %v", name, isKeyless), func(t *testing.T) {
				c := served(t, spec.AckLedger, 1, false, request.Request{User: "ann", Key: "key"})
				c.queues[0].setFill(c.now, 0)
				wait := c.wait
				if isKeyless {
					wait = c.waitKeyless
				}
				x := wait(0, "ann")
				c.queues[0].shard.ForgetDoubts(false, 2)
				want := api.Sold
				if isKeyless && name == "nobody waits for it" {
					want = api.Overloaded // its key is known to nobody
				}
				if a := end(c, x); a.Outcome != want || a.Replayed == isKeyless {
					t.Errorf("%+v", a)
				}
			})
		}
	}
}

// TestGrabberConcludes has requests that are answered not count as under way any more,
// however they are: another one of the same key could not be refused as long as they do.
func TestGrabberConcludes(t *testing.T) {
	for name, end := range map[string]struct {
		how  func(c *counted, call func() *Call)
		want api.Outcome
	}{
		"by the node": {func(c *counted, call func() *Call) { c.gives(call(), false) }, api.Sold},
		"without rights": {func(c *counted, _ func() *Call) {
			c.noRights = true
			c.next()
		}, api.NoQuorum},
		"by the end of the sequencer": {func(c *counted, call func() *Call) {
			under := call()
			end(c.queues[0].shard, shard.Halt{Why: errors.New("the end"), Refusal: api.Standby})
			c.nothing(under)
		}, api.Standby},
		"by the end of the shard": {func(c *counted, _ func() *Call) { c.queues[0].ShutDown(request.Refusal(api.Standby)) }, api.Standby},
		"by the end of the shard, while a call is under way that was not sent": {func(c *counted, call func() *Call) {
			under := call()
			c.queues[0].ShutDown(request.Refusal(api.Standby))
			c.g.HandleReply(c.now, under, nil, quorum.ErrUnsent)
		}, api.Standby},
		"by the end of the shard, while a call is under way whose reply is lost": {func(c *counted, call func() *Call) {
			under := call()
			c.queues[0].ShutDown(request.Refusal(api.Standby))
			c.g.HandleReply(c.now, under, nil, errors.New("the reply is lost"))
		}, api.Unknown},
		"by the end of the shard, while a call is under way that finds the list off": {func(c *counted, call func() *Call) {
			under := call()
			c.queues[0].ShutDown(request.Refusal(api.Standby))
			c.g.HandleReply(c.now, under, []lists.Given{{Why: lists.ErrFill}}, nil)
		}, api.Standby},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCountedAs(t, spec.AckRedis, 100)
			x := c.keyed(0, "a")
			end.how(c, func() *Call { call, _ := c.next(); return call })
			c.told(x, end.want)
			s := c.queues[0].shard
			if s.Underway.Has(&request.Request{User: "a", Key: "key"}) {
				t.Error("it is under way still")
			}
			if want := end.want == api.Unknown; s.Doubts.Has("a", "key") != want {
				t.Errorf("in doubt: %v", !want)
			}
		})
	}
}

// TestGrabberEndsInDoubt keeps those in doubt at the end of a shard who were given
// something that the ledger lacks, or may have been, and nobody else.
func TestGrabberEndsInDoubt(t *testing.T) {
	c := newCountedAs(t, spec.AckRedis, 100)
	c.wait(0, "given")
	call, _ := c.next()
	c.gives(call, false)
	c.wait(0, "asked")
	call, _ = c.next()
	s := c.queues[0].shard
	c.queues[0].ShutDown(request.Refusal(api.Standby))
	if !s.Doubts.Has("given", request.AnyKey) || s.Doubts.Has("asked", request.AnyKey) {
		t.Errorf("%d are in doubt", s.Doubts.Len())
	}
	c.gives(call, false)
	if !s.Doubts.Has("asked", request.AnyKey) {
		t.Error("who was given something after the end is not in doubt")
	}
}

// TestGrabberHandsBack answers the requests that wait on a list that is off for good, but
// those withdrawn.
func TestGrabberHandsBack(t *testing.T) {
	c := newCountedAs(t, spec.AckRedis, 100)
	asked := c.wait(0, "asked")
	call, _ := c.next()
	c.g.HandleReply(c.now, call, nil, errors.New("the reply is lost"))
	gone, waits := c.wait(0, "gone"), c.wait(0, "waits")
	gone.Withdraw()
	c.queues[0].shard.ForgetDoubts(true, 0)
	c.queues[0].drain(closed)
	c.told(asked, api.Closed)
	c.told(waits, api.Closed)
	c.told(gone, "")
	if n := c.queues[0].State(c.now).Waiting; n != 0 {
		t.Errorf("%d wait still", n)
	}
}

// end ends a shard.
func end(s *shard.Shard, h shard.Halt) {
	s.Apply(h)
	s.Act(func(calls.Call) {})
}

// elsewhere returns a refusal of a request that another process may accept.
func elsewhere(why api.Outcome) request.Answer {
	return request.Answer{Outcome: why, RetryAfter: time.Second, Elsewhere: true}
}

// served returns a batcher of two shards that are served, the first with these claims in its log. listed is
// as for newCountedOf; no node fills the lists.
func served(t *testing.T, ack spec.Ack, most int64, listed bool, claims ...request.Request) *counted {
	logs := memory.NewStore().Handle(nil)
	saletest.Provision(t, logs, saletest.Declared("served", 18, 2, 9), []int64{9, 9})
	serve := func(listed bool) *counted {
		return newCountedOf(t, most, listed, func(cfg *shard.Config) { cfg.Log, cfg.Queue = spec.ShardLog(saletest.UID, cfg.Shard, 2), 10 }).as(ack)
	}
	first := serve(false)
	act(first, logs)
	for _, r := range claims {
		x := first.watch(request.NewTicket(new(sync.Pool), r, nil, first.now.Mono))
		x.Quantity = 1
		if o := first.queues[0].shard.Offer(first.now, x); o != "" {
			t.Fatal(o)
		}
		act(first, logs)
		first.told(x, api.Sold)
	}
	c := serve(listed)
	act(c, logs)
	return c
}

// act has the shards act until they need no call of the store.
func act(c *counted, logs ledger.Logs) {
	c.grant()
	for _, q := range c.queues {
		for made := []calls.Call{{}}; len(made) > 0; {
			made = nil
			q.shard.Act(func(call calls.Call) {
				if call.Node == calls.Store {
					made = append(made, call)
				}
			})
			for _, call := range made {
				call.Took(c.now, call.Do(c.Context(), calls.Ends{Logs: logs}), nil)
			}
		}
	}
}

// drained reports whether somebody waits no longer for the ledger.
func drained(wait <-chan struct{}) bool {
	select {
	case <-wait:
		return true
	default:
		return false
	}
}

// TestDrainEnds ends the wait for the ledger when it has all that was given so far, or
// nobody here will know.
func TestDrainEnds(t *testing.T) {
	for name, end := range map[string]func(q *queue, now clock.Now){
		"the ledger has it":       func(q *queue, now clock.Now) { q.markLogged([]string{"a", "b"}) },
		"the list is filled anew": func(q *queue, now clock.Now) { q.setFill(now, 2) },
		"the shard ends":          func(q *queue, now clock.Now) { q.ShutDown(request.Refusal(api.Standby)) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCountedAs(t, spec.AckRedis, 100)
			q := c.queues[0]
			if !drained(q.Drain()) {
				t.Error("one waits for nothing")
			}
			c.wait(0, "a")
			c.wait(0, "b")
			call, _ := c.next()
			c.gives(call, false)
			c.posted[0] = nil
			wait := q.Drain()
			if e := c.posted[0]; len(e) != 1 || e[0] != shard.Event(shard.DrainRequested{}) {
				t.Errorf("the sequencer hears %v", e)
			}
			c.wait(0, "later")
			call, _ = c.next()
			c.gives(call, false)
			q.markLogged([]string{"a"})
			if drained(wait) {
				t.Fatal("one has waited for a part")
			}
			end(q, c.now)
			if !drained(wait) {
				t.Error("one waits still")
			}
			q.markLogged(nil) // it is not told twice
		})
	}
}

// TestGrabberCarries lets those who make calls sleep when a sequencer has nothing to say.
func TestGrabberCarries(t *testing.T) {
	for name, test := range map[string]struct {
		said  shard.ListEffects
		wakes bool
	}{
		"nothing":                       {shard.ListEffects{}, false},
		"the ledger has more":           {shard.ListEffects{LoggedUsers: []string{"a"}}, true},
		"units came for those who wait": {shard.ListEffects{Requeued: []*request.Ticket{request.NewTicket(new(sync.Pool), request.Request{User: "a", Key: "1", Quantity: 1}, nil, 0)}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCountedAs(t, spec.AckRedis, 100)
			<-c.g.wake
			c.queues[0].ApplyEffects(c.now, test.said)
			if woken := len(c.g.wake) > 0; woken != test.wakes {
				t.Errorf("woken: %v", woken)
			}
		})
	}
}

// TestDrainWaits has somebody wait for the ledger to have all that was given, though
// the reply to a call comes meanwhile that gave something before the list was filled
// anew.
func TestDrainWaits(t *testing.T) {
	c := newCountedAs(t, spec.AckRedis, 100)
	c.wait(0, "before")
	early, _ := c.next()
	c.queues[0].setFill(c.now, 2)
	c.wait(0, "a")
	call, _ := c.next()
	c.gives(call, false)
	wait := c.queues[0].Drain()
	c.gives(early, false)
	c.queues[0].markLogged([]string{"another"})
	if drained(wait) {
		t.Error("what was given before is taken for what is waited for")
	}
	c.queues[0].markLogged([]string{"a"})
	if !drained(wait) {
		t.Error("one waits for what was given before")
	}
}

// TestGrabberStalls says since when a node has not answered, and nothing of one that does.
func TestGrabberStalls(t *testing.T) {
	c := newCountedAs(t, spec.AckRedis, 100)
	c.now.Mono = time.Second // after the start of the host
	if s := c.queues[0].State(c.now).Stall; s != nil {
		t.Errorf("before any call: %+v", s)
	}
	since := c.now.Wall
	c.wait(0, "a")
	for range 3 {
		call, _ := c.next()
		c.g.HandleReply(c.now, call, nil, quorum.ErrUnsent)
		c.now.Mono, c.now.Wall = c.now.Mono+RetryDelay, c.now.Wall.Add(RetryDelay)
	}
	if s := c.queues[0].State(c.now).Stall; s == nil || !s.Since.Equal(since) {
		t.Errorf("%+v, want since %v", s, since)
	}
	c.queues[0].ApplyEffects(c.now, shard.ListEffects{Refusal: func(*request.Ticket) request.Answer { return request.Answer{Outcome: api.Closed} }})
	if s := c.queues[0].State(c.now).Stall; s != nil {
		t.Errorf("of a sale that is closed: %+v", s)
	}
}

// TestGrabberOwns has a process follow a shard's log for longer than a list may be off: who
// comes when the shard is its own waits for the list to be filled.
func TestGrabberOwns(t *testing.T) {
	c := newCountedAs(t, spec.AckRedis, 100)
	s := shard.New(shard.Config{
		Shard: 1, Log: "log-2", Writer: []byte("12345678"), Address: "a:1", UID: saletest.UID, Follows: true,
		Totals: shard.NewSaleTotals(2), Doubts: new(request.Doubts), Clock: func() clock.Now { return c.now },
	})
	c.g.AddShard(s, lists.List{UID: saletest.UID, Shard: 1}, lists.Sizes{}, 100, c.now)
	c.queues[1] = c.g.queueOf(s)
	c.now.Mono += 2 * shard.StallAfter
	c.queues[1].setFill(c.now, 0)
	c.g.SetOwned(s, c.now)
	x := c.wait(1, "x")
	c.now.Mono += shard.StallAfter - 1
	c.queues[1].setFill(c.now, 0)
	c.told(x, "")
	c.now.Mono++
	c.queues[1].setFill(c.now, 0)
	c.told(x, api.NoQuorum)
	c.queues[0].setFill(c.now, 0)
	c.now.Mono += shard.StallAfter
	c.queues[0].setFill(c.now, 1)
	c.g.SetOwned(c.queues[0].shard, c.now) // which gives, and goes on
	c.wait(0, "y")
}
