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

// CacheConfig is what a Cache needs.
type CacheConfig struct {
	Source  Users
	Clock   clock.Clock
	Fresh   time.Duration // how old an answer may be, counted from when the source was asked; above 0
	Entries int           // most users that are kept; from 1
	Batch   int           // most users that the source is asked for in one call; from 1
}

// Cache is Users in front of others. It asks for those of a call that it does not
// have in as few calls as Batch allows, and never for one user twice at a time. It keeps
// what the source said, also that there is no such user; what is older than
// Fresh is asked for again, and if that fails, so does Lookup: an answer beyond
// its freshness is never given. Errors are not kept.
type Cache struct {
	config CacheConfig

	// mu guards what follows. It is never held while the source is asked.
	mu      sync.Mutex
	entries map[string]*list.Element // of *cached
	recent  *list.List               // the user asked for last is in front
	asking  map[string]*question
}

type cached struct {
	user  Attributes
	asked clock.Now
}

// question is one call to the source under way.
type question struct {
	ids     []string
	done    chan struct{} // closed when what follows is set
	answers []*cached     // none with an error
	err     error
}

// ErrLate is the error of a source that took longer than answers are fresh.
var ErrLate = errors.New("the answer took longer than it is fresh")

// NewCache checks the config.
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

// maxRounds is how often one Lookup asks again for what somebody else was asking
// for and then gave up, and for what has become too old meanwhile.
const maxRounds = 10

// Lookup implements Users. An error of the source is wrapped.
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

// Fresh returns a user who is kept and fresh; it asks nobody.
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

// hits fills in what is fresh and returns the places of what is not.
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

// stale returns the places of what is missing or has become too old while the
// source was asked for something else.
func (c *Cache) stale(answers []*cached) (left []int) {
	now := c.config.Clock()
	for i, a := range answers {
		if a == nil || !c.fresh(a, now) {
			left = append(left, i)
		}
	}
	return left
}

// round asks once for what is left, or waits for those who do.
func (c *Cache) round(ctx context.Context, ids []string, left []int, answers []*cached) error {
	mine, others := c.share(ids, left)
	// All of mine are asked, whatever becomes of one: others may wait for each.
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

// share returns the questions to ask for what is left, and those that somebody
// else is asking already.
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

// ask asks the source and keeps its answer.
func (c *Cache) ask(ctx context.Context, q *question) {
	// Also if the source panics, nobody is to wait for ever.
	q.err = errors.New("the source of the users broke off")
	defer c.finish(q)
	// The age of the answer counts from before the question.
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

// check holds a source to its promise, since an answer is kept under its own id.
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

// keepLocked stores an answer and drops the one that was not asked for for the
// longest time.
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

// wait waits for somebody else's question.
func wait(ctx context.Context, q *question) error {
	select {
	case <-q.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	if errors.Is(q.err, context.Canceled) || errors.Is(q.err, context.DeadlineExceeded) {
		// Whoever asked went away or had no more time. The source has said nothing:
		// who has time left asks again.
		return ctx.Err()
	}
	return q.err
}
