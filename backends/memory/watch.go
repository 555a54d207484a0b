package memory

import (
	"context"
	"errors"
	"slices"
	"time"

	"salectl/backends/quorum"
)

// enlist adds the waiter of a request to the waiting list of its key. mu is held.
func (n *Node) enlist(request quorum.LeaseRequest) {
	if n.waiting == nil {
		n.waiting = make(map[string]map[string]time.Time)
	}
	if n.waiting[request.Key] == nil {
		n.waiting[request.Key] = make(map[string]time.Time)
	}
	n.waiting[request.Key][request.Waiter] = n.now.Add(-request.Waited)
}

// wake notifies the Watch of the next waiter after a release. That is the waiter which the
// request names, and for which the key is kept, or else the first on the list, which is
// removed from it. mu is held.
func (n *Node) wake(request quorum.LeaseRequest) {
	next := request.Next
	if next != "" {
		n.memory.leases[request.Key] = lease{note: next, expires: n.now.Add(quorum.HandOver)}
	} else {
		next = n.first(request.Key)
		delete(n.waiting[request.Key], next)
	}
	for _, w := range n.watchers {
		if w.key != request.Key || w.waiter != next {
			continue
		}
		select {
		case w.freed <- struct{}{}:
		default: // it does not keep up, and polls
		}
	}
}

// first returns the waiter with the longest waiting time for a key, "" if there is none. mu
// is held.
func (n *Node) first(key string) (next string) {
	for waiter, since := range n.waiting[key] {
		first := n.waiting[key][next]
		if next == "" || since.Before(first) || since.Equal(first) && waiter < next {
			next = waiter
		}
	}
	return next
}

// Watch implements quorum.Node.
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
