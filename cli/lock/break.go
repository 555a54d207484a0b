package lock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"salectl/backends/quorum"
	"salectl/spec"
)

// Break removes exactly the holdings of a key that were read, and reads the nodes again.
// asked: a person was asked in between.
func Break(ctx context.Context, nodes []quorum.Node, id ID, key string, seen []HeldBy, asked bool) Broken {
	r := Broken{
		ID: id, Name: id.String(), asked: asked, Nodes: len(nodes), seen: seen,
		Removed: []OfNode{}, Changed: []OfNode{}, Failed: []OfNode{},
	}
	r.remove(ctx, nodes)
	after := Read(ctx, nodes, key)
	r.compare(after, Held(after, func(found string) (ID, bool) { return id, found == key }))
	return r
}

// Broken is the result of breaking a lock.
type Broken struct {
	ID      ID       `json:"-"`
	Name    string   `json:"name"`    // of ID
	Nodes   int      `json:"-"`       // number of nodes
	Removed []OfNode `json:"removed"` // removed holdings
	Changed []OfNode `json:"changed"` // changed before their removal
	Failed  []OfNode `json:"failed"`  // state unknown
	asked   bool     // a person was asked between read and removal
	seen    []HeldBy // holders before the removal
	held    []HeldBy // holders after the removal
}

// OfNode is what became of a holding on one node.
type OfNode struct {
	Node   string `json:"node"`
	Holder string `json:"holder,omitempty"` // of a holding that was removed
	Now    string `json:"now,omitempty"`    // clause about one that had changed
	Error  string `json:"error,omitempty"`  // of a node that did not answer
}

func sortByNode(all []OfNode) {
	slices.SortFunc(all, func(a, b OfNode) int { return strings.Compare(a.Node, b.Node) })
}

// remove removes on each node exactly the holding that was read there.
func (r *Broken) remove(ctx context.Context, nodes []quorum.Node) {
	var mu sync.Mutex // guards the result's lists
	var asked sync.WaitGroup
	for _, n := range nodes {
		for _, lock := range r.seen {
			i := slices.IndexFunc(lock.Nodes, func(on OnNode) bool { return on.Name == n.Name() })
			if i < 0 {
				continue
			}
			h := lock.Nodes[i].Holding
			asked.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, lockTimeout)
				defer cancel()
				freed, err := n.Release(ctx, []quorum.Ask{{Key: h.Key, Token: h.Token, Note: h.Note}})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					r.Failed = append(r.Failed, OfNode{Node: n.Name(), Error: NodeWords(n.Name(), err)})
				case freed == 0:
					r.Changed = append(r.Changed, OfNode{Node: n.Name()})
				default:
					r.Removed = append(r.Removed, OfNode{Node: n.Name(), Holder: lock.Holder})
				}
			})
		}
	}
	asked.Wait()
	sortByNode(r.Removed)
	sortByNode(r.Changed)
}

// compare determines changes from the holdings after the removal, and the nodes that do not
// answer.
func (r *Broken) compare(read []Node, held []HeldBy) {
	r.held = held
	for i, was := range r.Changed {
		r.Changed[i].Now = nowText(holdingOn(r.seen, was.Node), holdingOn(r.held, was.Node))
	}
	for _, n := range read {
		known := slices.ContainsFunc(r.Failed, func(f OfNode) bool { return f.Node == n.Name })
		if n.Err != nil && !known {
			r.Failed = append(r.Failed, OfNode{Node: n.Name, Error: n.Error})
		}
	}
	sortByNode(r.Failed)
}

func holdingOn(locks []HeldBy, node string) quorum.Holding {
	for _, lock := range locks {
		for _, on := range lock.Nodes {
			if on.Name == node {
				return on.Holding
			}
		}
	}
	return quorum.Holding{}
}

// nowText describes what happened to a holding that had changed.
func nowText(was, is quorum.Holding) string {
	switch {
	case is.Token == "":
		return "it was released, or has expired"
	case is.Token == was.Token:
		return holderName(is) + " has renewed it, so it is alive"
	}
	return holderName(is) + " has acquired it"
}

// remedy describes how to break a lock whose holder has renewed it.
func (r *Broken) remedy(lock HeldBy) string {
	switch {
	case len(r.Changed) == 0:
		return "" // lock nodes fail, and the answer names them
	case r.asked:
		return fmt.Sprintf("The lock was renewed while the question was open, so %s is alive: end that process, or repeat the command with --yes, "+
			"which does not wait for an answer and takes the lock from a working process.", lock.Holder)
	}
	return fmt.Sprintf("The lock was renewed at that moment, so %s is alive: end that process, or repeat the command.", lock.Holder)
}

// Err returns an error if a holder that was read may still have the lock, with its remedy, or
// "".
func (r *Broken) Err() (remedy string, err error) {
	most := r.Nodes/2 + 1
	for _, lock := range r.seen {
		still := 0
		for _, now := range r.held {
			if now.token() == lock.token() {
				still = len(now.Nodes)
			}
		}
		switch {
		case still+len(r.Failed) < most:
		case still > 0:
			return r.remedy(lock), exit(ExitLost, "%s is not broken: %s still has it on %d of %s", r.ID, lock.Holder, still, spec.Count(r.Nodes, "lock node"))
		default:
			return "", exit(ExitMayBeHeld, "%s may still be held: too few lock nodes answered; repeat the command when they do", r.ID)
		}
	}
	if len(r.Removed) == 0 {
		return "", exit(ExitLost, "%s has changed since it was shown", r.ID)
	}
	return "", nil
}
