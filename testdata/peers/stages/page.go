package main

import (
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"salectl/testdata/peers/internal/page"
	"salectl/testdata/peers/internal/table"
)

// median is that of the rounds.
func (c *column) median(of func(observation) float64) float64 {
	var values []float64
	for _, o := range c.rounds {
		values = append(values, of(o))
	}
	return table.Median(values)
}

// claim is what a claim has cost this process of the processors, in µs.
func (c *column) claim() float64 {
	return c.median(func(o observation) float64 { return each(micros(o.used), o) })
}

// covers is the part of what the operating system counts that the samples account for.
func (c *column) covers() float64 {
	used := time.Duration(0)
	for _, o := range c.rounds {
		used += o.used
	}
	return float64(c.divided.all) * sampled.Seconds() / used.Seconds()
}

// sampled is the time that a sample of a profile of the processors stands for.
const sampled = time.Second / 100

func each(v float64, o observation) float64 { return v / float64(max(o.sold, 1)) }

// fact is a row of the second table.
type fact struct {
	name string
	of   func(c *column) string
}

// per is a fact that is the median of the rounds, with two digits.
func per(name string, of func(observation) float64) fact {
	return fact{name, func(c *column) string { return short(c.median(of)) }}
}

func short(v float64) string { return page.Grouped(page.Rounded(v, 2)) }

// facts are the rows of the second table. What could not be counted is left out.
func facts(columns []*column) []fact {
	all := []fact{
		{"claims a second", func(c *column) string {
			return page.Grouped(page.Rounded(c.median(func(o observation) float64 { return o.rate }), 3))
		}},
		per("claims in a commit", func(o observation) float64 { return o.batch }),
		per("allocations", func(o observation) float64 { return each(float64(o.allocations), o) }),
		per("bytes allocated", func(o observation) float64 { return each(float64(o.bytes), o) }),
		per("context switches of threads that wait", func(o observation) float64 { return each(float64(o.rested), o) }),
		per("context switches of threads that would go on", func(o observation) float64 { return each(float64(o.displaced), o) }),
	}
	for _, call := range []struct{ name, event string }{
		{"system calls", allCalls}, {"of these futex", futexCalls}, {"of these epoll_pwait", pollCalls},
		{"of these read and write: sockets", ""}, {"misses of the caches", misses},
	} {
		if call.event == "" {
			all = append(all, per(call.name, func(o observation) float64 { return each(float64(o.kernel[readCalls]+o.kernel[writeCalls]), o) }))
		} else {
			all = append(all, per(call.name, func(o observation) float64 { return each(float64(o.kernel[call.event]), o) }))
		}
		if !counts(columns, call.event) {
			all = all[:len(all)-1]
		}
	}
	return append(all,
		fact{"% of the processor time that samples account for", func(c *column) string { return short(100 * c.covers()) }},
		fact{"µs in the ledger's hash tables", func(c *column) string {
			return short(c.claim() * float64(c.divided.probing) / float64(max(c.divided.all, 1)))
		}},
		fact{"µs of the processes of HBase and Redis", func(c *column) string {
			if c.of != onHBase {
				return none
			}
			return short(c.median(func(o observation) float64 { return each(micros(o.servers), o) }))
		}},
		per("processors idle, as Go sees it, %", func(o observation) float64 { return 100 * o.idle }),
		per("ms that a goroutine waits to run, p50", func(o observation) float64 { return 1e3 * o.waits.quantile(0.5) }),
		per("the same, p99", func(o observation) float64 { return 1e3 * o.waits.quantile(0.99) }),
		fact{"raw appends of such commits × claims in one, a second", rawOf(func(o observation) float64 { return o.appends * o.batch })},
		fact{"µs of a raw append ÷ claims in a commit", rawOf(func(o observation) float64 { return micros(o.append) / o.batch })},
	)
}

// none stands where a column has no such thing.
const none = "–"

// rawOf is what a store does alone. Claims over HTTP go to the same one.
func rawOf(of func(observation) float64) func(c *column) string {
	return func(c *column) string {
		if c.of == overHTTP {
			return none
		}
		return short(c.median(of))
	}
}

// counts reports whether the kernel has counted an event, or any for "".
func counts(columns []*column, event string) bool {
	for _, c := range columns {
		for _, o := range c.rounds {
			if _, ok := o.kernel[event]; ok || event == "" && len(o.kernel) > 0 {
				return true
			}
		}
	}
	return false
}

// digits is the form of the numbers in a column whose greatest is that.
func digits(greatest float64) int {
	switch {
	case greatest < 10:
		return 2
	case greatest < 100:
		return 1
	}
	return 0
}

// stageRows are the rows of the first table: µs of each stage, and of all of them. show is
// how a stage of a column is shown.
func stageRows(columns []*column, show func(c *column, stage, µs string) string) [][]string {
	var rows [][]string
	for _, s := range stages {
		cells := []string{s.name}
		for _, c := range columns {
			cell := none
			if c.divided.samples[s.name] > 0 {
				cell = show(c, s.name, c.micros(c.divided.share(s.name)))
			}
			cells = append(cells, cell)
		}
		rows = append(rows, cells)
	}
	all := []string{"in all"}
	for _, c := range columns {
		all = append(all, c.micros(1))
	}
	return append(rows, all)
}

// micros is a part of what a claim costs.
func (c *column) micros(share float64) string {
	return strconv.FormatFloat(c.claim()*share, 'f', digits(c.claim()), 64)
}

// withShare shows a stage with its share.
func withShare(c *column, stage, µs string) string {
	return fmt.Sprintf("%s %3.0f%%", µs, 100*c.divided.share(stage))
}

// largestBold makes the three largest stages of a column bold.
func largestBold(c *column, stage, µs string) string {
	larger := 0
	for _, n := range c.divided.samples {
		if n > c.divided.samples[stage] {
			larger++
		}
	}
	if larger < 3 {
		return "**" + µs + "**"
	}
	return µs
}

func factRows(columns []*column) (rows [][]string) {
	for _, f := range facts(columns) {
		cells := []string{f.name}
		for _, c := range columns {
			cells = append(cells, f.of(c))
		}
		rows = append(rows, cells)
	}
	return rows
}

func heading(first string, columns []*column) []string {
	cells := []string{first}
	of := ""
	for _, c := range columns {
		cell := page.Grouped(float64(c.callers))
		if c.of != of {
			of = c.of
			cell = of + ": " + cell
		}
		cells = append(cells, cell)
	}
	return cells
}

// grid prints the tables for a terminal, the stages with their shares.
func grid(w io.Writer, columns []*column) {
	lines := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	print := func(rows [][]string) {
		for _, cells := range rows {
			fmt.Fprintln(lines, strings.Join(cells, "\t"))
		}
	}
	print([][]string{heading("µs OF A CLAIM, BY STAGE", columns)})
	print(stageRows(columns, withShare))
	print([][]string{heading("A CLAIM", columns)})
	print(factRows(columns))
	lines.Flush()
}

// markdown is what is made of stages.md.
func markdown(o options, b *bench, columns []*column) string {
	var text strings.Builder
	least := columns[0].divided.all
	for _, c := range columns {
		least = min(least, c.divided.all)
	}
	fmt.Fprintf(&text, "µs of the processors that a claim takes of the process in which both the sale and its callers are, by the number of callers that wait; %d processors, medians of %d rounds of %v. Each column is divided into stages by %d or more samples of profiles; its three largest are bold:\n\n",
		runtime.NumCPU(), o.rounds, o.each, least)
	markdownTable(&text, heading("stage", columns), stageRows(columns, largestBold))
	text.WriteString("\nThe same measurements, counted for each claim unless noted:\n\n")
	markdownTable(&text, heading("count", columns), factRows(columns))
	fmt.Fprintf(&text, "\nBy itself, in the same run: a request and an answer that are each written to a loopback connection and read from it, four system calls, take %s µs of the processors; a request to a bare `net/http` echo by 200 connections takes %s µs with its caller; one Redis answers `PING` after %s µs.\n",
		short(table.Median(b.raw.sockets)), short(table.Median(b.raw.echo)), short(table.Median(b.raw.ping)))
	if !counts(columns, allCalls) {
		text.WriteString("\nSystem calls are not counted: that takes `perf`, and the right to trace the kernel.\n")
	}
	if !counts(columns, misses) {
		text.WriteString("\nMisses of the processor's caches are not counted: this machine does not let its performance counters be read. What there is of evidence is the time in the ledger's hash tables, where a claim touches memory that no other has touched lately.\n")
	}
	return text.String()
}

func markdownTable(text *strings.Builder, head []string, rows [][]string) {
	line := func(cells []string) { text.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(head)
	text.WriteString("|" + strings.Repeat("---|", len(head)) + "\n")
	for _, cells := range rows {
		line(cells)
	}
}
