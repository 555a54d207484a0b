package cli

import (
	"fmt"
	"strings"
)

// lockBreakView is all that lock break says of what it did.
type lockBreakView interface{ Broken(breakResult) }

var (
	_ lockBreakView = (*lockBreakHuman)(nil)
	_ lockBreakView = (*lockBreakJSON)(nil)
)

type lockBreakHuman program

func (v *lockBreakHuman) Broken(r breakResult) {
	p := (*program)(v)
	c := p.colours(v.out)
	if len(r.removed) > 0 {
		var where []string
		for _, b := range r.removed {
			where = append(where, b.Node)
		}
		fmt.Fprintf(v.out, "%s %s on %s of %s: %s\n", c.green("Removed"), r.id,
			grouped(len(r.removed)), count(r.nodes, "lock node"), strings.Join(where, ", "))
	} else {
		fmt.Fprintf(v.out, "Nothing of %s was removed.\n", r.id)
	}
	for _, changed := range r.changed {
		fmt.Fprintf(v.out, "  %s lock node %s: %s\n", c.yellow("!"), changed.Node, changed.Now)
	}
	for _, failed := range r.failed {
		fmt.Fprintf(v.out, "  %s lock node %s: %s\n", c.yellow("!"), failed.Node, failed.Error)
	}
}

type lockBreakJSON program

// lockBreakLine is the JSON of lock break.
type lockBreakLine struct {
	FormatVersion int             `json:"formatVersion"`
	Name          string          `json:"name"`
	Broken        bool            `json:"broken"` // who was seen to have the lock has it no more
	Removed       []brokenOnNode  `json:"removed"`
	Changed       []changedOnNode `json:"changed"`
	Failed        []failedOnNode  `json:"failed"`
}

func (v *lockBreakJSON) Broken(r breakResult) {
	(*program)(v).emit(lockBreakLine{
		FormatVersion: formatVersion, Name: r.id.String(), Broken: r.error() == nil,
		Removed: append([]brokenOnNode{}, r.removed...),
		Changed: append([]changedOnNode{}, r.changed...),
		Failed:  append([]failedOnNode{}, r.failed...),
	})
}
