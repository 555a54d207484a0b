package models

import "salectl/sim/models/explore"

func sharesModel() Model {
	run := func(w shareRules) func() explore.Result { return bound(w.model()) }
	return Model{
		Name:  "shares",
		About: "two or three processes, one or two shards; differing views; deaths, expired leases, late or lost gifts",
		Rules: []Rule{
			{Name: "asked-and-agreed",
				Text:    "A shard with a live owner moves only if the process assigned by its own view requests it and the owner's view agrees.",
				Without: "Two processes with different views take a shard from each other, or pass it to each other, for ever."},
			{Name: "free-for-anybody",
				Text:    "The process that a view names tries for a free shard; if that has not helped for a ttl, any process does.",
				Without: "A process still sees a dead one, or two each take the other for the owner: the shard stays without one."},
			{Name: "token-named",
				Text:    "A lease is given away under the token that holds it; its giver takes it again only under another.",
				Without: "A late gift arrives when the expired lease has another holder: two processes have it."},
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
			{Name: "an owner passes a shard without a request", Off: "asked-and-agreed", Finds: explore.Stuck,
				Run: run(shareRules{pushes: true, uncounted: true, processes: 2, shards: 1, changes: 1})},
			{Name: "only whom its own view names tries for a free shard", Off: "free-for-anybody", Finds: explore.Stuck,
				Run: run(shareRules{namedOnly: true, processes: 2, shards: 2, deaths: 1})},
			{Name: "a lease is passed on whoever has it", Off: "token-named", Finds: shareTwo,
				Run: run(shareRules{anyToken: true, processes: 2, shards: 2, changes: 1, expiries: 1})},
		},
	}
}
