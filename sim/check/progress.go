package check

// progress judges the end of a world in which the faults have stopped.
func progress(e *evidence, bad fault) {
	if !e.h.Final.Rested {
		return
	}
	for i, o := range e.ops {
		if o != nil && o.invoked != nil && o.returned == nil && !e.h.Final.Vanished[i] {
			bad("operation %d, invoked at %v, never returned", i, o.invoked.At)
		}
	}
	if len(e.runs) == 0 {
		return
	}
	r := e.runs[len(e.runs)-1]
	if r.applied == nil || r.sealed != nil {
		return // no process serves it
	}
	newest := r.planned[len(r.planned)-1]
	for _, l := range r.shards {
		last := l.at(forever)
		switch {
		case last == nil || last.after.generation < newest.GetGeneration():
			bad("%s has not taken generation %d", l.name, newest.GetGeneration())
		case last.after.inFlight > 0:
			bad("%d units sent by %s were never acknowledged", last.after.inFlight, l.name)
		}
	}
	now := newest.GetSettings()
	if r.isDraw() {
		e.awarded(r, bad)
	}
	if e.h.Final.Demanded && now.GetPhase() == phaseOpen && now.GetOpensAtUs() == 0 && now.GetClosesAtUs() == 0 && r.unsold > 0 {
		bad("%d units were not sold, though there was demand for all", r.unsold)
	}
}
