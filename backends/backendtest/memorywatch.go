package backendtest

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

// wake takes whoever is next off the list of a key and tells its Watch.
// mu is held.
func (n *Node) wake(key string) {
	next, found := "", false
	for waiter, since := range n.waiting[key] {
		first := n.waiting[key][next]
		if !found || since.Before(first) || since.Equal(first) && waiter < next {
			next, found = waiter, true
		}
	}
	if !found {
		return
	}
	delete(n.waiting[key], next)
	for _, w := range n.watchers {
		if w.key != key || w.waiter != next {
			continue
		}
		select {
		case w.freed <- struct{}{}:
		default: // it does not keep up, and polls
		}
	}
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
