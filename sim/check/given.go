package check

import "salectl/api"

// quantity is how many units a claim has asked for.
func (c *claim) quantity() int64 {
	if c.entry {
		return 1
	}
	return max(int64(len(c.units)), c.requested)
}

// least is how many units an operation had to be given, if any, by the settings in force.
func (m *moment) least(o *operation) int64 {
	if m.settings.GetPartial() && !o.invoked.chooses() {
		return 1
	}
	return o.invoked.Quantity
}

// givenParts judges claims that were given fewer units than they asked for. Their sale allows
// it; their user's limit, or the shard, left no more; and whoever was told of the units was
// told how many had been asked for. That nobody is refused where there is a unit is for
// refusals.
func givenParts(e *evidence, bad fault) {
	for _, c := range e.claims {
		n := int64(len(c.first))
		switch {
		case c.requested == 0:
		case !c.settings.GetPartial() || c.requested <= n:
			bad("%v has %d units of %d asked for, under %v", c, n, c.requested, c.settings)
		case c.left > 0 && c.had+n < c.settings.GetPerUserLimit():
			bad("%v has %d units of %d asked for after %d, the limit is %d and %d were left",
				c, n, c.requested, c.had, c.settings.GetPerUserLimit(), c.left)
		}
	}
	for i, o := range e.all(ClaimInvoked) {
		if o.returned == nil || !accepted(o.returned.Answer.Outcome) {
			continue
		}
		told := o.returned.Answer.Claim
		if o.returned.Answer.Outcome == api.Entered {
			continue // it has no units yet
		}
		if n := int64(len(told.Units)); max(n, told.Requested) != o.invoked.Quantity || told.Requested == n {
			bad("operation %d asked for %d units and was told of %d, of %d asked for", i, o.invoked.Quantity, n, told.Requested)
		}
	}
}
