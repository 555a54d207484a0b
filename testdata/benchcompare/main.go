// Command benchcompare measures two versions of this repository beside each other, a
// commit and the working tree, and fails if the working tree is slower.
//
// Both versions' test programs are built once. Each round then runs every benchmark of
// the list on both sides, one right after the other, and every second round in the other
// order (ABBA), so that a slow minute of the machine, or one that grows slower, meets both
// sides alike. One round gives one ratio of each figure: how fast the working tree is
// beside the commit. The figure's result is the median of the rounds' ratios with a 95 %
// confidence interval from the sign test, which assumes nothing of how the noise is
// distributed. A loss is an interval that lies below 1 less the threshold as a whole.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
)

// options are the command line.
type options struct {
	base      string // a commit
	rounds    int
	threshold float64 // how much slower is no loss yet, as a part of 1
	only      *regexp.Regexp
}

// errLoss reports that the working tree is slower.
var errLoss = errors.New("the working tree is slower beyond the noise")

func main() {
	var o options
	flag.StringVar(&o.base, "base", "", "the commit to compare the working tree with")
	flag.IntVar(&o.rounds, "rounds", 15, fmt.Sprintf("how often to measure each figure on both sides, at least %d", leastRounds))
	percent := flag.Float64("threshold", 3, "how many percent slower is no loss yet")
	only := flag.String("only", "", "a regular expression: of the benchmarks, only those whose `package/name` it matches")
	flag.Parse()
	o.threshold = *percent / 100
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		fmt.Fprintln(os.Stderr, "benchcompare: -only:", err)
		os.Exit(2)
	}
	if flag.NArg() > 0 || o.base == "" || o.rounds < leastRounds || o.threshold < 0 || o.threshold >= 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, o, ".", benchmarks, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchcompare:", err)
		os.Exit(1)
	}
}

// run compares the working tree that a folder is in with its commit o.base.
func run(ctx context.Context, o options, folder string, list []benchmark, out io.Writer) (err error) {
	var chosen []benchmark
	for _, b := range list {
		if o.only == nil || o.only.MatchString(b.pkg+"/"+b.name) {
			chosen = append(chosen, b)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no benchmark matches %v", o.only)
	}
	s, err := openSides(ctx, folder, o.base, chosen)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	pairs := newPairs(chosen)
	for round := range o.rounds {
		progress("round %d of %d", round+1, o.rounds)
		for _, b := range chosen {
			base, now, err := s.pair(ctx, b, round%2 == 1)
			if err != nil {
				return err
			}
			if err := pairs.add(b, base, now); err != nil {
				return err
			}
		}
	}
	fmt.Fprintf(out, "The working tree beside %s, %d rounds. A ratio above 1: the working tree is faster.\n\n", o.base, o.rounds)
	return pairs.report(out, o.threshold)
}

// progress reports the progress of the run.
func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
