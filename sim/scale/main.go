// The command scale says how fast a sale is sold by ever more processes, by a simulation in
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

// usual are the costs, measured on the machine of docs/benchmarks.md; page.go says by what.
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
	for name, d := range map[string]*time.Duration{
		"request": &o.Costs.Request, "decide": &o.Costs.Decide, "forward": &o.Costs.Forward, "flush": &o.Costs.Flush,
		"append": &o.Costs.Append, "call": &o.Costs.Call, "store-append": &o.Store.Append, "store-away": &o.Store.Away, "span": &o.Span,
	} {
		flags.DurationVar(d, name, *d, "as the page says")
	}
	flags.IntVar(&o.Store.Machines, "store-machines", o.Store.Machines, "as the page says")
	flags.IntVar(&o.Callers, "callers", o.Callers, "as the page says")
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
