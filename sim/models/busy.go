package models

import "salectl/sim/models/explore"

// A generation that closes the sale has to get into the log of a shard whose owner is
// busy: each append of the owner's makes the planner's fail. The owner may be cut off
// from the sale's own log, where the generation is announced.

type busyState struct {
	announced bool // in the sale's own log
	landed    bool // in the shard's log
	head      bool // changes with each append to the shard
	saw       bool // the planner has read the present head
	read      bool // the owner has read the announcement
	cut       bool // the owner reads the sale's log no more
	resting   bool // the owner does not append: it has not read the sale's log within a ttl
}

type busyRules struct {
	plannerAlone bool // only the planner appends generations
	appendsBlind bool // the owner appends also when it has not read the sale's log for long
}

func (w busyRules) next(s busyState, do explore.Do[busyState]) {
	const owner, planner, time, follower = 1, 2, 3, 4
	if !s.announced {
		t := s
		t.announced = true
		do(planner, t, "the planner announces a close in the sale's log")
	}
	if !s.cut {
		t := s
		t.cut = true
		do(explore.Fault, t, "the owner can read the sale's log no more")
	}
	if s.cut && !s.read && !s.resting && !w.appendsBlind {
		t := s
		t.resting = true
		do(time, t, "a ttl has passed: the owner appends no more")
	}
	if s.announced && !s.cut && !s.read {
		t := s
		t.read = true
		do(follower, t, "the owner reads of the close in the sale's log")
	}
	if !s.landed && !s.resting {
		t := s
		t.head, t.saw = !s.head, false
		if s.read && !w.plannerAlone {
			t.landed = true
			do(owner, t, "the owner appends the close")
		} else {
			do(owner, t, "the owner appends claims")
		}
	}
	if s.announced && !s.landed {
		t := s
		if s.saw {
			t.landed = true
			do(planner, t, "the planner appends the close")
		} else {
			t.saw = true
			do(planner, t, "the planner reads the shard's head")
		}
	}
}

func (w busyRules) model() explore.Model[busyState] {
	return explore.Model[busyState]{Next: w.next,
		Wrong: func(busyState) string { return "" },
		Goal:  func(s busyState) bool { return s.landed }, Fair: true}
}

func busyModel() Model {
	return Model{
		Name:  "busy",
		About: "a close that must enter the log of a busy shard; an owner that may be cut off from the sale's log",
		Rules: []Rule{
			{Name: "owner-appends-generations", Marked: true,
				Text:    "Owners follow the sale's log and append its generations themselves: beside a busy owner a planner would lose every race.",
				Without: "The planner's append fails whenever the owner appends: the close waits as long as claims come."},
			{Name: "owner-reads-sale", Marked: true,
				Text:    "An owner stops appending when its leases have expired, when it has not read the sale's log within a ttl, or when its clock differs from the lock nodes' by more than a ttl.",
				Without: "A cut-off owner sells on, and the planner loses every race: the close never lands."},
		},
		Cases: []Case{
			{Name: "an owner that may be cut off", Run: bound(busyRules{}.model())},
			{Name: "the planner alone appends generations", Off: "owner-appends-generations", Finds: explore.Livelock, Run: bound(busyRules{plannerAlone: true}.model())},
			{Name: "an owner that is cut off goes on", Off: "owner-reads-sale", Finds: explore.Livelock, Run: bound(busyRules{appendsBlind: true}.model())},
		},
	}
}
