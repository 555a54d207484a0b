package planner

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"salectl/backends/ledger"
	"salectl/spec"
)

// What a Stepped reads is what ReadActual reads.
func TestSteppedReading(t *testing.T) {
	for name, before := range map[string]func(*world){
		"no sale":       func(*world) {},
		"sold":          func(w *world) { sold(w); w.serve() },
		"being made":    func(w *world) { w.runUntil(w.mustPlan(tickets(10)), 1) },
		"destroyed":     func(w *world) { sold(w); w.mustDestroy() },
		"a node is new": func(w *world) { sold(w); w.nodes[1].RestartEmpty() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			before(w)
			w.now.Wall = w.now.Wall.Add(1500 * time.Millisecond) // ahead of the nodes
			drawn := w.drawn
			want := w.actual()
			w.drawn = drawn
			c := w.command(ApplyJob{spec.Sale{Name: "tickets"}})
			for c.work == nil && !c.done {
				c.step(inOrder, c.served)
			}
			if got := c.reading.actual; !reflect.DeepEqual(got, want) {
				t.Errorf("read %+v, want %+v", got, want)
			}
		})
	}
}

// A shard whose head cannot be read hides no other, nor does a node that is down.
func TestSteppedReadingOfWhatFails(t *testing.T) {
	w := newWorld(t)
	sold(w)
	down := errors.New("down")
	failed := 0
	c := w.command(ApplyJob{tickets(30)})
	for c.work == nil && !c.done {
		c.step(inOrder, func(k Call) (any, error) {
			if k.Node == 2 || k.What == nameHeads && failed < 2 {
				if k.Node == Store {
					failed++ // all at once, then shard 0 alone
				}
				return nil, down
			}
			return c.make(k), nil
		})
	}
	asked := 0
	for _, call := range c.trace {
		if strings.HasSuffix(call, nameInfo) {
			asked++
		}
	}
	if asked != len(w.nodes) {
		t.Errorf("%d nodes were asked who they are, want each once, of %d", asked, len(w.nodes))
	}
	a := c.reading.actual
	for i, s := range a.Shards {
		if (s.Err == nil) != (i > 0) || (s.Head != nil) != (i > 0) {
			t.Errorf("shard %d: %+v", i, s)
		}
	}
	for i, n := range a.Nodes {
		if errors.Is(n.Err, down) != (i == 2) {
			t.Errorf("node %d: %+v", i, n)
		}
	}
}

// A read of the heads may lag behind the sale's log: both are read again before a
// shard is believed to have no log.
func TestSteppedReadingThatLags(t *testing.T) {
	for lags, want := range map[int]error{missingTries - 1: nil, missingTries: ledger.ErrCorrupt} {
		w := newWorld(t)
		sold(w)
		read := 0
		c := w.command(ApplyJob{tickets(30)})
		for !c.done {
			c.step(inOrder, func(k Call) (any, error) {
				r := c.make(k).(reply)
				if k.What == nameHeads {
					if read++; read <= lags {
						r.heads[1] = nil
					}
				}
				return r, nil
			})
		}
		if !errors.Is(c.err, want) {
			t.Errorf("%d reads lag: %v, want %v", lags, c.err, want)
		}
	}
}
