// Command postgres measures HTTP claims of salectl beside those of a server that decides
// them in PostgreSQL by batches, and beside an echo, and prints a table.
//
// All three take the same requests, and the same clients make them. A server's figure
// stands beside another's that was measured a moment before or after, in each of several
// rounds; what is compared is the median of the rounds' ratios. The command ends with an
// error if a sale has other claims than it reported sold.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"time"

	"salectl/internal/services"
	"salectl/testdata/peers/internal/servers"
)

func main() {
	var b bench
	rounds := flag.Int("rounds", 3, "how often to measure each figure")
	flag.DurationVar(&b.each, "each", 3*time.Second, "how long one measurement takes")
	flag.IntVar(&b.connections, "connections", 1, "how many connections to PostgreSQL its server has; on two processors no other number was as good")
	dir := flag.String("dir", "/var/tmp", "a folder for the stores, on a disk: in memory it costs nothing to sync them")
	flag.Parse()
	if flag.NArg() > 0 || *rounds < 1 || b.each <= 0 || b.connections < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, &b, *rounds, *dir); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "postgres:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, b *bench, rounds int, dir string) error {
	if err := os.Setenv("TMPDIR", dir); err != nil { // where the database will be
		return err
	}
	progress("starting a PostgreSQL")
	server, err := services.StartPostgres(ctx, services.PostgresOptions{})
	if err != nil {
		return err
	}
	defer server.Stop()
	b.Site = servers.Site{Dir: dir, Postgres: server.URL()}
	measured := newFigures()
	for round := range rounds {
		progress("round %d of %d", round+1, rounds)
		if err := b.round(ctx, measured, round%2 == 1); err != nil {
			return err
		}
	}
	if err := b.soldOut(ctx, measured); err != nil {
		return err
	}
	fmt.Printf("%d processors for servers and clients, %d rounds, %v each, %d connections to PostgreSQL, files in %s: medians, and of ratios the range\n\n",
		runtime.NumCPU(), rounds, b.each, b.connections, dir)
	measured.Print(os.Stdout)
	return nil
}

// progress reports the progress of the run.
func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
