package cli

import (
	"fmt"
	"slices"

	"salectl/cli/terminal"
	"salectl/planner/current"
	"salectl/spec"
)

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
	for _, g := range groups[:min(len(groups), terminal.FoldBeyond)] {
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
	if left := len(groups) - terminal.FoldBeyond; left > 0 {
		n := 0
		for _, g := range groups[terminal.FoldBeyond:] {
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
	for _, g := range groups[:min(len(groups), terminal.FoldBeyond)] {
		lists.Row(grouped(len(g.shards)), spec.Numbers(g.shards), g.node, g.state, grouped(g.left), grouped(g.toDrain), g.note)
	}
	lists.Write(p.out, "  ", c.Dim)
	if left := len(groups) - terminal.FoldBeyond; left > 0 {
		fmt.Fprintf(p.out, "  and %s more\n", count(left, "such row"))
	}
}
