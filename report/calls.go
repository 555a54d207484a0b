package report

import (
	"fmt"
	"math"
	"slices"
	"time"

	"salectl/executor/rehearse"
	"salectl/report/threshold"
	"salectl/spec"
)

// category is a kind of things counted by a chart.
type category[K comparable] struct {
	key         K
	name, class string
}

// kinds are the kinds of answers, in the order of stacking.
var kinds = []category[rehearse.Kind]{
	{rehearse.Given, "given", "c1"}, {rehearse.GivenAgain, "given before", "c2"}, {rehearse.NoneLeft, "none left", "c3"},
	{rehearse.AtLimit, "limit reached", "c4"}, {rehearse.Refused, "refused otherwise", "c5"}, {rehearse.Undecided, "no decision", "c6"},
}

// seriesOf returns a series of n values for each category among some things, and its index.
func seriesOf[E any, K comparable](things []E, of []category[K], key func(E) K, n int) (all []series, row map[K]int) {
	row = map[K]int{}
	for _, c := range of {
		if slices.ContainsFunc(things, func(t E) bool { return key(t) == c.key }) {
			row[c.key] = len(all)
			all = append(all, series{Name: c.name, Class: c.class, values: make([]float64, n)})
		}
	}
	return all, row
}

// overTime shows numbers of things in each bin.
func overTime(title, caption string, b bins, all []series, things string) figure {
	return barChart{title: title, caption: caption, what: things + " per " + lasting(b.width), over: &b, rows: "time", names: b.names(), all: all}.figure()
}

// answers returns the answers to the crowd over time.
func (p *Page) answers() (s section, ok bool) {
	if p.Rehearsal == nil {
		return s, false
	}
	calls := p.Rehearsal.Calls
	s = section{ID: "answers", Title: "Answers", Table: outcomesTable(calls)}
	s.Paragraphs = []string{"As buyers saw them. Times count from the first request; the latency of a claim is that of the request that got its final answer."}
	times := timesOf(calls, func(c rehearse.Call) time.Duration { return c.Ended })
	slices.Sort(times)
	for _, w := range callWindows(calls, times) {
		all, row := seriesOf(calls, kinds, func(c rehearse.Call) rehearse.Kind { return c.Kind }, w.n)
		for i := range calls {
			if at := calls[i].Ended; w.covers(at) {
				all[row[calls[i].Kind]].values[w.of(at)]++
			}
		}
		caption := fmt.Sprintf("%s over time, by kind.%s", spec.Count(len(calls), "final answer"), w.label)
		s.Figures = append(s.Figures, overTime("Answers over time", caption, w.bins, all, "answers"))
	}
	return s, true
}

// callWindows returns the windows for the answers to the crowd. A sale may be over in a small
// part of the time of the answers; then the sale itself is shown first.
func callWindows(calls []rehearse.Call, times []time.Duration) []window {
	last := time.Duration(0)
	for i := range calls {
		if calls[i].Kind == rehearse.Given {
			last = max(last, calls[i].Ended)
		}
	}
	whole := binsFor(times[len(times)-1], maxBins)
	if last == 0 || last > whole.end()/2 {
		return windows(times)
	}
	return window{whole, ""}.behind(window{binsFor(last, maxBins), " The time until the last units were sold."})
}

// outcomesTable returns the frequency and latency of each outcome.
func outcomesTable(calls []rehearse.Call) *table {
	took := map[string][]time.Duration{}
	var every []time.Duration
	for i := range calls {
		d := calls[i].Ended - calls[i].Began
		took[calls[i].Outcome] = append(took[calls[i].Outcome], d)
		every = append(every, d)
	}
	t := newTable("Outcomes", "outcome", ">requests", ">share", ">p50", ">p90", ">p99", ">max")
	row := func(name string, all []time.Duration) {
		slices.Sort(all)
		at := func(percent float64) time.Duration { return threshold.Rounded(threshold.Percentile(all, percent)) }
		t.row(name, len(all), percent(float64(len(all))/float64(len(every))),
			at(50), at(90), at(99), at(100))
	}
	for _, name := range rehearse.Ordered(took) {
		row(name, took[name])
	}
	row("all", every)
	return t
}

// latencyCurves are the percentiles shown over time, in ascending order.
var latencyCurves = []struct {
	name    string
	percent float64
	class   string
}{{"p50", 50, "c1"}, {"p90", 90, "c2"}, {"p99", 99, "c4"}, {"max", 100, "c6"}}

// latency returns the latency of answers over time.
func (p *Page) latency() (s section, ok bool) {
	if p.Rehearsal == nil || len(p.Rehearsal.Attempts) == 0 {
		return s, false
	}
	attempts := p.Rehearsal.Attempts
	times := timesOf(attempts, func(a rehearse.Attempt) time.Duration { return a.Ended })
	s = section{ID: "latency", Title: "Latency over time"}
	l := p.Rehearsal.Timing.LatencyMs
	s.Paragraphs = []string{fmt.Sprintf("Of every request that was answered, from sending it to the end of its answer: p50 %v, p99 %v, p99.9 %v, at most %v.",
		threshold.Milliseconds(l.P50), threshold.Milliseconds(l.P99), threshold.Milliseconds(l.P999), threshold.Milliseconds(l.Max))}
	for _, w := range callWindows(p.Rehearsal.Calls, times) {
		// Few answers have no meaningful percentiles, so they get wider bins.
		const enough, least = 50, 20
		within, _ := slices.BinarySearch(times, w.end()+1)
		w.bins = binsFor(w.end(), min(max(within/enough, least), maxBins))
		s.Figures = append(s.Figures, latencyFigure(w, attempts))
	}
	return s, true
}

func latencyFigure(w window, attempts []rehearse.Attempt) figure {
	took := make([][]time.Duration, w.n)
	for _, a := range attempts {
		if w.covers(a.Ended) {
			bin := w.of(a.Ended)
			took[bin] = append(took[bin], a.Took)
		}
	}
	all := make([]series, len(latencyCurves))
	for k, c := range latencyCurves {
		all[k] = series{Name: c.name, Class: c.class, Line: true, values: make([]float64, w.n)}
	}
	t := newTable("Latency over time", "time", ">answers", ">p50", ">p90", ">p99", ">max")
	names := w.names()
	for bin := range took {
		slices.Sort(took[bin])
		cells := []any{names[bin], len(took[bin])}
		for k, c := range latencyCurves {
			if len(took[bin]) == 0 {
				all[k].values[bin] = math.NaN()
				continue
			}
			d := threshold.Percentile(took[bin], c.percent)
			all[k].values[bin] = float64(d) / float64(time.Millisecond)
			cells = append(cells, threshold.Rounded(d))
		}
		if len(took[bin]) > 0 {
			t.row(cells...)
		}
	}
	f := figure{Caption: fmt.Sprintf("The percentiles of the answers within each %s, on a logarithmic scale.%s", lasting(w.width), w.label), Legend: all, Table: t}
	f.SVG = curves(w.bins, all, "latency", "Latency over time. "+f.Caption)
	return f
}
