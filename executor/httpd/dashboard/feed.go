package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"salectl/backends/clock"
)

// every is the interval of events.
const every = time.Second

// patience is the timeout of writing one event to a viewer.
const patience = 10 * time.Second

// feed makes the events of one page, in ticks of a second. The first viewer in a tick makes the
// event, and the others send the same bytes. Without viewers there is no work.
type feed struct {
	clock clock.Clock
	began time.Duration // monotonic: start of tick 0
	over  chan struct{} // closed when the sale is removed

	// mu guards the rest, and serializes calls of make.
	mu   sync.Mutex
	make func(now clock.Now) (event []byte, history func() []byte)
	tick int64 // of last; -1: there is none
	last []byte
	past func() []byte
}

func newFeed(c clock.Clock, began time.Duration, event func(clock.Now) ([]byte, func() []byte)) *feed {
	return &feed{clock: c, began: began, over: make(chan struct{}), make: event, tick: -1}
}

// now returns the event of this tick and the time until the next. With first it also returns the
// history for a new viewer.
func (f *feed) now(first bool) (history, event []byte, next time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock()
	since := now.Mono - f.began
	if tick := int64(since / every); tick != f.tick {
		f.last, f.past = f.make(now)
		f.tick = tick
	}
	if first && f.past != nil {
		history = f.past()
	}
	return history, f.last, every - since%every
}

// gate limits the number of viewers.
type gate struct {
	places chan struct{}
	ending context.Context
	close  context.CancelFunc
}

func newGate(places int) gate {
	ending, end := context.WithCancel(context.Background())
	return gate{make(chan struct{}, places), ending, end}
}

// watch sends the events of a feed as server-sent events while the viewer reads them.
func (d *Dashboard) watch(w http.ResponseWriter, r *http.Request, f *feed) {
	select {
	case d.gate.places <- struct{}{}:
		defer func() { <-d.gate.places }()
	default:
		w.Header().Set("Retry-After", "10")
		http.Error(w, fmt.Sprintf("%d pages show this process already, which is its limit. Close one of them.", cap(d.gate.places)),
			http.StatusServiceUnavailable)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy should forward each event at once
	if r.Method == http.MethodHead {
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // ignore the error: without support there is no deadline
	send := func(b []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(patience))
		_, err := w.Write(b)
		return err == nil && control.Flush() == nil
	}
	for first := true; ; first = false {
		history, event, next := f.now(first)
		if history != nil && !send(history) || !send(event) {
			return
		}
		select {
		case <-time.After(next):
		case <-r.Context().Done():
			return
		case <-f.over:
			return
		case <-d.gate.ending.Done():
			return
		}
	}
}
