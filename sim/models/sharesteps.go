package models

import "salectl/sim/models/explore"

func (w shareRules) next(s shareState, do explore.Do[shareState]) {
	const time, nodes, members, processes = 1, 2, 3, 6
	calm := w.stable(s)
	step := func(by explore.Actor, t shareState, format string, args ...any) {
		for i, holder := range t.leases {
			if holder != s.leases[i] && holder > 0 {
				t.fight = t.fight || calm
				t.credit--
			}
		}
		if t.views != s.views {
			t.credit += int8(w.shards)
		}
		if w.uncounted {
			t.credit = 0
		}
		do(by, t, format, args...)
	}
	for p := range w.processes {
		if !s.lives(p) {
			continue
		}
		w.viewSteps(s, p, members+explore.Actor(p), step)
		for i := range w.shards {
			w.shareSteps(s, p, i, processes+explore.Actor(p*shareShards+i), step)
		}
		if s.deaths < w.deaths && s.alive&^(1<<p) != 0 {
			t := s
			t.deaths++
			t.alive &^= 1 << p
			t.valid[p], t.views[p] = 0, 0
			for i := range t.wants {
				t.wants[i][p] = 0
			}
			step(explore.Fault, t, "%s dies", processName(p))
		}
	}
	for i := range w.shards {
		w.nodeSteps(s, i, nodes, time, step)
	}
}

// viewSteps are how the view of process p changes.
func (w shareRules) viewSteps(s shareState, p int, by explore.Actor, do explore.Do[shareState]) {
	if w.heals && s.views[p] != s.alive {
		t := s
		t.views[p] = s.alive
		do(by, t, "%s comes to see who is there", processName(p))
	}
	if s.changes == w.changes {
		return
	}
	for view := uint8(1); view < 1<<w.processes; view++ {
		if view != s.views[p] {
			t := s
			t.changes++
			t.views[p] = view
			do(explore.Fault, t, "%s now sees %s", processName(p), viewName(view))
		}
	}
}

func viewName(view uint8) (name string) {
	for p := range shareProcesses {
		if view>>p&1 == 1 {
			name += processName(p)
		}
	}
	return name
}

// shareSteps are what process p does about shard i.
func (w shareRules) shareSteps(s shareState, p, i int, by explore.Actor, do explore.Do[shareState]) {
	name := processName(p)
	mine := w.assigned(s.views[p], i) == p
	holder := int(s.leases[i]) - 1
	t := s
	switch {
	case holder == p && !s.holds(p, i) && s.gifts[i].to == 0:
		t.valid[p] |= 1 << i
		do(by, t, "%s finds that the lease of shard %d is its own", name, i)
	case holder < 0 && (mine || !w.namedOnly && !w.named(s, i)):
		t.hand(i, p)
		t.valid[p] |= 1 << i
		do(by, t, "%s takes the free lease of shard %d", name, i)
	case holder >= 0 && holder != p && mine && w.takesUnasked:
		t.hand(i, p)
		t.valid[holder] &^= 1 << i
		t.valid[p] |= 1 << i
		do(by, t, "%s takes the lease of shard %d from %s", name, i, processName(holder))
	case holder >= 0 && holder != p && mine && s.lives(holder) && s.wants[i][p] != uint8(holder)+1:
		t.wants[i][p] = uint8(holder) + 1
		do(by, t, "%s requests shard %[3]d from %[2]s", name, processName(holder), i)
	case s.wants[i][p] > 0 && (!mine || holder == p):
		t.wants[i][p] = 0
		do(by, t, "%s no longer requests shard %d", name, i)
	}
	if !s.holds(p, i) || s.gifts[i].to > 0 {
		return
	}
	to := w.assigned(s.views[p], i)
	if requested := s.wants[i][to] == uint8(p)+1; to != p && (requested || w.pushes) {
		t := s
		t.wants[i][to] = 0
		t.valid[p] &^= 1 << i
		t.gifts[i] = gift{to: uint8(to) + 1, token: true}
		do(by, t, "%s passes the lease of shard %d to %s", name, i, processName(to))
	}
}

// named reports whether a process that is alive would try for shard i by its own view.
func (w shareRules) named(s shareState, i int) bool {
	for p := range w.processes {
		if s.lives(p) && w.assigned(s.views[p], i) == p {
			return true
		}
	}
	return false
}

// hand makes p the holder of shard i's lease, under a new token.
func (s *shareState) hand(i, p int) {
	s.leases[i] = uint8(p) + 1
	s.gifts[i].token = false
}

// nodeSteps are what the lock nodes do about shard i, and time.
func (w shareRules) nodeSteps(s shareState, i int, nodes, time explore.Actor, do explore.Do[shareState]) {
	g, holder := s.gifts[i], int(s.leases[i])-1
	t := s
	if g.to > 0 {
		t.gifts[i] = gift{}
		to := int(g.to) - 1
		if g.token || w.anyToken {
			t.leases[i] = g.to
			do(nodes, t, "the nodes pass the lease of shard %d on to %s", i, processName(to))
		} else {
			do(nodes, t, "the nodes do not pass on the lease of shard %d: the token is another", i)
		}
		if s.losses < w.losses {
			t := s
			t.losses++
			t.gifts[i] = gift{}
			t.credit += 1
			do(explore.Fault, t, "the gift of shard %d is lost", i)
		}
	}
	if holder < 0 {
		return
	}
	t = s
	t.leases[i], t.gifts[i].token = 0, false
	switch {
	case !s.lives(holder) && g.to == 0:
		do(time, t, "the lease of shard %d runs out, which %s had", i, processName(holder))
	case s.expiries < w.expiries:
		t.expiries++
		t.valid[holder] &^= 1 << i
		t.credit += 2
		do(explore.Fault, t, "the lease of shard %d runs out, which %s had", i, processName(holder))
	}
}
