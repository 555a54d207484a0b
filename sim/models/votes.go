package models

import (
	"math/bits"

	"salectl/sim/models/explore"
)

// A lease that two of three lock nodes promise, two processes that want it, and nodes
// that restart without their memory. Time goes in steps; each counts for all clocks.

const (
	voteNodes = 3
	voteTTL   = 2
)

type voteState struct {
	nodes [voteNodes]struct {
		holder  uint8 // process + 1
		left    uint8 // of what it promised
		abstain uint8 // how long it promises nothing
	}
	tries [2]struct {
		queried, votes uint8 // sets of nodes
		age            uint8 // since the first was queried
		left           uint8 // how long the process may believe that it has the lease
	}
	restarts uint8
}

type voteRules struct {
	votesAtOnce bool // a node that has lost its memory promises at once
	fromTheEnd  bool // validity counts from the last vote
	restarts    uint8
}

func (w voteRules) next(s voteState, do explore.Do[voteState]) {
	const time, processes = 1, 2
	do(time, s.tick(), "time passes")
	for n, node := range s.nodes {
		if s.restarts < w.restarts {
			t := s
			t.restarts++
			t.nodes[n].holder, t.nodes[n].left, t.nodes[n].abstain = 0, 0, voteTTL
			if w.votesAtOnce {
				t.nodes[n].abstain = 0
			}
			do(explore.Fault, t, "node %d restarts, and has forgotten what it promised", n)
		}
		for p, try := range s.tries {
			if try.queried>>n&1 == 1 || try.left > 0 {
				continue
			}
			t := s
			mine := &t.tries[p]
			mine.queried |= 1 << n
			by := explore.Actor(processes + p)
			if node.abstain > 0 || node.holder != 0 && node.holder != uint8(p)+1 {
				do(by, t, "node %d does not promise process %d the lease", n, p)
				continue
			}
			mine.votes |= 1 << n
			t.nodes[n].holder, t.nodes[n].left = uint8(p)+1, voteTTL
			if bits.OnesCount8(mine.votes) < 2 {
				do(by, t, "node %d promises process %d the lease", n, p)
				continue
			}
			mine.left = voteTTL - min(mine.age, voteTTL)
			if w.fromTheEnd {
				mine.left = voteTTL
			}
			do(by, t, "node %d promises process %d the lease: a majority, valid for %d more", n, p, mine.left)
		}
	}
	for p, try := range s.tries {
		if try.left == 0 && try.queried != 0 {
			t := s
			t.tries[p].queried, t.tries[p].votes, t.tries[p].age = 0, 0, 0
			do(explore.Actor(processes+p), t, "process %d begins anew", p)
		}
	}
}

func (s voteState) tick() voteState {
	for n := range s.nodes {
		node := &s.nodes[n]
		if node.abstain > 0 {
			node.abstain--
		}
		if node.left > 0 {
			if node.left--; node.left == 0 {
				node.holder = 0
			}
		}
	}
	for p := range s.tries {
		try := &s.tries[p]
		if try.queried != 0 {
			try.age = min(try.age+1, voteTTL)
		}
		if try.left > 0 {
			if try.left--; try.left == 0 {
				try.queried, try.votes, try.age = 0, 0, 0
			}
		}
	}
	return s
}

func (w voteRules) model() explore.Model[voteState] {
	return explore.Model[voteState]{Next: w.next,
		Wrong: func(s voteState) string {
			if s.tries[0].left > 0 && s.tries[1].left > 0 {
				return "two processes have the lease"
			}
			return ""
		},
		Goal: func(s voteState) bool { return s.tries[0].left > 0 || s.tries[1].left > 0 }}
}

func votesModel() Model {
	const both = "two processes have the lease"
	return Model{
		Name:  "votes",
		About: "a lease, two candidates, three lock nodes that may restart empty",
		Rules: []Rule{
			{Name: "forgetful-abstain", Marked: true,
				Text:    "Nodes that may have lost their memory abstain until all their promises have expired (markers, see `quorum.Node`).",
				Without: "A node promises a lease, restarts empty, and promises it to another process: both have a majority."},
			{Name: "valid-from-first-ballot", Marked: true,
				Text:    "Validity counts from before the first ballot was sent, less a hundredth of the ttl and 2 ms for clocks of different speed.",
				Without: "The first node's promise ends before the holder's validity, and another process gets a majority."},
		},
		Cases: []Case{
			{Name: "three nodes, two restarts", Run: bound(voteRules{restarts: 2}.model())},
			{Name: "three nodes, three restarts", Large: true, Run: bound(voteRules{restarts: 3}.model())},
			{Name: "a node promises at once when it restarts", Off: "forgetful-abstain", Finds: both, Run: bound(voteRules{votesAtOnce: true, restarts: 1}.model())},
			{Name: "validity counts from the last vote", Off: "valid-from-first-ballot", Finds: both, Run: bound(voteRules{fromTheEnd: true}.model())},
		},
	}
}
