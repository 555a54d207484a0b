package check

import "time"

// mostForgetting is how long after an Isolation began its process counts the others as gone,
// and takes no shard any more: they have been silent for five seconds then. Until it notices, and
// its requests are answered, it takes some moments.
const mostForgetting = 7 * time.Second

// IsolatedAfter is how long after an Isolation began its process has no lease any more: it
// gives up what it owns a ttl after it counts the others as gone, when the commits under way are
// stored.
func IsolatedAfter(ttl time.Duration) time.Duration { return mostForgetting + ttl }

// strangers finds leases of a process that the others do not reach.
func strangers(e *evidence, bad fault) {
	for _, x := range e.h.Isolations {
		for _, l := range e.h.Leases {
			switch {
			case l.Process != x.Process || l.From >= x.To:
			case l.From > x.From+mostForgetting:
				bad("%s took shard %d of run %s at %v, and reaches none of the others from %v to %v", l.Process, l.Shard, l.UID, l.From, x.From, x.To)
			case min(l.To, x.To) > x.From+IsolatedAfter(x.TTL):
				bad("%s has shard %d of run %s until %v, and reaches none of the others from %v to %v", l.Process, l.Shard, l.UID, l.To, x.From, x.To)
			}
		}
	}
}
