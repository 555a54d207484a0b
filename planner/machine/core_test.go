package machine

import (
	"errors"
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
	c := &cored{Core: NewCore(10 * time.Second), t: t, mono: time.Hour}
	t.Cleanup(c.drop)
	return c
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

// ask makes a call in a task of its own.
func (c *cored) ask(then func()) {
	c.Go(func() {
		OnStore[any](c.Core, "ask", CallTimeout, nil)
		then()
	})
}

// after goes on after a time, in a task of its own.
func (c *cored) after(d time.Duration, then func()) {
	c.Go(func() {
		c.Sleep(d)
		then()
	})
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
		c.after(2*time.Second, c.say("two"))
		c.after(time.Second, c.say("one"))
		c.after(time.Second, c.say("one-again"))
		c.after(3*time.Second, func() { c.say("three")(); c.Sleep(0); c.say("at-once")() })
		c.after(4*time.Second, c.say("four"))
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
	c.do(func() { c.after(time.Second, c.say("late")); c.Go(func() { c.Become(c.say("heir")) }) })
	if c.heard("heir"); !c.Over || c.Err != nil {
		t.Errorf("over %v, %v", c.Over, c.Err)
	}
	c.answer(asked[2], nil, nil)
	c.pass(time.Minute)
	c.heard("")
}

// A job that replaces another begins once all tasks of that one have ended, and the calls
// that these have requested are still made.
func TestCoreBecomes(t *testing.T) {
	c := newCored(t)
	e := c.do(func() {
		c.Start(func() {
			defer c.say("unwound")()
			c.ask(c.say("reply"))
			c.Each(3, func(i int) {
				if i == 1 {
					c.Become(func() { c.Sleep(time.Second); c.say("heir")() })
				}
				c.Sleep(time.Second)
				c.say("late")()
			})
			c.say("behind")()
		})
	})
	if c.heard("unwound"); len(e.calls) != 1 || e.done || e.wake != c.mono+time.Second {
		t.Errorf("effects %+v", e)
	}
	c.answer(e.calls[0], nil, nil)
	e = c.pass(time.Second)
	if c.heard("heir"); !e.done || e.err != nil {
		t.Errorf("effects %+v", e)
	}
}

// What takes longer than it may fails, and what wakes it later is ignored.
func TestCoreWithin(t *testing.T) {
	late, broken := errors.New("late"), errors.New("broken")
	c := newCored(t)
	var got []error
	within := func(d time.Duration, do func()) {
		c.do(func() { c.Go(func() { got = append(got, c.Within(d, late, do)) }) })
	}
	within(time.Second, func() { c.Sleep(time.Minute); c.say("never")() })
	within(time.Second, func() { c.Each(2, func(int) { c.Sleep(2 * time.Second); c.say("each")() }); c.say("never")() })
	within(2*time.Second, func() { c.Sleep(time.Second); c.say("in-time")() })
	within(0, func() { c.Sleep(time.Minute); c.say("at-leisure")() })
	within(time.Second, func() { c.Fail(broken) })
	for range 120 {
		c.pass(time.Second / 2)
	}
	c.heard("in-time each each at-leisure")
	if want := []error{broken, late, late, nil, nil}; !slices.Equal(got, want) || c.Over {
		t.Errorf("got %v, over %v", got, c.Over)
	}
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
		c.after(time.Second, func() {
			defer c.say("unwound")()
			c.Each(3, func(i int) { c.Check(map[int]error{1: first, 2: second}[i]) })
		})
		c.after(time.Second, c.say("behind"))
	})
	asked := e.calls[0]
	e = c.pass(time.Second)
	if !e.done || e.err != first || len(e.calls) != 0 || e.wake != 0 {
		t.Errorf("effects %+v", e)
	}
	c.heard("unwound")
	c.answer(asked, nil, nil)
	c.pass(time.Minute)
	c.do(c.say("event"))
	c.heard("")
	e = newCored(t).do(func() {})
	if e.done {
		t.Error("done at once")
	}
	c = newCored(t)
	if e = c.do(func() { c.ask(nil); c.Start(func() {}) }); !e.done || e.err != nil || len(e.calls) != 0 {
		t.Errorf("effects %+v", e)
	}
	c = newCored(t)
	if e = c.do(func() { c.ask(nil); c.Fail(first) }); !e.done || e.err != first || len(e.calls) != 0 {
		t.Errorf("effects %+v", e)
	}
}

func TestCoreInsists(t *testing.T) {
	broken := errors.New("broken")
	readHeads := func(c *cored) { c.ReadHeads(nil); c.say("done")() }
	for name, begin := range map[string]func(c *cored){
		"the heads of the shards": readHeads,
		"log sale/x":              func(c *cored) { c.DeleteLog("sale/x", 1); c.say("done")() },
	} {
		c := newCored(t)
		began := c.mono
		e := c.do(func() { c.Go(func() { begin(c) }) })
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
	e := c.do(func() { c.Go(func() { readHeads(c) }) })
	c.mono += 10 * time.Second // as long as patience lastsinstead of
	if e = c.answer(e.calls[0], nil, broken); e.done {
		t.Fatal("gave up too soon")
	}
	e = c.pass(20 * time.Millisecond)
	c.answer(e.calls[0], nil, nil)
	c.heard("done")
}

// A window of tasks works at a time, and the last that is done ends it.
func TestCoreEach(t *testing.T) {
	const all = 2*window + 10
	each := func(c *cored, do func(i int)) func() {
		return func() { c.Go(func() { c.Each(all, do); c.say("all")() }) }
	}
	t.Run("one by one", func(t *testing.T) {
		c := newCored(t)
		var open []func()
		started := 0
		c.do(each(c, func(i int) {
			if i != started {
				t.Fatalf("%d comes after %d", i, started-1)
			}
			started++
			c.Wait(func(wake func()) { open = append(open, wake) })
		}))
		for len(open) > 0 {
			if len(open) > window || started < all && len(open) != window {
				t.Fatalf("%d are worked on, %d were begun", len(open), started)
			}
			c.heard("")
			last := open[len(open)-1]
			open = open[:len(open)-1]
			c.do(last)
		}
		c.heard("all")
		if started != all || len(c.tasks) > 0 {
			t.Errorf("%d were begun, %d are left", started, len(c.tasks))
		}
	})
	t.Run("at once", func(t *testing.T) {
		c := newCored(t)
		n := 0
		c.do(each(c, func(int) { n++ }))
		if c.heard("all"); n != all {
			t.Errorf("%d were done", n)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		c := newCored(t)
		c.do(func() { c.Go(func() { c.Each(0, func(int) { t.Error("begun") }); c.say("all")() }) })
		c.heard("all")
	})
	t.Run("to the end of the machine", func(t *testing.T) {
		for _, last := range []int{3, all - 1} {
			c := newCored(t)
			n := 0
			c.do(each(c, func(i int) {
				if n++; i == last {
					c.Fail(errors.New("end"))
				}
			}))
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
}
