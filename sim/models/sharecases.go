package models

import "salectl/sim/models/explore"

func sharesModel() Model {
	run := func(w shareRules) func() explore.Result { return bound(w.model()) }
	return Model{
		Name:  "shares",
		About: "two or three processes, one or two shards; views of who is there that differ and change; deaths, leases that run out, gifts of leases that are late or lost",
		Rules: []Rule{
			{Name: "asked-and-agreed",
				Text:    "A shard with a live owner moves only if the process that should have it by its own view asks for it, and the owner's own view agrees.",
				Without: "Two processes whose views differ fight over a shard, for as long as they differ: if the lease is taken without the owner's consent, each takes it from the other; if the owner gives it unasked, each gives it to the other."},
			{Name: "free-for-anybody",
				Text:    "A free shard is tried for by whom a view names and, when that has not helped for a ttl, by anybody.",
				Without: "A process that lives still sees one that has died, and does not try for the dead one's shard; or two each take the other for its owner. As long as it is so, the shard has none."},
			{Name: "token-named",
				Text:    "A lease is given away by the token under which it is held, and whoever has given it away takes it again only under another.",
				Without: "A gift is late, the lease runs out meanwhile and has another holder, and the nodes pass it on: two processes have it."},
		},
		Cases: []Case{
			{Name: "views agree in the end, two processes", Run: run(shareRules{processes: 2, shards: 2, heals: true, changes: 3, losses: 1, expiries: 1})},
			{Name: "views agree in the end, three processes, one shard", Run: run(shareRules{processes: 3, shards: 1, heals: true, changes: 2, deaths: 1, expiries: 1})},
			{Name: "views agree in the end, three processes, two shards", Large: true,
				Run: run(shareRules{processes: 3, shards: 2, heals: true, changes: 2, deaths: 1, losses: 1, expiries: 1})},
			{Name: "views stay as they are, two processes", Run: run(shareRules{processes: 2, shards: 2, changes: 3, expiries: 1})},
			{Name: "views stay as they are, three processes, one shard", Run: run(shareRules{processes: 3, shards: 1, changes: 2, deaths: 1, expiries: 1})},
			{Name: "views stay as they are, three processes, two shards", Large: true,
				Run: run(shareRules{processes: 3, shards: 2, changes: 3, deaths: 1, expiries: 1})},
			{Name: "who should have a shard takes it", Off: "asked-and-agreed", Finds: explore.Stuck,
				Run: run(shareRules{takesUnasked: true, uncounted: true, processes: 2, shards: 2, changes: 1})},
			{Name: "an owner gives unasked", Off: "asked-and-agreed", Finds: explore.Stuck,
				Run: run(shareRules{pushes: true, uncounted: true, processes: 2, shards: 1, changes: 1})},
			{Name: "only whom its own view names tries for a free shard", Off: "free-for-anybody", Finds: explore.Stuck,
				Run: run(shareRules{namedOnly: true, processes: 2, shards: 2, deaths: 1})},
			{Name: "a lease is passed on whoever has it", Off: "token-named", Finds: shareTwo,
				Run: run(shareRules{anyToken: true, processes: 2, shards: 2, changes: 1, expiries: 1})},
		},
	}
}
