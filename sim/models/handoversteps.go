package models

import "salectl/sim/models/explore"

// Actors: for each process one for each thing that it does on its own.
const (
	handNetwork explore.Actor = 1
	handClients explore.Actor = 2
	handTime    explore.Actor = 3
	handStoring explore.Actor = 4
	handActors  explore.Actor = 5 // and on: handJobs for each process
)

const (
	jobAppend = iota
	jobFollow
	jobLease
	jobForward
	jobReceive
	handJobs
)

func handActor(p int, job explore.Actor) explore.Actor {
	return handActors + explore.Actor(p)*handJobs + job
}

func (w handRules) next(s handState, do explore.Do[handState]) {
	w.handStore(s, do)
	for p := range w.processes {
		if s.processes[p].dead {
			continue
		}
		w.handOutcome(s, p, do)
		w.handDecide(s, p, do)
		w.handFollow(s, p, do)
		w.handLease(s, p, do)
		w.handGive(s, p, do)
	}
	for r := range w.requests {
		w.handRequest(s, r, do)
	}
	w.handFaults(s, do)
}

// handStore applies an append, and its reply arrives or is lost.
func (w handRules) handStore(s handState, do explore.Do[handState]) {
	for i, write := range s.writes {
		if write.entry == 0 {
			continue
		}
		t := s
		copy(t.writes[i:], s.writes[i+1:])
		t.writes[handWrites-1] = handWrite{}
		taken := write.slot == s.length
		what := "the store refuses %v in slot %d: it is taken%s"
		if taken {
			what = "the store takes %v in slot %d%s"
			t.log[s.length] = write.entry
			t.length++
			w.noteFull(&t)
		}
		p := s.waitsFor(write)
		if p == noWriter {
			do(handStoring, t, what, write.entry, write.slot, "; nobody waits for the reply")
			continue
		}
		u := t
		u.processes[p].outcome = unclear
		do(handStoring, u, what, write.entry, write.slot, "; the reply is lost")
		if taken {
			w.handCommitted(&t, p)
			do(handStoring, t, what, write.entry, write.slot, ", and reports success")
		}
	}
}

// waitsFor is who has an append under way and waits for the reply.
func (s *handState) waitsFor(write handWrite) int {
	for p, process := range s.processes {
		if process.outcome == waiting && process.sent == write.entry && process.slot == write.slot {
			return p
		}
	}
	return noWriter
}

// noteFull notes for all that wait that there is no unit left.
func (w handRules) noteFull(s *handState) {
	if w.fold(s, s.length).free > 0 {
		return
	}
	for r := range s.requests {
		if q := &s.requests[r]; q.stage != answered && q.stage != atClient {
			q.full = true
		}
	}
}

// handSend puts an append of process p under way, if there is room.
func (s *handState) handSend(p int, entry handEntry) bool {
	process := &s.processes[p]
	write := handWrite{entry, process.read}
	if write.slot >= handSlots {
		return false
	}
	for i, other := range s.writes {
		if other == write || other.entry == 0 {
			s.writes[i] = write
			process.sent, process.slot, process.outcome = entry, write.slot, waiting
			return true
		}
	}
	return false
}

// handOutcome is how process p finds out what became of its append.
func (w handRules) handOutcome(s handState, p int, do explore.Do[handState]) {
	process := s.processes[p]
	by, name := handActor(p, jobAppend), processName(p)
	t := s
	switch {
	case process.outcome == waiting:
		t.processes[p].outcome = unclear
		do(handNetwork, t, "%s waits no longer for the reply about slot %d", name, process.slot)
	case process.outcome != unclear:
	case process.slot >= s.length:
		if t.handSend(p, process.sent) {
			do(by, t, "%s finds slot %d empty, and sends the same bytes again", name, process.slot)
		}
	case s.log[process.slot] == process.sent:
		w.handCommitted(&t, p)
		do(by, t, "%s finds its own bytes in slot %d", name, process.slot)
	default:
		t.processes[p].sent, t.processes[p].slot, t.processes[p].outcome = 0, 0, idle
		for r := range t.requests {
			if q := &t.requests[r]; q.stage == deciding && int(q.in) == p {
				q.stage = queued
			}
		}
		w.handRead(&t, p)
		do(by, t, "%s finds slot %d taken by %v", name, process.slot, s.log[process.slot])
	}
}

// handCommitted is the reaction of process p to the success of its append.
func (w handRules) handCommitted(s *handState, p int) {
	process := &s.processes[p]
	_, own := process.sent.owner()
	process.sent, process.slot, process.outcome = 0, 0, idle
	process.read++
	if own {
		s.begin(p)
	}
	for r := range s.requests {
		if q := &s.requests[r]; q.stage == deciding && int(q.in) == p {
			q.reply(sold)
		}
	}
}

func (q *handRequest) reply(v verdict) { q.stage, q.answer, q.at, q.in = answered, v, 0, 0 }

// begin makes process p decide: first of all what waits in it.
func (s *handState) begin(p int) {
	s.processes[p].role, s.processes[p].next = decides, 0
	for r := range s.requests {
		if q := &s.requests[r]; q.stage == held && int(q.at) == p {
			q.stage, q.in = queued, uint8(p)
		}
	}
}

// handRead is what process p makes of the entry behind those that it has read.
func (w handRules) handRead(s *handState, p int) {
	process := &s.processes[p]
	entry := s.log[process.read]
	process.read++
	owner, ok := entry.owner()
	if !ok {
		return
	}
	process.next = 0
	if owner != p && process.role != follows {
		process.role = follows
		s.leave(p)
	}
}

// leave hands the requests that process p has back to where their clients wait: to be
// forwarded by p itself, or by those that had forwarded them to p.
func (s *handState) leave(p int) {
	for r := range s.requests {
		if q := &s.requests[r]; (q.stage == queued || q.stage == deciding) && int(q.in) == p {
			q.stage, q.in = held, 0
		}
	}
}

// handFollow is how process p reads the log while it has nothing under way.
func (w handRules) handFollow(s handState, p int, do explore.Do[handState]) {
	process := s.processes[p]
	if process.outcome != idle || process.read >= s.length {
		return
	}
	t := s
	w.handRead(&t, p)
	do(handActor(p, jobFollow), t, "%s reads %v in slot %d", processName(p), s.log[process.read], process.read)
}

// handDecide is what process p does about the requests that have queued.
func (w handRules) handDecide(s handState, p int, do explore.Do[handState]) {
	process := s.processes[p]
	early := w.decidesEarly && process.role == follows && process.lease > 0
	if process.outcome != idle || process.role != decides && !early {
		return
	}
	by, name := handActor(p, jobAppend), processName(p)
	f := w.fold(&s, process.read)
	t := s
	var ops handEntry
	known, wait := false, false
	free := f.free
	for r := range t.requests {
		q := &t.requests[r]
		switch {
		case q.stage != queued || int(q.in) != p:
		case f.has[r] > 0 && !q.fresh:
			known = true
			q.reply(sold)
		case free > 0:
			free--
			ops |= 1 << r
			q.stage = deciding
		default:
			wait = true
		}
	}
	deny := wait && (ops == 0 || w.deniesAhead) && (process.lease == s.term || w.deniesBlind || early)
	if deny {
		w.denyQueued(&t, p)
	}
	switch {
	case ops != 0:
		entry := commitEntry(p, ops)
		if t.handSend(p, entry) {
			do(by, t, "%s appends %v in slot %d%s", name, entry, process.read, map[bool]string{true: ", and denies what is left"}[deny])
		}
	case known || deny:
		w.handReply(s, t, p, by, do)
	}
	if t := s; w.cancels && !s.cancelled && t.handSend(p, commitEntry(p, freesOp)) {
		t.cancelled = true
		do(handClients, t, "%s appends a cancel in slot %d", name, process.read)
	}
}

// denyQueued denies what is queued in process p.
func (w handRules) denyQueued(s *handState, p int) {
	for r := range s.requests {
		if q := &s.requests[r]; q.stage == queued && int(q.in) == p {
			s.deny(q)
		}
	}
}

func (s *handState) deny(q *handRequest) {
	s.stale = s.stale || !q.full && s.expiries == 0
	q.reply(denied)
}

// handReply delivers the answers by which t differs from s, or loses them.
func (w handRules) handReply(s, t handState, p int, by explore.Actor, do explore.Do[handState]) {
	what := ""
	u := s
	for r, q := range t.requests {
		if q.stage != answered || s.requests[r].stage == answered {
			continue
		}
		what += map[verdict]string{sold: " with sold", denied: " with a denial"}[q.answer]
		if lost := &u.requests[r]; int(lost.at) == p {
			*lost = handRequest{}
		} else {
			lost.stage, lost.in = held, 0
		}
	}
	do(by, t, "%s answers%s", processName(p), what)
	if u.losses < w.losses {
		u.losses++
		do(explore.Fault, u, "%s answers%s, which is lost", processName(p), what)
	}
}
