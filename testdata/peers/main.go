// Command peers measures salectl beside the protocol that it grew out of, on the
// same three Redis and the same HBase, and prints a table.
//
// Every figure that depends on the machine stands beside another that was
// measured a moment before or after it, in each of several rounds; what is
// compared is the median of the rounds' ratios. It ends with an error if any
// sale, salectl's or the other's, sold what it did not have.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"salectl/testdata/peers/internal/cluster"
	"time"
)

func main() {
	rounds := flag.Int("rounds", 3, "how often to measure each figure, after a round that warms the servers up")
	each := flag.Duration("each", 3*time.Second, "how long one measurement takes")
	profiles := flag.String("profiles", "", "a folder for a CPU profile of each measurement of salectl's claims; the last round's stay")
	flag.Parse()
	if flag.NArg() > 0 || *rounds < 1 || *each <= 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *rounds, *each, *profiles); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds int, each time.Duration, profiles string) error {
	progress("starting three Redis and an HBase")
	site, err := cluster.Open(ctx)
	if err != nil {
		return err
	}
	defer site.Stop()
	b := &bench{Cluster: site, each: each, profiles: profiles}
	measured := newFigures()
	for round := range rounds + 1 {
		progress("round %d of %d", round, rounds)
		if err := b.round(ctx, measured); err != nil {
			return err
		}
		if round == 0 { // a fresh Java process is several times slower than a warm one
			measured = newFigures()
		}
	}
	if err := b.soldOut(ctx, measured); err != nil {
		return err
	}
	fmt.Printf("%d processors for servers and clients, %d rounds, %v each: medians, and of ratios the range\n\n",
		runtime.NumCPU(), rounds, each)
	measured.Print(os.Stdout)
	return nil
}

// progress reports the progress of the run.
func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
