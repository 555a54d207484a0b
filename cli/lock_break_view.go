package cli

import (
	"fmt"
	"strings"
)

func (p *program) brokenText(r breakResult) {
	c := p.colours(p.out)
	if len(r.removed) > 0 {
		var where []string
		for _, b := range r.removed {
			where = append(where, b.Node)
		}
		fmt.Fprintf(p.out, "%s %s on %s of %s: %s\n", c.green("Removed"), r.id,
			grouped(len(r.removed)), count(r.nodes, "lock node"), strings.Join(where, ", "))
	} else {
		fmt.Fprintf(p.out, "Nothing of %s was removed.\n", r.id)
	}
	for _, changed := range r.changed {
		fmt.Fprintf(p.out, "  %s lock node %s: %s\n", c.yellow("!"), changed.Node, changed.Now)
	}
	for _, failed := range r.failed {
		fmt.Fprintf(p.out, "  %s lock node %s: %s\n", c.yellow("!"), failed.Node, failed.Error)
	}
}

// lockBreakLine is the JSON of lock break.
type lockBreakLine struct {
	FormatVersion int             `json:"formatVersion"`
	Name          string          `json:"name"`
	Broken        bool            `json:"broken"` // the previous holder no longer has the lock
	Removed       []brokenOnNode  `json:"removed"`
	Changed       []changedOnNode `json:"changed"`
	Failed        []failedOnNode  `json:"failed"`
	Error         string          `json:"error,omitempty"` // why the lock is not broken
	Remedy        string          `json:"remedy,omitempty"`
}

func (p *program) brokenJSON(r breakResult) {
	line := lockBreakLine{
		FormatVersion: formatVersion, Name: r.id.String(), Broken: r.error() == nil,
		Removed: append([]brokenOnNode{}, r.removed...),
		Changed: append([]changedOnNode{}, r.changed...),
		Failed:  append([]failedOnNode{}, r.failed...),
	}
	if err := r.error(); err != nil {
		line.Error, line.Remedy = explain(err)
	}
	p.emit(line)
}
