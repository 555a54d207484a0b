package sim

import (
	"time"

	"salectl/sim/check"
	"salectl/spec"
)

// crashPoint is a place in a process's life where it can be killed.
type crashPoint struct{ where, what string }

// The places, around each call.
const (
	beforeSending = "before sending"
	afterSending  = "after sending"
	beforeTaking  = "before taking in"
)

// rare are the steps that few worlds come to, and how many times likelier a crash
// is there.
var rare = map[string]float64{
	"append mixed": 40, "append out": 3, "append in": 3, "append ack": 3,
	"drive in": 30, "drive out": 30,
	"close": 4, "seal": 4, "export": 4, "delete": 4, "sweep leases": 8, "sweep marker": 4,
	"sealed": 8, "destroyed": 8,
	"append rebuild": 10, "grab": 3, "list run id": 5, "list stop": 10, "list put": 10, "list start": 10, "list take": 20, "list add": 20,
	"drain": 20, "forget list": 3,
	"append entries": 3, "entries_closed": 8, "drawn": 8, "ranked": 30,
}

var crashPlaces = []string{beforeSending, afterSending, beforeTaking}

// note takes down one event in the trace.
func (w *world) note(who, what, more string, data []byte) { w.trace.note(w.now, who, what, more, data) }

// hit counts an event that a soak should contain.
func (w *world) hit(what string) { w.hits[what]++ }

// reached counts how far a call came.
func (w *world) reached(what string, how reached) {
	counts := w.called[what]
	if counts == nil {
		counts = new([ways]int)
		w.called[what] = counts
	}
	counts[how]++
}

// fault requests leave to do harm: not after the calm, nor more often than the
// options allow.
func (w *world) fault(who, what string) bool {
	if w.calm || w.befallen >= w.Faults {
		return false
	}
	w.befallen++
	w.hits["fault: "+what]++
	w.note(who, "fault", what, nil)
	return true
}

// crashes decides whether a process is killed at this point.
func (w *world) crashes(p *process, where, what string) bool {
	likely := w.scenario.crashes
	switch {
	case p.host != atOperators:
	case w.scenario.lists != nil:
		likely *= 2 // it has more to do
	default:
		likely *= 6 // it lives shorter
	}
	if times, ok := rare[what]; ok {
		likely *= times
	}
	if !w.random.crashes.chance(likely) || !w.fault(p.name, "crash") {
		return false
	}
	w.crashed[crashPoint{where, what}]++
	w.note(p.name, "crashes", where+" "+what, nil)
	p.kill(w.comeback(w.random.crashes))
	return true
}

// recordInvocation adds the begin of an operation to the history.
func (w *world) recordInvocation(e check.Event) (op int) {
	e.Op = w.history.Op()
	if e.Kind != check.CommandInvoked {
		w.operations++
	}
	w.history.Record(w.now, e)
	return e.Op
}

// recordResult adds the end of an operation to the history.
func (w *world) recordResult(op int, kind check.Kind, a check.Answer) {
	w.history.Record(w.now, check.Event{Kind: kind, Op: op, Answer: a})
}

// holds takes down which leases a server has, and until when by its monotonic
// clock. Of one whose clocks cannot know nothing is taken down.
func (e *server) holds(uid string, until map[int]time.Duration) {
	for shard, to := range until {
		token := e.tokens[spec.LeaseKey(uid, shard)]
		switch {
		case e.suspended && e.setBack:
		case e.suspended: // it has them now: its clock does not determine for how long
			e.w.history.Holds(e.w.now, e.run, uid, shard, token, e.w.now+1)
		default:
			e.w.history.Holds(e.w.now, e.run, uid, shard, token, e.clock.when(to))
		}
	}
}
