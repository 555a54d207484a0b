// Command growth measures how fast claims of a sale are that has many already, beside those
// of one that has few, and prints a table.
//
// Each sale is in a process of its own, as it would be: the memory of one is no burden to
// another. The processes sell in turns, in each of several rounds, and what is compared is
// the median of the rounds' ratios. The sale that has few is a new one in each round, since
// it would soon have many. The command ends with an error if a sale has other
// claims than its callers received.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"

	"salectl/spec"
	"salectl/testdata/peers/internal/cluster"
	"salectl/testdata/peers/internal/sales"
)

// options are the command line.
type options struct {
	rounds int
	each   int64
	most   int64
	hbase  bool
	dir    string
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 7, "how often to measure each figure")
	flag.Int64Var(&o.each, "each", 50_000, "how many claims one measurement has")
	flag.Int64Var(&o.most, "most", 10_000_000, "leave out sales that have more claims than that")
	flag.BoolVar(&o.hbase, "hbase", false, "keep the sales in an HBase, their locks on three Redis; else in embedded stores")
	flag.StringVar(&o.dir, "dir", "/var/tmp", "a folder for the stores, on a disk: in memory it costs nothing to sync them")
	seller := flag.Bool("seller", false, "be one of the processes that sell: what to do comes by standard input")
	flag.Parse()
	if flag.NArg() > 0 || o.rounds < 1 || o.each <= 0 || o.most < sizes[1] {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	run := run
	if *seller {
		run = sell
	}
	if err := run(ctx, o); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if err := os.Setenv("TMPDIR", o.dir); err != nil { // where the servers' files will be
		return err
	}
	declared, store := sales.Declared(), "embedded stores in "+o.dir
	declared.Embedded = &spec.Embedded{Dir: o.dir} // a process makes a folder of its own in that
	if o.hbase {
		progress("starting three Redis and an HBase")
		site, err := cluster.Open(ctx)
		if err != nil {
			return err
		}
		defer site.Stop()
		declared, store = site.Declared, "an HBase, locks on three Redis"
	}
	measured, err := grown(ctx, o, declared)
	if err != nil {
		return err
	}
	fmt.Printf("%d processors for a sale and its %d callers, %s, %d rounds, %d claims each: medians, and of ratios the range\n\n",
		runtime.NumCPU(), callers, store, o.rounds, o.each)
	measured.Print(os.Stdout)
	return nil
}

// progress reports the progress of the run.
func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
