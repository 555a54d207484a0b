package check

import (
	"testing"
	"time"
)

// isolated is a sale one of whose processes reaches none of the others from the first second to
// the twentieth, with a ttl of three.
func isolated(t testing.TB) *world {
	w := newWorld(t)
	w.h.Isolated(time.Second, 3*time.Second, stranger)(20 * time.Second)
	return w
}

const stranger, another = "executor-0, run 1", "executor-1, run 1"

// strangerFaults are what the checker of strangers finds.
var strangerFaults = map[string]planted{
	"a shard that a stranger takes":                      {isolated, func(w *world) { w.holds(stranger, testUID, 9, 30) }, "strangers"},
	"a shard that a stranger takes, and soon gives back": {isolated, func(w *world) { w.holds(stranger, testUID, 9, 10) }, "strangers"},
	"a shard that a stranger takes from who died": {isolated, func(w *world) {
		w.holds(another, testUID, 0, 14)
		w.holds(stranger, testUID, 14, 30)
	}, "strangers"},
	"a shard that a stranger keeps": {isolated, func(w *world) { w.holds(stranger, testUID, 0, 30) }, "strangers"},
	"a shard that a stranger gives up too late": {isolated, func(w *world) {
		w.holds(stranger, testUID, 0, 12)
		w.holds(another, testUID, 12, 30)
	}, "strangers"},
	"a shard that a second stranger keeps": {isolated, func(w *world) {
		w.h.Isolated(30*time.Second, 3*time.Second, another)(50 * time.Second)
		w.holds(another, testUID, 12, 50)
	}, "strangers"},
}

// TestStrangers has what is not to be reported of strangers.
func TestStrangers(t *testing.T) {
	for name, do := range map[string]func(w *world){
		"one that gives up what it owns": func(w *world) {
			w.holds(stranger, testUID, 0, 11)
			w.holds(another, testUID, 11, 30)
		},
		"one that has taken a shard before it knew": func(w *world) { w.holds(stranger, testUID, 8, 11) },
		"one whose release of an earlier lease arrives": func(w *world) {
			w.h.Holds(0, stranger, testUID, 0, aToken, 500*time.Millisecond)
			w.h.Holds(500*time.Millisecond, stranger, testUID, 0, "another token", 10*time.Second)
			w.h.Freed(9*time.Second, stranger, 0, aToken)
			w.h.Holds(9*time.Second+1, stranger, testUID, 0, "another token", 11*time.Second)
		},
		"one that takes its share again": func(w *world) { w.holds(stranger, testUID, 20, 30) },
		"one that is isolated for too short a time": func(w *world) {
			w.h.Isolations[0].To = 11 * time.Second
			w.holds(stranger, testUID, 0, 30)
		},
		"another process": func(w *world) { w.holds(another, testUID, 0, 30) },
	} {
		t.Run(name, func(t *testing.T) {
			w := isolated(t)
			do(w)
			for _, p := range Check(w.h) {
				t.Error(p)
			}
		})
	}
}
