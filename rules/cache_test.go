package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cel.dev/cel-go/common/types"

	"salectl/backends/clock"
	"salectl/spec"
)

// source is Users whose answers and delays a test decides. A user is known unless
// the id begins with "no".
type source struct {
	mu        sync.Mutex
	level     int64
	requested [][]string
	hold      func(ctx context.Context, ids []string) error // nil: answer at once
}

func (s *source) Lookup(ctx context.Context, ids []string) ([]Attributes, error) {
	s.mu.Lock()
	s.requested = append(s.requested, slices.Clone(ids))
	level, hold := s.level, s.hold
	s.mu.Unlock()
	if hold != nil {
		if err := hold(ctx, ids); err != nil {
			return nil, err
		}
	}
	var all []Attributes
	for _, id := range ids {
		if strings.HasPrefix(id, "no") {
			all = append(all, levels.Unknown(id))
			continue
		}
		user := levels.Known(id, []Value{types.Int(level)})
		all = append(all, user)
	}
	return all, nil
}

func (s *source) calls() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { s.requested = nil }()
	return fmt.Sprint(s.requested)
}

var levels = NewSchema(spec.Attribute{Name: "level", Type: spec.TypeInt})

// cacheOf keeps three users for a minute and requests two at a time.
func cacheOf(t testing.TB, s Users) *Cache {
	t.Helper()
	c, err := NewCache(CacheConfig{Source: s, Clock: clock.System(), Fresh: time.Minute, Timeout: time.Hour, Entries: 3, Batch: 2})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// found is what Lookup returns, as text.
func found(ctx context.Context, c *Cache, ids ...string) string {
	all, err := c.Lookup(ctx, ids)
	if err != nil {
		return err.Error()
	}
	var text []string
	for i, a := range all {
		if a.ID() != ids[i] {
			return "mixed up: " + a.ID()
		}
		text = append(text, a.ID()+"="+Show(a.Value("level")))
	}
	return strings.Join(text, " ")
}

func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{level: 1}
		c := cacheOf(t, s)
		ctx := t.Context()
		expect := func(what, got, want string) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
		}
		expect("nobody is kept", found(ctx, c, "a", "no", "a", "b"), "a=1 no=missing a=1 b=1")
		expect("requested in batches, each once", s.calls(), "[[a no] [b]]")
		time.Sleep(time.Minute)
		s.level = 2
		expect("still fresh, also that there is no such user", found(ctx, c, "b", "a", "no"), "b=1 a=1 no=missing")
		expect("nobody is requested", s.calls(), "[]")
		time.Sleep(time.Nanosecond)
		expect("too old", found(ctx, c, "b"), "b=2")
		expect("one is requested", s.calls(), "[[b]]")
		expect("a fourth", found(ctx, c, "d"), "d=2")
		expect("in use again", found(ctx, c, "b"), "b=2")
		expect("two more", found(ctx, c, "e", "f"), "e=2 f=2")
		s.calls()
		expect("what was used last is kept", found(ctx, c, "b", "e", "f"), "b=2 e=2 f=2")
		expect("nobody is requested", s.calls(), "[]")
		expect("those not used for the longest are gone", found(ctx, c, "a", "d"), "a=2 d=2")
		expect("requested again", s.calls(), "[[a d]]")
		time.Sleep(time.Minute + 1)
		s.hold = func(context.Context, []string) error { return errors.New("connection refused") }
		expect("what is too old is never returned", found(ctx, c, "b"), "look up users: connection refused")
		s.hold = nil
		expect("errors are not kept", found(ctx, c, "b"), "b=2")
		expect("one is requested each time", s.calls(), "[[b] [b]]")
		if got := c.entries.Len(); got != 3 {
			t.Errorf("%d users are kept, want 3", got)
		}
	})
}

// Many lookups of one user at a time call the source once.
func TestCacheAsksOnceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		s := &source{level: 1, hold: func(context.Context, []string) error { <-open; return nil }}
		c := cacheOf(t, s)
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if got := found(t.Context(), c, "a", "b"); got != "a=1 b=1" {
					t.Error(got)
				}
			})
		}
		synctest.Wait()
		close(open)
		all.Wait()
		if got := s.calls(); got != "[[a b]]" {
			t.Error(got)
		}
	})
}

// Who goes away does not wait, and those who wait for the same user get its answer.
func TestCacheWhenTheAskerGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{level: 1, hold: func(ctx context.Context, _ []string) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Second):
				return nil
			}
		}}
		c := cacheOf(t, s)
		impatient, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if got := found(impatient, c, "a"); got != "look up users: context canceled" {
				t.Error(got)
			}
		})
		synctest.Wait()
		all.Go(func() {
			if got := found(t.Context(), c, "a"); got != "a=1" {
				t.Error(got)
			}
		})
		all.Go(func() {
			short, end := context.WithTimeout(t.Context(), time.Second)
			defer end()
			if got := found(short, c, "a"); got != "look up users: context deadline exceeded" {
				t.Error(got)
			}
		})
		synctest.Wait()
		time.Sleep(2 * time.Second)
		leave()
		all.Wait()
		if got := s.calls(); got != "[[a]]" {
			t.Error(got)
		}
	})
}

// The age of an answer is the time from the query of the source to the query of the cache.
func TestCacheOfASlowSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := 30 * time.Second
		s := &source{level: 1, hold: func(context.Context, []string) error { time.Sleep(slow); return nil }}
		c := cacheOf(t, s)
		if got := found(t.Context(), c, "a"); got != "a=1" {
			t.Error(got)
		}
		time.Sleep(10 * time.Second)
		s.level = 2
		if got := found(t.Context(), c, "a", "b"); got != "a=1 b=2" {
			t.Errorf("%s: 40 s after the question for a", got)
		}
		if got := found(t.Context(), c, "a"); got != "a=2" {
			t.Errorf("%s: 70 s after the question for a", got)
		}
		if got := s.calls(); got != "[[a] [b] [a]]" {
			t.Error(got)
		}
		slow = 61 * time.Second
		if _, err := c.Lookup(t.Context(), []string{"c"}); !errors.Is(err, ErrLate) {
			t.Error(err)
		}
		if got := s.calls(); got != "[[c]]" {
			t.Errorf("%s: an answer that came late is requested again", got)
		}
	})
}

// Those who come while a call is under way share the next one, up to its bound.
func TestCacheSharesCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{level: 1, hold: func(_ context.Context, ids []string) error {
			time.Sleep(time.Second)
			if slices.Contains(ids, "bad") {
				return errors.New("no server")
			}
			return nil
		}}
		c := cacheOf(t, s)
		var all sync.WaitGroup
		lookUp := func(want string, ids ...string) {
			all.Go(func() {
				if got := found(t.Context(), c, ids...); got != want {
					t.Errorf("%v: %s, want %s", ids, got, want)
				}
			})
			synctest.Wait()
		}
		began := time.Now()
		lookUp("a=1", "a")
		lookUp("b=1", "b")
		lookUp("c=1 b=1", "c", "b")
		lookUp("a=1 d=1 e=1", "a", "d", "e")
		lookUp("look up users: no server", "f", "bad")
		lookUp("look up users: no server", "bad")
		lookUp("look up users: no server", "f")
		all.Wait()
		if got := s.calls(); got != "[[a] [b c] [d e] [f bad]]" {
			t.Error(got)
		}
		if took := time.Since(began); took != 4*time.Second {
			t.Errorf("the calls took %v", took)
		}
		lookUp("g=1", "g") // after everybody has gone
		all.Wait()
	})
}

// A source that hangs is given up, also for those who wait for the next call.
func TestCacheGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{hold: func(ctx context.Context, _ []string) error { <-ctx.Done(); return ctx.Err() }}
		c, err := NewCache(CacheConfig{Source: s, Clock: clock.System(), Fresh: time.Minute, Timeout: 500 * time.Millisecond, Entries: 3, Batch: 2})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		if _, err := c.Lookup(ctx, []string{"a"}); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 100*time.Millisecond {
			t.Error(err, time.Since(began))
		}
		if _, err := c.Lookup(t.Context(), []string{"b"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if took := time.Since(began); took != time.Second { // of the first call, and of its own
			t.Errorf("it took %v", took)
		}
	})
}

type usersFunc func(context.Context, []string) ([]Attributes, error)

func (f usersFunc) Lookup(ctx context.Context, ids []string) ([]Attributes, error) {
	return f(ctx, ids)
}

// A source that breaks its promise is an error and not somebody else's answer.
func TestCacheOfABrokenSource(t *testing.T) {
	for want, f := range map[string]usersFunc{
		"look up users: the source returned 0 users for 1 ids":        func(context.Context, []string) ([]Attributes, error) { return nil, nil },
		`look up users: the source returned the user "eve" for "ada"`: func(context.Context, []string) ([]Attributes, error) { return []Attributes{levels.Unknown("eve")}, nil },
		`look up users: the source returned the user "" for "ada"`:    func(context.Context, []string) ([]Attributes, error) { return []Attributes{{}}, nil },
	} {
		if got := found(t.Context(), cacheOf(t, f), "ada"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if _, err := NewCache(CacheConfig{}); err == nil {
		t.Error("a cache of no users")
	}
}

// Whatever is requested at once, nobody gets another's answer, and the bound holds.
func TestCacheUnderLoad(t *testing.T) {
	s := &source{level: 1}
	c := cacheOf(t, s)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 300 {
				a, b := fmt.Sprint("u", (i*j)%7), fmt.Sprint("u", j%5)
				if got := found(t.Context(), c, a, b, a); got != a+"=1 "+b+"=1 "+a+"=1" {
					t.Error(got)
					return
				}
			}
		})
	}
	all.Wait()
	if kept := c.entries.Len(); kept > 3 || len(c.pending) != 0 {
		t.Errorf("%d, %d", kept, len(c.pending))
	}
}

func BenchmarkLookup(b *testing.B) {
	five := NewSchema(shopper.attributes[:5]...)
	var text strings.Builder
	text.WriteString("id,level,city,score,vip,since\n")
	ids := make([]string, 10_000)
	for i := range ids {
		ids[i] = fmt.Sprintf("user-%07d", i)
		fmt.Fprintf(&text, "%s,%d,Wien,3.5,true,2025-11-21T12:00:00Z\n", ids[i], i%10)
	}
	f, err := OpenFile(write(b, "users.csv", text.String()), five)
	if err != nil {
		b.Fatal(err)
	}
	c, err := NewCache(CacheConfig{Source: f, Clock: clock.System(), Fresh: time.Hour, Timeout: time.Second, Entries: len(ids), Batch: 100})
	if err != nil {
		b.Fatal(err)
	}
	before := heap()
	if _, err := c.Lookup(b.Context(), ids); err != nil {
		b.Fatal(err)
	}
	each := float64(heap()-before) / float64(len(ids))
	for name, users := range map[string]Users{"file": f, "cached": c} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if _, err := users.Lookup(b.Context(), ids[i:i+1]); err != nil {
					b.Fatal(err)
				}
				i = (i + 1) % len(ids)
			}
			if name == "cached" {
				b.ReportMetric(each, "B/user")
			}
		})
	}
}
