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
	Entries int           // maximum number of cached users; from 1
	Batch   int           // maximum number of users in a call to the source; from 1
}

// Cache is a Users that caches the answers of another. It looks up the uncached users of a call in
// as few calls as Batch allows, and never one user twice at a time. It also caches that a user is
// unknown. An answer older than Fresh is looked up again; if that fails, so does Lookup. Cache
// never returns a stale answer, and caches no errors.
type Cache struct {
	config CacheConfig

	// mu guards the fields below. It is not held during calls to the source.
	mu      sync.Mutex
	entries map[string]*list.Element // of *cached
	recent  *list.List               // most recently requested user first
	asking  map[string]*question
}

type cached struct {
	user  Attributes
	asked clock.Now
}

// question is a call to the source under way.
type question struct {
	ids     []string
	done    chan struct{} // closed when the fields below are set
	answers []*cached     // nil with an error
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
	case c.Entries < 1 || c.Batch < 1:
		return nil, fmt.Errorf("a cache of %d users, %d a call, keeps nothing: write at least 1", c.Entries, c.Batch)
	}
	return &Cache{config: c, entries: map[string]*list.Element{}, recent: list.New(), asking: map[string]*question{}}, nil
}

// maxRounds limits how often one Lookup repeats calls: for users whose call another Lookup has
// canceled, and for answers that have become stale meanwhile.
const maxRounds = 10

// Lookup implements Users. It wraps errors of the source.
func (c *Cache) Lookup(ctx context.Context, ids []string) ([]Attributes, error) {
	answers := make([]*cached, len(ids))
	left := c.hits(ids, answers)
	for round := 0; len(left) > 0; round++ {
		if round == maxRounds {
			return nil, fmt.Errorf("look up users: %w", ErrLate)
		}
		if err := c.round(ctx, ids, left, answers); err != nil {
			return nil, fmt.Errorf("look up users: %w", err)
		}
		left = c.stale(answers)
	}
	all := make([]Attributes, len(ids))
	for i, a := range answers {
		all[i] = a.user
	}
	return all, nil
}

// Fresh returns a cached, fresh user. It does not call the source.
func (c *Cache) Fresh(id string) (Attributes, bool) {
	now := c.config.Clock()
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.entries[id]
	if !ok || !c.fresh(element.Value.(*cached), now) {
		return Attributes{}, false
	}
	c.recent.MoveToFront(element)
	return element.Value.(*cached).user, true
}

// hits sets the fresh answers and returns the indices of the others.
func (c *Cache) hits(ids []string, answers []*cached) (left []int) {
	now := c.config.Clock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, id := range ids {
		element, ok := c.entries[id]
		if ok && c.fresh(element.Value.(*cached), now) {
			answers[i] = element.Value.(*cached)
			c.recent.MoveToFront(element)
			continue
		}
		left = append(left, i)
	}
	return left
}

func (c *Cache) fresh(a *cached, now clock.Now) bool { return now.Since(a.asked) <= c.config.Fresh }

// stale returns the indices of answers that are missing or have become stale during calls for others.
func (c *Cache) stale(answers []*cached) (left []int) {
	now := c.config.Clock()
	for i, a := range answers {
		if a == nil || !c.fresh(a, now) {
			left = append(left, i)
		}
	}
	return left
}

// round makes one call for each user left, or waits for the call of another Lookup.
func (c *Cache) round(ctx context.Context, ids []string, left []int, answers []*cached) error {
	mine, others := c.share(ids, left)
	// All of mine are called even after an error: others may wait for each.
	var first error
	for _, q := range mine {
		c.ask(ctx, q)
		if first == nil {
			first = q.err
		}
	}
	if first != nil {
		return first
	}
	for _, q := range others {
		if err := wait(ctx, q); err != nil {
			return err
		}
	}
	found := map[string]*cached{}
	for _, q := range append(mine, others...) {
		for i, a := range q.answers {
			found[q.ids[i]] = a
		}
	}
	for _, i := range left {
		answers[i] = found[ids[i]]
	}
	return nil
}

// share returns the calls to make for the users left, and the calls under way that include some of them.
func (c *Cache) share(ids []string, left []int) (mine, others []*question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range left {
		id := ids[i]
		if q := c.asking[id]; q != nil {
			if !slices.Contains(mine, q) && !slices.Contains(others, q) {
				others = append(others, q)
			}
			continue
		}
		if len(mine) == 0 || len(mine[len(mine)-1].ids) == c.config.Batch {
			mine = append(mine, &question{done: make(chan struct{})})
		}
		q := mine[len(mine)-1]
		q.ids = append(q.ids, id)
		c.asking[id] = q
	}
	return mine, others
}

// ask calls the source and caches its answers.
func (c *Cache) ask(ctx context.Context, q *question) {
	// If the source panics, the waiting Lookups must not block forever.
	q.err = errors.New("the source of the users broke off")
	defer c.finish(q)
	// The age of an answer counts from before the call.
	asked := c.config.Clock()
	users, err := c.config.Source.Lookup(ctx, q.ids)
	if err == nil {
		err = c.check(q.ids, users, asked)
	}
	if q.err = err; err != nil {
		return
	}
	for _, user := range users {
		q.answers = append(q.answers, &cached{user, asked})
	}
}

// check verifies the source's answer, since each user is cached under its own id.
func (c *Cache) check(ids []string, users []Attributes, asked clock.Now) error {
	if len(users) != len(ids) {
		return fmt.Errorf("the source returned %d users for %d ids", len(users), len(ids))
	}
	for i, id := range ids {
		if users[i].ID() != id {
			return fmt.Errorf("the source returned the user %s for %s", quoted(users[i].ID()), quoted(id))
		}
	}
	if c.config.Clock().Since(asked) > c.config.Fresh {
		return ErrLate
	}
	return nil
}

func (c *Cache) finish(q *question) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range q.ids {
		delete(c.asking, id)
	}
	for _, a := range q.answers {
		c.keepLocked(a)
	}
	close(q.done)
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

// wait waits for the call of another Lookup.
func wait(ctx context.Context, q *question) error {
	select {
	case <-q.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if errors.Is(q.err, context.Canceled) || errors.Is(q.err, context.DeadlineExceeded) {
		// The Lookup that made the call has ended; the source has not answered. Try again if ctx permits.
		return ctx.Err()
	}
	return q.err
}
