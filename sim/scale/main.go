// The command scale measures how fast a sale is sold by ever more processes, by a simulation in
// which the machines are those that ship and what their work costs was measured. It prints
// docs/scale.md.
//
//	scale > docs/scale.md
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"salectl/sim"
	"salectl/sim/tool"
)

func main() { tool.Main(run) }

// shardsOfProcess is how many shards a sale has for each process that sells it.
const shardsOfProcess = 4

// usual are the costs, measured on the machine of docs/benchmarks.md; the flags scale them.
var usual = sim.ScaleOptions{
	Callers: 2000,
	Costs: sim.ScaleCosts{
		Processors: 2, Request: 33 * time.Microsecond, Decide: 4400 * time.Nanosecond, Forward: 1600 * time.Nanosecond,
		Flush: 27 * time.Microsecond, Append: 75 * time.Microsecond, Call: 360 * time.Microsecond,
	},
	Store: sim.ScaleStore{Machines: 3, Append: 130 * time.Microsecond, Away: 270 * time.Microsecond},
	Warm:  100 * time.Millisecond, Span: 200 * time.Millisecond,
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	sizes := flags.String("processes", "1,3,10,30,100", "how many processes sell, one figure after the other")
	o := usual
	for _, cost := range []struct {
		name, usage string
		at          *time.Duration
	}{
		{"request", "processor time of a claim over HTTP, with its answer: half of BenchmarkHTTP, whose other half is the client's", &o.Costs.Request},
		{"decide", "processor time of the decision of a claim: claims in one process, 2,000 callers, in docs/benchmarks.md", &o.Costs.Decide},
		{"forward", "processor time of a forwarded claim or answer, at each end: BenchmarkForwarded, 2,000 callers, forwarded less own, by four", &o.Costs.Forward},
		{"flush", "processor time of a message to a peer, besides its content, at each end: BenchmarkForwarded, one caller", &o.Costs.Flush},
		{"append", "processor time of a commit, besides its claims: a profile of serve on HBase with one claim a commit", &o.Costs.Append},
		{"call", "processor time of a call of a lock node, or an update from a peer, at each end: an idle process of three less one that is alone", &o.Costs.Call},
		{"store-append", "time of an append on a machine of the store: raw appends to HBase on two shared processors", &o.Store.Append},
		{"store-away", "time to the store and back, without the append: one caller on HBase, p50", &o.Store.Away},
		{"span", "virtual time that is measured", &o.Span},
	} {
		flags.DurationVar(cost.at, cost.name, *cost.at, cost.usage)
	}
	flags.IntVar(&o.Store.Machines, "store-machines", o.Store.Machines, "machines of the store")
	flags.IntVar(&o.Callers, "callers", o.Callers, "callers of each process")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var rows []row
	for _, size := range strings.Split(*sizes, ",") {
		n, err := strconv.Atoi(size)
		if err != nil || n < 1 {
			return fmt.Errorf("-processes: %q is no number of processes", size)
		}
		r := row{processes: n}
		for i, follow := range []bool{false, true} {
			if err := ctx.Err(); err != nil {
				return err
			}
			o.Processes, o.Shards, o.Follow = n, shardsOfProcess*n, follow
			if r.results[i], err = sim.Scale(o); err != nil {
				return fmt.Errorf("%d processes: %w", n, err)
			}
		}
		rows = append(rows, r)
	}
	return page(out, o, rows)
}
