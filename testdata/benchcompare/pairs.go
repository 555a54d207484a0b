package main

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"golang.org/x/perf/benchmath"
)

// confidence is that of the interval of a figure's ratio. With fewer rounds than
// leastRounds there is no such interval.
const (
	confidence  = 0.95
	leastRounds = 6
)

// pairs collects the figures of all rounds.
type pairs struct {
	lines []*line
	of    map[string][]*line // by package and name of the benchmark
}

// line is one figure of all rounds.
type line struct {
	name      string
	figure    figure
	base, now []float64
	ratios    []float64 // of each round: above 1, the working tree is better
	missing   bool      // the commit does not report it
}

func newPairs(list []benchmark) *pairs {
	p := &pairs{of: make(map[string][]*line)}
	for _, b := range list {
		for _, f := range b.figures {
			l := &line{name: b.name, figure: f}
			p.lines, p.of[b.pkg+"/"+b.name] = append(p.lines, l), append(p.of[b.pkg+"/"+b.name], l)
		}
	}
	return p
}

// add takes what a benchmark reported on both sides, one right after the other. It is an
// error if the working tree does not report what is to be compared: then the list is wrong.
func (p *pairs) add(b benchmark, base, now result) error {
	for _, l := range p.of[b.pkg+"/"+b.name] {
		new, ok := now[l.figure.unit]
		if !ok {
			return fmt.Errorf("the benchmark %s of the working tree does not report %s", b.name, l.figure.unit)
		}
		old, ok := base[l.figure.unit]
		if !ok {
			l.missing = true
			continue
		}
		l.base, l.now = append(l.base, old), append(l.now, new)
		ratio := new / old
		if l.figure.better == lower {
			ratio = old / new
		}
		l.ratios = append(l.ratios, ratio)
	}
	return nil
}

// summary is the median of the ratios and its confidence interval: two of the ratios, so
// far from the middle that by the sign test the true median is seldom outside.
func (l *line) summary() benchmath.Summary { return median(l.ratios) }

func median(values []float64) benchmath.Summary {
	return benchmath.AssumeNothing.Summary(benchmath.NewSample(values, &benchmath.DefaultThresholds), confidence)
}

// verdict returns the meaning of an interval in a word.
func verdict(s benchmath.Summary, threshold float64) string {
	switch {
	case s.Hi < 1-threshold:
		return "LOSS"
	case s.Lo > 1:
		return "gain"
	default:
		return ""
	}
}

// report writes a table. The error is errLoss if a figure is lost, and another one if
// nothing could be compared.
func (p *pairs) report(out io.Writer, threshold float64) error {
	columns := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "BENCHMARK\tFIGURE\tCOMMIT\tWORKING TREE\tRATIO\tINTERVAL\tVERDICT")
	compared, lost := 0, 0
	for _, l := range p.lines {
		if l.missing {
			fmt.Fprintf(columns, "%s\t%s\tthe commit does not report it\t\t\t\t\n", l.name, l.figure.unit)
			continue
		}
		compared++
		s := l.summary()
		v := verdict(s, threshold)
		if v == "LOSS" {
			lost++
		}
		fmt.Fprintf(columns, "%s\t%s\t%.4g\t%.4g\t%.3f\t%.3f–%.3f\t%s\n",
			l.name, l.figure.unit, median(l.base).Center, median(l.now).Center, s.Center, s.Lo, s.Hi, v)
	}
	if err := columns.Flush(); err != nil {
		return err
	}
	switch {
	case compared == 0:
		return errors.New("the commit reports none of the figures")
	case lost > 0:
		return fmt.Errorf("%w: %d of %d figures are lost, whose whole interval is below %.3f", errLoss, lost, compared, 1-threshold)
	}
	return nil
}
