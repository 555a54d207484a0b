// Command stages measures where the processors' time of a claim goes, stage by stage, with
// ever more callers, and writes the tables of stages.md.
//
// While callers claim, a CPU profile is taken, and each of its samples counts for one stage
// (stages.go). What claims cost in all is what the operating system reports that this process
// has used. The command ends with an error if a sale has other claims than it reported that it
// had sold.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"salectl/testdata/peers/internal/cluster"
	"salectl/testdata/peers/internal/page"
	"salectl/testdata/peers/internal/processor"
)

// made is where the tables of stages.md stand.
var made = page.By("go run ./stages -page stages.md")

// options are the command line.
type options struct {
	rounds   int
	each     time.Duration
	dir      string
	page     string
	profiles string
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 3, "how often to measure each column")
	flag.DurationVar(&o.each, "each", 2*time.Second, "how long one measurement takes")
	flag.StringVar(&o.dir, "dir", "/var/tmp", "a folder for the stores, on a disk: in memory it costs nothing to sync them")
	flag.StringVar(&o.page, "page", "", "the page whose tables to renew, stages.md; \"\": they are only printed")
	flag.StringVar(&o.profiles, "profiles", "", "a folder for the CPU profile of each column, of all rounds; \"\": none are kept")
	flag.Parse()
	if flag.NArg() > 0 || o.rounds < 1 || o.each <= 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "stages:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if err := os.Setenv("TMPDIR", o.dir); err != nil { // where the servers' files will be
		return err
	}
	progress("starting three Redis and an HBase")
	site, err := cluster.Open(ctx)
	if err != nil {
		return err
	}
	defer site.Stop()
	children, err := processor.Children()
	if err != nil {
		return err
	}
	b := &bench{Cluster: site, dir: o.dir, each: o.each, servers: children, kernel: newKernel()}
	columns := b.columns()
	for _, c := range columns { // a fresh Java is several times slower than a warm one
		if c.of == onHBase && c.callers >= 200 {
			if _, err := c.observe(ctx, c.callers); err != nil {
				return fmt.Errorf("%s, %d callers, to warm it up: %w", c.of, c.callers, err)
			}
		}
	}
	for round := range o.rounds {
		progress("round %d of %d", round+1, o.rounds)
		if err := b.limits(ctx); err != nil {
			return err
		}
		for _, c := range columns {
			seen, err := c.observe(ctx, c.callers)
			if err != nil {
				return fmt.Errorf("%s, %d callers: %w", c.of, c.callers, err)
			}
			c.add(seen)
		}
	}
	return publish(o, b, columns)
}

// publish prints the tables, and writes them into the page.
func publish(o options, b *bench, columns []*column) error {
	for _, c := range columns {
		if share := c.divided.share(rest); share > 0.1 {
			progress("%.0f %% of %s, %d callers, are of no stage: add what they are to stages.go. By their outermost functions: %v", 100*share, c.of, c.callers, c.divided.others)
		}
		if o.profiles != "" {
			if err := c.keep(o.profiles); err != nil {
				return err
			}
		}
	}
	grid(os.Stdout, columns)
	text := markdown(o, b, columns)
	fmt.Print("\n" + text)
	if o.page == "" {
		return nil
	}
	return made.Renew(o.page, text)
}

// progress reports the progress of the run.
func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
