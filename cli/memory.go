package cli

import "runtime/debug"

// garbagePercent is the garbage collection target of a command that holds a whole ledger in
// memory. With Go's default of 100 it would need half as much again as the server does, on a
// host that may have room for one of them only. A ledger has few pointers, so frequent
// collections cost little.
const garbagePercent = 10

// sparing makes the collector run often until restore is called.
func sparing() (restore func()) {
	before := debug.SetGCPercent(garbagePercent)
	if before < garbagePercent { // the environment has set a lower one, or turned it off
		debug.SetGCPercent(before)
	}
	return func() { debug.SetGCPercent(before) }
}
