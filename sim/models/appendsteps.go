package models

import "salectl/sim/models/explore"

// Actors of the model: the network, and process p as writing + p.
const (
	network explore.Actor = 1
	writing explore.Actor = 2
)

func (w logRules) next(s logState, do explore.Do[logState]) {
	w.storeSteps(s, do)
	for p := range s.writer {
		if p == planner && !w.closes && !w.destroys || p < planner && p >= w.owners {
			continue
		}
		switch s.writer[p].outcome {
		case waiting:
			t := s
			t.writer[p].outcome = unclear
			do(network, t, "process %d waits no longer: the outcome is unknown", p)
		case unclear:
			w.resolve(s, p, do)
		case idle:
			w.read(s, p, do)
			switch {
			case p < planner:
				w.ownerSteps(s, p, do)
			case w.closes:
				w.closeStep(s, do)
			default:
				w.destroySteps(s, do)
			}
		}
		if p < planner && s.writer[p].life < w.restarts {
			t := s
			t.writer[p] = logWriter{life: s.writer[p].life + 1}
			do(explore.Fault, t, "process %d dies, and starts again", p)
		}
	}
}

// storeSteps are the calls that the store applies, each with a reply that arrives or
// is lost.
func (w logRules) storeSteps(s logState, do explore.Do[logState]) {
	for i, c := range s.calls {
		if c.times == 0 {
			continue
		}
		t := s
		t.calls[i].times--
		t.tidy()
		taken := t.store(c, w.slotAbsent)
		what := "the store refuses %s in slot %d%s"
		if taken {
			what = "the store takes %s in slot %d%s"
		}
		do(network, t, what, entryName(c.entry), c.slot, "; the reply is lost")
		for p, writer := range s.writer {
			if writer.outcome != waiting || writer.sent != c.entry || writer.slot != c.slot {
				continue
			}
			u := t
			switch {
			case taken || w.falseIsSuccess:
				u.committed(p, w)
			case w.falseIsFailure:
				u.lost(p, true)
			default:
				u.writer[p].outcome = unclear
			}
			do(network, u, what, entryName(c.entry), c.slot, ", and reports success")
		}
	}
}

// store applies a call and reports whether it succeeded.
func (s *logState) store(c logCall, slotAbsent bool) bool {
	switch {
	case s.deleted && (slotAbsent || c.slot == 0) && s.revived[c.slot] == 0: // no head: as the call states
		s.revived[c.slot] = c.entry
		return true
	case s.deleted, c.slot != s.length, !slotAbsent && s.log[c.slot-1] != c.after:
		return false
	}
	s.log[c.slot] = c.entry
	s.length++
	return true
}

// tidy removes calls that will not be applied again.
func (s *logState) tidy() {
	var left [logCalls]logCall
	n := 0
	for _, c := range s.calls {
		if c.times > 0 {
			left[n] = c
			n++
		}
	}
	s.calls = left
}

// send puts an append under way. There is room for some only.
func (s *logState) send(p int, entry, slot uint8) bool {
	if slot >= logSlots {
		return false
	}
	c := logCall{slot: slot, entry: entry, times: 1}
	if slot > 0 {
		c.after = s.log[slot-1]
	}
	for i := range s.calls {
		old := &s.calls[i]
		switch {
		case old.times == 0:
			*old = c
		case old.slot == slot && old.entry == entry:
			old.times = 2 // the same bytes once more
		default:
			continue
		}
		writer := &s.writer[p]
		writer.outcome, writer.sent, writer.slot, writer.again = waiting, entry, slot, 0
		return true
	}
	return false
}

// committed is the writer's reaction to the success of its append.
func (s *logState) committed(p int, w logRules) {
	writer := &s.writer[p]
	entry, slot := writer.sent, writer.slot
	writer.outcome, writer.sent, writer.slot, writer.read = idle, 0, 0, slot+1
	switch {
	case s.log[slot] != entry: // it is not so
		s.phantom = s.phantom || isClaim(entry)
	case isOwn(entry):
		writer.owner = true
	case isClaim(entry):
		r := requestOf(entry)
		s.answered[r] = s.fold(writer.read, w.units).has[r]
	}
}

// lost is the writer's reaction to a taken slot or a deleted row. A writer without keys
// decides the request again.
func (s *logState) lost(p int, keyless bool) {
	writer := &s.writer[p]
	if keyless && isClaim(writer.sent) {
		writer.again = uint8(requestOf(writer.sent)) + 1
	}
	if s.deleted {
		writer.owner = false
	} else if writer.slot < s.length {
		writer.read = writer.slot + 1
		writer.owner = writer.owner && !isOwn(s.log[writer.slot])
	}
	writer.outcome, writer.sent, writer.slot = idle, 0, 0
}

// resolve is how a writer finds out what became of its append: the slot decides.
func (w logRules) resolve(s logState, p int, do explore.Do[logState]) {
	writer := s.writer[p]
	by := writing + explore.Actor(p)
	if s.deleted && !w.slotAbsent && !w.emptyIsLog {
		t := s
		t.lost(p, false)
		do(by, t, "process %d finds the row gone, and stops", p)
		return
	}
	there := s.log[writer.slot]
	if s.deleted {
		there = s.revived[writer.slot]
	}
	if !s.deleted || there == 0 { // a read may lag behind
		t := s
		if t.send(p, writer.sent, writer.slot) {
			do(by, t, "process %d finds slot %d empty, and sends the same bytes again", p, writer.slot)
		}
	}
	if there == 0 {
		return
	}
	t := s
	if there == writer.sent {
		t.committed(p, w)
		do(by, t, "process %d finds its own bytes in slot %d", p, writer.slot)
		return
	}
	t.lost(p, false)
	do(by, t, "process %d finds slot %d taken", p, writer.slot)
}

// read is a read of the log, to its end or one slot short of it.
func (w logRules) read(s logState, p int, do explore.Do[logState]) {
	if s.deleted {
		return
	}
	for end := max(s.writer[p].read+1, s.length-1); end <= s.length; end++ {
		t := s
		writer := &t.writer[p]
		writer.read = end
		writer.owner = writer.owner && s.fold(end, w.units).owner == ownBy(p, writer.life)
		do(writing+explore.Actor(p), t, "process %d reads the log up to slot %d", p, end-1)
	}
}

func (w logRules) ownerSteps(s logState, p int, do explore.Do[logState]) {
	writer, f := s.writer[p], s.fold(s.writer[p].read, w.units)
	by := writing + explore.Actor(p)
	if !writer.owner {
		t := s
		t.sessions++
		empty := s.deleted && w.emptyIsLog && writer.read == 0
		if !f.sealed && s.sessions < w.sessions && (writer.read > 0 || empty) && t.send(p, ownBy(p, writer.life), writer.read) {
			do(by, t, "process %d appends Own in slot %d", p, writer.read)
		}
		return
	}
	for r := range int(w.requests) {
		if f.has[r] != 0 && s.answered[r] == 0 {
			t := s
			t.answered[r] = f.has[r]
			do(by, t, "process %d answers request %d, repeated, from the log", p, r)
		}
		if f.closed || f.sold >= w.units || f.has[r] != 0 && writer.again != uint8(r)+1 {
			continue
		}
		t := s
		if !t.send(p, claims+uint8(p)*16+writer.life*4+uint8(r), writer.read) {
			continue
		}
		do(by, t, "process %d appends Claim of request %d in slot %d", p, r, writer.read)
		if w.answersAhead && s.answered[r] == 0 {
			t.answered[r] = f.sold + 1
			do(by, t, "process %d appends Claim of request %d in slot %d, and answers the request, repeated, with the expected result", p, r, writer.read)
		}
	}
}

func (w logRules) closeStep(s logState, do explore.Do[logState]) {
	read := s.writer[planner].read
	t := s
	if read > 0 && !s.fold(read, w.units).closed && t.send(planner, closed, read) {
		do(writing+planner, t, "the planner appends Closed in slot %d", read)
	}
}
