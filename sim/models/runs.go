package models

import "salectl/sim/models/explore"

// Two processes vote on a lock node without asking it each time in which run it is. They
// call a copy of the vote script that one run of the node has, by its name, and tell it
// that run. The node restarts with its data, whenever it likes: what it promised last is
// lost. Whatever a process sends may arrive in any run, as over a proxy that keeps
// connections while the node restarts.

type runsState struct {
	run     uint8    // that the node is in, from 1 on
	scripts uint8    // set of names of copies that it has
	marker  [2]uint8 // the run of each marker's last vote or mending; 0: it is not there
	copies  [2]runsCopy
	names   uint8 // given so far
	process [2]struct {
		knows runsCopy // the zero one: nothing
		gives runsCopy // the copy that is on its way to the node; its run is what was asked before
	}
	wrong bool // a vote counted under a marker of a run that was over
}

// runsCopy is the name of a copy and the run that is said to have it.
type runsCopy struct{ name, run uint8 }

type runsRules struct {
	markers  uint8 // how many there are; a process votes under its own, or both under the first
	restarts uint8
	oneName  bool // all copies have the same name
	apart    bool // a copy is loaded by one call, and the run asked for by another
	kept     bool // the node has its scripts still when it has restarted
}

func (w runsRules) next(s runsState, do explore.Do[runsState]) {
	if s.run <= w.restarts {
		t := s
		t.run++
		if !w.kept {
			t.scripts = 0
		}
		do(explore.Fault, t, "the node restarts with its data")
	}
	for p := range s.process {
		by := explore.Actor(1 + p)
		m := min(p, int(w.markers)-1)
		t := s
		mine := &t.process[p]
		switch {
		case mine.gives.name != 0:
			name, run := mine.gives.name, s.run
			if w.apart {
				run = mine.gives.run
			} else {
				t.marker[m] = s.run
			}
			t.scripts |= 1 << name
			t.copies[m] = runsCopy{name, run}
			mine.gives = runsCopy{}
			lost := t
			mine.knows = runsCopy{name, run}
			do(by, t, "process %d gives the node copy %d, and learns that it is in run %d", p, name, run)
			do(explore.Fault, lost, "process %d gives the node copy %d, and does not learn of it", p, name)
		case mine.knows.name == 0 && s.copies[m].run == s.run:
			mine.knows = s.copies[m]
			do(by, t, "process %d reads that run %d has copy %d", p, s.run, mine.knows.name)
		case mine.knows.name == 0:
			if t.names == 0 || !w.oneName {
				t.names++
			}
			mine.gives = runsCopy{t.names, s.run}
			do(by, t, "process %d finds no copy in run %d, and sends copy %d", p, s.run, t.names)
		case s.scripts>>mine.knows.name&1 == 0:
			mine.knows = runsCopy{}
			t.marker[m] = s.run
			do(by, t, "the node does not have the copy that process %d calls, and is asked for its run", p)
		case s.marker[m] != mine.knows.run:
			t.marker[m] = mine.knows.run
			do(by, t, "the copy of process %d finds a marker of another run, and abstains", p)
		default:
			t.wrong = mine.knows.run != s.run
			do(by, t, "the copy of process %d votes", p)
		}
	}
}

func (w runsRules) model() explore.Model[runsState] {
	return explore.Model[runsState]{Init: runsState{run: 1}, Next: w.next,
		Wrong: func(s runsState) string {
			if s.wrong {
				return "a node votes that has lost what it promised"
			}
			return ""
		},
		Goal: func(s runsState) bool {
			for p, mine := range s.process {
				m := min(p, int(w.markers)-1)
				if mine.knows.run != s.run || s.marker[m] != s.run || s.scripts>>mine.knows.name&1 == 0 {
					return false
				}
			}
			return true
		}}
}

func runsModel() Model {
	const lost = "a node votes that has lost what it promised"
	return Model{
		Name:  "runs",
		About: "two processes that call copies of the vote script, a lock node that restarts with its data, also behind a proxy that keeps connections",
		Rules: []Rule{
			{Name: "copy-named-once", Marked: true,
				Text:    "Each copy has a random name of its own and is sent once.",
				Without: "A process believes in a copy of the run before. Another gives the same copy to the new run, for another marker: the first one's is found, and takes the old marker for good."},
			{Name: "given-and-told", Marked: true,
				Text:    "The call that gives a server a copy says itself in which run that was.",
				Without: "A process asks for the run, the server restarts, and the copy comes into the next run, where it takes the old marker for good."},
			{Name: "copies-end-with-run", Marked: true,
				Text:    "Only servers whose scripts end with their process get one: Redis from 7.0 on.",
				Without: "A server comes back with the copy in a file, and with the marker of the run before, which the copy takes for good."},
		},
		Cases: []Case{
			{Name: "one marker, one restart", Run: bound(runsRules{markers: 1, restarts: 1}.model())},
			{Name: "two markers, two restarts", Run: bound(runsRules{markers: 2, restarts: 2}.model())},
			{Name: "all copies have one name", Off: "copy-named-once", Finds: lost, Run: bound(runsRules{markers: 2, restarts: 1, oneName: true}.model())},
			{Name: "the run is asked for before", Off: "given-and-told", Finds: lost, Run: bound(runsRules{markers: 1, restarts: 1, apart: true}.model())},
			{Name: "scripts survive a restart", Off: "copies-end-with-run", Finds: lost, Run: bound(runsRules{markers: 1, restarts: 1, kept: true}.model())},
		},
	}
}
