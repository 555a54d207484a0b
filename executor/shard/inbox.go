package shard

import (
	"sync"

	"salectl/api"
	"salectl/executor/request"
)

// inbox holds the events and tickets of a shard until its sequencer takes them. All methods are safe for
// concurrent use.
type inbox struct {
	mu      sync.Mutex // held for no longer than it takes to copy the mail
	bound   int        // requests that may wait
	queue   []*request.Ticket
	inside  int // requests that the sequencer has and that wait for units
	closed  bool
	refusal request.Answer // to tickets that the sequencer has not decided, once it is closed
	events  []Event
	wake    chan struct{} // holds one signal: there is mail
}

// Mail returns a channel that holds a signal while there is mail for Act.
func (b *inbox) Mail() <-chan struct{} { return b.wake }

// offer queues a ticket, or returns why it cannot.
func (b *inbox) offer(t *request.Ticket, p *request.Pending) api.Outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return api.Standby
	case len(b.queue)+b.inside >= b.bound:
		return api.Overloaded
	}
	p.Enter(t)
	if b.queue = append(b.queue, t); len(b.queue) == 1 {
		b.signal()
	}
	return ""
}

// Bound sets how many requests may wait from here on. Those that wait stay.
func (b *inbox) Bound(requests int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bound = requests
}

// Post queues an event for the sequencer. It returns false if the sequencer has ended, and will not
// receive the event.
func (b *inbox) Post(e Event) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.events = append(b.events, e)
	b.signal()
	return true
}

// signal sends the signal of Mail.
func (b *inbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take returns the events and, if all, the tickets. inside is how many tickets the sequencer has
// already.
func (b *inbox) take(all bool, inside int) (events []Event, tickets []*request.Ticket) {
	b.mu.Lock()
	defer b.mu.Unlock()
	events, b.events = b.events, nil
	if all {
		tickets, b.queue = b.queue, nil
		b.inside = inside + len(tickets)
	}
	return events, tickets
}

// decided records that the sequencer has decided n tickets.
func (b *inbox) decided(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inside -= min(n, b.inside)
}

// close ends the inbox. refusal is the answer to undecided tickets.
func (b *inbox) close(refusal request.Answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.refusal = true, refusal
}

// Refused returns the answer to tickets that are not decided, once the inbox is closed.
func (b *inbox) Refused() request.Answer {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refusal
}

// waiting returns how many requests wait.
func (b *inbox) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queue) + b.inside
}
