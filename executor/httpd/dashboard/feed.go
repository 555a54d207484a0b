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

// feed makes the events of one page, in ticks of a second. The first viewer in a tick encodes the
// event, and the others send the same bytes.
type feed struct {
	clock clock.Clock
	began time.Duration // monotonic: start of tick 0
	over  chan struct{} // closed when the sale is removed

	// mu guards the rest, and serializes calls of make.
	mu      sync.Mutex
	make    makeEvent
	tick    int64         // of the newest event; -1: there is none
	encode  func() []byte // encodes the newest event
	encoded []byte        // by encode; nil: no viewer needed it
	past    func() []byte
}

// makeEvent observes what a page shows. event encodes it, and history the data of the charts until now; nil: there
// are no charts.
type makeEvent func(now clock.Now) (event, history func() []byte)

func newFeed(c clock.Clock, began time.Duration, event makeEvent) *feed {
	return &feed{clock: c, began: began, over: make(chan struct{}), make: event, tick: -1}
}

// observe makes the event of this tick, unless there is one, and returns the time until the next tick.
func (f *feed) observe() (next time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.observeLocked()
}

func (f *feed) observeLocked() (next time.Duration) {
	now := f.clock()
	since := now.Mono - f.began
	if tick := int64(since / every); tick != f.tick {
		f.encode, f.past = f.make(now)
		f.tick, f.encoded = tick, nil
	}
	return every - since%every
}

// now returns the event of this tick and the time until the next. With first it also returns the
// history for a new viewer.
func (f *feed) now(first bool) (history, event []byte, next time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next = f.observeLocked()
	if f.encoded == nil {
		f.encoded = f.encode()
	}
	if first && f.past != nil {
		history = f.past()
	}
	return history, f.encoded, next
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
