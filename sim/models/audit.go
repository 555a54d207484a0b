package models

import (
	"fmt"

	"salectl/sim/models/explore"
)

// An audit of a sale that is being sold reads one shard's log after the other, while
// units move between them.

const auditUnits = 2

type auditShard struct {
	available      uint8 // a set of units
	out, acked, in uint8 // transfers to the other shard, and from it
	sent           uint8 // the units of the last Out
}

type auditState struct {
	shards [2]auditShard
	cut    [2]auditShard // as the audit has read them
	read   uint8         // how many it has read
	judged bool
}

type auditRules struct {
	asRead  bool // the audit judges what it has read first
	skipsIn bool // it reads a shard on for an Out that it lacks, and not for an In
}

func (w auditRules) next(s auditState, do explore.Do[auditState]) {
	const auditor, movers = 1, 2
	for a := range s.shards {
		b := 1 - a
		from, to := s.shards[a], s.shards[b]
		by := explore.Actor(movers + a)
		t := s
		switch {
		case from.out == from.acked && from.available != 0 && from.out < 2:
			t.shards[a].sent = lowest(from.available)
			t.shards[a].available &^= t.shards[a].sent
			t.shards[a].out++
			do(by, t, "Out of units %02b in shard %d", t.shards[a].sent, a)
		case from.out > from.acked && to.in < from.out:
			t.shards[b].available |= from.sent
			t.shards[b].in = from.out
			do(by, t, "In of units %02b in shard %d", from.sent, b)
		case from.out > from.acked:
			t.shards[a].acked = from.out
			do(by, t, "Ack in shard %d", a)
		}
	}
	t := s
	switch {
	case s.judged:
	case s.read < 2:
		t.cut[s.read] = s.shards[s.read]
		t.read++
		do(auditor, t, "the audit reads the log of shard %d to its end", s.read)
	default:
		for a := range s.cut {
			b := 1 - a
			lacksOut := s.cut[b].in > s.cut[a].out
			lacksIn := s.cut[b].acked > s.cut[a].in
			if !w.asRead && (lacksOut || lacksIn && !w.skipsIn) {
				t.cut[a] = s.shards[a]
				do(auditor, t, "the audit reads the log of shard %d on", a)
				return
			}
		}
		t.judged = true
		do(auditor, t, "the audit adds up what it has read")
	}
}

func (w auditRules) wrong(s auditState) string {
	if !s.judged {
		return ""
	}
	for u := range auditUnits {
		places := 0
		for a, from := range s.cut {
			places += int(from.available >> u & 1)
			if from.out > from.acked && s.cut[1-a].in < from.out {
				places += int(from.sent >> u & 1)
			}
		}
		if places != 1 {
			return fmt.Sprintf("the audit finds a unit in %d places", places)
		}
	}
	return ""
}

func (w auditRules) model() explore.Model[auditState] {
	var s auditState
	for u := range auditUnits {
		s.shards[u%2].available |= 1 << u
	}
	return explore.Model[auditState]{Init: s, Next: w.next, Wrong: w.wrong, Goal: func(s auditState) bool { return s.judged }}
}

func auditModel() Model {
	return Model{
		Name:  "audit",
		About: "an audit that reads one log after the other while units move",
		Rules: []Rule{{Name: "closed-cut", Marked: true,
			Text:    "An audit of a live sale folds a cut that is closed under `In` → `Out` and `Ack` → `In`: it reads the other shard's log on until it is.",
			Without: "A log read early has a unit that a log read late has taken: the audit finds it twice, or nowhere."}},
		Cases: []Case{
			{Name: "two shards", Run: bound(auditRules{}.model())},
			{Name: "the logs as they were read", Off: "closed-cut", Finds: "the audit finds a unit in 2 places", Run: bound(auditRules{asRead: true}.model())},
			{Name: "closed for Out alone", Off: "closed-cut", Finds: "the audit finds a unit in 0 places", Run: bound(auditRules{skipsIn: true}.model())},
		},
	}
}
