package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"salectl/backends/clock"
)

// keeper runs a line for real. Whoever has news for it, a caller, a timer, a
// node's reply, steps it under the lock: no goroutine stands between the reply
// that decides and the caller that waits for it.
type keeper struct {
	clock   clock.Clock
	callers *Callers
	closed  func() // called once, in a goroutine of its own, when the line is idle for good

	validity atomic.Pointer[Validity]

	deliver func(Reply) // replied

	mu      sync.Mutex
	line    *line
	leases  map[*ticket]*Lease
	parting []*Lease // given back, and not yet confirmed by all nodes
	timer   *time.Timer
	wakeAt  time.Duration // what the timer is set to; 0: to nothing
	watch   context.CancelFunc
	over    bool
}

func newKeeper(callers *Callers, m *Machine, order Order, keys []string, closed func()) *keeper {
	k := &keeper{
		clock: clock.System(), callers: callers, closed: closed,
		line: &line{m: m, order: order, keys: keys}, leases: make(map[*ticket]*Lease),
	}
	k.deliver = k.replied
	k.validity.Store(new(Validity))
	return k
}

// join begins to wait for the keys, on behalf of a lease. false: the keeper has
// ended, another is needed.
func (k *keeper) join(l *Lease) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return false
	}
	k.leases[l.ticket] = l
	now := k.clock()
	if l.patience > 0 {
		l.ticket.until = now.Mono + l.patience
	}
	k.perform(now, k.line.join(now, l.ticket))
	return true
}

// step lets something happen to the line.
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

// perform does what a step asks for. mu is held.
func (k *keeper) perform(now clock.Now, e lineEffects) {
	if v := k.line.m.Validity(); v != *k.validity.Load() {
		k.validity.Store(&v)
	}
	k.callers.Do(e.calls, k.deliver)
	for _, t := range e.turned {
		k.turned(t)
	}
	switch {
	case k.line.wanted():
		// Another in the line goes on with the nodes.
		for _, l := range k.parting {
			l.finish(nil)
		}
		k.parting = nil
	case e.free:
		for _, l := range k.parting {
			l.free()
		}
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

// setTimer sets the timer, if it would not come soon enough: coming early does
// no harm, and a timer that is set for each step would cost more than the step.
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

// turned tells a lease what has become of its ticket.
func (k *keeper) turned(t *ticket) {
	l := k.leases[t]
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
	delete(k.leases, t)
	k.parting = append(k.parting, l)
}

// finish ends the keeper: all nodes have confirmed the release, or had their
// time.
func (k *keeper) finish() {
	k.over = true
	if k.timer != nil {
		k.timer.Stop()
	}
	if k.watch != nil {
		k.watch()
	}
	err, parting := k.unfreed(), k.parting
	k.parting = nil
	go func() {
		k.closed()
		for _, l := range parting {
			l.finish(err)
		}
	}()
}

// close ends the keeper at once, and all leases with it.
func (k *keeper) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return
	}
	k.over = true
	if k.timer != nil {
		k.timer.Stop()
	}
	for t, l := range k.leases {
		l.end(ErrClosed)
		if t.state == ticketWaits {
			l.refused = ErrClosed
			close(l.decided)
		}
		l.finish(ErrClosed)
	}
	for _, l := range k.parting {
		l.finish(ErrClosed)
	}
}

// unfreed names the nodes that have not confirmed the release.
func (k *keeper) unfreed() error {
	var errs []error
	for _, n := range k.line.m.Nodes() {
		if n.Owes == 0 {
			continue
		}
		if n.Err == nil {
			n.Err = context.DeadlineExceeded
		}
		errs = append(errs, fmt.Errorf("lock node %s has not confirmed the release and forgets the keys by itself within %v: %w",
			n.Name, k.line.m.cfg.TTL, n.Err))
	}
	return errors.Join(errs...)
}

// beginWatch listens to all nodes for the news that a key was freed.
func (k *keeper) beginWatch() {
	var ctx context.Context
	ctx, k.watch = context.WithCancel(k.callers.ctx)
	for _, n := range k.callers.nodes {
		for _, key := range k.line.keys {
			k.callers.spawn(func() { k.follow(ctx, n, key) })
		}
	}
}

// follow watches one key on one node. A node that cannot tell is left alone.
func (k *keeper) follow(ctx context.Context, n Node, key string) {
	for ctx.Err() == nil {
		err := n.Watch(ctx, key, k.line.m.cfg.Waiter, func() { k.step(k.line.woken) })
		if errors.Is(err, ErrCannotWatch) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(k.line.m.cfg.TTL / 4):
		}
	}
}
