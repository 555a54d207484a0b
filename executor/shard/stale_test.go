package shard

import (
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/clock"
)

// TestPromiseOfEachOwner: whoever takes a shard over keeps what the owner before may have promised,
// each time that it does.
func TestPromiseOfEachOwner(t *testing.T) {
	b, now := NewSaleTotals(2), clock.Now{Mono: time.Hour}
	for n := range 3 {
		b.TakeOver(1, now)
		if at := b.BeginReturn(1, now); at != now.Mono+promiseFor {
			t.Errorf("the %d. time units may come back from %v on, want %v", n+1, at, now.Mono+promiseFor)
		}
		b.EndReturn(1)
		now.Mono += promiseFor
		if at := b.BeginReturn(1, now); at != 0 {
			t.Errorf("the %d. time units may come back from %v on once the promise is over", n+1, at)
		}
		b.EndReturn(1)
		now.Mono += time.Minute
	}
}

// TestNamesAskedAreBounded: a shard asks another for no more units by their numbers at a time than
// commits are bounded to.
func TestNamesAskedAreBounded(t *testing.T) {
	const bound = 4
	w := newSeats(t, 5, 40)
	h := w.serving("first")
	for _, a := range h.actors {
		a.q.transfers.maxNamed = bound
	}
	most := 0
	w.mail = func(m Message) int {
		if m.Kind == Want {
			most = max(most, int(m.Units.Count()))
		}
		return 1
	}
	var all []*asked
	for i := range int64(8) {
		all = append(all, h.choose(wants{buyer: int(i), units: []int64{6 + 4*i, 7 + 4*i, 8 + 4*i}}))
	}
	w.settle()
	if n := count(all, api.Sold); n != len(all) {
		t.Errorf("%d of %d got their units", n, len(all))
	}
	if most == 0 || most > bound {
		t.Errorf("a shard was asked for %d units at once, want at most %d", most, bound)
	}
}
