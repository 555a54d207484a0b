package models

import "salectl/sim/models/explore"

// A successor has to get its Own into the log, and claims come without end. Whether
// the giver stops deciding is no matter of exactness: the handover model has a case in
// which it goes on. It is a matter of coming to an end.

type successionState struct {
	stopped bool // the giver decides no more
	given   bool // the successor has the lease
	head    bool // changes with each append of the giver
	read    bool // the successor has read up to the present head
	owns    bool // its Own is in the log
}

type successionRules struct {
	goesOn bool // the giver decides on until it finds the other's Own in the log
}

func (w successionRules) next(s successionState, do explore.Do[successionState]) {
	const giver, handing, successor = 1, 2, 3
	if s.owns {
		return
	}
	t := s
	if !s.stopped {
		t.head, t.read = !s.head, false
		do(giver, t, "the giver appends claims")
	}
	t = s
	switch {
	case !s.stopped && !w.goesOn:
		t.stopped = true
		do(handing, t, "the giver stops deciding")
	case !s.given:
		t.given = true
		do(handing, t, "the giver releases the lease")
	}
	t = s
	switch {
	case !s.read:
		t.read = true
		do(successor, t, "the successor reads the log to its end")
	case s.given:
		t.owns = true
		do(successor, t, "the successor's Own is in the log")
	}
}

func successionModel() Model {
	run := func(w successionRules) func() explore.Result {
		return bound(explore.Model[successionState]{Next: w.next, Fair: true,
			Wrong: func(successionState) string { return "" },
			Goal:  func(s successionState) bool { return s.owns }})
	}
	return Model{
		Name:  "succession",
		About: "a successor that appends its `Own` while claims keep coming",
		Rules: []Rule{{Name: "stops-before-giving",
			Text:    "The owner stops deciding before it releases the lease.",
			Without: "Each of the giver's appends makes the successor's `Own` fail, as long as claims come."}},
		Cases: []Case{
			{Name: "the giver stops", Run: run(successionRules{})},
			{Name: "the giver decides on", Off: "stops-before-giving", Finds: explore.Livelock, Run: run(successionRules{goesOn: true})},
		},
	}
}
