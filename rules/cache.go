package rules

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"salectl/backends/clock"
)

// CacheConfig configures a Cache. All fields are required.
type CacheConfig struct {
	Source  Users
	Clock   clock.Clock
	Fresh   time.Duration // maximum age of an answer since the call to the source; above 0
	Timeout time.Duration // of a call to the source; above 0
	Entries int           // maximum number of cached users; from 1
	Batch   int           // maximum number of users in a call to the source; from 1
}

// Cache is a Users that caches the answers of another. It makes one call to the source at a time:
// lookups that arrive during a call share the next one, and one user is never looked up twice at a
// time. It also caches that a user is unknown. An answer older than Fresh is looked up again; if
// that fails, so does Lookup. Cache never returns a stale answer, and caches no errors. A Lookup
// returns early if its context ends; the calls to the source do not depend on it.
type Cache struct {
	config CacheConfig

	// mu guards the fields below. It is not held during calls to the source.
	mu      sync.Mutex
	entries map[string]*list.Element // of *cached
	recent  *list.List               // most recently requested user first
	pending map[string]*call         // by user: the calls of queue, and the one under way
	queue   []*call
	calling bool // a goroutine makes the calls of queue
}

type cached struct {
	user     Attributes
	calledAt clock.Now
}

// call is a call to the source.
type call struct {
	ids     []string
	done    chan struct{} // closed when the fields below are set
	answers map[string]*cached
	err     error
}

// ErrLate reports that the source took longer than its answers are fresh.
var ErrLate = errors.New("the answer took longer than it is fresh")

// NewCache returns a Cache, or an error if the configuration is invalid.
func NewCache(c CacheConfig) (*Cache, error) {
	switch {
	case c.Source == nil || c.Clock == nil:
		return nil, errors.New("a cache of users needs a source and a clock")
	case c.Fresh <= 0:
		return nil, fmt.Errorf("a freshness of %s keeps nothing: write one above 0", c.Fresh)
	case c.Timeout <= 0:
		return nil, fmt.Errorf("a timeout of %s ends every call: write one above 0", c.Timeout)
	case c.Entries < 1 || c.Batch < 1:
		return nil, fmt.Errorf("a cache of %d users, %d a call, keeps nothing: write at least 1", c.Entries, c.Batch)
	}
	return &Cache{config: c, entries: map[string]*list.Element{}, recent: list.New(), pending: map[string]*call{}}, nil
}

// maxRounds limits how often one Lookup repeats calls for answers that have become stale during
// calls for others.
const maxRounds = 10

// Lookup implements Users. It wraps errors of the source.
func (c *Cache) Lookup(ctx context.Context, ids []string) ([]Attributes, error) {
	answers := make([]*cached, len(ids))
	for range maxRounds {
		calls := c.request(ids, answers)
		if calls == nil {
			all := make([]Attributes, len(ids))
			for i, a := range answers {
				all[i] = a.user
			}
			return all, nil
		}
		for i, call := range calls {
			if call == nil {
				continue
			}
			select {
			case <-call.done:
			case <-ctx.Done():
				return nil, fmt.Errorf("look up users: %w", ctx.Err())
			}
			if call.err != nil {
				return nil, fmt.Errorf("look up users: %w", call.err)
			}
			answers[i] = call.answers[ids[i]]
		}
	}
	return nil, fmt.Errorf("look up users: %w", ErrLate)
}

// Fresh returns a cached, fresh user. It does not call the source.
func (c *Cache) Fresh(id string) (Attributes, bool) {
	now := c.config.Clock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.freshLocked(id, now); a != nil {
		return a.user, true
	}
	return Attributes{}, false
}

func (c *Cache) fresh(a *cached, now clock.Now) bool { return now.Since(a.calledAt) <= c.config.Fresh }

// freshLocked returns the cached answer of a user, or nil if it is missing or stale.
func (c *Cache) freshLocked(id string, now clock.Now) *cached {
	element, ok := c.entries[id]
	if !ok || !c.fresh(element.Value.(*cached), now) {
		return nil
	}
	c.recent.MoveToFront(element)
	return element.Value.(*cached)
}

// request replaces the answers that are missing or stale by cached ones. It returns the calls that
// get the others, by index, or nil if all answers are fresh.
func (c *Cache) request(ids []string, answers []*cached) (calls []*call) {
	now := c.config.Clock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, id := range ids {
		if answers[i] != nil && c.fresh(answers[i], now) {
			continue
		}
		if answers[i] = c.freshLocked(id, now); answers[i] != nil {
			continue
		}
		if calls == nil {
			calls = make([]*call, len(ids))
		}
		calls[i] = c.callLocked(id)
	}
	return calls
}

// callLocked returns the call for a user, which it queues if there is none yet.
func (c *Cache) callLocked(id string) *call {
	if pending := c.pending[id]; pending != nil {
		return pending
	}
	if n := len(c.queue); n == 0 || len(c.queue[n-1].ids) == c.config.Batch {
		c.queue = append(c.queue, &call{done: make(chan struct{})})
	}
	last := c.queue[len(c.queue)-1]
	last.ids = append(last.ids, id)
	c.pending[id] = last
	if !c.calling {
		c.calling = true
		go c.makeCalls()
	}
	return last
}

// makeCalls makes the calls of the queue until it is empty, and caches their answers.
func (c *Cache) makeCalls() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.queue) > 0 {
		next := c.queue[0]
		c.queue = slices.Delete(c.queue, 0, 1)
		c.mu.Unlock()
		next.answers, next.err = c.lookup(next.ids)
		c.mu.Lock()
		for _, id := range next.ids {
			delete(c.pending, id)
			if next.err == nil {
				c.keepLocked(next.answers[id])
			}
		}
		close(next.done)
	}
	c.calling = false
}

// lookup calls the source. It verifies the answer, since each user is cached under its own id.
func (c *Cache) lookup(ids []string) (map[string]*cached, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.config.Timeout)
	defer cancel()
	calledAt := c.config.Clock() // the age of an answer counts from before the call
	users, err := c.config.Source.Lookup(ctx, ids)
	if err != nil {
		return nil, err
	}
	if len(users) != len(ids) {
		return nil, fmt.Errorf("the source returned %d users for %d ids", len(users), len(ids))
	}
	answers := make(map[string]*cached, len(ids))
	for i, id := range ids {
		if users[i].ID() != id {
			return nil, fmt.Errorf("the source returned the user %s for %s", quoted(users[i].ID()), quoted(id))
		}
		answers[id] = &cached{users[i], calledAt}
	}
	if c.config.Clock().Since(calledAt) > c.config.Fresh {
		return nil, ErrLate
	}
	return answers, nil
}

// keepLocked caches an answer and drops the least recently requested one.
func (c *Cache) keepLocked(a *cached) {
	id := a.user.ID()
	if element, ok := c.entries[id]; ok {
		element.Value = a
		c.recent.MoveToFront(element)
		return
	}
	c.entries[id] = c.recent.PushFront(a)
	if c.recent.Len() > c.config.Entries {
		last := c.recent.Back()
		delete(c.entries, last.Value.(*cached).user.ID())
		c.recent.Remove(last)
	}
}
