package models

import "salectl/sim/models/explore"

// Shards that all have fewer units than their claims need, and request units from each other.

const swapShards = 3

type swapState struct {
	units  [swapShards]uint8
	wants  [swapShards]uint8             // by the claim at hand; 0: it has been sold
	moving [swapShards][swapShards]uint8 // units on their way, by source and destination
}

type swapRules struct {
	shards   int
	units    [swapShards]uint8
	anybody  bool // a short shard passes units to any other
	halfDown bool // a shard passes on half of its units, rounded down
}

func (w swapRules) next(s swapState, do explore.Do[swapState]) {
	for a := range w.shards {
		by := explore.Actor(1 + a)
		if s.wants[a] > 0 && s.units[a] >= s.wants[a] {
			t := s
			t.units[a] -= s.wants[a]
			t.wants[a] = 0
			do(by, t, "shard %d sells %d units", a, s.wants[a])
			continue // it sells before it passes units on
		}
		for b := range w.shards {
			if a == b {
				continue
			}
			short := s.wants[a] > s.units[a]
			requests := s.wants[b] > s.units[b]
			if requests && s.units[a] > 0 && s.moving[a][b] == 0 && (!short || b < a || w.anybody) {
				t := s
				quantity := max(min(s.wants[b]-s.units[b], s.units[a]), (s.units[a]+1)/2)
				if w.halfDown {
					quantity = s.units[a] / 2
				}
				t.units[a] -= quantity
				t.moving[a][b] = quantity
				do(by, t, "shard %d has %d units, and passes %[4]d of them to shard %[3]d", a, s.units[a], b, quantity)
			}
			if s.moving[a][b] > 0 {
				t := s
				t.units[b] += s.moving[a][b]
				t.moving[a][b] = 0
				do(explore.Actor(10+a*swapShards+b), t, "shard %d takes in %d units from shard %d", b, s.moving[a][b], a)
			}
		}
	}
}

// goal: as many claims are sold as there are units for.
func (w swapRules) goal(s swapState) bool {
	left := uint8(0)
	wanted := false
	for a := range w.shards {
		left += s.units[a]
		wanted = wanted || s.wants[a] > 0
		for b := range w.shards {
			left += s.moving[a][b]
		}
	}
	return left < 2 || !wanted
}

func (w swapRules) model() explore.Model[swapState] {
	s := swapState{units: w.units}
	for a := range w.shards {
		s.wants[a] = 2
	}
	return explore.Model[swapState]{Init: s, Next: w.next, Goal: w.goal, Fair: true,
		Wrong: func(swapState) string { return "" }}
}

func swapModel() Model {
	return Model{
		Name:  "swap",
		About: "shards that each lack units for their claim and request some from the others",
		Rules: []Rule{
			{Name: "short-gives-down", Marked: true,
				Text:    "A shard that is short itself gives only to a lower-numbered one; otherwise two would swap for ever.",
				Without: "Two shards with one unit and a claim for two each swap their units for ever."},
			{Name: "gives-what-is-asked", Marked: true,
				Text:    "A source gives what it was asked for, and at least half of what it has.",
				Without: "A source that passes on half, rounded down, never passes on its last unit."},
		},
		Cases: []Case{
			{Name: "two shards", Run: bound(swapRules{shards: 2, units: [3]uint8{1, 1}}.model())},
			{Name: "three shards", Run: bound(swapRules{shards: 3, units: [3]uint8{1, 1, 1}}.model())},
			{Name: "three shards, more units", Run: bound(swapRules{shards: 3, units: [3]uint8{1, 1, 3}}.model())},
			{Name: "a short shard passes units to any other", Off: "short-gives-down", Finds: explore.Livelock,
				Run: bound(swapRules{shards: 2, anybody: true, units: [3]uint8{1, 1}}.model())},
			{Name: "half, rounded down", Off: "gives-what-is-asked", Finds: explore.Stuck,
				Run: bound(swapRules{shards: 2, halfDown: true, units: [3]uint8{1, 3}}.model())},
		},
	}
}
