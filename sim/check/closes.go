package check

// closes reports claims that were stored after a close returned, or after a
// pause did and under settings that were in force before it; also where an apply has
// closed or paused the sale, as its file declares.
func closes(e *evidence, bad fault) {
	for i, o := range e.all(CommandInvoked) {
		if !o.succeeded() {
			continue
		}
		r := e.runOf(o)
		what := o.invoked.Command
		if what == "apply" && r.plannedBy(o, o.invoked.Phase) {
			what = map[string]string{"closed": "close", "paused": "pause"}[o.invoked.Phase]
		}
		if what != "close" && what != "pause" {
			continue
		}
		for _, c := range e.claims {
			if c.at.log.run == r && c.at.Seq > o.returned.Seq && (what == "close" || !r.reopened(o, c)) {
				bad("%v was stored after %s (operation %d) returned", c, what, i)
			}
		}
	}
}

// succeeded reports whether a command returned without an error.
func (o *operation) succeeded() bool { return o.returned != nil && o.returned.Err == "" }

// reopened reports whether a claim was sold after a resume that may be ordered after
// the pause: one that was planned after the pause was invoked. A pause that only
// finds the sale paused is no exception, however old what it read was: it has
// succeeded only if the sale was paused at some moment while it ran.
func (r *run) reopened(pause *operation, c *claim) bool {
	open := r.opening(c)
	return open >= 0 && r.planned[open].at.Seq > pause.invoked.Seq
}

// opening returns the index of the generation that opened the sale for a claim:
// of those open one after another up to the claim's own, the first. It is -1
// if the sale was not open.
func (r *run) opening(c *claim) int {
	open := -1
	for g := min(int(c.at.after.generation), len(r.planned)) - 1; g >= 0; g-- {
		if r.planned[g].GetSettings().GetPhase() != phaseOpen {
			break
		}
		open = g
	}
	return open
}

// plannedBy reports whether a command has itself planned a generation in a phase. One that found
// the sale in that phase may have read what has lagged.
func (r *run) plannedBy(o *operation, phase string) bool {
	if r == nil {
		return false
	}
	for _, p := range r.planned {
		if p.at.Seq > o.invoked.Seq && string(p.at.commit.GetWriter()) == o.invoked.Writer && p.phase() == phase {
			return true
		}
	}
	return false
}
