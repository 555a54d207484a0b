package executor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/internal/wait"
	"salectl/spec"
)

// takenNode sees the units that are taken out of lists for other shards.
type takenNode struct {
	lists.Node
	taken atomic.Int64 // calls that took some
	after func() error // what then comes of such a call
}

func (n *takenNode) Take(ctx context.Context, l lists.List, fill uint64, k int) (ledger.Units, error) {
	units, err := n.Node.Take(ctx, l, fill, k)
	if err == nil && len(units) > 0 {
		n.taken.Add(1)
		err = n.after()
	}
	return units, err
}

// watched connects one more process, whose takes are seen.
func (s *listSite) watched(after func() error) (locks []quorum.Node, kept []lists.Node, seen []*takenNode) {
	s.t.Helper()
	locks, plain := s.connect()
	for _, n := range plain {
		seen = append(seen, &takenNode{Node: n, after: after})
		kept = append(kept, seen[len(seen)-1])
	}
	return locks, kept, seen
}

// TestListsTransfers races for units of which some shards have none: their users
// get those of others, also from another node's list. The answers of some takes are
// lost: the units are in no list and in no log then, and come back.
func TestListsTransfers(t *testing.T) {
	eachAck(t, func(t *testing.T, ack spec.Ack) {
		t.Parallel()
		s := newListSite(t, ack, 2, always, 0, 200, 0, 280, 0, 0)
		var calls atomic.Int64
		var seen []*takenNode
		p := s.site.serve(func(c *Config) {
			c.Nodes, c.Lists, seen = s.watched(func() error {
				if calls.Add(1)%3 == 0 {
					return errors.New("the answer is lost")
				}
				return nil
			})
		})
		c := newCrowd(t, s, p.Do)
		c.race(40, func() {})
		if n := seen[0].taken.Load() + seen[1].taken.Load(); n < 3 {
			t.Errorf("%d takes", n)
		}
	})
}

// TestListsTakenAndDead has a process die when it has taken units out of a list,
// before the log knows of them. The next gives them.
func TestListsTakenAndDead(t *testing.T) {
	eachAck(t, func(t *testing.T, ack spec.Ack) {
		t.Parallel()
		s := newListSite(t, ack, 2, always, 0, 200, 0, 300)
		var first *siteProcess
		var died atomic.Bool
		var locks []*gatedNode
		first = s.site.serve(func(c *Config) {
			var plain []quorum.Node
			logs := c.Logs.(*gatedLogs)
			plain, c.Lists, _ = s.watched(func() error {
				if died.CompareAndSwap(false, true) {
					logs.appends.close()
					for _, n := range locks {
						n.close()
					}
				}
				return nil
			})
			c.Nodes = nil
			for i, n := range plain {
				locks = append(locks, &gatedNode{Node: n})
				c.Nodes = append(c.Nodes, locks[i])
			}
		})
		second := s.serveLater()
		c := newCrowd(t, s, anyOf(first, second))
		c.race(20, func() {
			c.await("dead", died.Load)
			wait.Until(t, "the second process is ready", func() bool { return second.Ready() == nil })
			c.at(60, func() {
				first.logs.appends.open()
				for _, n := range locks {
					n.open()
				}
			})
		})
	})
}

// serveLater is a process that serves when no other does.
func (s *listSite) serveLater() *siteProcess {
	s.t.Helper()
	return s.site.process(func(c *Config) { c.Nodes, c.Lists = s.connect() })
}

// TestListsOnlyOthersHave has all users at home in shards that have nothing, one
// node away from the shard that has all.
func TestListsOnlyOthersHave(t *testing.T) {
	eachAck(t, func(t *testing.T, ack spec.Ack) {
		t.Parallel()
		s := newListSite(t, ack, 2, nil, 0, 90)
		p := s.serve()
		c := newCrowd(t, s, p.Do)
		for i, n := 0, 0; n < 60; i++ {
			user := fmt.Sprint("poor-", i)
			if spec.HomeShard(user, 2) != 0 {
				continue
			}
			n++
			a := c.one(user, "key")
			if a.Outcome != api.Sold {
				t.Fatalf("%s, whose shard has nothing: %+v", user, a)
			}
			c.mu.Lock()
			c.heard(user, a)
			c.mu.Unlock()
		}
		c.settle()
	})
}
