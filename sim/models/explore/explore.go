// Package explore visits every state that a small model of a protocol can reach,
// and reports whether one of them is wrong, and whether the protocol can get stuck.
//
// States are visited breadth first, so the trace of what is wrong is a shortest one.
// What an exploration does not find, it excludes for the sizes explored and for them
// alone.
package explore

// Actor is who takes a step: a process, the network, time. A model numbers its actors
// from 1 on, up to 63.
type Actor uint8

// Fault is the actor of all that may happen and need not: a crash, a lost message, a
// wrong belief. Progress is required without its help: once faults have ended, the
// goal must be reached.
const Fault Actor = 0

// Do reports one step that can be taken in a state: who takes it, the state that it
// leads to, and its text in a trace. A step that changes nothing is no step.
type Do[S comparable] func(by Actor, to S, format string, args ...any)

// Model is a protocol as a graph of states.
type Model[S comparable] struct {
	Init S
	// Next calls do for every step that can be taken in s.
	Next func(s S, do Do[S])
	// Wrong returns what is wrong in s, or nothing.
	Wrong func(s S) string
	// Goal, unless nil, must stay within reach of every state, by steps that are no
	// faults.
	Goal func(s S) bool
	// Fair requires more: that the goal is not only within reach, but reached on every
	// way on which each actor that could always take a step takes one.
	Fair bool
}

// Result is what an exploration has found.
type Result struct {
	States int
	Cut    bool   // there are more states than were allowed
	Wrong  string // what is wrong; empty: nothing
	Trace  []string
	Again  []string // the steps that follow the trace and then repeat for ever
}

// Texts of Result.Wrong about progress that is not made.
const (
	Stuck    = "the goal is out of reach"
	Livelock = "the goal is put off for ever"
)

// graph is what is known of a model's states while it is explored.
type graph[S comparable] struct {
	model  Model[S]
	seen   *table[S]
	states []S
	parent []int32

	// Steps, by the state that they leave, only if the model has a goal: those of state
	// i begin at first[i].
	first []int32
	to    []int32
	by    []Actor
}

// Run explores at most limit states of m.
func Run[S comparable](m Model[S], limit int) Result {
	g := &graph[S]{model: m, seen: newTable[S]()}
	g.add(m.Init, -1, limit)
	cut := false
	if wrong := m.Wrong(m.Init); wrong != "" {
		return Result{States: 1, Wrong: wrong}
	}
	wrong := ""
	for at := int32(0); int(at) < len(g.states) && wrong == ""; at++ {
		from := g.states[at]
		g.first = append(g.first, int32(len(g.to)))
		m.Next(from, func(by Actor, to S, _ string, _ ...any) {
			if wrong != "" || to == from {
				return
			}
			i, known := g.add(to, at, limit)
			if i < 0 {
				cut = true
				return
			}
			if !known {
				wrong = m.Wrong(to)
			}
			if m.Goal != nil {
				g.to = append(g.to, i)
				g.by = append(g.by, by)
			}
		})
	}
	r := Result{States: len(g.states), Cut: cut, Wrong: wrong}
	if wrong != "" {
		r.Trace = g.trace(int32(len(g.states)) - 1)
		return r
	}
	if m.Goal != nil && !cut {
		g.first = append(g.first, int32(len(g.to)))
		g.seen = nil // no state is looked up any more
		g.progress(&r)
	}
	return r
}

// add returns the number of s, which is -1 if there are too many states already.
func (g *graph[S]) add(s S, parent int32, limit int) (number int32, known bool) {
	i, known := g.seen.find(s, g.states, limit)
	if i >= 0 && !known {
		g.states = append(g.states, s)
		g.parent = append(g.parent, parent)
	}
	return i, known
}

// trace returns the steps of a shortest way to state i.
func (g *graph[S]) trace(i int32) []string {
	var way []int32
	for ; i >= 0; i = g.parent[i] {
		way = append(way, i)
	}
	var steps []string
	for n := len(way) - 1; n > 0; n-- {
		steps = append(steps, g.step(way[n], way[n-1]))
	}
	return steps
}
