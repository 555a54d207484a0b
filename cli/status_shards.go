package cli

import (
	"fmt"
	"slices"

	"salectl/backends/ledger"
	"salectl/cli/terminal"
	"salectl/planner/current"
	"salectl/spec"
)

// alike groups shards of equal kind, in the order of the first of each. Without fold, each shard
// is a group of its own.
func alike[K comparable](shards []current.ShardStatus, fold bool, kind func(current.ShardStatus) K) (groups [][]current.ShardStatus) {
	at := map[K]int{}
	for _, shard := range shards {
		k := kind(shard)
		i, known := at[k]
		if !known || !fold {
			i = len(groups)
			at[k], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], shard)
	}
	return groups
}

// foldedRows writes a table with a row for each group of shards; with fold, it has at most
// terminal.FoldBeyond rows, each of which begins with the shards.
func (p *program) foldedRows(head []string, what string, groups [][]current.ShardStatus, fold bool, row func([]current.ShardStatus) []any) {
	first := []string{what}
	if fold {
		first = []string{">" + what + "s", "which"}
	}
	table := terminal.NewTable(append(first, head...)...)
	left := 0
	for i, g := range groups {
		switch {
		case !fold:
			table.Row(append([]any{g[0].Shard}, row(g)...)...)
		case i >= terminal.FoldBeyond:
			left += len(g)
		default:
			numbers := make([]int, len(g))
			for i := range g {
				numbers[i] = g[i].Shard
			}
			table.Row(append([]any{grouped(len(g)), spec.Numbers(numbers)}, row(g)...)...)
		}
	}
	table.Write(p.out, "  ", p.colours(p.out).Dim)
	if left > 0 {
		fmt.Fprintf(p.out, "  and %s more\n", count(left, what))
	}
}

// shardsText prints a table of the shards; with fold, those of equal kind have one row.
func (p *program) shardsText(s *saleStatus, c terminal.Palette, fold bool) {
	type kind struct {
		owner        string
		leased, read bool
		generation   uint64
		state        string
	}
	groups := alike(s.Shards, fold, func(shard current.ShardStatus) kind {
		return kind{shard.Owner, shard.LeaseLeftSeconds > 0, shard.Error == "", shard.Generation, shardState(shard, c)}
	})
	head := []string{"owner", ">lease", ">slot", ">generation", ">limit", ">available", ">held", ">sold"}
	loads := !fold && slices.ContainsFunc(s.Shards, func(shard current.ShardStatus) bool { return shard.Server != nil && shard.Server.Load != nil })
	if fold {
		head = append([]string{"owner", ">least lease"}, head[3:]...)
	}
	if loads {
		head = append(head, ">requests/s")
	}
	p.foldedRows(append(head, ""), "shard", groups, fold, func(g []current.ShardStatus) []any {
		sum := g[0]
		for _, shard := range g[1:] {
			sum.LeaseLeftSeconds = min(sum.LeaseLeftSeconds, shard.LeaseLeftSeconds)
			sum.Limit += shard.Limit
			sum.Available += shard.Available
			sum.Held += shard.Held
			sum.Sold += shard.Sold
		}
		owner, lease := orDash(sum.Owner), "-"
		switch {
		case sum.LeaseLeftSeconds > 0:
			lease = fmt.Sprintf("%.1f s", sum.LeaseLeftSeconds)
		case sum.Owner != "" && s.Voting >= s.Majority:
			owner = "was " + owner
		}
		log := []any{sum.Slot, sum.Generation, grouped(sum.Limit), grouped(sum.Available), grouped(sum.Held), grouped(sum.Sold)}
		if sum.Error != "" {
			log = []any{"-", "-", "-", "-", "-", "-"}
		}
		if fold {
			log = log[1:]
		}
		cells := append([]any{owner, lease}, log...)
		if loads {
			load := "?"
			if sum.Server != nil {
				load = rate(sum.Server.Load)
			}
			cells = append(cells, load)
		}
		return append(cells, shardState(g[0], c))
	})
}

// shardState describes the state of a shard beside its numbers.
func shardState(shard current.ShardStatus, c terminal.Palette) string {
	switch {
	case shard.Error != "" && (!shard.Stalled() || shard.Error != current.NotRead):
		return shard.Error
	case shard.Stalled():
		return "stalls" + since(shard.Server.Since) + because(shard.Server.Error)
	case shard.Server != nil && shard.Server.Busy:
		return c.Yellow("busier than the others")
	}
	return ""
}

// listsText prints a table of the lists of the shards, if there are any, as shardsText does.
func (p *program) listsText(s *current.Status, fold bool) {
	var shards []current.ShardStatus
	for _, shard := range s.Shards {
		if shard.List != nil {
			shards = append(shards, shard)
		}
	}
	if len(shards) == 0 {
		return
	}
	type kind struct{ node, state, phase, note string }
	groups := alike(shards, fold, func(shard current.ShardStatus) kind {
		return kind{shard.List.Node, shard.List.State, shard.Phase, listNote(shard)}
	})
	fmt.Fprintln(p.out)
	head := []string{"node", "state", ">left", ">to drain", ">fill", ""}
	if fold {
		head = []string{"node", "state", ">left", ">to drain", ""}
	}
	p.foldedRows(head, "list", groups, fold, func(g []current.ShardStatus) []any {
		left, entries := int64(0), int64(0)
		for _, shard := range g {
			left += shard.List.Left
			entries += shard.List.Entries
		}
		l := g[0].List
		cells := []any{l.Node, l.State, grouped(left), "-", l.Fill}
		switch {
		case l.Error != "":
			cells[2], cells[4] = "-", "-"
		case g[0].Phase == ledger.PhaseOpen: // of any other, the next fill deletes the entries
			cells[3] = grouped(entries)
		}
		if fold {
			cells = cells[:4]
		}
		return append(cells, listNote(g[0]))
	})
}

// listNote describes the state of a shard's list beside its numbers.
func listNote(shard current.ShardStatus) string {
	switch l := shard.List; {
	case l.Error != "":
		return l.Error
	case l.Token > l.Fill && shard.Phase == ledger.PhaseOpen:
		return fmt.Sprintf("fill %d is under way", l.Token)
	}
	return ""
}
