package models

import "salectl/sim/models/explore"

// handLease is how process p takes a free lease, finds the one that it was given,
// appends Own under it, and finds that it is lost.
func (w handRules) handLease(s handState, p int, do explore.Do[handState]) {
	process := s.processes[p]
	by, name := handActor(p, jobLease), processName(p)
	mine := s.lease == uint8(p)+1
	t := s
	switch {
	case process.lease > 0 && process.lease != s.term:
		if process.outcome == waiting {
			return
		}
		t.stop(p)
		do(by, t, "%s finds that it has lost the lease", name)
	case process.lease == 0 && (mine || s.lease == 0):
		if !mine {
			t.pass(uint8(p) + 1)
		}
		t.processes[p].lease = t.term
		if w.keepsOwn && w.fold(&s, process.read).owner == p {
			t.begin(p)
		}
		do(by, t, "%s %s", name, map[bool]string{true: "finds that the lease is its own", false: "takes the free lease"}[mine])
	case process.lease > 0 && process.role == follows && process.outcome == idle:
		if t.handSend(p, ownEntry(p)) {
			do(by, t, "%s appends its Own in slot %d", name, process.read)
		}
	}
}

// stop ends what process p does as the owner. What it has under way stays unknown.
func (s *handState) stop(p int) {
	process := &s.processes[p]
	process.role, process.lease = follows, 0
	process.sent, process.slot, process.outcome = 0, 0, idle
	s.leave(p)
}

// handGive is how the owner p hands the shard to another process.
func (w handRules) handGive(s handState, p int, do explore.Do[handState]) {
	process := s.processes[p]
	by, name := handActor(p, jobLease), processName(p)
	if process.role == decides && process.lease > 0 && s.moves < w.moves {
		for q := range w.processes {
			if q == p || s.processes[q].dead {
				continue
			}
			t := s
			t.moves++
			t.processes[p].role, t.processes[p].next = parts, uint8(q)+1
			if w.goesOn {
				t.passLease(p)
				t.processes[p].role = decides
				do(explore.Fault, t, "%s passes the lease to %s, and decides on", name, processName(q))
				continue
			}
			do(explore.Fault, t, "%s agrees to hand the shard to %s, and stops deciding", name, processName(q))
		}
	}
	if process.role != parts || process.outcome == waiting {
		return
	}
	t := s
	for r := range t.requests {
		q := &t.requests[r]
		if (q.stage != queued && q.stage != deciding) || int(q.in) != p {
			continue
		}
		switch {
		case w.failsQueue:
			*q = handRequest{failed: true}
		case q.stage == deciding && w.deniesDoubt:
			q.reply(denied)
		case q.stage == deciding && w.freshKey:
			q.fresh = true
		}
	}
	next := int(process.next) - 1
	doubt := map[bool]string{true: "leaves its append unknown and "}[process.outcome == unclear]
	t.passLease(p)
	t.stop(p)
	do(by, t, "%s %spasses the lease to %s", name, doubt, processName(next))
	if s.losses < w.losses {
		t.lease, t.term = s.lease, s.term
		t.losses++
		do(explore.Fault, t, "%s %spasses the lease to %s, and the lock nodes do not receive it", name, doubt, processName(next))
	}
}

// passLease passes the lease on if it is still the lease of p.
func (s *handState) passLease(p int) {
	process := &s.processes[p]
	if process.lease == s.term {
		s.pass(process.next)
	}
	process.lease = 0
}

// pass makes a process the holder of the lease; 0: nobody.
func (s *handState) pass(holder uint8) {
	s.lease = holder
	s.term++
}

// handRequest is what becomes of request r outside of the commits.
func (w handRules) handRequest(s handState, r int, do explore.Do[handState]) {
	q := s.requests[r]
	switch q.stage {
	case atClient:
		for p := range w.processes {
			if s.processes[p].dead {
				continue
			}
			t := s
			n := &t.requests[r]
			n.stage, n.at, n.full = held, uint8(p), w.fold(&s, s.length).free <= 0
			if s.processes[p].role != follows {
				n.stage, n.in = queued, uint8(p)
			}
			do(handClients, t, "request %d comes to %s", r, processName(p))
		}
	case held:
		p := int(q.at)
		process := s.processes[p]
		if process.role == decides || w.decidesEarly && process.lease > 0 && process.role == follows {
			t := s
			t.requests[r].stage, t.requests[r].in = queued, uint8(p)
			do(handActor(p, jobForward), t, "%s queues request %d", processName(p), r)
			return
		}
		to := w.fold(&s, process.read).owner
		if process.next > 0 {
			to = int(process.next) - 1
		}
		switch {
		case to == p:
		case s.processes[to].dead:
			if t := s; process.next > 0 {
				t.processes[p].next = 0
				do(handActor(p, jobForward), t, "%s finds that %s is gone", processName(p), processName(to))
			}
		default:
			t := s
			t.requests[r].stage, t.requests[r].in = forwarded, uint8(to)
			do(handActor(p, jobForward), t, "%s forwards request %d to %s", processName(p), r, processName(to))
		}
		if s.faulty() {
			t := s
			t.requests[r] = handRequest{failed: true, fresh: q.fresh}
			do(handTime, t, "%s answers request %d with 503", processName(p), r)
		}
	case forwarded:
		w.handReceive(s, r, do)
	}
}

// handReceive is how a process takes in request r, which was forwarded to it.
func (w handRules) handReceive(s handState, r int, do explore.Do[handState]) {
	p := int(s.requests[r].in)
	process := s.processes[p]
	by, name := handActor(p, jobReceive), processName(p)
	t := s
	q := &t.requests[r]
	if process.role == decides || w.decidesEarly && process.lease > 0 {
		q.stage = queued
		do(by, t, "%s queues request %d", name, r)
		return
	}
	if f := w.fold(&s, process.read); w.answersEarly && process.lease > 0 && process.role == follows && (f.has[r] > 0 || f.free <= 0) {
		if f.has[r] > 0 {
			q.reply(sold)
		} else {
			t.deny(q)
		}
		w.handReply(s, t, p, by, do)
		return
	}
	q.stage, q.in = held, 0
	do(by, t, "%s replies that request %d is not its own yet", name, r)
}

// handFaults are the deaths of processes, and leases that run out. The lease of a
// process that is dead runs out in any case.
func (w handRules) handFaults(s handState, do explore.Do[handState]) {
	if s.lease > 0 && s.processes[s.lease-1].dead {
		t := s
		t.pass(0)
		do(handTime, t, "the lease of %s runs out", processName(int(s.lease)-1))
	} else if s.lease > 0 && s.expiries < w.expiries {
		t := s
		t.pass(0)
		t.expiries++
		do(explore.Fault, t, "the lease of %s runs out, unnoticed by its holder", processName(int(s.lease)-1))
	}
	for p := range w.processes {
		if s.deaths == w.deaths || s.processes[p].dead {
			continue
		}
		t := s
		t.deaths++
		t.stop(p)
		t.processes[p] = handProcess{dead: true}
		for r := range t.requests {
			if q := &t.requests[r]; q.stage != answered && q.stage != atClient && int(q.at) == p {
				*q = handRequest{failed: q.failed}
			}
		}
		do(explore.Fault, t, "%s dies", processName(p))
	}
}
