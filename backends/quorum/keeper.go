package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"salectl/backends/clock"
)

// keeper runs a line against real nodes. Callers, timers and replies step the line directly,
// under the lock: no goroutine switch separates the deciding reply from the waiting caller.
type keeper struct {
	clock   clock.Clock
	callers *Callers
	closed  func() // called once, in its own goroutine, when the line is idle for good

	validity atomic.Pointer[Validity]

	deliver func(Reply) // the method replied

	mu      sync.Mutex
	line    *line
	parting []*Lease // released, and not yet confirmed by all nodes
	freed   int      // of parting: the first ones, which a majority has confirmed
	timer   *time.Timer
	wakeAt  time.Duration // monotonic time that the timer is set to; 0: not set
	watch   context.CancelFunc
	over    bool
}

func newKeeper(callers *Callers, g *Group, order Order, key string, closed func()) *keeper {
	k := &keeper{
		clock: clock.System(), callers: callers, closed: closed,
		line: &line{g: g, order: order, key: key},
	}
	k.deliver = k.replied
	k.validity.Store(new(Validity))
	return k
}

// join adds a lease to the line. It returns false if the keeper has ended; a new keeper is
// needed then.
func (k *keeper) join(l *Lease) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return false
	}
	now := k.clock()
	if l.timeout > 0 && l.timeout < Forever {
		l.ticket.until = now.Mono + l.timeout
	}
	k.perform(now, k.line.join(now, l.ticket))
	return true
}

// step passes an input to the line and performs its effects.
func (k *keeper) step(do func(clock.Now) lineEffects) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return
	}
	now := k.clock()
	k.perform(now, do(now))
}

func (k *keeper) leave(t *ticket) {
	k.step(func(now clock.Now) lineEffects { return k.line.leave(now, t) })
}

func (k *keeper) replied(r Reply) {
	k.step(func(now clock.Now) lineEffects { return k.line.reply(now, r) })
}

func (k *keeper) ticked() {
	k.step(func(now clock.Now) lineEffects {
		k.wakeAt = 0
		return k.line.tick(now)
	})
}

// perform carries out the effects of a step. mu is held.
func (k *keeper) perform(now clock.Now, e lineEffects) {
	if v := k.line.g.Validity(k.line.key); v != *k.validity.Load() {
		k.validity.Store(&v)
	}
	k.callers.Do(e.calls, k.deliver)
	for _, t := range e.turned {
		k.turned(t)
	}
	switch {
	case k.line.wanted():
		// Another ticket of the line continues with the nodes.
		for _, l := range k.parting {
			l.finish(nil)
		}
		k.parting, k.freed = nil, 0
	case e.free:
		for _, l := range k.parting[k.freed:] {
			close(l.freed)
		}
		k.freed = len(k.parting)
	}
	if e.watch && k.watch == nil {
		k.beginWatch()
	}
	if e.idle {
		k.finish()
		return
	}
	k.setTimer(now, e.wake)
}

// setTimer sets the timer unless it fires early enough already. Firing early does no harm, and
// setting a timer for each step would cost more than the step.
func (k *keeper) setTimer(now clock.Now, at time.Duration) {
	if at == 0 || k.wakeAt != 0 && k.wakeAt <= at {
		return
	}
	k.wakeAt = at
	if k.timer == nil {
		k.timer = time.AfterFunc(at-now.Mono, k.ticked)
	} else {
		k.timer.Reset(at - now.Mono)
	}
}

// turned updates the lease of a ticket whose state has changed.
func (k *keeper) turned(t *ticket) {
	l := t.lease
	switch t.state {
	case ticketHolds:
		close(l.decided)
		return
	case ticketRefused:
		l.end(t.err)
		l.refused = t.err
		close(l.decided)
	case ticketLost:
		l.end(t.err)
	case ticketOver:
		l.end(ErrReleased)
	}
	k.parting = append(k.parting, l)
}

// end ends the keeper's steps, its timer and its watches. mu is held.
func (k *keeper) end() {
	k.over = true
	if k.timer != nil {
		k.timer.Stop()
	}
	if k.watch != nil {
		k.watch()
	}
}

// finish ends the keeper after all nodes have confirmed the release or timed out.
func (k *keeper) finish() {
	k.end()
	err, parting := k.unfreed(), k.parting
	k.parting = nil
	go func() {
		k.closed()
		for _, l := range parting {
			l.finish(err)
		}
	}()
}

// close ends the keeper at once, with all its leases.
func (k *keeper) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return
	}
	k.end()
	for _, t := range k.line.waiting {
		t.state, t.err = ticketRefused, ErrClosed
		k.turned(t)
	}
	if t := k.line.holder; t != nil {
		t.state, t.err = ticketLost, ErrClosed
		k.turned(t)
	}
	for _, l := range k.parting {
		l.finish(ErrClosed)
	}
}

// unfreed returns an error that names the nodes that have not confirmed the release.
func (k *keeper) unfreed() error {
	var errs []error
	for i, name := range k.line.g.cfg.Nodes {
		if k.line.g.unconfirmed(i) > 0 {
			errs = append(errs, fmt.Errorf("lock node %s has not confirmed the release and forgets the key by itself within %v: %w",
				name, k.line.g.cfg.TTL, cmp.Or(k.line.g.Node(i).Err, context.DeadlineExceeded)))
		}
	}
	return errors.Join(errs...)
}

// beginWatch watches the key on all nodes.
func (k *keeper) beginWatch() {
	var ctx context.Context
	ctx, k.watch = context.WithCancel(k.callers.ctx)
	for _, n := range k.callers.nodes {
		k.callers.spawn(func() { k.follow(ctx, n) })
	}
}

// follow watches the key on one node, unless the node cannot notify.
func (k *keeper) follow(ctx context.Context, n Node) {
	for ctx.Err() == nil {
		err := n.Watch(ctx, k.line.key, k.line.g.cfg.Waiter, func() { k.step(k.line.woken) })
		if errors.Is(err, ErrCannotWatch) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(k.line.g.cfg.TTL / 4):
		}
	}
}
