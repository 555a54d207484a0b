// Command locks measures salectl's locks beside those of redsync, on the same
// Redis servers, and prints a table.
//
// Every figure that depends on the machine stands beside another that was
// measured in turns with it, or a moment before or after, in each of several
// rounds; what is compared is the median of the rounds' ratios. It ends with an
// error if any lock, salectl's or the other's, had two holders at once, or did
// not do what it was measured for.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"time"
)

// errWrong reports that a lock did not do what locks are for.
var errWrong = errors.New("a lock is wrong")

func main() {
	rounds := flag.Int("rounds", 3, "how often to measure each figure")
	each := flag.Duration("each", 3*time.Second, "how long one measurement takes")
	contest := flag.Duration("contest", 10*time.Second, "how long 64 contend for one lock; waits count that begin after the first second")
	flag.Parse()
	if flag.NArg() > 0 || *rounds < 1 || *each <= 0 || *contest <= unsettled {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *rounds, *each, *contest); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "locks:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds int, each, contest time.Duration) error {
	site, err := openSite(ctx)
	if err != nil {
		return err
	}
	defer site.close()
	b := &bench{site: site, each: each, contest: contest}
	measured := newFigures()
	for round := range rounds {
		progress("round %d of %d", round+1, rounds)
		if err := b.round(ctx, measured); err != nil {
			return err
		}
	}
	fmt.Printf("%d processors for servers and clients, %d rounds, %v each, contests %v: medians, and of ratios the range\n\n",
		runtime.NumCPU(), rounds, each, contest)
	measured.Print(os.Stdout)
	return nil
}

// progress reports the progress of the run.
func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
