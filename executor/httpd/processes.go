package httpd

import (
	"cmp"
	"math"
	"slices"

	"salectl/api"
	"salectl/executor"
)

// processes are those of a sale.
func processes(members []executor.MemberStatus) (all []api.Process) {
	for _, m := range members {
		p := api.Process{
			Address: m.Address, Version: m.Version, State: cmp.Or(m.State, api.ProcessServing),
			Here: m.Here, Up: m.Up, Assigned: m.Assigned,
		}
		if m.Up {
			p.Shards = &m.Shards
		}
		if t := m.Traffic; t != nil {
			p.Requests, p.Forwarded = tenths(&t.Came), tenths(&t.Passed)
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b api.Process) int { return cmp.Compare(a.Address, b.Address) })
	return all
}

// ownership says who owns the shards, where anything is known of them.
func ownership(shards []executor.ShardStatus) (all []api.Ownership) {
	busy := busier(shards)
	for i, s := range shards {
		if s.Owner != "" || s.Load != nil {
			all = append(all, api.Ownership{Shard: s.Shard, Owner: s.Owner, Load: tenths(s.Load), Waiting: s.Queue, Busy: busy[i]})
		}
	}
	return all
}

// moves are the shards that are not where they should be.
func moves(all []executor.MoveStatus) (views []api.Move) {
	for _, m := range all {
		views = append(views, api.Move(m))
	}
	return views
}

// tenths is a rate as people read it.
func tenths(rate *float64) *float64 {
	if rate == nil {
		return nil
	}
	rounded := math.Round(*rate*10) / 10
	return &rounded
}

// busier says which shards decide on more than twice what the others do on average, and
// more than chance explains. Users are spread by hash: what comes to a shard in some
// seconds differs from the mean by a few times the root of it.
func busier(shards []executor.ShardStatus) []bool {
	busy := make([]bool, len(shards))
	sum, known := 0.0, 0
	for _, s := range shards {
		if s.Load != nil {
			sum += *s.Load
			known++
		}
	}
	if known < 2 {
		return busy
	}
	const overSeconds, deviations = 5, 4
	for i, s := range shards {
		if s.Load == nil {
			continue
		}
		others := (sum - *s.Load) / float64(known-1)
		chance := deviations * math.Sqrt(max(others, 1)/overSeconds)
		busy[i] = *s.Load > 2*others && *s.Load > others+chance
	}
	return busy
}
