package main

import (
	"fmt"
	"io"
	"math"
	"time"

	"salectl/sim"
)

// row is what so many processes sell, to callers who know nothing and to those who know the
// owners.
type row struct {
	processes int
	results   [2]*sim.ScaleResult
}

// enough is the part of n times what one process sells that n are to sell.
const enough = 0.8

func page(out io.Writer, o sim.ScaleOptions, rows []row) error {
	p := &printer{out: out}
	p.line("<!-- Made by sim/scale: go run ./sim/scale > docs/scale.md -->")
	p.line("# How a sale scales\n")
	p.line("What more processes sell that share a sale, by simulation: the machines that decide, forward and hold leases are those that `serve` runs, on virtual time, and each thing that they do takes as long as was measured. No process or network fails, and every process runs on %d processors of its own. `go run ./sim/scale > docs/scale.md` makes this page anew; its flags take other costs.\n", o.Costs.Processors)
	p.line("Each process has %d callers, who claim one unit after the other over HTTP. A sale has %d shards for each process. The store is %d machines.\n", o.Callers, shardsOfProcess, o.Store.Machines)
	for i, who := range []string{
		"Callers who ask any process: it passes on what is not its own",
		"Callers who ask the owner of their user's shard, as the Go client does",
	} {
		p.line("## %s\n", who)
		p.line("| processes | claims/s | beside n times one | p50, p99 | passed on | claims a commit | processors | store | calls of lock nodes |")
		p.line("|---|---|---|---|---|---|---|---|---|")
		one, knee := rows[0].results[i].Rate/float64(rows[0].processes), 0
		for _, r := range rows {
			x := r.results[i]
			beside := math.Round(100*x.Rate/one/float64(r.processes)) / 100
			if beside < enough && knee == 0 {
				knee = r.processes
			}
			p.line("| %d | %s | %.2f | %v, %v | %.0f %% | %.0f | %.0f %% | %.0f %% | %.0f/s |", r.processes, rate(x.Rate), beside, ms(x.P50), ms(x.P99),
				100*x.Forwarded, x.Batch, 100*x.Processor, 100*x.Store, x.NodeCalls)
		}
		p.line("\n%s\n", said(knee, rows, i))
	}
	p.line("*processors* and *store* are how busy the busiest process and the busiest machine of the store are.\n")
	p.line("## What it is made with\n")
	p.line("| | processor time | measured by |")
	p.line("|---|---|---|")
	for _, c := range []struct {
		what string
		took time.Duration
		by   string
	}{
		{"a claim over HTTP, and its answer", o.Costs.Request, "`BenchmarkHTTP`: half of it, the other half is the client's"},
		{"a claim that is decided", o.Costs.Decide, "claims in one process, 2,000 callers, in [benchmarks](benchmarks.md)"},
		{"a claim or an answer that is passed on, at each end", o.Costs.Forward, "`BenchmarkForwarded`, 2,000 callers: forwarded less own, by four"},
		{"what goes to one peer at a time, beside what it is, at each end", o.Costs.Flush, "the same, one caller"},
		{"a commit, beside its claims", o.Costs.Append, "a profile of `serve` on HBase with one claim a commit"},
		{"a call of a lock node, or what a peer is told, at each end", o.Costs.Call, "an idle process of three less one that is alone, by what it calls and is told: a busy one pays less"},
		{"an append, of a machine of the store", o.Store.Append, "raw appends to HBase on two shared processors"},
		{"to the store and back, without that", o.Store.Away, "one caller on HBase, p50"},
	} {
		p.line("| %s | %v | %s |", c.what, c.took, c.by)
	}
	return p.err
}

// said names the knee: where more processes sell less than they should.
func said(knee int, rows []row, i int) string {
	last := rows[len(rows)-1]
	if knee == 0 {
		return fmt.Sprintf("Up to %d processes sell at least %.1f n times what one sells: no knee is reached.", last.processes, enough)
	}
	for _, r := range rows {
		if r.processes == knee {
			x := r.results[i]
			why := fmt.Sprintf("the processors, of which passing on takes its part: %.0f %% of the claims are", 100*x.Forwarded)
			if x.Store > x.Processor {
				why = "the store"
			}
			return fmt.Sprintf("The knee is at %d processes: there they sell less than %.1f n times what one sells. What bounds it is %s.", knee, enough, why)
		}
	}
	return ""
}

// rate is claims a second, in thousands.
func rate(r float64) string {
	if r >= 1e6 {
		return fmt.Sprintf("%.2f million", r/1e6)
	}
	return fmt.Sprintf("%.0f,000", math.Round(r/1000))
}

func ms(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// printer writes lines until one fails.
type printer struct {
	out io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format+"\n", args...)
	}
}
