package check

import (
	"slices"
	"strings"

	"salectl/api"
)

// denials judges the answers for a key while a process had a claim under it under
// way: that it is not accepted must be true of every like request of the key that the
// same process took in before, and has not answered, or answered with unknown and never
// with something better. Of a request for something else under the same key, which no client
// should send, it proves nothing. Only what was sold afterwards, by that process and by no later
// request, shows that it was not. A process that has the key under way may have had the
// owner of the shard, or a list, sell it: then nothing is known.
func denials(e *evidence, bad fault) {
	type key struct{ user, key string }
	received := make(map[key][]*Received)
	for i := range e.h.Requests {
		v := &e.h.Requests[i]
		id := key{e.ops[v.Op].invoked.User, e.ops[v.Op].invoked.Key}
		received[id] = append(received[id], v)
	}
	for _, c := range e.claims {
		if c.again {
			continue
		}
		all := received[key{c.user, c.key}]
		elsewhere := func(v *Received) bool {
			if c.fill == 0 && !strings.HasPrefix(v.Process, c.at.after.owner+",") {
				return true
			}
			return slices.ContainsFunc(all, func(o *Received) bool {
				return o.Process != v.Process && o.Seq < c.at.Seq && (o.Ended == 0 || !denies(o.Outcome))
			})
		}
		for n, v := range all {
			if v.Ended == 0 || v.Ended > c.at.Seq || !denies(v.Outcome) {
				continue
			}
			if e.ops[v.Op].invoked.Quantity != c.quantity() {
				continue // another request of the key was sold
			}
			if n+1 < len(all) && all[n+1].Seq < c.at.Seq || elsewhere(v) {
				continue // perhaps that one was sold
			}
			// For its requests: it was accepted. So it is no other one that was sold later, unless
			// the node has lost what it gave, and had not given this one by then.
			known := func(o *Received) bool {
				return slices.ContainsFunc(all[:n], func(r *Received) bool {
					return r.Process == v.Process && accepted(r.Outcome) && r.Ended < v.Seq && (o.Ended < r.Ended || e.gave(c, r.Ended) || !e.forgotBefore(c))
				})
			}
			earlier := slices.IndexFunc(all[:n], func(o *Received) bool {
				return o.Process == v.Process && e.ops[o.Op].invoked.sameRequest(e.ops[v.Op].invoked) && (o.Ended == 0 || o.Ended > v.Ended || o.Outcome == api.Unknown && !known(o))
			})
			if earlier >= 0 {
				bad("%s answered operation %d (user %q, key %q) with %q, and operation %d of that key, which it had under way, was sold as %v",
					v.Process, v.Op, c.user, c.key, v.Outcome, all[earlier].Op, c)
			}
		}
	}
}

// sameRequest reports whether two requests of one user and key are for the same units.
func (q *Event) sameRequest(other *Event) bool {
	return q.Quantity == other.Quantity && q.Adjacent == other.Adjacent && slices.Equal(q.Units, other.Units)
}

// denies reports whether an outcome lets its reader believe that the claim is not
// accepted.
func denies(outcome api.Outcome) bool {
	switch outcome {
	case api.Sold, api.Held, api.Expired, api.Cancelled, api.Refunded, api.Unknown, api.BadRequest, api.KeyReused, api.Entered, api.NotDrawn:
		return false
	}
	return true
}
