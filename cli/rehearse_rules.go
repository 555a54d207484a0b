package cli

import (
	"context"
	"errors"
	"time"

	"salectl/executor/rehearse"
	"salectl/rules"
	"salectl/spec"
)

// rehearsedRules evaluates the rules of a copy for the judge of its rehearsal.
type rehearsedRules struct {
	set   *rules.Set
	sale  *spec.Sale
	names []string // users of the sale; nil: buyers have generated names
	known map[string]rules.Attributes
}

// usersUnlisted is why a sale is rehearsed without its rules.
const usersUnlisted = "the users are in an HBase table, which cannot be listed; give them as a file to rehearse the rules"

// withoutRules removes the rules and users of a sale if buyers cannot have the names of its
// users. It returns why, "" if nothing was removed.
func withoutRules(sale *spec.Sale) (why string) {
	if sale.Users == nil || sale.Users.Table == nil {
		return ""
	}
	if ruleSetOf(*sale) != "" {
		why = usersUnlisted
	}
	sale.Rules, sale.Variables, sale.Users, sale.History = nil, nil, nil, nil
	if sale.Queue != nil && sale.Draw == nil {
		sale.Queue = &spec.Queue{Order: spec.OrderArrival, Depth: sale.Queue.Depth}
	}
	return why
}

// rehearsedRules reads what the copy's rules know of its buyers, as the server of the copy
// does. It returns nil if there are no rules.
func (c *copied) rehearsedRules(ctx context.Context, buyers int) (r *rehearsedRules, err error) {
	set, err := rules.ForSale(c.sale)
	if set == nil || err != nil {
		return nil, err
	}
	r = &rehearsedRules{set: set, sale: &c.sale, known: map[string]rules.Attributes{}}
	var ids []string
	if c.sale.Users != nil {
		file, err := rules.OpenFile(c.sale.Users.File, set.Schema())
		if err != nil {
			return nil, err
		}
		r.names = file.IDs()
		ids = r.names[:min(len(r.names), buyers)]
	}
	if len(ids) == 0 {
		for i := range buyers {
			ids = append(ids, rehearse.Name(i))
		}
	}
	users, closeUsers, err := c.users(c.sale, set.Schema())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeUsers()) }()
	const atOnce = 1024
	for len(ids) > 0 {
		some := ids[:min(len(ids), atOnce)]
		found, err := users.Lookup(ctx, some)
		if err != nil {
			return nil, err
		}
		for i, id := range some {
			r.known[id] = found[i]
		}
		ids = ids[len(some):]
	}
	return r, nil
}

// refused is the Refused of a rehearse.Config.
func (r *rehearsedRules) refused(user string, quantity int64, key string, at time.Time) string {
	known, ok := r.known[user]
	if !ok {
		known = r.set.Schema().Unknown(user)
	}
	v := r.set.Decide(&rules.Input{
		User: known, Sale: r.sale, Now: at,
		Claim: rules.Claim{Quantity: quantity, Key: key, At: at},
	})
	if v.Allowed() {
		return ""
	}
	return v.Refusal.Rule
}
