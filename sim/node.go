package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"salectl/backends/memory"
	"salectl/backends/quorum"
)

// node is one lock server: a node in memory with a clock of its own.
type node struct {
	*memory.Node
	w     *world
	clock hostClock
	set   time.Time       // what the node's clock was last set to
	saved memory.Promises // what was last written to its disk
	down  bool

	// The markers that stay until they are forgotten: one that only a vote has
	// written ends by itself.
	lasting, lastingSaved map[string]bool

	lists *listNode // nil: it keeps none
}

func newNode(w *world, i int, clock hostClock) *node {
	n := &node{w: w, clock: clock, set: clock.now(0).Wall, lasting: make(map[string]bool)}
	n.Node = memory.NewNode(fmt.Sprintf("node-%d", i), n.set)
	if w.scenario.lists != nil {
		n.lists = newListNode(n, i)
	}
	n.save()
	return n
}

// serve brings the node's clock up to the present.
func (n *node) serve() {
	wall := n.clock.now(n.w.now).Wall
	n.Advance(wall.Sub(n.set))
	n.set = wall
}

// setClock sets the node's clock forth or back.
func (n *node) setClock(d time.Duration) {
	n.clock.jump(d)
	n.w.nodeClocksSet()
}

// nodeClocksSet records that nodes may end their promises early, since their clocks were set.
func (w *world) nodeClocksSet() {
	w.history.Doubted(w.now, w.now+w.scenario.ttl)
	w.skewed()
}

// skewed takes down how far the nodes' clocks are off.
func (w *world) skewed() {
	var off []time.Duration
	for _, n := range w.nodes {
		off = append(off, n.clock.now(w.now).Wall.Sub(epoch.Add(w.now)).Abs())
	}
	slices.Sort(off)
	w.history.Skewed(w.now, off[len(off)/2])
}

// save writes what the node remembers to its disk.
func (n *node) save() {
	n.saved, n.lastingSaved = n.Promises(), maps.Clone(n.lasting)
	if n.lists != nil {
		n.lists.save()
	}
}

// Mark is quorum.Node's.
func (n *node) Mark(ctx context.Context, marker, runID string) error {
	err := n.Node.Mark(ctx, marker, runID)
	if err == nil {
		n.lasting[marker] = true
	}
	return err
}

// Forget is quorum.Node's.
func (n *node) Forget(ctx context.Context, marker string) error {
	delete(n.lasting, marker)
	return n.Node.Forget(ctx, marker)
}

var _ quorum.Node = (*node)(nil)

// keeps reports whether the node has a marker that nothing but a command removes.
func (n *node) keeps(marker string) bool { return n.lasting[marker] }

// The ways in which a node comes back.
const (
	comesBackEmpty = iota
	comesBackOld
	comesBackWhole
	comebacks
)

// crash takes the node down for a while.
func (n *node) crash(away time.Duration, how int) {
	if n.down {
		return
	}
	n.down = true
	memory := [comebacks]string{"empty", "with old memory", "with its memory"}[how]
	n.w.note(n.Name(), "crash", memory, nil)
	n.w.hit("node came back " + memory)
	n.w.after(away, func() {
		n.down = false
		n.serve()
		switch how {
		case comesBackEmpty:
			n.RestartEmpty()
			clear(n.lasting)
		case comesBackOld:
			n.RestartFrom(n.saved)
			n.lasting = maps.Clone(n.lastingSaved)
		case comesBackWhole:
			n.RestartFrom(n.Promises())
		}
		if n.lists != nil {
			n.lists.restart(how)
		}
		n.w.history.RestartNode(n.w.now, n.Name())
		n.w.note(n.Name(), "restarts", memory, nil)
	})
}
