package machine

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/planner"
)

// cored steps a core by hand.
type cored struct {
	*Core
	t    *testing.T
	mono time.Duration
	said []string
}

func newCored(t *testing.T) *cored {
	return &cored{Core: NewCore(10 * time.Second), t: t, mono: time.Hour}
}

func (c *cored) time() clock.Now { return clock.Now{Mono: c.mono, Wall: time.Unix(1, 0).Add(c.mono)} }

func (c *cored) say(what string) func() { return func() { c.said = append(c.said, what) } }

// effects are the results of an event.
type effects struct {
	calls []calls.Call
	wake  time.Duration
	done  bool
	err   error
}

func (c *cored) take() effects {
	e := effects{c.Calls, c.Wake(), c.Over, c.Err}
	c.Calls = nil
	return e
}

func (c *cored) do(event func()) effects {
	c.Step(c.time(), event)
	return c.take()
}

func (c *cored) pass(d time.Duration) effects {
	c.mono += d
	c.Tick(c.time())
	return c.take()
}

func (c *cored) answer(k calls.Call, value any, err error) effects {
	k.Took(c.time(), Reply{value, err}, nil)
	return c.take()
}

// ask makes a call.
func (c *cored) ask(then func()) {
	OnStore(c.Core, "ask", CallTimeout, nil, func(any, error) { then() })
}

// heard compares what was said since it was last asked.
func (c *cored) heard(want string) {
	c.t.Helper()
	if got := strings.Join(c.said, " "); got != want {
		c.t.Fatalf("heard %q, want %q", got, want)
	}
	c.said = nil
}

func TestCoreTimers(t *testing.T) {
	c := newCored(t)
	e := c.do(func() {
		c.After(2*time.Second, c.say("two"))
		c.After(time.Second, c.say("one"))
		c.After(time.Second, c.say("one-again"))
		c.After(3*time.Second, func() { c.say("three")(); c.After(0, c.say("at-once")) })
		c.After(4*time.Second, c.say("four"))
	})
	if e.wake != c.mono+time.Second {
		t.Errorf("wake after %v", e.wake-c.mono)
	}
	c.pass(time.Second - 1)
	c.heard("")
	if e := c.pass(1); e.wake != c.mono+time.Second {
		t.Errorf("wake after %v", e.wake-c.mono)
	}
	c.heard("one one-again")
	c.pass(2 * time.Second)
	c.heard("two three at-once")
	if e := c.pass(time.Second); e.wake != 0 {
		t.Errorf("wake at %v, and nothing is due", e.wake)
	}
	c.heard("four")
}

func TestCoreReplies(t *testing.T) {
	c := newCored(t)
	var asked []calls.Call
	for _, what := range []string{"a", "b", "c"} {
		e := c.do(func() { c.ask(c.say(what)) })
		if len(e.calls) != 1 {
			t.Fatalf("calls %+v", e.calls)
		}
		asked = append(asked, e.calls...)
	}
	c.answer(asked[1], nil, nil)
	c.heard("b")
	if e := c.answer(asked[0], nil, errors.New("broken")); len(e.calls) != 0 || e.done {
		t.Errorf("effects %+v", e)
	}
	if c.Worry == nil || c.Worry.Error() != "broken" {
		t.Errorf("worry %v", c.Worry)
	}
	c.heard("a")
	c.do(func() { c.After(time.Second, c.say("late")); c.Leave() })
	c.answer(asked[2], nil, nil)
	c.pass(time.Minute)
	c.heard("")
}

// The error of a call is kept, also where none was made.
func TestCoreWorries(t *testing.T) {
	c := newCored(t)
	e := c.do(func() { c.ask(func() {}) })
	e.calls[0].Took(c.time(), nil, errors.New("no disk"))
	if c.Worry == nil || c.Worry.Error() != "no disk" {
		t.Errorf("worry %v", c.Worry)
	}
	e = c.do(func() { c.ask(func() {}) })
	if c.answer(e.calls[0], nil, nil); c.Worry == nil {
		t.Error("a call that succeeds takes the worry away") // it may be the other one that fails still
	}
}

func TestCoreEnds(t *testing.T) {
	c := newCored(t)
	first, second := errors.New("first"), errors.New("second")
	e := c.do(func() {
		c.ask(c.say("reply"))
		c.After(time.Second, func() { c.End(first); c.End(second) })
		c.After(time.Second, c.say("behind"))
	})
	asked := e.calls[0]
	e = c.pass(time.Second)
	if !e.done || e.err != first || len(e.calls) != 0 || e.wake != 0 {
		t.Errorf("effects %+v", e)
	}
	c.answer(asked, nil, nil)
	c.pass(time.Minute)
	c.do(c.say("event"))
	c.heard("")
	e = newCored(t).do(func() {})
	if e.done {
		t.Error("done at once")
	}
	c = newCored(t)
	if e = c.do(func() { c.ask(nil); c.End(nil) }); !e.done || e.err != nil || len(e.calls) != 0 {
		t.Errorf("effects %+v", e)
	}
}

func TestCoreInsists(t *testing.T) {
	broken := errors.New("broken")
	readHeads := func(c *cored) { c.ReadHeads(nil, func([][]byte) { c.say("done")() }) }
	for name, begin := range map[string]func(c *cored){
		"the heads of the shards": readHeads,
		"log sale/x":              func(c *cored) { c.DeleteLog("sale/x", 1, c.say("done")) },
	} {
		c := newCored(t)
		began := c.mono
		e := c.do(func() { begin(c) })
		var pauses []time.Duration
		for !e.done {
			if len(e.calls) != 1 {
				t.Fatalf("calls %+v", e.calls)
			}
			if e = c.answer(e.calls[0], nil, broken); e.done {
				break
			}
			pauses = append(pauses, e.wake-c.mono)
			e = c.pass(e.wake - c.mono)
		}
		const ms = time.Millisecond
		if want := []time.Duration{20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 640 * ms, time.Second, time.Second}; !slices.Equal(pauses[:8], want) {
			t.Errorf("pauses %v, want %v", pauses, want)
		}
		if took := c.mono - began; took <= 10*time.Second || took > 12*time.Second {
			t.Errorf("gave up after %v", took)
		}
		if !errors.Is(e.err, planner.ErrStore) || !errors.Is(e.err, broken) || !strings.Contains(e.err.Error(), "tried for 10s: "+name) {
			t.Errorf("ended with %v", e.err)
		}
		c.heard("")
	}
	c := newCored(t)
	e := c.do(func() { readHeads(c) })
	c.mono += 10 * time.Second // as long as patience lasts, and no longer
	if e = c.answer(e.calls[0], nil, broken); e.done {
		t.Fatal("gave up too soon")
	}
	e = c.pass(20 * time.Millisecond)
	c.answer(e.calls[0], nil, nil)
	c.heard("done")
}

// A window of a list is worked on at a time, and the last that is done ends it.
func TestCoreEach(t *testing.T) {
	list := make([]int, 2*window+10)
	for i := range list {
		list[i] = i
	}
	t.Run("one by one", func(t *testing.T) {
		c := newCored(t)
		var open []func()
		started := 0
		c.do(func() {
			c.Each(list, func(i int, done func()) {
				if i != started {
					t.Fatalf("%d comes after %d", i, started-1)
				}
				started++
				open = append(open, done)
			}, c.say("all"))
		})
		for len(open) > 0 {
			if len(open) > window || started < len(list) && len(open) != window {
				t.Fatalf("%d are worked on, %d were begun", len(open), started)
			}
			c.heard("")
			last := open[len(open)-1]
			open = open[:len(open)-1]
			c.do(last)
		}
		c.heard("all")
		if started != len(list) {
			t.Errorf("%d were begun", started)
		}
	})
	t.Run("at once", func(t *testing.T) {
		c := newCored(t)
		n := 0
		c.do(func() { c.Each(list, func(_ int, done func()) { n++; done() }, c.say("all")) })
		if c.heard("all"); n != len(list) {
			t.Errorf("%d were done", n)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		c := newCored(t)
		c.do(func() { c.Each(nil, func(int, func()) { t.Error("begun") }, c.say("all")) })
		c.heard("all")
	})
	t.Run("to the end of the machine", func(t *testing.T) {
		for _, last := range []int{3, len(list) - 1} {
			c := newCored(t)
			n := 0
			c.do(func() {
				c.Each(list, func(i int, done func()) {
					if n++; i == last {
						c.End(nil)
					}
					done()
				}, c.say("all"))
			})
			if c.heard(""); n != last+1 {
				t.Errorf("%d were begun, the machine ended in the %dth", n, last+1)
			}
		}
	})
}

// What is not configured is as people expect it.
func TestConfigByDefault(t *testing.T) {
	if got := NewCore(0).Patience; got != 10*time.Second {
		t.Errorf("patience lasts %v", got)
	}
	if got := NewCore(time.Second).Patience; got != time.Second {
		t.Errorf("a patience of 1s lasts %v", got)
	}
	mine := slog.New(slog.DiscardHandler)
	if (Backends{Logger: mine}).logger() != mine || (Backends{}).logger() == nil {
		t.Error("what goes wrong is not told to the logger")
	}
}
