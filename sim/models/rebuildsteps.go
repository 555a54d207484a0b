package models

import "salectl/sim/models/explore"

// Actors: the users, and then each drainer and rebuilder.
const (
	grabbing   explore.Actor = 1
	draining   explore.Actor = 2
	rebuilding explore.Actor = 4
)

func (w listRules) next(s listState, do explore.Do[listState]) {
	if w.valid(s.node, s.run) {
		for u := range listUsers {
			w.grab(s, u, do)
		}
	}
	w.nodeFaults(s, do)
	for i := range w.drainers {
		w.drain(s, i, do)
	}
	for i := range w.rebuilders {
		w.rebuild(s, i, do)
	}
}

// grab is the script that grants a user a unit, or returns the one that the user has.
func (w listRules) grab(s listState, u int, do explore.Do[listState]) {
	t := s
	if unit := s.node.taken[u]; unit != 0 {
		if !w.ackLedger || s.owners[unit-1] == uint8(u)+1 {
			t.answer(u, unit-1)
			do(grabbing, t, "user %d repeats the request, and receives unit %d", u, unit-1)
		}
		return
	}
	for unit := range uint8(listUnits) {
		if s.node.units>>unit&1 == 0 {
			continue
		}
		t.node.units &^= 1 << unit
		t.node.taken[u], t.node.stream[u], t.node.under[u] = unit+1, unit+1, s.node.fill
		if w.ackLedger {
			do(grabbing, t, "user %d takes unit %d off the list of fill %d", u, unit, s.node.fill)
		} else {
			t.answer(u, unit)
			do(grabbing, t, "user %d takes unit %d off the list of fill %d, and receives it", u, unit, s.node.fill)
		}
		return
	}
}

func (w listRules) nodeFaults(s listState, do explore.Do[listState]) {
	if w.loses && s.node != s.disk {
		t := s
		t.disk = s.node
		do(explore.Fault, t, "the node syncs to its disk")
	}
	if s.restarts == listRestarts {
		return
	}
	t := s
	t.restarts++
	t.run++
	do(explore.Fault, t, "the node restarts with all its data")
	if w.loses {
		t.node = s.disk
		do(explore.Fault, t, "the node restarts from its last sync")
		t.node, t.disk = listNode{}, listNode{}
		do(explore.Fault, t, "the node restarts empty")
	}
}

func (w listRules) drain(s listState, i int, do explore.Do[listState]) {
	by := draining + explore.Actor(i)
	d := s.drainers[i]
	t := s
	mine := &t.drainers[i]
	switch d.stage {
	case resting:
		for u, unit := range s.node.stream {
			if unit != 0 {
				u8 := uint8(u)
				*mine = drainer{stage: holding, user: u8, unit: unit - 1, fill: s.node.under[u]}
				do(by, t, "drainer %d reads in the stream that user %d has unit %d, of fill %d", i, u, unit-1, s.node.under[u])
			}
		}
		return
	case holding:
		switch {
		case !w.noRebuildOp && d.fill != s.fill:
			*mine = drainer{}
			do(by, t, "drainer %d drops a grab of an earlier fill", i)
		case s.owners[d.unit] == d.user+1:
			mine.stage = added
			do(by, t, "drainer %d finds that the log has it", i)
		case !s.free(d.user, d.unit):
			mine.stage = added
			do(by, t, "drainer %d finds that the log refuses user %d unit %d", i, d.user, d.unit)
		default:
			mine.stage, mine.slot = adding, s.slots
			do(by, t, "drainer %d appends in slot %d that user %d has unit %d", i, s.slots, d.user, d.unit)
		}
	case adding:
		if d.slot != s.slots {
			mine.stage = holding
			do(by, t, "drainer %d's slot is taken", i)
			break
		}
		t.owners[d.unit] = d.user + 1
		t.slots++
		mine.stage = added
		if w.ackLedger {
			t.answer(int(d.user), d.unit)
		}
		do(by, t, "the log takes slot %d: user %d has unit %d", d.slot, d.user, d.unit)
	case added:
		if s.node.stream[d.user] == d.unit+1 {
			t.node.stream[d.user], t.node.under[d.user] = 0, 0
		}
		*mine = drainer{}
		do(by, t, "drainer %d deletes the grab of user %d from the stream", i, d.user)
	}
	if !s.killed {
		t := s
		t.killed, t.drainers[i] = true, drainer{}
		do(explore.Fault, t, "drainer %d is killed", i)
	}
}

func (w listRules) rebuild(s listState, i int, do explore.Do[listState]) {
	by := rebuilding + explore.Actor(i)
	r := s.rebuilders[i]
	if r.stage != rebuildNone && !s.killed {
		t := s
		t.killed, t.rebuilders[i] = true, rebuilder{}
		do(explore.Fault, t, "rebuilder %d is killed", i)
	}
	t := s
	mine := &t.rebuilders[i]
	switch r.stage {
	case rebuildNone:
		behind := !w.noRebuildOp && s.node.fill != s.fill
		if s.rebuilds == listRebuilds || w.valid(s.node, s.run) && !behind {
			return
		}
		t.rebuilds++
		*mine = rebuilder{stage: rebuildToken, run: s.run}
		if w.noToken {
			mine.stage = rebuildRead
		}
		if !w.noRebuildOp {
			t.fill++
			t.slots++
		}
		mine.fill = t.fill
		do(by, t, "rebuilder %d begins with fill %d", i, mine.fill)
	case rebuildToken:
		if s.run != r.run || s.node.token >= r.fill {
			*mine = rebuilder{}
			do(by, t, "rebuilder %d is refused the token", i)
			return
		}
		t.node.token, t.node.fill = r.fill, 0
		mine.stage = rebuildRead
		do(by, t, "rebuilder %d takes token %d: the list is off", i, r.fill)
	case rebuildRead:
		w.readForRebuild(t, i, by, do)
	case rebuildWrite:
		w.writeList(t, i, by, do)
	}
}

// readForRebuild reads the stream and folds the log, in the order of the rules.
func (w listRules) readForRebuild(t listState, i int, by explore.Actor, do explore.Do[listState]) {
	mine := &t.rebuilders[i]
	if t.run != mine.run {
		*mine = rebuilder{}
		do(by, t, "rebuilder %d finds the server in another run", i)
		return
	}
	if !mine.readStream && (!w.logFirst || mine.readLog) {
		mine.readStream = true
		if mine.readLog {
			mine.stage = rebuildWrite
		}
		if w.streamLeft {
			do(by, t, "rebuilder %d leaves the stream alone", i)
			return
		}
		if !w.noRebuildOp && t.fill != mine.fill {
			*mine = rebuilder{}
			do(by, t, "rebuilder %d finds a later Rebuild in the log", i)
			return
		}
		for u, unit := range t.node.stream {
			if unit != 0 && t.free(uint8(u), unit-1) {
				t.owners[unit-1] = uint8(u) + 1
				t.slots++
				if w.ackLedger {
					t.answer(u, unit-1)
				}
			}
		}
		do(by, t, "rebuilder %d reads the stream, and the log takes what is in it", i)
		return
	}
	mine.readLog, mine.owners = true, t.owners
	if mine.readStream {
		mine.stage = rebuildWrite
	}
	do(by, t, "rebuilder %d folds the log", i)
}

func (w listRules) writeList(t listState, i int, by explore.Actor, do explore.Do[listState]) {
	r := t.rebuilders[i]
	t.rebuilders[i] = rebuilder{}
	if !w.anyRun && t.run != r.run || !w.noToken && t.node.token != r.fill {
		do(by, t, "the node refuses rebuilder %d's list", i)
		return
	}
	n := listNode{fill: r.fill, run: t.run, token: t.node.token, units: 1<<listUnits - 1}
	for unit, owner := range r.owners {
		if owner != 0 {
			n.units &^= 1 << unit
			n.taken[owner-1] = uint8(unit) + 1
		}
	}
	if w.streamLeft {
		n.stream, n.under = t.node.stream, t.node.under
	}
	t.node = n
	do(by, t, "rebuilder %d writes a list of units %02b, and turns it on under fill %d", i, n.units, n.fill)
}
