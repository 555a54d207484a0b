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
	p.line("For the platform engineer: how many claims a second more processes sell. The figures are simulated: the shipped state machines run on virtual time, and each step takes the time that was measured (`go run ./sim/scale -help`). Nothing fails. Each process has %d processors, %d callers who claim over HTTP, and %d shards; the store has %d machines.\n", o.Costs.Processors, o.Callers, shardsOfProcess, o.Store.Machines)
	for i, who := range []string{
		"Requests to any process, which forwards them",
		"Requests to the owner, as the Go client sends them",
	} {
		p.line("## %s\n", who)
		p.line("| processes | claims/s | of n × one | p50 / p99 | forwarded | claims/commit | store busy | lock node calls |")
		p.line("|---|---|---|---|---|---|---|---|")
		one, knee := rows[0].results[i].Rate/float64(rows[0].processes), 0
		for _, r := range rows {
			x := r.results[i]
			beside := math.Round(100*x.Rate/one/float64(r.processes)) / 100
			if beside < enough && knee == 0 {
				knee = r.processes
			}
			p.line("| %d | %s | %.2f | %v / %v | %.0f%% | %.0f | %.0f%% | %.0f/s |", r.processes, rate(x.Rate), beside, ms(x.P50), ms(x.P99),
				100*x.Forwarded, x.Batch, 100*x.Store, x.NodeCalls)
		}
		p.line("\n%s\n", kneeText(knee, rows, i))
	}
	return p.err
}

// kneeText describes the knee: where more processes sell less than they should.
func kneeText(knee int, rows []row, i int) string {
	last := rows[len(rows)-1]
	if knee == 0 {
		return fmt.Sprintf("Up to %d processes sell at least %.1f of n times one.", last.processes, enough)
	}
	for _, r := range rows {
		if r.processes == knee {
			x := r.results[i]
			why := fmt.Sprintf("processors: %.0f%% of the claims are forwarded", 100*x.Forwarded)
			if x.Store > x.Processor {
				why = "the store"
			}
			return fmt.Sprintf("From %d processes on they sell less than %.1f of n times one, limited by %s.", knee, enough, why)
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
