package check

import (
	"slices"
	"strings"

	"salectl/api"
)

// denials judges what was said of a key while a process had a claim under it under
// way: that it is not accepted must be true of every request of the key that the
// same process took in before, and has not answered or answered with unknown. Only
// what was sold afterwards, by that process and by no later request, shows that it
// was not. Who sold what a list gave is not told: there, no other process may have
// the key under way.
func denials(e *evidence, bad fault) {
	type key struct{ user, key string }
	visits := make(map[key][]*Visit)
	for i := range e.h.Visits {
		v := &e.h.Visits[i]
		id := key{e.ops[v.Op].invoked.User, e.ops[v.Op].invoked.Key}
		visits[id] = append(visits[id], v)
	}
	for _, c := range e.claims {
		if c.again {
			continue
		}
		all := visits[key{c.user, c.key}]
		elsewhere := func(v *Visit) bool {
			if c.fill == 0 {
				return !strings.HasPrefix(v.Process, c.at.after.owner+",")
			}
			return slices.ContainsFunc(all, func(o *Visit) bool {
				return o.Process != v.Process && o.Seq < c.at.Seq && (o.Ended == 0 || !denies(o.Outcome))
			})
		}
		for n, v := range all {
			if v.Ended == 0 || v.Ended > c.at.Seq || !denies(v.Outcome) {
				continue
			}
			if n+1 < len(all) && all[n+1].Seq < c.at.Seq || elsewhere(v) {
				continue // perhaps that one was sold
			}
			earlier := slices.IndexFunc(all[:n], func(o *Visit) bool {
				return o.Process == v.Process && (o.Ended == 0 || o.Ended > v.Ended || o.Outcome == api.Unknown)
			})
			if earlier >= 0 {
				bad("%s answered operation %d (user %q, key %q) with %q, and operation %d of that key, which it had under way, was sold as %v",
					v.Process, v.Op, c.user, c.key, v.Outcome, all[earlier].Op, c)
			}
		}
	}
}

// denies says whether an outcome lets its reader believe that the claim is not
// accepted.
func denies(outcome api.Outcome) bool {
	switch outcome {
	case api.Sold, api.Held, api.Expired, api.Cancelled, api.Refunded, api.Unknown, api.BadRequest, api.KeyReused:
		return false
	}
	return true
}
