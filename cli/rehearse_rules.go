package cli

import (
	"context"
	"errors"
	"slices"
	"time"

	"salectl/api"
	"salectl/executor/rehearse"
	"salectl/rules"
	"salectl/spec"
)

// notTried names what a sale declares and the rehearsal of its copy omits.
func notTried(declared, copied spec.Sale) (all []string) {
	add := func(omitted bool, what string) {
		if omitted {
			all = append(all, what)
		}
	}
	add(ruleSetOf(declared) != "" && ruleSetOf(copied) == "", "rules (an HBase table of users cannot be listed: declare them in a file)")
	add(declared.Units != nil && copied.Units == nil, "payloads of units")
	add(copied.Units != nil && copied.PerUserLimit == 1, "adjacent units (a user may have only one)")
	add(declared.PerUserLimit >= api.MaxQuantity, "perUserLimit")
	add(!declared.OpensAt.IsZero(), "opensAt")
	add(!declared.ClosesAt.IsZero() && declared.Draw == nil, "closesAt")
	add(declared.Payment != nil && declared.Payment.Check != nil, "payment.check")
	add(declared.Payment != nil && declared.Payment.Webhook != nil, "payment.webhook")
	add(declared.Engine == spec.EngineRedis, "failures of Redis")
	return all
}

// withoutRules removes the rules and users of a sale if buyers cannot have the names of its
// users.
func withoutRules(sale *spec.Sale) {
	if sale.Users == nil || sale.Users.Table == nil {
		return
	}
	sale.Rules, sale.Variables, sale.Users, sale.History = nil, nil, nil, nil
	if sale.Queue != nil && sale.Draw == nil {
		sale.Queue = &spec.Queue{Order: spec.OrderArrival, Depth: sale.Queue.Depth}
	}
}

// rehearsedRules returns the names of the sale's users, for the buyers of a copy, and the decision
// of the copy's rules as in a rehearse.Config: by what the server of the copy reads of the buyers.
// Both are nil if there are no rules.
func (c *copied) rehearsedRules(ctx context.Context, buyers int) (
	names []string, refused func(user string, quantity int64, key string, at time.Time) string, err error,
) {
	set, err := rules.ForSale(c.sale)
	if set == nil || err != nil {
		return nil, nil, err
	}
	var ids []string
	if c.sale.Users != nil {
		file, err := rules.OpenFile(c.sale.Users.File, set.Schema())
		if err != nil {
			return nil, nil, err
		}
		names = file.IDs()
		ids = names[:min(len(names), buyers)]
	}
	if len(ids) == 0 {
		for i := range buyers {
			ids = append(ids, rehearse.Name(i))
		}
	}
	users, closeUsers, err := c.users(c.sale, set.Schema())
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, closeUsers()) }()
	const atOnce = 1024
	known := map[string]rules.Attributes{}
	for some := range slices.Chunk(ids, atOnce) {
		found, err := users.Lookup(ctx, some)
		if err != nil {
			return nil, nil, err
		}
		for i, id := range some {
			known[id] = found[i]
		}
	}
	return names, func(user string, quantity int64, key string, at time.Time) string {
		attributes, ok := known[user]
		if !ok {
			attributes = set.Schema().Unknown(user)
		}
		v := set.Decide(&rules.Input{
			User: attributes, Sale: &c.sale, Now: at,
			Claim: rules.Claim{Quantity: quantity, Key: key, At: at},
		})
		if v.Allowed() {
			return ""
		}
		return v.Refusal.Rule
	}, nil
}
