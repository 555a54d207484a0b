package planview

import (
	"fmt"
	"strconv"
	"strings"

	"salectl/cli/terminal"
	"salectl/planner"
	"salectl/spec"
)

// fold groups actions of a plan that do the same for the same reason to more than
// terminal.FoldBeyond resources of a kind. Each group is at the place of its first action.
func fold(actions []planner.Action, all bool) (groups [][]planner.Action, folds bool) {
	type likeness struct{ kind, action, reason string }
	of := func(a planner.Action) likeness {
		kind, _, _ := strings.Cut(a.Address, "/")
		return likeness{kind, a.Action, a.Reason}
	}
	like := map[likeness][]planner.Action{}
	for _, a := range actions {
		like[of(a)] = append(like[of(a)], a)
	}
	for _, a := range actions {
		group := like[of(a)]
		switch {
		case all || len(group) <= terminal.FoldBeyond:
			groups = append(groups, []planner.Action{a})
		case group[0].Address == a.Address:
			groups, folds = append(groups, group), true
		}
	}
	return groups, folds
}

// resources names the resources of a group: sale/tickets, or 64 shards: 0-63.
func resources(group []planner.Action) string {
	if len(group) == 1 {
		return group[0].Address
	}
	kind, _, _ := strings.Cut(group[0].Address, "/")
	var numbers []int
	for _, a := range group {
		if n, err := strconv.Atoi(strings.TrimPrefix(a.Address, kind+"/")); err == nil {
			numbers = append(numbers, n)
		}
	}
	text := spec.Count(len(group), kind)
	if len(numbers) == len(group) {
		text += ": " + spec.Numbers(numbers)
	}
	return text
}

// tally counts each value: "1954 for 128, 1953 for 896". total is the possible number of
// values.
func tally(values []string, total int) string {
	const limit = 4
	var distinct []string
	times := map[string]int{}
	for _, v := range values {
		if times[v]++; times[v] == 1 {
			distinct = append(distinct, v)
		}
	}
	switch {
	case len(distinct) == 1 && len(values) == total:
		return distinct[0]
	case len(distinct) > limit:
		return fmt.Sprintf("%s different, the first %s", spec.Grouped(len(distinct)), distinct[0])
	}
	words := make([]string, len(distinct))
	for i, v := range distinct {
		words[i] = fmt.Sprintf("%s for %s", v, spec.Grouped(times[v]))
	}
	return strings.Join(words, ", ")
}
