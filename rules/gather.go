package rules

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Gather returns a Users that combines concurrent lookups: those that arrive during a call to
// source share the next call. most limits the users of a call that combines several lookups, and
// timeout limits its duration. A lookup returns early if its context ends.
func Gather(source Users, most int, timeout time.Duration) Users {
	return &gathered{source: source, most: most, timeout: timeout}
}

type gathered struct {
	source  Users
	most    int
	timeout time.Duration

	mu      sync.Mutex
	waiting []*lookup
	asking  bool // a call is under way
}

// lookup is one waiting call of Lookup.
type lookup struct {
	ids   []string
	users []Attributes
	err   error
	done  chan struct{} // closed when the result is set
}

func (g *gathered) Lookup(ctx context.Context, ids []string) ([]Attributes, error) {
	l := &lookup{ids: ids, done: make(chan struct{})}
	g.mu.Lock()
	g.waiting = append(g.waiting, l)
	if !g.asking {
		g.asking = true
		go g.ask()
	}
	g.mu.Unlock()
	select {
	case <-l.done:
		return l.users, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ask makes calls until no lookup waits.
func (g *gathered) ask() {
	for {
		g.mu.Lock()
		batch, n := g.waiting, 0
		for i, l := range batch {
			if n += len(l.ids); n > g.most && i > 0 {
				batch = batch[:i]
				break
			}
		}
		g.waiting = g.waiting[len(batch):]
		g.asking = len(batch) > 0
		g.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		g.askFor(batch)
	}
}

func (g *gathered) askFor(batch []*lookup) {
	var ids []string
	for _, l := range batch {
		ids = append(ids, l.ids...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), g.timeout)
	defer cancel()
	users, err := g.source.Lookup(ctx, ids)
	if err == nil && len(users) != len(ids) {
		err = fmt.Errorf("for %d ids the source returned %d users", len(ids), len(users))
	}
	for _, l := range batch {
		if l.err = err; err == nil {
			l.users, users = users[:len(l.ids):len(l.ids)], users[len(l.ids):]
		}
		close(l.done)
	}
}
