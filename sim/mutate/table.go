package main

import (
	"fmt"
	"io"
	"path"
	"text/tabwriter"
)

func (r result) String() string {
	return fmt.Sprintf("%-11s %v  %s", words[r.outcome], r.mutant, r.by)
}

var words = map[outcome]string{
	notReached: "NOT REACHED", survives: "SURVIVES", byTest: "test", byWorld: "world", timedOut: "timed out", noted: "noted",
}

// count is how many mutants of a package came to what.
type count struct {
	by         map[outcome]int
	same, open int // of those noted
}

// writeTable writes the counts as Markdown that can also be read as it is.
func writeTable(out io.Writer, results []result) {
	counts, packages := map[string]*count{}, []string{}
	for _, r := range results {
		for _, name := range []string{path.Dir(r.file), "all"} {
			c := counts[name]
			if c == nil {
				c = &count{by: map[outcome]int{}}
				counts[name] = c
				if name != "all" {
					packages = append(packages, name)
				}
			}
			c.by[r.outcome]++
			switch {
			case r.outcome == noted && r.note.same:
				c.same++
			case r.outcome == noted:
				c.open++
			}
		}
	}
	table := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	defer table.Flush()
	fmt.Fprint(table, "\n| package\t| mutants\t| by tests\t| by seeds\t| timed out\t| the same\t| open\t| survive\t| not reached\t|\n"+
		"|---\t|---:\t|---:\t|---:\t|---:\t|---:\t|---:\t|---:\t|---:\t|\n")
	for _, name := range append(packages, "all") {
		c := counts[name]
		if c == nil {
			continue
		}
		total := 0
		for _, n := range c.by {
			total += n
		}
		fmt.Fprintf(table, "| %s\t| %d\t| %d\t| %d\t| %d\t| %d\t| %d\t| %d\t| %d\t|\n", name, total,
			c.by[byTest], c.by[byWorld], c.by[timedOut], c.same, c.open, c.by[survives], c.by[notReached])
	}
}

// verdict fails if more than one in twenty survive of those that differ from the
// original, or one in ten of a sample, which may be an unlucky one.
func verdict(results []result, sample bool) error {
	survivors, differ := 0, len(results)
	for _, r := range results {
		switch {
		case r.outcome == survives, r.outcome == notReached, r.outcome == noted && !r.note.same:
			survivors++
		case r.outcome == noted:
			differ--
		}
	}
	part := 20
	if sample {
		part = 10
	}
	if survivors*part > differ {
		return fmt.Errorf("%d of %d mutants survive: CONTRIBUTING.md has the remedy, under \"Mutate it\"", survivors, differ)
	}
	return nil
}
