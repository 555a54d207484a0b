package models

import "salectl/sim/models/explore"

// How a request finds the owner of its shard. Each process has a route: the last
// reported owner and its epoch, which is the slot of the owner's Own.
// The shard moves meanwhile; replies are late, and arrive twice.

const routeProcesses = 4

// route names the owner of the shard. Its rank is twice the epoch of the owner's Own, or 1
// more for the successor that the owner has named.
type route struct {
	owner uint8 // a process + 1; 0: unknown
	rank  uint8
}

type routeState struct {
	owner  uint8 // the process whose Own is the last one
	epoch  uint8
	next   uint8 // the process that has the lease and no Own under it yet, + 1
	routes [routeProcesses]route
	dead   [routeProcesses]bool

	request struct {
		stage    routeStage
		at, to   uint8 // the process where its client waits, and the one that was queried
		reply    route
		followed bool  // a redirect, since it last waited
		tried    uint8 // a set of processes that had no newer route, since the last one that had
		queried  uint8 // processes, since it last waited
	}
	late struct { // a redirect that arrives once more
		to    uint8
		reply route
	}

	moves, deaths, losses, repeats uint8
	failed                         bool
}

type routeStage uint8

const (
	routeNone routeStage = iota
	routeHeld
	routeQueries
	routeReply
	routeDone
)

// routeRules is what can be left out, and what happens.
type routeRules struct {
	anyEpoch   bool // a reply replaces any route
	followsAll bool // every redirect is followed at once
	failsAgain bool // behind a second redirect the client receives 503

	routeAlone                     bool // only the process that the route names is queried
	moves, deaths, losses, repeats uint8
}

func (s routeState) serves(p uint8) bool { return s.owner == p && s.next == 0 && !s.dead[p] }

func (w routeRules) next(s routeState, do explore.Do[routeState]) {
	const successor, lease = 1, 2
	if s.serves(s.owner) && s.moves < w.moves {
		for q := range uint8(routeProcesses) {
			if q != s.owner && !s.dead[q] {
				t := s
				t.moves++
				t.next = q + 1
				t.routes[s.owner] = route{q + 1, 2*s.epoch + 1}
				do(explore.Fault, t, "%s passes the lease to %s", processName(int(s.owner)), processName(int(q)))
			}
		}
	}
	if s.next > 0 && !s.dead[s.next-1] {
		t := s
		t.owner, t.next = s.next-1, 0
		t.epoch++
		t.routes[t.owner] = route{t.owner + 1, 2 * t.epoch}
		do(successor, t, "%s appends its Own: epoch %d", processName(int(t.owner)), t.epoch)
	}
	ownerless := s.next > 0 && s.dead[s.next-1] || s.next == 0 && s.dead[s.owner]
	for p := range uint8(routeProcesses) {
		if s.dead[p] {
			continue
		}
		if ownerless {
			t := s
			t.next = p + 1
			do(lease, t, "%s takes the free lease", processName(int(p)))
		} else if s.losses < w.losses && p+1 != s.next && p != s.owner {
			t := s
			t.losses++
			t.next = p + 1
			do(explore.Fault, t, "the lease runs out, and %s takes it", processName(int(p)))
		}
		if s.deaths < w.deaths {
			t := s
			t.deaths++
			t.dead[p] = true
			if s.request.stage != routeDone && s.request.at == p {
				t.request = routeState{}.request
			}
			do(explore.Fault, t, "%s dies", processName(int(p)))
		}
	}
	w.routeRequest(s, do)
	if s.late.reply.owner > 0 {
		t := s
		t.late.reply, t.late.to = route{}, 0
		w.updateRoute(&t, s.late.to, s.late.reply)
		do(explore.Fault, t, "the redirect to %s arrives at %s once more", processName(int(s.late.reply.owner)-1), processName(int(s.late.to)))
	}
}

// updateRoute applies a redirect to the route of process p. It reports whether it was newer.
func (w routeRules) updateRoute(s *routeState, p uint8, r route) bool {
	if r.owner == 0 || r.owner == p+1 || !w.anyEpoch && r.rank <= s.routes[p].rank {
		return false
	}
	s.routes[p] = r
	return true
}

// routeRequest is the way of the request.
func (w routeRules) routeRequest(s routeState, do explore.Do[routeState]) {
	const client, sender, receiver = 3, 4, 5
	q := s.request
	t := s
	n := &t.request
	switch q.stage {
	case routeNone:
		for p := range uint8(routeProcesses) {
			t := s
			t.request.stage, t.request.at = routeHeld, p
			if !s.dead[p] {
				do(client, t, "the request comes to %s", processName(int(p)))
			}
		}
	case routeHeld:
		w.query(s, sender, do)
	case routeQueries:
		name := processName(int(q.to))
		switch r := s.routes[q.to]; {
		case s.dead[q.to]:
			n.stage, n.to, n.queried, n.followed = routeHeld, 0, 0, false
			n.tried |= 1 << q.to
			do(receiver, t, "%s does not answer", name)
		case s.serves(q.to):
			t.request = routeState{}.request
			t.request.stage = routeDone
			do(receiver, t, "%s answers the request", name)
		case s.next == q.to+1:
			n.stage, n.to, n.followed, n.queried, n.tried = routeHeld, 0, false, 0, 0
			do(receiver, t, "%s replies that the shard is not its own yet", name)
		case r.owner == q.to+1: // it was deposed, and finds that in the log
			t.routes[q.to] = route{s.owner + 1, 2 * s.epoch}
			do(receiver, t, "%s finds the Own of %s in the log", name, processName(int(s.owner)))
		default:
			n.stage, n.reply = routeReply, r
			do(receiver, t, "%s replies that the shard belongs to %s, rank %d", name, routeName(r), r.rank)
			if s.repeats < w.repeats {
				t.repeats++
				t.late.to, t.late.reply = q.at, r
				do(explore.Fault, t, "%s replies that the shard belongs to %s, rank %d, and the reply will arrive twice", name, routeName(r), r.rank)
			}
		}
	case routeReply:
		newer := w.updateRoute(&t, q.at, q.reply)
		n.to, n.reply = 0, route{}
		if n.tried |= 1 << q.to; newer {
			n.tried = 0
		}
		name := processName(int(q.at))
		switch {
		case newer && (!q.followed || w.followsAll):
			n.stage, n.to, n.followed = routeQueries, q.reply.owner-1, true
			n.queried = min(q.queried+1, 3)
			do(sender, t, "%s follows the redirect to %s", name, routeName(q.reply))
		case newer && w.failsAgain:
			t.request = routeState{}.request
			t.failed = true
			do(sender, t, "%s answers 503", name)
		default:
			n.stage, n.followed, n.queried = routeHeld, false, 0
			do(sender, t, "%s waits a little", name)
		}
	}
}

func routeName(r route) string {
	if r.owner == 0 {
		return "nobody"
	}
	return processName(int(r.owner) - 1)
}

// query sends the request to the process that the route names or, if that has failed, to any
// other process.
func (w routeRules) query(s routeState, by explore.Actor, do explore.Do[routeState]) {
	q := s.request
	name := processName(int(q.at))
	if s.serves(q.at) {
		t := s
		t.request = routeState{}.request
		t.request.stage = routeDone
		do(by, t, "%s answers the request", name)
		return
	}
	r := s.routes[q.at]
	if r.owner == q.at+1 {
		if s.owner != q.at {
			t := s
			t.routes[q.at] = route{s.owner + 1, 2 * s.epoch}
			do(by, t, "%s finds the Own of %s in the log", name, processName(int(s.owner)))
		}
		return
	}
	t := s
	n := &t.request
	n.stage, n.queried = routeQueries, min(q.queried+1, 3)
	if r.owner > 0 && q.tried>>(r.owner-1)&1 == 0 {
		n.to = r.owner - 1
		do(by, t, "%s queries %s, by its route", name, routeName(r))
		return
	}
	for to := range uint8(routeProcesses) {
		if to != q.at && !(w.routeAlone && r.owner > 0) && q.tried>>to&1 == 0 {
			n.to = to
			do(by, t, "%s queries %s", name, processName(int(to)))
			return
		}
	}
	n.stage, n.queried, n.tried = routeHeld, 0, 0
	do(by, t, "%s has queried all, and waits a little", name)
}

const routeFar = "a request is passed on again and again without a pause"

func (w routeRules) model() explore.Model[routeState] {
	s := routeState{epoch: 1}
	s.routes[0], s.routes[2], s.routes[3] = route{1, 2}, route{1, 2}, route{1, 2}
	return explore.Model[routeState]{Init: s, Next: w.next, Fair: true,
		Wrong: func(s routeState) string {
			switch {
			case s.failed && s.deaths+s.losses+s.repeats == 0:
				return handFailed
			case s.request.queried > 2:
				return routeFar
			}
			return ""
		},
		Goal: func(s routeState) bool { return s.request.stage == routeDone }}
}

func routesModel() Model {
	return Model{
		Name:  "routes",
		About: "four processes with routes to the owner of a moving shard; repeated redirects, deaths, an expired lease",
		Rules: []Rule{
			{Name: "newer-epochs",
				Text:    "A route is replaced only by one of a higher epoch; a named successor without an `Own` ranks right after the owner that named it.",
				Without: "A former owner believes an old redirect: a request circulates for ever."},
			{Name: "one-redirect",
				Text:    "A redirect is followed once; then the sender waits before it queries the process that its route names.",
				Without: "A request follows a moving shard as often as it moves."},
			{Name: "second-redirect-waits",
				Text:    "After a second redirect a request stays with its sender and is resent until its deadline.",
				Without: "The shard moves twice, as in a rolling restart, and a claim gets 503 though nothing has failed."},
			{Name: "others-in-turn",
				Text:    "If the process that a route names is dead or has no newer route, the others are queried in turn.",
				Without: "The owner dies, and a process whose route names it never finds the new one."},
		},
		Cases: []Case{
			{Name: "three moves", Run: bound(routeRules{moves: 3}.model())},
			{Name: "two moves, a redirect that arrives twice", Run: bound(routeRules{moves: 2, repeats: 1}.model())},
			{Name: "two moves, a death", Run: bound(routeRules{moves: 2, deaths: 1, repeats: 1}.model())},
			{Name: "two moves, a lease that runs out", Run: bound(routeRules{moves: 2, losses: 1, repeats: 1}.model())},
			{Name: "one of each", Large: true, Run: bound(routeRules{moves: 1, deaths: 1, losses: 1, repeats: 1}.model())},
			{Name: "a reply replaces any route", Off: "newer-epochs", Finds: explore.Stuck, Run: bound(routeRules{anyEpoch: true, moves: 3}.model())},
			{Name: "every redirect is followed at once", Off: "one-redirect", Finds: routeFar, Run: bound(routeRules{followsAll: true, moves: 2}.model())},
			{Name: "the second redirect is a 503", Off: "second-redirect-waits", Finds: handFailed, Run: bound(routeRules{failsAgain: true, moves: 2}.model())},
			{Name: "only the process that the route names is queried", Off: "others-in-turn", Finds: explore.Stuck, Run: bound(routeRules{routeAlone: true, deaths: 1}.model())},
		},
	}
}
