// Command mutants checks whether the simulation finds planted bugs. Each file of
// testdata/mutants plants one small bug in the code that ships; it is applied
// to a copy of the tree, and a soak of that copy searches a seed that fails.
// What a patch's head names with a line "Test:" is found by that test instead.
//
//	go run ./sim/mutants              every bug, and a table at the end
//	go run ./sim/mutants in-twice     the ones named
//	go run ./sim/mutants -check       only whether every patch applies and builds
//
// A bug that no seed finds is a hole in the faults or in the checkers; one that
// its test does not find, a hole in the test.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"salectl/sim/tool"
)

func main() { tool.Main(run) }

// options are the flags of a command line.
type options struct {
	check bool          // only apply and build
	seeds uint64        // to try for each bug
	from  uint64        // the first of them
	limit time.Duration // for the soak or the test of one bug
	names []string      // of the bugs; none: all
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.BoolVar(&o.check, "check", false, "only check that every patch applies and builds")
	flags.Uint64Var(&o.seeds, "seeds", 3000, "how many seeds to try for each bug")
	flags.Uint64Var(&o.from, "from", 1, "the first seed")
	flags.DurationVar(&o.limit, "limit", 5*time.Minute, "how long to soak for one bug, or to test")
	err := flags.Parse(args)
	o.names = flags.Args()
	return o, err
}

// run runs a command line. It fails if a patch does not apply or
// build, or if a bug is not found.
func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	root, err := repository(ctx)
	if err != nil {
		return err
	}
	mutants, err := load(filepath.Join(root, "testdata", "mutants"), o.names)
	if err != nil {
		return err
	}
	t, err := copyTree(ctx, root)
	if err != nil {
		return err
	}
	defer t.remove()
	if o.check {
		return checkAll(ctx, t, mutants, out)
	}
	return findAll(ctx, t, mutants, o, out)
}

// findAll tries to find each mutant and writes the table.
func findAll(ctx context.Context, t *tree, mutants []mutant, o options, out io.Writer) error {
	// What fails by itself would find every bug.
	if err := t.healthy(ctx, mutants, o); err != nil {
		return fmt.Errorf("without a planted bug: %w", err)
	}
	var rows []row
	missed := 0
	for _, m := range mutants {
		r := row{mutant: m}
		err := t.with(ctx, m, func() (err error) {
			r.finding, err = t.find(ctx, m, o)
			return err
		})
		if ctx.Err() != nil {
			break // what was found so far is worth a table
		}
		if r.err = err; err != nil || !r.found {
			missed++
		}
		rows = append(rows, r)
		fmt.Fprintln(out, r.line())
	}
	writeTable(out, rows)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case missed > 0:
		return fmt.Errorf("%d of %d planted bugs were not found, by their test or within %d seeds", missed, len(rows), o.seeds)
	}
	return nil
}
