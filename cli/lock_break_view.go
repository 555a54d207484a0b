package cli

import (
	"fmt"
	"strings"

	"salectl/cli/lock"
)

func (p *program) brokenText(r lock.Broken) {
	c := p.colours(p.out)
	if len(r.Removed) > 0 {
		var where []string
		for _, b := range r.Removed {
			where = append(where, b.Node)
		}
		fmt.Fprintf(p.out, "%s %s on %s of %s: %s\n", c.Green("Removed"), r.ID,
			grouped(len(r.Removed)), count(r.Nodes, "lock node"), strings.Join(where, ", "))
	} else {
		fmt.Fprintf(p.out, "Nothing of %s was removed.\n", r.ID)
	}
	for _, changed := range r.Changed {
		fmt.Fprintf(p.out, "  %s lock node %s: %s\n", c.Yellow("!"), changed.Node, changed.Now)
	}
	for _, failed := range r.Failed {
		fmt.Fprintf(p.out, "  %s lock node %s: %s\n", c.Yellow("!"), failed.Node, failed.Error)
	}
}

// lockBreakLine is the JSON of lock break.
type lockBreakLine struct {
	FormatVersion int            `json:"formatVersion"`
	Name          string         `json:"name"`
	Broken        bool           `json:"broken"` // the previous holder no longer has the lock
	Removed       []lock.Removed `json:"removed"`
	Changed       []lock.Changed `json:"changed"`
	Failed        []lock.Failed  `json:"failed"`
	Error         string         `json:"error,omitempty"` // why the lock is not broken
	Remedy        string         `json:"remedy,omitempty"`
}

func (p *program) brokenJSON(r lock.Broken) {
	line := lockBreakLine{
		FormatVersion: formatVersion, Name: r.ID.String(), Broken: brokenError(r) == nil,
		Removed: append([]lock.Removed{}, r.Removed...),
		Changed: append([]lock.Changed{}, r.Changed...),
		Failed:  append([]lock.Failed{}, r.Failed...),
	}
	if err := brokenError(r); err != nil {
		line.Error, line.Remedy = explain(err)
	}
	p.emit(line)
}
