package explore

import (
	"fmt"
	"strings"
)

// step returns what leads from one state to another.
func (g *graph[S]) step(from, to int32) string {
	text, target := "", g.states[to]
	g.model.Next(g.states[from], func(_ Actor, to S, format string, args ...any) {
		if text == "" && to == target {
			text = fmt.Sprintf(format, args...)
		}
	})
	return text
}

// String is what a person reads: one line for what was found, and one for each step.
func (r Result) String() string {
	var text strings.Builder
	switch {
	case r.Wrong != "":
		fmt.Fprintf(&text, "%s (%d states)", r.Wrong, r.States)
	case r.Cut:
		fmt.Fprintf(&text, "nothing found in the first %d states", r.States)
	default:
		fmt.Fprintf(&text, "holds in all %d states", r.States)
	}
	n := 0
	for _, step := range r.Trace {
		n++
		fmt.Fprintf(&text, "\n%4d. %s", n, step)
	}
	if len(r.Again) > 0 {
		text.WriteString("\n      and then again and again:")
	}
	for _, step := range r.Again {
		n++
		fmt.Fprintf(&text, "\n%4d. %s", n, step)
	}
	return text.String()
}
