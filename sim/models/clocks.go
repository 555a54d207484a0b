package models

import "salectl/sim/models/explore"

// Two processes append to a log whose commits are decided by their writers' clocks: a
// hold that ends, and a sale that closes. One of the clocks is set wrong.

const (
	clockEnd   = 9
	clockTTL   = 1
	holdEnds   = 4
	saleCloses = 5
)

type clockState struct {
	now     uint8   // the lock nodes' time
	off     [2]int8 // how far each process is ahead
	wrong   bool    // one clock was set
	logTime uint8
	ended   uint8 // when the hold ended, + 1
	claimed uint8 // when the last claim was made, + 1
}

type clockRules struct {
	anyClock bool // a process appends whatever its clock shows
}

func (w clockRules) next(s clockState, do explore.Do[clockState]) {
	const time, processes = 1, 2
	if s.now < clockEnd {
		t := s
		t.now++
		do(time, t, "it is %d", t.now)
	}
	for p, off := range s.off {
		by := explore.Actor(processes + p)
		for _, set := range []int8{-4, -clockTTL, clockTTL, 4} {
			t := s
			t.wrong, t.off[p] = true, set
			if !s.wrong {
				do(explore.Fault, t, "the clock of process %d is set off by %d", p, set)
			}
		}
		if !w.anyClock && (off > clockTTL || off < -clockTTL) {
			continue
		}
		at := max(uint8(max(int8(s.now)+off, 0)), s.logTime)
		if at >= holdEnds && s.ended == 0 {
			t := s
			t.logTime, t.ended = at, s.now+1
			do(by, t, "process %d, for whom it is %d, lets the hold expire", p, at)
		}
		if at < saleCloses {
			t := s
			t.logTime, t.claimed = at, s.now+1
			do(by, t, "process %d, for whom it is %d, sells", p, at)
		}
	}
}

func (w clockRules) model() explore.Model[clockState] {
	return explore.Model[clockState]{Next: w.next, Wrong: func(s clockState) string {
		switch {
		case s.ended > 0 && s.ended-1 < holdEnds-clockTTL:
			return "a hold expires long before its time"
		case s.claimed > 0 && s.claimed-1 >= saleCloses+clockTTL:
			return "a claim is made long after the sale has closed"
		}
		return ""
	}, Goal: func(s clockState) bool { return s.ended > 0 }}
}

func clocksModel() Model {
	return Model{
		Name:  "clocks",
		About: "a hold and a sale that end at certain times, two processes, one with a wrong clock",
		Rules: []Rule{{Name: "clock-near-nodes", Marked: true,
			Text:    "An owner stops appending when its leases have expired, when it has not read the sale's log within a ttl, or when its clock differs from the lock nodes' by more than a ttl.",
			Without: "A process that is ahead expires a hold that its buyer still has time to pay."}},
		Cases: []Case{
			{Name: "one wrong clock", Run: bound(clockRules{}.model())},
			{Name: "a process appends whatever its clock shows", Off: "clock-near-nodes", Finds: "a hold expires long before its time",
				Run: bound(clockRules{anyClock: true}.model())},
		},
	}
}
