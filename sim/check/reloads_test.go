package check

import (
	"testing"
	"time"
)

// reload has a process read its folder.
func (w *world) reload(files Files, serves, after, lacks bool) {
	w.h.Reloaded(w.pass(), Reloaded{Process: "executor-0, kept 1", Files: files, Could: true, Serves: serves, Begins: !serves && after, After: after, Lacks: lacks})
}

// reloaded is a sale that a process serves since its folder has it.
func reloaded(t testing.TB) *world {
	w := emptyWorld(t)
	w.reload(NoFile, false, false, false)
	w.reload(SaleFile, false, false, true)
	w.reload(BrokenFile, false, false, true)
	w.serve()
	w.reload(SaleFile, false, true, false)
	w.reload(NoFile, true, true, false)
	w.reload(BrokenFile, true, true, false)
	return w
}

// reloadFaults are planted into what processes made of their folders.
var reloadFaults = map[string]planted{
	"a sale that is served twice": {reloaded, func(w *world) {
		w.h.Reloaded(w.pass(), Reloaded{Process: "executor-0, kept 1", Files: SaleFile, Serves: true, Begins: true, After: true})
	}, "reloads"},
	"a sale that a process forgets to serve": {reloaded, func(w *world) { w.reload(NoFile, false, false, false) }, "reloads"},
	"a sale that is served no more":          {reloaded, func(w *world) { w.reload(NoFile, true, false, false) }, "reloads"},
	"a sale that is lacked though it is not": {reloaded, func(w *world) { w.reload(SaleFile, true, true, true) }, "reloads"},
	"a broken file that declares nothing": {newWorld, func(w *world) {
		w.reload(SaleFile, false, false, true)
		w.reload(BrokenFile, false, false, false)
	}, "reloads"},
	"a sale that is served before it is applied": {emptyWorld, func(w *world) {
		w.reload(SaleFile, false, true, false)
		w.serve()
	}, "reloads"},
	"a sale that is served and not declared": {newWorld, func(w *world) { w.reload(NoFile, false, true, false) }, "reloads"},
	"a sale that is not served for a minute": {newWorld, func(w *world) {
		w.reload(SaleFile, false, false, true)
		w.at += time.Minute
		w.reload(SaleFile, false, false, true)
	}, "reloads"},
}

// What processes do in most worlds.
func TestToleratedReloads(t *testing.T) {
	for _, p := range Check(reloaded(t).h) {
		t.Error(p)
	}
}
