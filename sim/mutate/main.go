// Command mutate reports which line could be wrong without a failing test. It
// changes the code that decides what is sold in thousands of small ways, one at
// a time, and runs the tests of the package and then the simulation. A mutant
// that passes them all is a hole in the tests or the checkers, or changes
// nothing: testdata/mutants/survivors.txt lists them with reasons.
//
//	go run ./sim/mutate                       all mutants
//	go run ./sim/mutate backends/quorum       those of a folder or a file
//	go run ./sim/mutate -quick backends/lists only by tests that are quick, for a first run
//	go run ./sim/mutate -quick -seeds 500 …   by those, and by worlds
//	go run ./sim/mutate -sample 100           some, chosen by a seed that is printed
//	go run ./sim/mutate -list executor        only list them
//
// All mutants are compiled into each program at once, each behind a switch
// (package mutation), so that trying one costs no build. The tree is not changed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"salectl/sim/tool"
)

func main() { tool.Main(run) }

// options are the flags of a command line.
type options struct {
	list    bool
	verbose bool
	quick   bool
	sample  int    // how many mutants to try; 0: all
	seed    uint64 // of the sample
	seeds   uint64 // worlds to simulate for each mutant that the tests let pass
	places  []string
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	flags.BoolVar(&o.list, "list", false, "only list the mutants")
	flags.BoolVar(&o.verbose, "v", false, "also print what found each mutant")
	flags.BoolVar(&o.quick, "quick", false, "try only tests that take less than 0.2 s, and no worlds unless -seeds is given: a first look")
	flags.IntVar(&o.sample, "sample", 0, "how many mutants to try; 0: all")
	flags.Uint64Var(&o.seed, "seed", 0, "of the sample; 0: a new one")
	flags.Uint64Var(&o.seeds, "seeds", 500, "how many worlds to simulate for a mutant that the tests let pass; 0: none")
	err := flags.Parse(args)
	seeded := false
	flags.Visit(func(f *flag.Flag) { seeded = seeded || f.Name == "seeds" })
	if o.quick && !seeded {
		o.seeds = 0
	}
	if o.places = flags.Args(); o.seed == 0 {
		o.seed = uint64(time.Now().Unix())
	}
	return o, err
}

// run runs a command line. It fails if too many mutants survive.
func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	root, err := repository(ctx)
	if err != nil {
		return err
	}
	all, err := load(ctx, root, targets)
	if err != nil {
		return err
	}
	mutants := number(all)
	noted, err := readNotes(filepath.Join(root, "testdata", "mutants", "survivors.txt"), mutants)
	if err != nil {
		return err
	}
	chosen, err := choose(mutants, o, out)
	if err != nil || o.list {
		for _, m := range chosen {
			fmt.Fprintln(out, m)
		}
		return err
	}
	t, err := newTrial(ctx, root, all, o, out)
	if err != nil {
		return err
	}
	defer t.close()
	results, err := t.judge(ctx, chosen, noted)
	writeTable(out, results)
	if err != nil {
		return err
	}
	return verdict(results, o.sample > 0)
}

// choose returns the mutants that the command line names.
func choose(all []mutant, o options, out io.Writer) ([]mutant, error) {
	chosen := slices.Clone(all)
	if len(o.places) > 0 {
		for i, place := range o.places {
			o.places[i] = path.Clean(filepath.ToSlash(place))
		}
		chosen = slices.DeleteFunc(chosen, func(m mutant) bool {
			return !slices.Contains(o.places, m.file) && !slices.Contains(o.places, path.Dir(m.file))
		})
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("there are no mutants in %s: name folders or files, from the root of the repository", strings.Join(o.places, " "))
	}
	if o.sample > 0 && o.sample < len(chosen) {
		fmt.Fprintf(out, "%d of %d mutants, again with -seed %d\n", o.sample, len(chosen), o.seed)
		random := rand.New(rand.NewPCG(o.seed, 0))
		random.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		chosen = chosen[:o.sample]
		slices.SortFunc(chosen, func(a, b mutant) int { return a.id - b.id })
	}
	return chosen, nil
}

// repository returns the root of the repository that the command runs in.
func repository(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("run it within the repository: git rev-parse: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
