// Command packets measures how fast red packets are handed out by a script on one
// Redis, and prints a table.
//
// Every figure that depends on the machine stands beside another that was
// measured a moment before or after, in each of several rounds; what is compared
// is the median of the rounds' ratios. It ends with an error if a packet was lost
// or given twice, or a user got two.
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

	"salectl/internal/services"
)

// errWrong reports that packets were not handed out as they should.
var errWrong = errors.New("packets are wrong")

func main() {
	b := &bench{}
	rounds := flag.Int("rounds", 3, "how often to measure each figure")
	flag.IntVar(&b.packets, "packets", 300_000, "how many packets callers empty a list of")
	flag.DurationVar(&b.offered, "offered", 5*time.Second, "for how long grabs are offered at a fixed rate")
	flag.StringVar(&b.dir, "dir", "/var/tmp", "a folder for the servers' files, on a disk: in memory it costs nothing to sync them")
	flag.Parse()
	if flag.NArg() > 0 || *rounds < 1 || b.packets < 1 || b.offered <= 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, b, *rounds); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "packets:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, b *bench, rounds int) error {
	progress("starting an HBase")
	server, err := services.StartHBase(ctx, services.HBaseOptions{})
	if err != nil {
		return err
	}
	defer server.Stop()
	b.zookeeper = server.Zookeeper()
	measured := newFigures()
	for round := range rounds {
		progress("round %d of %d", round+1, rounds)
		if err := b.round(ctx, measured); err != nil {
			return err
		}
	}
	fmt.Printf("%d processors for servers and clients, %d rounds, %d packets, files in %s: medians, and of ratios the range\n\n",
		runtime.NumCPU(), rounds, b.packets, b.dir)
	measured.Print(os.Stdout)
	return nil
}

// progress reports the progress of the run.
func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
