package rules

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// slowUsers are a source whose calls take a second; an id "bad" fails its call.
type slowUsers struct {
	schema *Schema
	mu     sync.Mutex
	calls  [][]string
}

func (s *slowUsers) Lookup(ctx context.Context, ids []string) (all []Attributes, err error) {
	s.mu.Lock()
	s.calls = append(s.calls, ids)
	s.mu.Unlock()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for _, id := range ids {
		if id == "bad" {
			return nil, errors.New("no server")
		}
		all = append(all, s.schema.Unknown(id))
	}
	return all, nil
}

// Those who come while a call is under way share the next one, up to its bound.
func TestGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &slowUsers{schema: shopper}
		g := Gather(source, 3, time.Minute)
		var all sync.WaitGroup
		ask := func(want string, ids ...string) {
			all.Go(func() {
				users, err := g.Lookup(t.Context(), ids)
				if err != nil {
					if err.Error() != want {
						t.Errorf("%v: %v, want %q", ids, err, want)
					}
					return
				}
				var got []string
				for _, u := range users {
					got = append(got, u.ID())
				}
				if want != "" || !slices.Equal(got, ids) {
					t.Errorf("asked for %v, got %v, want the error %q", ids, got, want)
				}
			})
			synctest.Wait()
		}
		ask("", "a")
		ask("", "b", "c")
		ask("", "d", "e")
		ask("", "f")
		ask("no server", "bad", "g")
		ask("", "h", "i", "j", "k")
		all.Wait()
		var calls []string
		for _, ids := range source.calls {
			calls = append(calls, strings.Join(ids, ""))
		}
		if got := strings.Join(calls, " "); got != "a bc def badg hijk" {
			t.Errorf("calls %s", got)
		}
		ask("", "l") // after everybody has gone
		all.Wait()
	})
}

// Who waits no longer keeps nobody, and a source that hangs is given up.
func TestGatherGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &slowUsers{schema: shopper}
		g := Gather(source, 10, 500*time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := g.Lookup(ctx, []string{"a"}); !errors.Is(err, context.DeadlineExceeded) || time.Since(time.Now()) > 0 {
			t.Error(err)
		}
		began := time.Now()
		if _, err := g.Lookup(t.Context(), []string{"b"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if took := time.Since(began); took != 900*time.Millisecond { // of the first call, and of its own
			t.Errorf("it took %v", took)
		}
	})
}
