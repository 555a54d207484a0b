package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

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
// that fails, so does Lookup. No answer was stale when its Lookup began, and Cache caches no errors. A
// Lookup returns early if its context ends; the calls to the source do not depend on it.
type Cache struct {
	config CacheConfig

	// mu guards the fields below. It is not held during calls to the source.
	mu      sync.Mutex
	entries simplelru.LRUCache[string, *cached]
	pending map[string]*call // by user: the calls of queue, and the one under way
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

// NewCache returns a Cache.
func NewCache(c CacheConfig) (*Cache, error) {
	entries, err := simplelru.NewLRU[string, *cached](c.Entries, nil)
	if err != nil {
		return nil, fmt.Errorf("a cache of %d users: %w", c.Entries, err)
	}
	return &Cache{config: c, entries: entries, pending: map[string]*call{}}, nil
}

// Lookup implements Users. It wraps errors of the source.
func (c *Cache) Lookup(ctx context.Context, ids []string) ([]Attributes, error) {
	if len(ids) == 0 {
		return c.config.Source.Lookup(ctx, nil)
	}
	all := make([]Attributes, len(ids))
	for i, call := range c.request(ids, all) {
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
		all[i] = call.answers[ids[i]].user
	}
	return all, nil
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

// freshLocked returns the cached answer of a user, or nil if it is missing or stale.
func (c *Cache) freshLocked(id string, now clock.Now) *cached {
	if a, ok := c.entries.Get(id); ok && now.Since(a.calledAt) <= c.config.Fresh {
		return a
	}
	return nil
}

// request sets the users whose cached answers are fresh. It returns the calls that get the others, by
// index, or nil if all are fresh.
func (c *Cache) request(ids []string, users []Attributes) (calls []*call) {
	now := c.config.Clock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, id := range ids {
		if a := c.freshLocked(id, now); a != nil {
			users[i] = a.user
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
				c.entries.Add(id, next.answers[id])
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
