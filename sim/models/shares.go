package models

import (
	"math/bits"

	"salectl/sim/models/explore"
)

// Who should own which shard. Each process has a view of who is there, and an
// assignment follows from the view. Views differ, change, and agree in the end. What
// the protocol is about is that leases come to where the views would have them, and
// that differing views do not make processes fight over a shard.

const (
	shareProcesses = 3
	shareShards    = 2
)

// gift is a lease on its way, from its holder to another process by way of the lock
// nodes.
type gift struct {
	to    uint8 // a process + 1; 0: there is none
	token bool  // the token that it names still is the one that the nodes have
}

type shareState struct {
	alive uint8                 // a set of processes
	views [shareProcesses]uint8 // sets of processes

	leases [shareShards]uint8                 // by the nodes: a process + 1
	valid  [shareProcesses]uint8              // the shards whose lease a process believes that it has
	wants  [shareShards][shareProcesses]uint8 // the process from which a process has requested a shard, + 1
	gifts  [shareShards]gift

	changes, deaths, expiries, losses uint8
	credit                            int8 // lease changes that the changes of views and the faults leave
	fight                             bool // a lease moved though all was as all views would have it
}

// shareRules is what can be left out, and what happens.
type shareRules struct {
	takesUnasked bool // who should have a shard by its own view takes it
	pushes       bool // an owner passes a shard to the process that its own view names, without a request
	namedOnly    bool // a free shard is tried for only by whom its own view names
	anyToken     bool // the nodes pass a lease on whoever has it by then
	uncounted    bool // nobody counts how often leases change hands

	processes, shards                 int
	heals                             bool // views agree in the end
	changes, deaths, expiries, losses uint8
}

// assigned is the process that a view would have own a shard: the one with the highest
// score among those that have not as many shards as their share is, rounded up.
func (w shareRules) assigned(view uint8, shard int) int {
	share := (w.shards + bits.OnesCount8(view) - 1) / bits.OnesCount8(view)
	var has [shareProcesses]int
	best := 0
	for s := range shard + 1 {
		best = -1
		for p := range w.processes {
			if view>>p&1 == 1 && has[p] < share && (best < 0 || score(p, s) > score(best, s)) {
				best = p
			}
		}
		has[best]++
	}
	return best
}

func score(p, s int) int { return (5*p + 3*s + 2) % 7 }

func (s *shareState) lives(p int) bool    { return s.alive>>p&1 == 1 }
func (s *shareState) holds(p, i int) bool { return s.valid[p]>>i&1 == 1 }

// stable reports whether all is as it should be: the views agree with what is, and so do
// the leases.
func (w shareRules) stable(s shareState) bool {
	for p := range w.processes {
		if s.lives(p) && s.views[p] != s.alive {
			return false
		}
	}
	for i := range w.shards {
		p := w.assigned(s.alive, i)
		if s.leases[i] != uint8(p)+1 || !s.holds(p, i) {
			return false
		}
	}
	return true
}

// quiet reports whether every shard has an owner and nobody would do anything.
func (w shareRules) quiet(s shareState) bool {
	for i := range w.shards {
		if s.leases[i] == 0 || !s.holds(int(s.leases[i])-1, i) {
			return false
		}
	}
	still := true
	w.next(s, func(by explore.Actor, t shareState, _ string, _ ...any) {
		still = still && (by == explore.Fault || t == s)
	})
	return still
}

const (
	shareTwo   = "two processes have the lease of a shard"
	shareFight = "a lease changes hands though all is as it should be"
	shareMany  = "leases change hands more often than views and faults account for"
)

func (w shareRules) wrong(s shareState) string {
	for i := range w.shards {
		holders := 0
		for p := range w.processes {
			holders += int(s.valid[p] >> i & 1)
		}
		if holders > 1 {
			return shareTwo
		}
	}
	switch {
	case s.fight:
		return shareFight
	case s.credit < 0:
		return shareMany
	}
	return ""
}

func (w shareRules) model() explore.Model[shareState] {
	all := uint8(1)<<w.processes - 1
	s := shareState{alive: all, credit: int8(w.shards)}
	for p := range w.processes {
		s.views[p] = all
	}
	for i := range w.shards { // the first process was alone until now
		s.leases[i] = 1
		s.valid[0] |= 1 << i
	}
	goal := w.quiet
	if w.heals {
		goal = w.stable
	}
	return explore.Model[shareState]{Init: s, Next: w.next, Wrong: w.wrong, Goal: goal, Fair: true}
}
