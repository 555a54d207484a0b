package check

import (
	"encoding/json"
	"strings"
)

// commands judges the results of commands to operators. A change that a command has
// planned itself is on every shard when it returns; and when an apply returns, its
// stock is what was declared at some time while it ran, or a short while before:
// what it read may lag. The same goes for the phase that its file declares.
func commands(e *evidence, bad fault) {
	for i, o := range e.all(CommandInvoked) {
		if !o.succeeded() {
			continue
		}
		declared, live := false, true
		held := o.invoked.Phase == ""
		for _, r := range e.runs {
			for g, p := range r.planned {
				if p.at.Seq > o.returned.Seq {
					break
				}
				ours := string(p.at.commit.GetWriter()) == o.invoked.Writer
				if ours && o.invoked.Command != "destroy" && !r.has(p.GetGeneration(), o.returned.Seq) {
					bad("operation %d: %s returned and %v, which it had planned, was not applied", i, o.invoked.Command, p.at)
				}
				if p.at.Seq < o.invoked.Seq {
					live = p.GetSettings().GetPhase() != phaseClosed // where it is not, apply leaves the stock alone
				}
				if g+1 < len(r.planned) && e.longOver(r.planned[g+1].at, o.invoked.Place) {
					continue
				}
				declared = declared || p.stock() == o.invoked.Stock
				held = held || p.phase() == o.invoked.Phase
			}
		}
		if o.invoked.Command == "apply" && live && !declared {
			bad("operation %d: apply returned, and a stock of %d was not declared then", i, o.invoked.Stock)
		}
		if !held {
			bad("operation %d: apply returned, and the sale was not %s then, as its file declares", i, o.invoked.Phase)
		}
	}
}

// lag is how many changes of a log a read may be behind in the simulation, however
// long ago they were.
const lag = 4

// longOver reports whether what a slot of the sale's log has ended was over for so long
// that no read at a time shows it.
func (e *evidence) longOver(ended *slot, at Place) bool {
	last := e.sale.at(at.Seq)
	return last != nil && last.n >= ended.n+lag && ended.At+grace < at.At
}

// has reports whether a generation was on every shard by a time, as Applied states.
func (r *run) has(generation, by uint64) bool {
	for _, c := range r.completed {
		if c.generation >= generation && c.at.Seq < by {
			return true
		}
	}
	return false
}

// stock is the stock of a generation's declaration, 0 if there is none.
func (p planned) stock() int64 {
	var declaration struct{ Stock int64 }
	if json.Unmarshal(p.GetSpec(), &declaration) != nil {
		return 0 // that it can be read is judged elsewhere
	}
	return declaration.Stock
}

// phase is a generation's phase as files declare it.
func (p planned) phase() string { return strings.ToLower(p.GetSettings().GetPhase().String()) }
