// Command callers measures claims of salectl and of its peers with ever more callers, and
// writes the plot docs/benchmarks.svg and the table of docs/benchmarks.md.
//
// All are measured with one number of callers one after the other, in each of several
// rounds; the figures are the medians of the rounds. The command ends with an error if a
// sale has other claims than it reported sold.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"time"

	"salectl/internal/services"
	"salectl/testdata/peers/internal/cluster"
	"salectl/testdata/peers/internal/servers"
)

// crowds are the numbers of callers.
var crowds = []int{1, 20, 200, 2000, 20_000}

// options are the command line.
type options struct {
	rounds int
	each   time.Duration
	dir    string
	docs   string
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 3, "how often to measure each figure")
	flag.DurationVar(&o.each, "each", 2*time.Second, "how long one measurement takes")
	flag.StringVar(&o.dir, "dir", "/var/tmp", "a folder for the stores, on a disk: in memory it costs nothing to sync them")
	flag.StringVar(&o.docs, "docs", "", "the folder docs/ whose plot and table to renew; \"\": the table is only printed")
	flag.Parse()
	if flag.NArg() > 0 || o.rounds < 1 || o.each <= 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "callers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if err := os.Setenv("TMPDIR", o.dir); err != nil { // where the servers' files will be
		return err
	}
	progress("starting three Redis, an HBase and a PostgreSQL")
	site, err := cluster.Open(ctx)
	if err != nil {
		return err
	}
	defer site.Stop()
	database, err := services.StartPostgres(ctx, services.PostgresOptions{})
	if err != nil {
		return err
	}
	defer database.Stop()
	b := &bench{Cluster: site, servers: servers.Site{Dir: o.dir, Postgres: database.URL()}, each: o.each}
	all := b.contenders()
	for _, c := range all { // a fresh server, of Java most of all, is slower than a warm one
		if _, err := c.measure(ctx, 200); err != nil {
			return fmt.Errorf("%s, to warm it up: %w", c.name, err)
		}
	}
	measured := make(curves)
	for round := range o.rounds {
		progress("round %d of %d", round+1, o.rounds)
		for _, callers := range crowds {
			for _, c := range all {
				p, err := c.measure(ctx, callers)
				if err != nil {
					return fmt.Errorf("%s, %d callers: %w", c.name, callers, err)
				}
				measured.add(c.name, callers, p)
			}
		}
		slices.Reverse(all)
	}
	return publish(o, measured)
}

// publish prints the table, and writes it and the plot into the docs.
func publish(o options, measured curves) error {
	lines := measured.medians()
	text := markdown(lines, o)
	fmt.Print(text)
	if o.docs == "" {
		return nil
	}
	return renew(o.docs, text, plot(lines))
}

// progress reports the progress of the run.
func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
