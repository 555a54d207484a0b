package sim

import (
	"context"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"salectl/backends/backendtest"
	"salectl/backends/ledger"
)

func TestLoopIsInOrderOfTimeThenOfAsking(t *testing.T) {
	var l loop
	var got []int
	for i, at := range []time.Duration{3, 1, 2, 1, 3, 0} {
		l.at(at, func() { got = append(got, i) })
	}
	for l.step(2) {
	}
	if want := []int{5, 1, 3, 2}; !slices.Equal(got, want) || l.now != 2 {
		t.Errorf("until 2: %v at %v, want %v", got, l.now, want)
	}
	l.at(1, func() { got = append(got, 6) }) // has passed: now
	for l.step(time.Hour) {
	}
	if want := []int{5, 1, 3, 2, 6, 0, 4}; !slices.Equal(got, want) {
		t.Errorf("in all %v, want %v", got, want)
	}
}

func TestClockComesToWhatItWasAskedFor(t *testing.T) {
	for _, rate := range []float64{0.996, 0.9999, 1, 1.0003, 1.004} {
		c := newClock(17*time.Second, time.Second, rate)
		for mono := 2 * time.Second; mono < time.Hour; mono = mono*7/3 + 1 {
			at := c.when(mono)
			if got := c.now(at).Mono; got < mono || got > mono+10 {
				t.Errorf("rate %v: at the time for %v it shows %v", rate, mono, got)
			}
		}
	}
}

func TestSuspendStopsOnlyOneClock(t *testing.T) {
	c := newClock(0, 0, 1)
	before := c.now(time.Minute)
	c.drift(time.Minute+time.Second, 1.05)
	c.drift(time.Minute+9*time.Second, 1)
	c.suspend(time.Minute+10*time.Second, before.Mono)
	after := c.now(time.Minute + 10*time.Second)
	if after.Mono != before.Mono || after.Wall.Sub(before.Wall) != 10*time.Second+8*time.Second/20 {
		t.Errorf("from %v to %v", before, after)
	}
}

// Without faults the store keeps every promise of a ledger's store, once it
// compares more than heads and reads return as much as was asked for.
func TestStoreKeepsItsPromises(t *testing.T) {
	backendtest.TestLogs(t, func(t *testing.T) (a, b ledger.Logs) {
		w := newWorld(Options{Seed: 1, Faults: -1}.orDefault())
		w.store.memory.CompareHeadsOnly(false)
		w.store.memory.SetPage(math.MaxInt)
		one := &oneAtATime{logs: w.store}
		return one, one
	})
}

// When all is to be settled once more while it is being settled, the clients go on after
// that and not before: else they are refused while it runs, and ask for it again, for ever.
func TestClientsGoOnAfterTheLastSettling(t *testing.T) {
	w := newWorld(Options{Seed: 1, Faults: -1}.orDefault())
	for _, e := range w.executors {
		e.begin()
	}
	w.calm, w.operators.most, w.work = true, w.scenario.stock, nil
	w.settle()
	w.onceMore()
	for !w.settled && w.step(time.Minute) {
	}
	if !w.settled || w.operators.started != 4 {
		t.Errorf("settled after %v: %v, with %d commands begun, not an apply and a resume twice", w.now, w.settled, w.operators.started)
	}
}

// oneAtATime is a store that a world, which is one goroutine, is the only one to
// call at a time.
type oneAtATime struct {
	mu   sync.Mutex
	logs ledger.Logs
}

func (o *oneAtATime) Append(ctx context.Context, log string, slot uint64, prev, head, entry []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.logs.Append(ctx, log, slot, prev, head, entry)
}

func (o *oneAtATime) Read(ctx context.Context, log string, from uint64, max int) (head []byte, entries [][]byte, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.logs.Read(ctx, log, from, max)
}

func (o *oneAtATime) Heads(ctx context.Context, logs []string) ([][]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.logs.Heads(ctx, logs)
}

func (o *oneAtATime) Delete(ctx context.Context, log string, upTo uint64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.logs.Delete(ctx, log, upTo)
}

func TestLeastFindsTheEdge(t *testing.T) {
	for name, edge := range map[string]int{"all": 100, "none": 0, "one": 1, "some": 37} {
		t.Run(name, func(t *testing.T) {
			if got := least(100, 0, func(n int) bool { return n >= edge }); got != edge {
				t.Errorf("%d, want %d", got, edge)
			}
		})
	}
}
