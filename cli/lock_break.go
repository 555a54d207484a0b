package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	urfave "github.com/urfave/cli/v2"

	"salectl/backends"
	"salectl/backends/quorum"
	"salectl/spec"
)

type lockBreakOptions struct {
	source
	yes bool
	id  lockID
}

func (p *program) lockBreakCommand() *urfave.Command {
	return &urfave.Command{
		Name: "break", Usage: "take a lock from its holder", ArgsUsage: "NAME",
		Description: "NAME is a named lock, or SALE/SHARD for the lease of a shard. Asks for confirmation, " +
			"then removes from each lock node exactly the value that was shown: a lock that was " +
			"renewed, or acquired by another process, in the meantime remains. A live holder notices " +
			"that it has lost the lock: 'salectl lock run' ends its command, serve stops selling. A " +
			"live holder also renews the lock while the question is open; --yes does not ask, and " +
			"takes it.\n\n" +
			"Exit codes: 1 the lock is not held, 5 it was acquired or renewed in the meantime, 6 it " +
			"may still be held on lock nodes that did not answer.",
		Flags: salesFlags(yesFlag(), jsonFlag()),
		Action: func(c *urfave.Context) error {
			f := &flags{c: c}
			o := lockBreakOptions{source: parseSource(f), yes: f.on("yes")}
			if c.Args().Present() {
				o.id = f.lockID(c.Args().First())
			} else {
				f.refuse("name the lock to break; 'salectl lock list%s' shows those that are held", o.filesGiven())
			}
			if err := f.done(1); err != nil {
				return err
			}
			return p.lockBreak(c.Context, o)
		},
	}
}

func (p *program) lockBreak(ctx context.Context, o lockBreakOptions) error {
	sales, err := p.load(ctx, o.source)
	if err != nil {
		return err
	}
	uid := ""
	if o.id.name == "" {
		at := slices.IndexFunc(sales, func(s spec.Sale) bool { return s.Name == o.id.sale })
		if at < 0 {
			return &usageError{"salectl lock break", fmt.Sprintf("no sale named %s is in the files", o.id.sale)}
		}
		sales = sales[at : at+1]
		err := p.withStore(sales[0], func(store *backends.Store) (err error) {
			if uid, err = readUID(ctx, store, sales[0].Name); err != nil {
				return fmt.Errorf("which lease is that of %s: %w", o.id, readError(ctx, err))
			}
			return nil
		})
		if err != nil {
			return err
		}
		if uid == "" {
			return fmt.Errorf("%s: %w: %s was never applied", o.id, errNotHeld, o.id.sale)
		}
	}
	return p.withNodes("salectl lock break", sales, func(nodes []quorum.Node) error {
		return p.breakLock(ctx, o, o.id.key(uid), nodes)
	})
}

// key returns the lock's key on the nodes. uid is that of the sale of a lease.
func (id lockID) key(uid string) string {
	if id.name != "" {
		return spec.NamedLock(id.name)
	}
	return spec.LeaseKey(uid, id.shard)
}

// breakLock shows the holder of a key, asks, and removes exactly that holder.
func (p *program) breakLock(ctx context.Context, o lockBreakOptions, key string, nodes []quorum.Node) error {
	only := func(found string) (lockID, bool) { return o.id, found == key }
	read := readLocks(ctx, nodes, key)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	seen := heldLocks(read, only)
	quiet := silent(read)
	p.warn(faults(read))
	if len(seen) == 0 {
		switch len(quiet) {
		case 0:
		case len(nodes):
			return fmt.Errorf("%s: no lock node can be asked: %s", o.id, strings.Join(quiet, "; "))
		default:
			return fmt.Errorf("%s: %w on the lock nodes that can be asked; %s", o.id, errNotHeld, strings.Join(quiet, "; "))
		}
		return fmt.Errorf("%s: %w", o.id, errNotHeld)
	}
	for _, lock := range seen {
		p.say("%s", seenText(lock, len(nodes)))
	}
	p.warn(quiet)
	if err := p.askPerson(ctx, fmt.Sprintf("Break %s?", o.id), o.yes, o.json); err != nil {
		return err
	}
	r := breakResult{id: o.id, asked: !o.yes, nodes: len(nodes), seen: seen}
	r.remove(ctx, nodes)
	after := readLocks(ctx, nodes, key)
	r.compare(after, heldLocks(after, only))
	pick(o.json, p.brokenText, p.brokenJSON)(r)
	return r.error()
}

// seenText describes the holder of a lock as it was read.
func seenText(lock heldLock, nodes int) string {
	text := fmt.Sprintf("%s: %s has it on %s", lock.id, lock.holder, whereText(lock.on, nodes, count(nodes, "lock node")))
	if age, ok := lock.beat(); ok {
		text += fmt.Sprintf(", renewed %s ago", secondsText(age))
	}
	return text
}

// breakResult is the result of breaking a lock.
type breakResult struct {
	id      lockID
	asked   bool            // a person was asked between read and removal
	nodes   int             // number of nodes
	removed []brokenOnNode  // removed holdings
	changed []changedOnNode // changed before their removal
	failed  []failedOnNode  // state unknown
	seen    []heldLock      // holders before the removal
	held    []heldLock      // holders after the removal
}

type brokenOnNode struct {
	Node   string `json:"node"`
	Holder string `json:"holder"`
}

type changedOnNode struct {
	Node string `json:"node"`
	Now  string `json:"now"` // clause
}

type failedOnNode struct {
	Node  string `json:"node"`
	Error string `json:"error"`
}

// remove removes on each node exactly the holding that was read there.
func (r *breakResult) remove(ctx context.Context, nodes []quorum.Node) {
	var mu sync.Mutex // guards the result's lists
	var asked sync.WaitGroup
	for _, n := range nodes {
		for _, lock := range r.seen {
			i := slices.IndexFunc(lock.on, func(on lockOnNode) bool { return on.node == n.Name() })
			if i < 0 {
				continue
			}
			h := lock.on[i].holding
			asked.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, lockTimeout)
				defer cancel()
				freed, err := n.Release(ctx, []quorum.Ask{{Key: h.Key, Token: h.Token, Note: h.Note}})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					r.failed = append(r.failed, failedOnNode{n.Name(), nodeWords(n.Name(), err)})
				case freed == 0:
					r.changed = append(r.changed, changedOnNode{Node: n.Name()})
				default:
					r.removed = append(r.removed, brokenOnNode{n.Name(), lock.holder})
				}
			})
		}
	}
	asked.Wait()
	slices.SortFunc(r.removed, func(a, b brokenOnNode) int { return strings.Compare(a.Node, b.Node) })
	slices.SortFunc(r.changed, func(a, b changedOnNode) int { return strings.Compare(a.Node, b.Node) })
}

// compare determines changes from the holdings after the removal, and the nodes that do not
// answer.
func (r *breakResult) compare(read []nodeLocks, held []heldLock) {
	r.held = held
	for i, was := range r.changed {
		r.changed[i].Now = nowText(holdingOn(r.seen, was.Node), holdingOn(r.held, was.Node))
	}
	for _, n := range read {
		known := slices.ContainsFunc(r.failed, func(f failedOnNode) bool { return f.Node == n.name })
		if n.err != nil && !known {
			r.failed = append(r.failed, failedOnNode{n.name, nodeWords(n.name, n.err)})
		}
	}
	slices.SortFunc(r.failed, func(a, b failedOnNode) int { return strings.Compare(a.Node, b.Node) })
}

func holdingOn(locks []heldLock, node string) quorum.Holding {
	for _, lock := range locks {
		for _, on := range lock.on {
			if on.node == node {
				return on.holding
			}
		}
	}
	return quorum.Holding{}
}

// nowText describes what happened to a holding that had changed.
func nowText(was, is quorum.Holding) string {
	switch {
	case is.Token == "":
		return "it was given back, or ran out"
	case is.Token == was.Token:
		return holderName(is) + " has renewed it, so it lives"
	}
	return holderName(is) + " has got it"
}

// remedy describes how to break a lock whose holder has renewed it.
func (r *breakResult) remedy(lock heldLock) string {
	switch {
	case len(r.changed) == 0:
		return "" // lock nodes fail, and the answer names them
	case r.asked:
		return fmt.Sprintf("It was renewed while the question was open, so %s is alive: end that process, or run this again with --yes, "+
			"which leaves no time for a renewal and takes the lock from a process that works under it.", lock.holder)
	}
	return fmt.Sprintf("It was renewed at that very moment, so %s is alive: end that process, or run this again.", lock.holder)
}

// error returns an error if a holder that was read may still have the lock.
func (r *breakResult) error() error {
	most := r.nodes/2 + 1
	for _, lock := range r.seen {
		still := 0
		for _, now := range r.held {
			if now.token() == lock.token() {
				still = len(now.on)
			}
		}
		switch {
		case still+len(r.failed) < most:
		case still > 0:
			err := fmt.Errorf("%s is not broken: %s still has it on %d of %s", r.id, lock.holder, still, count(r.nodes, "lock node"))
			return advised{err.Error(), r.remedy(lock), &codedError{exitStale, err}}
		default:
			return &codedError{exitPartly, fmt.Errorf("%s may still be held: too few lock nodes could be asked; run it again when they can", r.id)}
		}
	}
	if len(r.removed) == 0 {
		return &codedError{exitStale, fmt.Errorf("%s has changed since it was shown", r.id)}
	}
	return nil
}
