package memory

import (
	"context"
	"errors"
	"slices"
	"time"

	"salectl/backends/quorum"
)

// enlist puts who asks on the list of those who wait. mu is held.
func (n *Node) enlist(ask quorum.Ask) {
	if n.waiting == nil {
		n.waiting = make(map[string]map[string]time.Time)
	}
	if n.waiting[ask.Key] == nil {
		n.waiting[ask.Key] = make(map[string]time.Time)
	}
	n.waiting[ask.Key][ask.Waiter] = n.now.Add(-ask.Waited)
}

// wake tells the Watch of who is next after a release: whom that names, and then the
// key is kept for it, or whoever is first on the list, who is taken off it. mu is held.
func (n *Node) wake(ask quorum.Ask) {
	next := ask.Next
	if next != "" {
		n.memory.leases[ask.Key] = lease{note: next, expires: n.now.Add(quorum.HandOver)}
	} else {
		next = n.first(ask.Key)
		delete(n.waiting[ask.Key], next)
	}
	for _, w := range n.watchers {
		if w.key != ask.Key || w.waiter != next {
			continue
		}
		select {
		case w.freed <- struct{}{}:
		default: // it does not keep up, and polls
		}
	}
}

// first returns who has waited longest for a key, "" if nobody waits. mu is held.
func (n *Node) first(key string) (next string) {
	for waiter, since := range n.waiting[key] {
		first := n.waiting[key][next]
		if next == "" || since.Before(first) || since.Equal(first) && waiter < next {
			next = waiter
		}
	}
	return next
}

// Watch is quorum.Node's.
func (n *Node) Watch(ctx context.Context, key, waiter string, freed func()) error {
	if err := n.lock(ctx); err != nil {
		return err
	}
	w := &watcher{key: key, waiter: waiter, freed: make(chan struct{}, 64)}
	n.watchers = append(n.watchers, w)
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.watchers = slices.DeleteFunc(n.watchers, func(other *watcher) bool { return other == w })
	}()
	freed()
	for {
		select {
		case _, open := <-w.freed:
			if !open {
				return errors.New("the node has restarted")
			}
			freed()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
