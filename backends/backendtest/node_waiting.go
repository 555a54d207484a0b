package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"salectl/backends/quorum"
	"salectl/internal/wait"
)

// A reader of a lease that removes it must not free a lease that was renewed since.
func releaseComparesNotes(t nodeTest) {
	t.mustMark(sale)
	t.wantVote(t.a, quorum.MaxTTL, quorum.LeaseRequest{Key: "key", Token: "one", Note: "here 1 3000"}, true)
	wantFreed := func(token, note string, want int) {
		t.Helper()
		requests := []quorum.LeaseRequest{{Key: "key", Token: token, Note: note}}
		if n, err := t.b.Release(t.Context(), requests); err != nil || n != want {
			t.Errorf("release of token %q, note %q: %d, %v; want %d", token, note, n, err, want)
		}
	}
	wantFreed("two", "here 1 3000", 0)
	for _, other := range []string{"here 2 3000", "here 1", "here 1 3000 ", "%", "*"} {
		wantFreed("one", other, 0)
	}
	t.wantVote(t.a, quorum.MaxTTL, quorum.LeaseRequest{Key: "key", Token: "one", Note: "here 2 3000", Renew: true}, true)
	wantFreed("one", "here 1 3000", 0)
	t.wantHeld("key", "one", "here 2 3000", quorum.MaxTTL)
	wantFreed("one", "here 2 3000", 1)
	t.wantVote(t.b, quorum.MaxTTL, quorum.LeaseRequest{Key: "key", Token: "two"}, true)
}

// watching is a call of Watch for each of some waiters, and whom they have named.
type watching struct {
	end   context.CancelFunc
	ended chan error

	mu    sync.Mutex
	named []string
}

// watch begins to watch a key for some waiters; nil if the node cannot.
func (t nodeTest) watch(n quorum.Node, key string, waiters ...string) *watching {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	w := &watching{end: end, ended: make(chan error, len(waiters))}
	for _, waiter := range waiters {
		begun := make(chan struct{}, 1)
		first := true
		go func() {
			w.ended <- n.Watch(ctx, key, waiter, func() {
				if first {
					first = false
					begun <- struct{}{}
					return
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				w.named = append(w.named, waiter)
			})
		}()
		select {
		case <-begun:
		case err := <-w.ended:
			end()
			if !errors.Is(err, quorum.ErrCannotWatch) {
				t.Fatalf("watch: %v", err)
			}
			return nil
		}
	}
	t.Cleanup(func() { w.wantEnd(t.T, len(waiters)) })
	return w
}

// wantEnd ends the calls and waits for that.
func (w *watching) wantEnd(t *testing.T, calls int) {
	t.Helper()
	w.end()
	for range calls {
		select {
		case err := <-w.ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("watch ended with %v, want that of its context", err)
			}
		case <-time.After(wait.Limit):
			t.Errorf("watch went on for %v after the end of its context", wait.Limit)
		}
	}
}

func (w *watching) names() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.named)
}

// wantNamed waits until a last name has come, and checks those before it.
func (w *watching) wantNamed(t nodeTest, want ...string) {
	t.Helper()
	wait.UntilNil(t.T, fmt.Sprintf("watch to name %q", want), func() error {
		if got := w.names(); len(got) < len(want) {
			return fmt.Errorf("it has named %q", got)
		}
		return nil
	})
	if got := w.names(); !slices.Equal(got, want) {
		t.Errorf("watch has named %q, want %q", got, want)
	}
}

// take makes a token the holder of the key, and release frees it.
func (t nodeTest) take(token string) {
	t.Helper()
	wait.UntilNil(t.T, "a key that the node keeps for nobody", func() error {
		count := t.vote(t.a, quorum.MaxTTL, quorum.LeaseRequest{Key: "key", Token: token})
		if !count.Yes[0] && count.Holders[0].Token == "" {
			return errors.New("the node keeps the key for who is next")
		}
		return nil
	})
	t.wantVote(t.a, quorum.MaxTTL, quorum.LeaseRequest{Key: "key", Token: token}, true)
}

func (t nodeTest) release(token string) {
	t.Helper()
	if n, err := t.b.Release(t.Context(), []quorum.LeaseRequest{{Key: "key", Token: token}}); err != nil || n != 1 {
		t.Fatalf("release: %d, %v; want 1", n, err)
	}
}

// await requests the key while another has it.
func (t nodeTest) await(waiter string, waited time.Duration) {
	t.Helper()
	request := quorum.LeaseRequest{Key: "key", Token: "of-one-who-waits", Waiter: waiter, Waited: waited}
	t.wantVote(t.b, quorum.MaxTTL, request, false)
}

func watchNames(t nodeTest) {
	t.mustMark(sale)
	order := []string{"longest", "long", "some", "short"}
	w := t.watch(t.a, "key", append(order, "last")...)
	if w == nil {
		return
	}
	other := t.watch(t.b, "key", order...)
	elsewhere := t.watch(t.b, "another key", order...)
	t.take("one")
	t.await("some", time.Second)
	t.await("longest", time.Hour)
	t.await("short", 0)
	t.await("long", time.Minute)
	t.await("short", time.Millisecond) // repeated, and on the list once
	if found, err := t.a.List(t.Context(), "key"); err != nil || len(found) != 1 {
		t.Errorf("list finds %+v, %v; want the lease, and not those who wait", found, err)
	}
	for i := range order {
		t.release("one")
		w.wantNamed(t, order[:i+1]...)
		other.wantNamed(t, order[:i+1]...)
		t.take("one") // who was named does not come
	}
	t.release("one") // nobody is left to be named
	t.take("one")
	t.await("last", 0)
	t.release("one")
	w.wantNamed(t, append(order, "last")...)
	if got := elsewhere.names(); len(got) > 0 {
		t.Errorf("a watcher of another key was notified of %q", got)
	}
}

func waitersLeave(t nodeTest) {
	t.mustMark(sale)
	w := t.watch(t.a, "key", "stops waiting", "is named", "is granted it", "last")
	if w == nil {
		return
	}
	t.take("one")
	t.await("stops waiting", 3*time.Second)
	t.await("is named", 2*time.Second)
	t.await("is granted it", time.Second)
	leave := quorum.LeaseRequest{Key: "key", Token: "of-one-who-waits", Waiter: "stops waiting"}
	if n, err := t.b.Release(t.Context(), []quorum.LeaseRequest{leave}); err != nil || n != 0 {
		t.Errorf("release by one who waits: %d, %v; want 0", n, err)
	}
	t.release("one") // "is named" leaves the list
	w.wantNamed(t, "is named")
	granted := quorum.LeaseRequest{Key: "key", Token: "two", Waiter: "is granted it", Waited: time.Second}
	wait.UntilNil(t.T, "the key", func() error {
		if count := t.vote(t.a, quorum.MaxTTL, granted); !count.Yes[0] {
			return fmt.Errorf("the node keeps the key for who was named: %+v", count)
		}
		return nil
	})
	t.release("two") // nobody is on the list
	t.take("one")
	t.await("last", 0)
	t.release("one")
	w.wantNamed(t, "is named", "last")
}

// heir requests the key under the ID that a release may have named.
func heir(token, name string) quorum.LeaseRequest {
	return quorum.LeaseRequest{Key: "key", Token: token, Waiter: name, Waited: -1}
}

// handOver frees the key for a waiter.
func (t nodeTest) handOver(token, next string, want int) {
	t.Helper()
	if n, err := t.b.Release(t.Context(), []quorum.LeaseRequest{{Key: "key", Token: token, Next: next}}); err != nil || n != want {
		t.Fatalf("release by %q for %q: %d, %v; want %d", token, next, n, err, want)
	}
}

func handsOver(t nodeTest) {
	t.mustMark(sale)
	w := t.watch(t.a, "key", "heir", "first")
	var named []string
	// The check is repeated if it took longer than the key is kept.
	for late := true; late; {
		t.take("one")
		t.await("first", time.Hour)
		t.handOver("another", "another's heir", 0)
		t.wantHeld("key", "one", "", quorum.MaxTTL)
		begin := t.info().Time
		t.handOver("one", "heir", 1)
		named = append(named, "heir")
		err := t.keptForHeir()
		late = t.info().Time.Sub(begin) >= quorum.HandOver
		if err != nil && !late {
			t.Fatal(err)
		}
		if late {
			again := []quorum.LeaseRequest{{Key: "key", Token: "nobody's", Waiter: "first"}}
			for _, token := range []string{"one", "two", "three"} {
				again = append(again, quorum.LeaseRequest{Key: "key", Token: token})
			}
			if _, err := t.a.Release(t.Context(), again); err != nil {
				t.Fatal(err)
			}
		}
	}
	if w != nil {
		w.wantNamed(t, named...)
	}
	t.wantHeld("key", "three", "", quorum.MaxTTL)
	t.wantVote(t.b, quorum.MaxTTL, heir("four", "heir"), false) // it is three's now, for any requester
	t.handOver("one", "heir", 0)
	t.handOver("three", "", 1)
	if w != nil {
		w.wantNamed(t, append(named, "first")...) // who is still on the list
	}
}

// keptForHeir reports whether a key that was just given to the heir is kept from others
// and granted to it, as three; then it frees nothing.
func (t nodeTest) keptForHeir() error {
	t.Helper()
	for _, other := range []quorum.LeaseRequest{{Key: "key", Token: "two"}, {Key: "key", Token: "two", Waiter: "first", Waited: time.Hour}, heir("two", "other"), heir("one", "")} {
		if got := t.vote(t.b, quorum.MaxTTL, other); got.Yes[0] || got.Holders[0].Token != "" {
			return fmt.Errorf("the vote for %+v is %t, the holder %+v; want no, and no token: it is kept for the heir", other, got.Yes[0], got.Holders[0])
		}
	}
	if found, err := t.a.List(t.Context(), ""); err != nil || len(found) > 0 {
		return fmt.Errorf("list finds %+v, %v; want nothing, the key is freed", found, err)
	}
	if got := t.vote(t.a, quorum.MaxTTL, heir("three", "heir")); !got.Yes[0] {
		return fmt.Errorf("the heir is refused what is kept for it: %+v", got.Holders[0])
	}
	return nil
}

func handsOverForAWhile(t nodeTest) {
	t.mustMark(sale)
	t.take("one")
	t.handOver("one", "heir", 1)
	t.pass(quorum.HandOver)
	t.wantVote(t.b, quorum.MaxTTL, quorum.LeaseRequest{Key: "key", Token: "two"}, true)
	t.wantVote(t.a, quorum.MaxTTL, heir("three", "heir"), false)

	// A named waiter that does not want the key any more releases it.
	t.handOver("two", "heir", 1)
	decline := quorum.LeaseRequest{Key: "key", Token: "heir", Waiter: "heir"}
	if n, err := t.a.Release(t.Context(), []quorum.LeaseRequest{decline}); err != nil || n != 0 {
		t.Errorf("release by the heir of what it never had: %d, %v; want 0", n, err)
	}
	t.wantVote(t.b, quorum.MaxTTL, quorum.LeaseRequest{Key: "key", Token: "four"}, true)
}

// An unlisted waiter is not notified of the key, which any other may get.
func waitsUnlisted(t nodeTest) {
	t.mustMark(sale)
	w := t.watch(t.a, "key", "polls", "listed")
	t.take("one")
	t.await("polls", -1)
	t.await("polls", -time.Hour)
	t.release("one")
	t.wantVote(t.b, quorum.MaxTTL, quorum.LeaseRequest{Key: "key", Token: "two"}, true)
	if w == nil {
		return
	}
	t.await("listed", 0)
	t.release("two")
	w.wantNamed(t, "listed")
}

// A node that reports whether a key has waiters counts all on its list.
func reportsNoWaiters(t nodeTest) {
	t.mustMark(sale)
	t.take("one")
	wantNoWaiters := func(request quorum.LeaseRequest, want bool) (reports bool) {
		t.Helper()
		request.Key, request.Token = "key", "one"
		got := t.vote(t.a, quorum.MaxTTL, request)
		if got.NoWaiters == nil {
			return false
		}
		if len(got.NoWaiters) != 1 || !got.Yes[0] || got.NoWaiters[0] != want {
			t.Errorf("the reply to %+v is %+v; want it granted, and no waiters: %t", request, got, want)
		}
		return true
	}
	query := quorum.LeaseRequest{Renew: true, QueryWaiters: true}
	if !wantNoWaiters(query, true) {
		return
	}
	t.await("polls", -1)
	wantNoWaiters(query, true)
	t.await("waits", 0)
	wantNoWaiters(query, false)
	wantNoWaiters(quorum.LeaseRequest{Renew: true}, false)
	if _, err := t.b.Release(t.Context(), []quorum.LeaseRequest{{Key: "key", Token: "waits", Waiter: "waits"}}); err != nil {
		t.Fatal(err)
	}
	wantNoWaiters(query, true)
	wantNoWaiters(quorum.LeaseRequest{Renew: true}, false) // it was not queried
	if got := t.vote(t.b, quorum.MaxTTL, quorum.LeaseRequest{Key: "key", Token: "two", Renew: true, QueryWaiters: true}); got.Yes[0] || got.NoWaiters[0] {
		t.Errorf("the reply to a renewal without a lease is %+v", got)
	}
}
