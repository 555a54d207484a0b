package cli

import "runtime/debug"

// garbagePercent is how much garbage a command keeps that holds a whole ledger in
// memory, in percent of what is in use. With Go's own 100 it would need half as much
// again as the server does, on a host that may have room for one of them only. A
// ledger has few pointers, so that collecting often costs little.
const garbagePercent = 10

// sparing has the collector run often until the function returned is called.
func sparing() (restore func()) {
	before := debug.SetGCPercent(garbagePercent)
	if before < garbagePercent { // somebody has said so, or has turned it off
		debug.SetGCPercent(before)
	}
	return func() { debug.SetGCPercent(before) }
}
