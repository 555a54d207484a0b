package models

func handoverModel() Model {
	planned := handRules{processes: 2, requests: 2, units: 1, cancels: true, moves: 1}
	with := func(name string, change func(*handRules)) Case {
		w := planned
		change(&w)
		return Case{Name: name, Run: bound(w.model())}
	}
	large := func(name string, change func(*handRules)) Case {
		c := with(name, change)
		c.Large = true
		return c
	}
	off := func(rule, finds, name string, change func(*handRules)) Case {
		c := with(name, change)
		c.Off, c.Finds = rule, finds
		return c
	}
	return Model{
		Name:  "handover",
		About: "one shard in handover; two requests for one unit, a cancel that frees another; unknown appends, deaths, lost answers, an expired lease",
		Rules: []Rule{
			{Name: "own-first",
				Text:    "A successor answers only once its `Own` is in the log; until then it replies `not mine yet`.",
				Without: "It has not read a cancel: it denies a claim whose unknown append then lands."},
			{Name: "own-each-session",
				Text:    "Each session begins with an `Own`, even if the process's own `Own` is still the last.",
				Without: "The giver takes the lease again before the nodes have received its release, and denies while its own unknown append has freed a unit."},
			{Name: "doubt-forwarded",
				Text:    "Requests in an append that the giver leaves unknown are forwarded under their own keys, and answered by the successor from the log.",
				Without: "A denied claim lands in the log; under another key it is decided twice."},
			{Name: "queue-forwarded",
				Text:    "Requests that have queued when the owner stops, or come later, are forwarded, and resent until the successor's `Own` is in the log.",
				Without: "A claim gets 503 though nothing has failed."},
			{Name: "denial-behind-commit",
				Text:    "A denial that rests on a commit is sent once the commit is known to be in the log.",
				Without: "A claim is denied because of another in the same draft, which then is not in the log."},
			{Name: "denial-under-lease",
				Text:    "A denial is sent only if the lease is found valid after the request arrived. Only denials need this; the log decides sales.",
				Without: "A suspended process wakes and denies from memory a claim that the new owner has accepted."},
		},
		Cases: []Case{
			with("planned", func(w *handRules) {}),
			large("planned, there and back", func(w *handRules) { w.moves = 2 }),
			large("planned, three processes, one request", func(w *handRules) { w.processes, w.requests, w.moves = 3, 1, 2 }),
			with("a process dies, one request", func(w *handRules) { w.deaths, w.requests = 1, 1 }),
			large("a process dies", func(w *handRules) { w.deaths = 1 }),
			large("an answer or the giving of the lease is lost", func(w *handRules) { w.losses = 1 }),
			large("the lease runs out, one request", func(w *handRules) { w.expiries, w.requests = 1, 1 }),
			large("the lease runs out, nothing is handed over", func(w *handRules) { w.expiries, w.moves = 1, 0 }),
			large("one of three processes dies, one request", func(w *handRules) { w.processes, w.deaths, w.requests = 3, 1, 1 }),
			with("planned, and the giver decides on until it finds the other's Own", func(w *handRules) { w.goesOn = true }),
			large("no read of the lease at all, denials apart", func(w *handRules) { w.deniesBlind, w.unitsOnly, w.expiries, w.requests, w.moves = true, true, 2, 1, 0 }),
			large("the lease runs out and a process dies, one request", func(w *handRules) { w.requests, w.expiries, w.deaths = 1, 1, 1 }),
			large("a process dies and an answer is lost", func(w *handRules) { w.deaths, w.losses = 1, 1 }),
			off("own-first", handDenied, "the successor answers before its Own", func(w *handRules) { w.answersEarly, w.lateDenials = true, true }),
			off("own-first", handStale, "the successor decides before its Own", func(w *handRules) { w.decidesEarly = true }),
			off("own-each-session", handStale, "a session under an earlier Own", func(w *handRules) { w.keepsOwn, w.losses = true, 1 }),
			off("doubt-forwarded", handDenied, "what is left unknown is denied", func(w *handRules) { w.deniesDoubt = true }),
			off("doubt-forwarded", handTwice, "what is left unknown is forwarded under another key", func(w *handRules) { w.freshKey, w.units = true, 2 }),
			off("queue-forwarded", handFailed, "what has queued is answered with 503", func(w *handRules) { w.failsQueue = true }),
			off("denial-behind-commit", handStale, "a denial rests on a draft", func(w *handRules) { w.deniesAhead = true }),
			off("denial-under-lease", handDenied, "a denial without a read of the lease",
				func(w *handRules) { w.deniesBlind, w.lateDenials, w.expiries, w.deaths, w.moves = true, true, 1, 1, 0 }),
		},
	}
}
