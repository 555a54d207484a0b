package lock

import (
	"context"
	"fmt"
	"sync"

	"salectl/backends/quorum"
	"salectl/spec"
)

// Break removes exactly the holdings of a key that were read, and reads the nodes again.
// confirmed: the user confirmed the removal after the read.
func Break(ctx context.Context, nodes []quorum.Node, id ID, key string, seen []HeldBy, confirmed bool) Broken {
	released, errs := make([]int, len(nodes)), make([]error, len(nodes))
	var removals sync.WaitGroup
	for i, n := range nodes {
		if h := holdingOn(seen, n.Name()); h.Token != "" {
			removals.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, lockTimeout)
				defer cancel()
				released[i], errs[i] = n.Release(ctx, []quorum.LeaseRequest{{Key: h.Key, Token: h.Token, Note: h.Note}})
			})
		}
	}
	removals.Wait()
	after := Read(ctx, nodes, key)
	r := Broken{
		ID: id, Name: id.String(), confirmed: confirmed, Nodes: len(nodes), seen: seen,
		held:    Held(after, func(found string) (ID, bool) { return id, found == key }),
		Removed: []OfNode{}, Changed: []OfNode{}, Failed: []OfNode{},
	}
	for i, n := range after {
		was := holdingOn(seen, n.Name)
		switch {
		case errs[i] != nil:
			r.Failed = append(r.Failed, OfNode{Node: n.Name, Error: quorum.ErrorText(errs[i])})
			continue
		case released[i] > 0:
			r.Removed = append(r.Removed, OfNode{Node: n.Name, Holder: holderName(was)})
		case was.Token != "":
			r.Changed = append(r.Changed, OfNode{Node: n.Name, Now: nowText(was, holdingOn(r.held, n.Name))})
		}
		if n.Err != nil {
			r.Failed = append(r.Failed, OfNode{Node: n.Name, Error: n.Error})
		}
	}
	return r
}

// Broken is the result of breaking a lock.
type Broken struct {
	ID        ID       `json:"-"`
	Name      string   `json:"name"`    // of ID
	Nodes     int      `json:"-"`       // number of nodes
	Removed   []OfNode `json:"removed"` // removed holdings
	Changed   []OfNode `json:"changed"` // changed before their removal
	Failed    []OfNode `json:"failed"`  // state unknown
	confirmed bool     // the user confirmed the removal after the read
	seen      []HeldBy // holders before the removal
	held      []HeldBy // holders after the removal
}

// OfNode is the outcome for a holding on one node.
type OfNode struct {
	Node   string `json:"node"`
	Holder string `json:"holder,omitempty"` // of a holding that was removed
	Now    string `json:"now,omitempty"`    // clause about one that had changed
	Error  string `json:"error,omitempty"`  // of a node that did not answer
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

// nowText describes the change of a holding.
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
	case r.confirmed:
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
