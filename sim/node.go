package sim

import (
	"fmt"
	"time"

	"salectl/backends/backendtest"
)

// node is one lock server: a node in memory with a clock of its own.
type node struct {
	*backendtest.Node
	w     *world
	clock hostClock
	set   time.Time            // what the node's clock was last set to
	saved backendtest.Promises // what was last written to its disk
	down  bool
}

func newNode(w *world, i int, clock hostClock) *node {
	n := &node{w: w, clock: clock, set: clock.now(0).Wall}
	n.Node = backendtest.NewNode(fmt.Sprintf("node-%d", i), n.set)
	n.save()
	return n
}

// serve brings the node's clock up to the present.
func (n *node) serve() {
	wall := n.clock.now(n.w.now).Wall
	n.Advance(wall.Sub(n.set))
	n.set = wall
}

// save writes what the node remembers to its disk.
func (n *node) save() { n.saved = n.Promises() }

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
		case comesBackOld:
			n.RestartFrom(n.saved)
		case comesBackWhole:
			n.RestartFrom(n.Promises())
		}
		n.w.note(n.Name(), "restarts", memory, nil)
	})
}
