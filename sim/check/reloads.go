package check

import "time"

// overdue is how long a process may not serve a sale that it could: its reads may lag.
const overdue = 8 * time.Second

// reloads judges what processes made of their folders of sale files.
func reloads(e *evidence, bad fault) {
	last := make(map[string]Reloaded)
	could := make(map[string]time.Duration) // since when each could serve, and does not
	for _, r := range e.h.Reloads {
		before, again := last[r.Process]
		last[r.Process] = r
		if again && r.Serves != before.After {
			bad("%s serves the sale at %v: %v, and did after it last read its folder: %v", r.Process, r.At, r.Serves, before.After)
		}
		if r.Serves && !r.After {
			bad("%s serves the sale no more since it read its folder at %v", r.Process, r.At)
		}
		if r.Begins && r.Serves {
			bad("%s begins at %v to serve a sale that it serves", r.Process, r.At)
		}
		if r.Begins && (r.Files != SaleFile || !e.appliedBy(r.Seq)) {
			bad("%s begins at %v to serve a sale that is not declared, or was never applied", r.Process, r.At)
		}
		lacks := r.Files == SaleFile && !r.After
		if r.Files == BrokenFile {
			lacks = before.Lacks
		}
		if r.Lacks != lacks {
			bad("%s says at %v that it lacks a sale: %v, want %v", r.Process, r.At, r.Lacks, lacks)
		}
		if r.After || r.Files != SaleFile || !r.Could {
			delete(could, r.Process)
		} else if since, waits := could[r.Process]; !waits {
			could[r.Process] = r.At
		} else if r.At-since > overdue {
			bad("%s does not serve the sale at %v, and could since %v", r.Process, r.At, since)
			delete(could, r.Process)
		}
	}
}

// appliedBy reports whether some run had been applied by a time.
func (e *evidence) appliedBy(seq uint64) bool {
	for _, r := range e.runs {
		for _, c := range r.completed {
			if c.at.Seq < seq {
				return true
			}
		}
	}
	return false
}
