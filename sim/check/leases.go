package check

import "time"

// leases looks for two processes that had the lease of a shard at one time.
//
// A process counts its leases from when it asked for them, and for a hundredth
// of the ttl and 2 ms less than the ttl; a node counts the ttl from when it
// voted. So while the rates of the clocks differ by no more than a hundredth,
// the leases of the first have run out by its own reckoning when a majority of
// the nodes may promise them to a second, whatever is lost, late, paused, killed
// or restarted: a node that came back without its memory abstains for longer
// than any ttl. What ends that promise is not judged:
//
//   - The clock of a node was set, so that it lets go of leases early. This is
//     over when all that it promised before has run out, a ttl later at most.
//   - A process whose host was suspended, which the monotonic clock does not
//     show, and whose wall clock was set back, which hides that there too, does
//     not know how long ago it asked. Whoever fills the history leaves it out.
//   - The run is sealed: destroy takes the leases from whoever has them.
//
// A jump of a process's wall clock alone is judged: ahead, it ends the leases
// early; back, the monotonic clock tells.
func leases(e *evidence, bad fault) {
	over := make(map[string]time.Duration)
	for _, r := range e.runs {
		if r.sealedAt != nil {
			over[r.uid] = r.sealedAt.At
		}
	}
	type shardOf struct {
		uid   string
		shard int
	}
	before := make(map[shardOf][]Lease)
	for _, b := range e.h.Leases {
		of := shardOf{b.UID, b.Shard}
		end, sealed := over[b.UID]
		for _, a := range before[of] {
			switch {
			case a.To <= b.From || a.Process == b.Process || sealed && b.From >= end || e.h.doubted(b.From, min(a.To, b.To)):
			default:
				bad("%s (from %v to %v) and %s (from %v to %v) both had the lease of shard %d of run %s",
					a.Process, a.From, a.To, b.Process, b.From, b.To, b.Shard, b.UID)
			}
		}
		before[of] = append(before[of], b)
	}
}

// doubted reports whether nothing is promised of all of a span, which may be empty.
func (h *History) doubted(from, to time.Duration) bool {
	for _, d := range h.Doubts {
		if d.From <= from {
			from = max(from, d.To)
		}
	}
	return from >= to
}
