package quorum_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"salectl/backends/quorum"
)

// newLocks returns the locks of a process, which end with the test.
func newLocks(t *testing.T, nodes []*liveNode, process string, order quorum.Order) *quorum.Locks {
	t.Helper()
	cfg := config
	cfg.Address = process
	locks, err := quorum.NewLocks(asNodes(nodes), cfg, order)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(locks.Close)
	return locks
}

var forever = quorum.Wait{Timeout: quorum.Forever}

func mustAcquire(t *testing.T, locks *quorum.Locks, key string) *quorum.Lease {
	t.Helper()
	l, err := locks.Acquire(t.Context(), key, forever)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// outcome is what an Acquire in a goroutine of its own came to.
type outcome struct {
	lease *quorum.Lease
	err   error
	took  time.Duration
}

func acquire(ctx context.Context, locks *quorum.Locks, key string, w quorum.Wait) chan outcome {
	got := make(chan outcome, 1)
	began := time.Now()
	go func() {
		l, err := locks.Acquire(ctx, key, w)
		got <- outcome{l, err, time.Since(began)}
	}()
	synctest.Wait()
	return got
}

// wantNothing checks that no lease or waiter is left, on nodes of which none is
// in trouble.
func wantNothing(t *testing.T, nodes []*liveNode, locks ...*quorum.Locks) {
	t.Helper()
	synctest.Wait()
	wantKeys(t, nodes, 0)
	for _, n := range nodes {
		if listed, watching := n.waiting("a"); listed+watching > 0 {
			t.Errorf("%s has %d waiting and %d watching", n.Name(), listed, watching)
		}
	}
	for _, k := range locks {
		if n := k.Keepers(); n != 0 {
			t.Errorf("%d keys are still cared for", n)
		}
	}
}

func TestLocks(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"one at a time, among goroutines of two processes": func(t *testing.T) {
			nodes := newLiveNodes("n0", "n1", "n2")
			both := []*quorum.Locks{newLocks(t, nodes, "p:1", quorum.Fifo), newLocks(t, nodes, "p:2", quorum.Fifo)}
			var all sync.WaitGroup
			inside, times := 0, 0
			for i := range 40 {
				all.Go(func() {
					l := mustAcquire(t, both[i%2], "a")
					if inside++; inside > 1 || !l.Valid() {
						t.Errorf("%d inside, valid %v", inside, l.Valid())
					}
					time.Sleep(50 * time.Millisecond)
					inside--
					times++
					if err := l.Release(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if times != 40 {
				t.Errorf("had %d times", times)
			}
			wantNothing(t, nodes, both...)
		},
		"a context that ends while waiting leaves nothing behind": func(t *testing.T) {
			nodes := newLiveNodes("n0", "n1", "n2")
			ours, theirs := newLocks(t, nodes, "p:1", quorum.Fifo), newLocks(t, nodes, "p:2", quorum.Fifo)
			holder := mustAcquire(t, theirs, "a")
			ctx, cancel := context.WithCancelCause(t.Context())
			one := acquire(ctx, ours, "a", forever)
			two := acquire(ctx, ours, "a", quorum.Wait{Timeout: time.Minute})
			time.Sleep(time.Second)
			cancel(errors.New("enough"))
			for _, got := range []chan outcome{one, two} {
				if o := <-got; o.err == nil || o.err.Error() != "enough" || o.took != time.Second {
					t.Errorf("%v after %v", o.err, o.took)
				}
			}
			synctest.Wait()
			if n := ours.Keepers(); n != 0 {
				t.Errorf("%d keys are still cared for", n)
			}
			mustFree(t, holder)
			wantNothing(t, nodes, ours, theirs)
		},
		"a context that ends before an answer comes leaves no key behind": func(t *testing.T) {
			nodes := newLiveNodes("n0", "n1", "n2")
			locks := newLocks(t, nodes, "p:1", quorum.Fifo)
			for _, n := range nodes {
				n.slow = 100 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, err := locks.Acquire(ctx, "a", forever); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			time.Sleep(time.Second)
			wantNothing(t, nodes, locks)
		},
		"a context that ends gives the key to the next": func(t *testing.T) {
			nodes := newLiveNodes("n0", "n1", "n2")
			locks := newLocks(t, nodes, "p:1", quorum.Fifo)
			ctx, cancel := context.WithCancelCause(t.Context())
			holder, err := locks.Acquire(ctx, "a", forever)
			if err != nil {
				t.Fatal(err)
			}
			next := acquire(t.Context(), locks, "a", forever)
			cancel(errors.New("enough"))
			o := <-next
			if o.err != nil || holder.Valid() || !o.lease.Valid() {
				t.Errorf("%v, the first valid %v", o.err, holder.Valid())
			}
			<-holder.Done()
			mustFree(t, o.lease)
			wantNothing(t, nodes, locks)
		},
		"not had in time, with who has it": func(t *testing.T) {
			nodes := newLiveNodes("n0", "n1", "n2")
			ours, theirs := newLocks(t, nodes, "p:1", quorum.Fifo), newLocks(t, nodes, "p:2", quorum.Fifo)
			holder := mustAcquire(t, theirs, "a")
			for _, wait := range []time.Duration{0, time.Second} {
				o := <-acquire(t.Context(), ours, "a", quorum.Wait{Timeout: wait})
				var f *quorum.Failure
				if !errors.Is(o.err, quorum.ErrRefused) || !errors.As(o.err, &f) || o.took != wait {
					t.Fatalf("%v after %v", o.err, o.took)
				}
				h, _ := f.Holder()
				if note, ok := quorum.ParseNote(h.Note); !ok || note.Address != "p:2" {
					t.Errorf("held by %+v", h)
				}
			}
			if _, err := theirs.Acquire(t.Context(), "a", quorum.Wait{}); !errors.Is(err, quorum.ErrRefused) {
				t.Errorf("a second in the process: %v", err)
			}
			mustFree(t, holder)
			wantNothing(t, nodes, ours, theirs)
		},
		"who matters more comes first": func(t *testing.T) {
			nodes := newLiveNodes("n0")
			locks := newLocks(t, nodes, "p:1", quorum.Priority(time.Minute))
			holder := mustAcquire(t, locks, "a")
			var order []int
			var all sync.WaitGroup
			for _, priority := range []int{0, 2, 1, 3} {
				all.Go(func() {
					l, err := locks.Acquire(t.Context(), "a", quorum.Wait{Timeout: quorum.Forever, Priority: priority})
					if err != nil {
						t.Error(err)
						return
					}
					order = append(order, priority)
					mustFree(t, l)
				})
				synctest.Wait()
			}
			mustFree(t, holder)
			all.Wait()
			if !slices.Equal(order, []int{3, 2, 1, 0}) {
				t.Errorf("had in order %v", order)
			}
			wantNothing(t, nodes, locks)
		},
		"a key is cared for while anybody wants it": func(t *testing.T) {
			nodes := newLiveNodes("n0", "n1", "n2")
			locks := newLocks(t, nodes, "p:1", quorum.Fifo)
			wantKeepers := func(want int) {
				t.Helper()
				synctest.Wait()
				if n := locks.Keepers(); n != want {
					t.Errorf("%d keys are cared for, want %d", n, want)
				}
			}
			a, b := mustAcquire(t, locks, "a"), mustAcquire(t, locks, "b")
			next := acquire(t.Context(), locks, "a", forever)
			wantKeepers(2)
			mustFree(t, a)
			wantKeepers(2)
			mustFree(t, b)
			wantKeepers(1)
			mustFree(t, (<-next).lease)
			wantKeepers(0)
			mustFree(t, mustAcquire(t, locks, "a"))
			wantNothing(t, nodes, locks)
		},
		"a release does not wait for who has come since": func(t *testing.T) {
			nodes := newLiveNodes("n0", "n1", "n2")
			locks := newLocks(t, nodes, "p:1", quorum.Fifo)
			first := mustAcquire(t, locks, "a")
			for _, n := range nodes {
				n.trouble(true, nil)
			}
			released := make(chan error, 1)
			go func() { released <- first.Release(context.Background()) }()
			synctest.Wait()
			second := acquire(t.Context(), locks, "a", forever)
			for _, n := range nodes {
				n.trouble(false, nil)
			}
			o := <-second
			synctest.Wait()
			select {
			case err := <-released:
				if err != nil {
					t.Error(err)
				}
			default:
				t.Error("still waits while another holds the key")
			}
			mustFree(t, o.lease)
			wantNothing(t, nodes, locks)
		},
		"a notified waiter gets the key at once": func(t *testing.T) {
			o := handOver(t, false)
			if o.err != nil || o.took != 10*time.Second {
				t.Errorf("%v after %v", o.err, o.took)
			}
		},
		"a waiter without a notification gets the key soon": func(t *testing.T) {
			o := handOver(t, true)
			if o.err != nil || o.took == 10*time.Second || o.took > 10*time.Second+400*time.Millisecond {
				t.Errorf("%v after %v", o.err, o.took)
			}
		},
		"a loss ends the lease, and not the waiting": func(t *testing.T) {
			nodes := newLiveNodes("n0", "n1", "n2")
			locks := newLocks(t, nodes, "p:1", quorum.Fifo)
			holder := mustAcquire(t, locks, "a")
			next := acquire(t.Context(), locks, "a", forever)
			for _, n := range nodes {
				n.trouble(false, errors.New("connection refused"))
			}
			<-holder.Context().Done()
			if cause := context.Cause(holder.Context()); !errors.Is(cause, quorum.ErrLost) {
				t.Error(cause)
			}
			if err := holder.Release(t.Context()); err != nil {
				t.Error(err)
			}
			time.Sleep(10 * ttl)
			if len(next) > 0 {
				t.Fatal("held without a node")
			}
			for _, n := range nodes {
				n.trouble(false, nil)
			}
			mustFree(t, (<-next).lease)
			wantNothing(t, nodes, locks)
		},
		"closing ends what is held and what is waited for": func(t *testing.T) {
			nodes := newLiveNodes("n0", "n1", "n2")
			locks := newLocks(t, nodes, "p:1", quorum.Fifo)
			holder := mustAcquire(t, locks, "a")
			next := acquire(context.Background(), locks, "a", forever)
			locks.Close()
			if o := <-next; !errors.Is(o.err, quorum.ErrClosed) || o.took > 0 {
				t.Errorf("%v after %v", o.err, o.took)
			}
			if cause := context.Cause(holder.Context()); !errors.Is(cause, quorum.ErrClosed) || holder.Valid() {
				t.Errorf("%v, valid %v", cause, holder.Valid())
			}
			if err := holder.Release(t.Context()); !errors.Is(err, quorum.ErrClosed) {
				t.Error(err)
			}
			if _, err := locks.Acquire(t.Context(), "b", forever); !errors.Is(err, quorum.ErrClosed) {
				t.Error(err)
			}
			calls := nodes[0].calls
			time.Sleep(time.Minute)
			if nodes[0].calls != calls {
				t.Error("nodes are called after Close")
			}
			wantKeys(t, nodes, 0)
		},
		"bad settings": func(t *testing.T) {
			if _, err := quorum.NewLocks(nil, config, quorum.Fifo); err == nil {
				t.Error("locks of no node")
			}
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}

// handOver has one process wait for ten seconds until another gives a key back.
func handOver(t *testing.T, mute bool) outcome {
	nodes := newLiveNodes("n0", "n1", "n2")
	for _, n := range nodes {
		n.mute = mute
	}
	ours, theirs := newLocks(t, nodes, "p:1", quorum.Fifo), newLocks(t, nodes, "p:2", quorum.Fifo)
	holder := mustAcquire(t, theirs, "a")
	next := acquire(t.Context(), ours, "a", forever)
	time.Sleep(10 * time.Second)
	mustFree(t, holder)
	o := <-next
	mustFree(t, o.lease)
	wantNothing(t, nodes, ours, theirs)
	return o
}

// A thousand goroutines on one key cost the nodes what one process does.
func TestLocksOfManyGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := newLiveNodes("n0", "n1", "n2")
		locks := newLocks(t, nodes, "p:1", quorum.Fifo)
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				l := mustAcquire(t, locks, "a")
				time.Sleep(time.Millisecond)
				mustFree(t, l)
			})
		}
		began := time.Now()
		all.Wait()
		took := time.Since(began)
		wantNothing(t, nodes, locks)
		// A turn ends with a release and begins with a ballot.
		if turns := int(took/(200*time.Millisecond)) + 1; nodes[0].calls > 2*turns+2 {
			t.Errorf("%d calls of a node in %v", nodes[0].calls, took)
		}
	})
}
