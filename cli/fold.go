package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"salectl/cli/terminal"
	"salectl/planner"
	"salectl/planner/current"
	"salectl/spec"
)

// foldBeyond is the number of similar items in a list above which they are folded, unless
// --all is given.
const foldBeyond = 20

// foldActions groups actions of a plan that do the same for the same reason to more than
// foldBeyond resources of a kind. Each group is at the place of its first action.
func foldActions(actions []planner.Action, all bool) (groups [][]planner.Action, folds bool) {
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
		case all || len(group) <= foldBeyond:
			groups = append(groups, []planner.Action{a})
		case group[0].Address == a.Address:
			groups, folds = append(groups, group), true
		}
	}
	return groups, folds
}

// writeFolded prints a group of actions: its resources, and below them the values of each
// attribute.
func writeFolded(w io.Writer, mark string, reason string, group []planner.Action) {
	kind, _, _ := strings.Cut(group[0].Address, "/")
	var numbers []int
	var names []string
	values := map[string][]string{} // values of each attribute, one per action
	for _, a := range group {
		var number int
		if _, err := fmt.Sscanf(strings.TrimPrefix(a.Address, kind+"/"), "%d", &number); err == nil {
			numbers = append(numbers, number)
		}
		for _, f := range shownFields(a) {
			if values[f.Name] == nil {
				names = append(names, f.Name)
			}
			values[f.Name] = append(values[f.Name], change(f))
		}
	}
	which := ""
	if len(numbers) == len(group) {
		which = ": " + spec.Numbers(numbers)
	}
	fmt.Fprintf(w, "  %s %s%s%s\n", mark, count(len(group), kind), which, reason)
	widest := 0
	for _, name := range names {
		widest = max(widest, len(name))
	}
	for _, name := range names {
		fmt.Fprintf(w, "      %-*s  %s\n", widest, name, tally(values[name], len(group)))
	}
}

// tally counts each value: "1954 for 128, 1953 for 896". total is the possible number of
// values.
func tally(values []string, total int) string {
	const most = 4
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
	case len(distinct) > most:
		return fmt.Sprintf("%s different, the first %s", grouped(len(distinct)), distinct[0])
	}
	words := make([]string, len(distinct))
	for i, v := range distinct {
		words[i] = fmt.Sprintf("%s for %s", v, grouped(times[v]))
	}
	return strings.Join(words, ", ")
}

// listsAll prints how to list folded items.
func listsAll(w io.Writer, c terminal.Palette, what string) {
	fmt.Fprintf(w, "  %s\n", c.Dim(fmt.Sprintf("--all lists every %s", what)))
}

// shardGroup is a group of shards with the same status.
type shardGroup struct {
	of                           shardKind
	shards                       []int
	lease                        float64 // shortest remaining lease in seconds
	limit, available, held, sold int64
}

// shardKind is the common part of a group of shards.
type shardKind struct {
	owner      string
	leased     bool
	generation uint64
	read       bool
	state      string
}

// foldShards groups shards of equal kind, in the order of the first of each.
func (p *program) foldShards(s *saleStatus, c terminal.Palette) (groups []*shardGroup) {
	known := map[shardKind]*shardGroup{}
	for _, shard := range s.Shards {
		kind := shardKind{
			owner: orDash(shard.Owner), leased: shard.LeaseLeftSeconds > 0,
			generation: shard.Generation, read: shard.Error == "", state: s.shardState(shard, c),
		}
		g := known[kind]
		if g == nil {
			g = &shardGroup{of: kind, lease: shard.LeaseLeftSeconds}
			known[kind], groups = g, append(groups, g)
		}
		g.shards = append(g.shards, shard.Shard)
		g.lease = min(g.lease, shard.LeaseLeftSeconds)
		g.limit += shard.Limit
		g.available += shard.Available
		g.held += shard.Held
		g.sold += shard.Sold
	}
	return groups
}

// foldedShardsText is shardsText for many shards, with one row per group.
func (p *program) foldedShardsText(s *saleStatus, c terminal.Palette) {
	table := terminal.NewTable(">shards", "which", "owner", ">least lease", ">generation", ">limit", ">available", ">held", ">sold", "")
	groups := p.foldShards(s, c)
	for _, g := range groups[:min(len(groups), foldBeyond)] {
		cells := []any{grouped(len(g.shards)), spec.Numbers(g.shards), g.of.owner, "-", "-", "-", "-", "-", "-", g.of.state}
		if g.of.leased {
			cells[3] = leaseText(g.lease)
		}
		if g.of.read {
			copy(cells[4:], []any{g.of.generation, grouped(g.limit), grouped(g.available), grouped(g.held), grouped(g.sold)})
		}
		table.Row(cells...)
	}
	table.Write(p.out, "  ", c.Dim)
	if left := len(groups) - foldBeyond; left > 0 {
		n := 0
		for _, g := range groups[foldBeyond:] {
			n += len(g.shards)
		}
		fmt.Fprintf(p.out, "  and %s more\n", count(n, "shard"))
	}
}

// foldedListsText is listsText for the lists of many shards.
func (p *program) foldedListsText(s *current.Status, c terminal.Palette) {
	type kind struct{ node, state, note string }
	type group struct {
		kind
		shards        []int
		left, toDrain int64
	}
	var groups []*group
	for _, shard := range s.Shards {
		if shard.List == nil {
			continue
		}
		k := kind{shard.List.Node, shard.List.State, listNote(shard)}
		at := slices.IndexFunc(groups, func(g *group) bool { return g.kind == k })
		if at < 0 {
			at, groups = len(groups), append(groups, &group{kind: k})
		}
		g := groups[at]
		g.shards = append(g.shards, shard.Shard)
		g.left += shard.List.Left
		g.toDrain += undrained(shard)
	}
	if len(groups) == 0 {
		return
	}
	fmt.Fprintln(p.out)
	lists := terminal.NewTable(">lists", "which", "node", "state", ">left", ">to drain", "")
	for _, g := range groups[:min(len(groups), foldBeyond)] {
		lists.Row(grouped(len(g.shards)), spec.Numbers(g.shards), g.node, g.state, grouped(g.left), grouped(g.toDrain), g.note)
	}
	lists.Write(p.out, "  ", c.Dim)
	if left := len(groups) - foldBeyond; left > 0 {
		fmt.Fprintf(p.out, "  and %s more\n", count(left, "such row"))
	}
}
