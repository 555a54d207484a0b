package sim

import (
	"fmt"
	"strings"

	"salectl/backends/lists"
	"salectl/sim/check"
	"salectl/spec"
)

// Result is what came of a world.
type Result struct {
	Options   Options
	TraceHash [32]byte // of every event: the same for the same seed
	Events    int
	Ops       int // that clients made
	Faults    int // that befell it
	// Hits counts how often each failpoint was hit: "<call>:<how far it came>",
	// "crash at <point>", "fault: <kind>", and other things that happened.
	Hits    map[string]int
	History *check.History
	Err     error // what is wrong, one problem a line; nil: nothing
	// Broken names the checkers that found something.
	Broken []string
}

// Replay is the command that runs the world again.
func (r *Result) Replay() string {
	line := fmt.Sprintf("go run ./sim/soak -seed %d", r.Options.Seed)
	plain := Options{}.orDefault()
	if o := r.Options; o.Clients != plain.Clients {
		line += fmt.Sprintf(" -clients %d", o.Clients)
	}
	if o := r.Options; o.Ops != plain.Ops {
		line += fmt.Sprintf(" -ops %d", o.Ops)
	}
	if o := r.Options; o.Faults != plain.Faults {
		line += fmt.Sprintf(" -faults %d", o.Faults)
	}
	if o := r.Options; o.Until != plain.Until {
		line += fmt.Sprintf(" -until %v", o.Until)
	}
	return line
}

// FirstProblem is the first line of what is wrong.
func (r *Result) FirstProblem() string {
	if r.Err == nil {
		return ""
	}
	first, _, _ := strings.Cut(r.Err.Error(), "\n")
	return first
}

func (w *world) result() *Result {
	for op, there := range w.unanswered {
		if there() { // it owes an answer, whether or not somebody waits
			delete(w.vanished, op)
		}
	}
	w.history.Final = check.Final{
		Rested: w.over && len(w.queue) == 0, Demanded: w.demanded, Down: w.down, Vanished: w.vanished, Keys: w.left(),
	}
	r := &Result{
		Options: w.Options, TraceHash: w.trace.sum(), Events: w.trace.events, Ops: w.operations, Faults: w.befallen,
		Hits: w.hits, History: w.history,
	}
	for what, counts := range w.called {
		for how, n := range counts {
			r.Hits[fmt.Sprintf("%s:%v", what, reached(how))] += n
		}
	}
	for at, n := range w.crashed {
		r.Hits["crash "+at.where+" "+at.what] += n
	}
	switch {
	case !w.over:
		r.Broken = []string{"rest"}
		r.Err = fmt.Errorf("no rest %v after the faults: %s", w.patience(), w.whoWaits())
	case len(w.queue) > 0:
		r.Broken = []string{"rest"}
		r.Err = fmt.Errorf("all is done, and %v after the faults something goes on", w.patience())
	}
	return r
}

// left returns the keys that stay on the lock nodes, if the last command was to
// remove them.
func (w *world) left() (keys []string) {
	if !w.operators.swept {
		return nil
	}
	for _, n := range w.nodes {
		for _, marker := range []string{spec.Marker(w.operators.destroyed), spec.SaleMarker(saleName)} {
			if n.keeps(marker) {
				keys = append(keys, n.Name()+" "+marker)
			}
		}
		for shard := range w.scenario.shards {
			if n.lists != nil && n.lists.has(lists.List{UID: w.operators.destroyed, Shard: shard}) {
				keys = append(keys, fmt.Sprintf("%s list %d", n.Name(), shard))
			}
		}
	}
	return keys
}

// whoWaits returns why a world does not come to rest.
func (w *world) whoWaits() string {
	if !w.settled {
		return "the operators have not done what they had begun"
	}
	return fmt.Sprintf("%d of %d clients were not refused for good yet", len(w.clients)-w.resting, len(w.clients))
}
