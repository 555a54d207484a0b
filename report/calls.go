package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"salectl/executor/rehearse"
	"salectl/report/threshold"
)

// kindClass is the colour class of each kind of answer.
var kindClass = map[rehearse.Kind]string{
	rehearse.Given: "c1", rehearse.GivenAgain: "c2", rehearse.NoneLeft: "c3",
	rehearse.AtLimit: "c4", rehearse.Refused: "c5", rehearse.Undecided: "c6",
}

// kindSeries returns a series of n values for each kind among some answers, and its index.
func kindSeries[E any](answers []E, kind func(E) rehearse.Kind, n int) (all []series, row map[rehearse.Kind]int) {
	row = map[rehearse.Kind]int{}
	for _, k := range rehearse.Kinds {
		if slices.ContainsFunc(answers, func(a E) bool { return kind(a) == k }) {
			row[k] = len(all)
			all = append(all, series{Name: k.String(), Class: kindClass[k], values: make([]float64, n)})
		}
	}
	return all, row
}

// answers returns the answers to the crowd over time.
func (p *Page) answers() (s section, ok bool) {
	if p.Rehearsal == nil {
		return s, false
	}
	calls := p.Rehearsal.Calls()
	s = section{ID: "answers", Title: "Answers", Table: outcomesTable(calls)}
	s.Says = []string{"As buyers saw it. Times count from the first request; the latency of a claim is that of the request that got its final answer."}
	times := make([]time.Duration, len(calls))
	for i := range calls {
		times[i] = calls[i].Ended
	}
	slices.Sort(times)
	for _, w := range callWindows(calls, times, maxBins) {
		all, row := kindSeries(calls, func(c rehearse.Call) rehearse.Kind { return c.Kind }, w.n)
		for i := range calls {
			if at := calls[i].Ended; w.covers(at) {
				all[row[calls[i].Kind]].values[w.of(at)]++
			}
		}
		f := figure{Says: fmt.Sprintf("%s over time, by what they said.%s", count(int64(len(calls)), "final answer", "final answers"), w.says), Legend: all}
		f.SVG = stacked(w.bins, all, "answers per "+offset(w.width, w.width), "Answers over time. "+f.Says)
		f.Table = countsOver("Answers over time", w.bins, all)
		s.Figures = append(s.Figures, f)
	}
	return s, true
}

// callWindows returns the windows for the answers to the crowd. A sale may be over in a small
// part of the time in which the crowd is told so; then the sale itself is shown first.
func callWindows(calls []rehearse.Call, times []time.Duration, n int) []window {
	last := time.Duration(0)
	for i := range calls {
		if calls[i].Kind == rehearse.Given {
			last = max(last, calls[i].Ended)
		}
	}
	whole := binsFor(times[len(times)-1], n)
	if last == 0 || last > whole.end()/2 {
		return windows(times, n)
	}
	return window{whole, ""}.behind(window{binsFor(last, n), " The time until the last units were given."})
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
	names := slices.Sorted(maps.Keys(took))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(rehearse.KindOf(a), rehearse.KindOf(b)) })
	t := newTable("Outcomes", "outcome", ">requests", ">share", ">p50", ">p90", ">p99", ">max")
	row := func(name string, all []time.Duration) {
		slices.Sort(all)
		t.row(name, len(all), percent(float64(len(all))/float64(len(every))),
			lasting(threshold.Percentile(all, 50)), lasting(threshold.Percentile(all, 90)), lasting(threshold.Percentile(all, 99)), lasting(threshold.Percentile(all, 100)))
	}
	for _, name := range names {
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
	if p.Rehearsal == nil {
		return s, false
	}
	attempts := p.Rehearsal.Attempts()
	if len(attempts) == 0 {
		return s, false
	}
	times := make([]time.Duration, len(attempts))
	for i, a := range attempts {
		times[i] = a.Ended
	}
	s = section{ID: "latency", Title: "Latency over time"}
	l := p.Rehearsal.LatencyMs
	s.Says = []string{fmt.Sprintf("Of every request that was answered, from sending it to the end of its answer: p50 %s, p99 %s, p99.9 %s, at most %s.",
		threshold.Milliseconds(l.P50), threshold.Milliseconds(l.P99), threshold.Milliseconds(l.P999), threshold.Milliseconds(l.Max))}
	for _, w := range callWindows(p.Rehearsal.Calls(), times, maxBins) {
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
	for bin := range took {
		slices.Sort(took[bin])
		cells := []any{w.name(bin), len(took[bin])}
		for k, c := range latencyCurves {
			if len(took[bin]) == 0 {
				all[k].values[bin] = math.NaN()
				continue
			}
			d := threshold.Percentile(took[bin], c.percent)
			all[k].values[bin] = float64(d) / float64(time.Millisecond)
			cells = append(cells, lasting(d))
		}
		if len(took[bin]) > 0 {
			t.row(cells...)
		}
	}
	f := figure{Says: fmt.Sprintf("The percentiles of the answers within each %s, on a logarithmic scale.%s", offset(w.width, w.width), w.says), Legend: all, Table: t}
	f.SVG = curves(w.bins, all, "latency", "Latency over time. "+f.Says)
	return f
}

// fairness returns whether early buyers were served.
func (p *Page) fairness() (s section, ok bool) {
	if p.Rehearsal == nil || p.Rehearsal.Fairness == nil {
		return s, false
	}
	s = section{ID: "fairness", Title: "Fairness: arrival against outcome"}
	f := p.Rehearsal.Fairness
	turnedAway := "Nobody was turned away for good while somebody who asked later, for no fewer units, was given them."
	if n := f.SoldOut.Overtaken; n > 0 {
		turnedAway = fmt.Sprintf("%s turned away for good, and somebody who asked later, for no fewer units, was given them.", was(int64(n), "request"))
	}
	s.Says = []string{turnedAway, "A request was overtaken if it was refused for want of units, and a claim that was sent later, for no fewer units, was given its own: such a claim is an inversion. Requests that are under way side by side may be served in either order."}
	t := newTable("Overtaken requests by their answer", "answer", ">overtaken", ">inversions", ">later by at most", ">after the answer")
	row := func(answer string, x rehearse.Inversions) {
		t.row(answer, x.Overtaken, x.Inversions, threshold.Milliseconds(x.LargestMs), x.AfterAnswer)
	}
	row("sold_out, which is final", f.SoldOut)
	if f.NoneNow != nil {
		row("none_now, which is worth asking again", *f.NoneNow)
	} else {
		s.Says = append(s.Says, "Units that nobody paid come back, and go to whoever asks then. Who is told none_now meanwhile is not overtaken, only who is told sold_out.")
	}
	s.Table = t
	s.Figures = []figure{arrivals(p.Rehearsal.Calls())}
	return s, true
}

// arrivals shows what buyers had in the end, by the order of arrival.
func arrivals(calls []rehearse.Call) figure {
	type arrival struct {
		sent time.Duration
		kind rehearse.Kind
	}
	buyers := map[string]arrival{}
	for i := range calls {
		c := &calls[i]
		kind := c.Kind
		if kind == rehearse.GivenAgain {
			kind = rehearse.Given
		}
		b, known := buyers[c.User]
		if !known {
			b = arrival{c.Sent, kind}
		}
		// Kinds are ordered by their value to a buyer.
		buyers[c.User] = arrival{min(b.sent, c.Sent), min(b.kind, kind)}
	}
	all := make([]arrival, 0, len(buyers))
	for _, b := range buyers {
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b arrival) int { return cmp.Or(cmp.Compare(a.sent, b.sent), cmp.Compare(a.kind, b.kind)) })
	ends := tenths(len(all))
	kinds, row := kindSeries(all, func(a arrival) rehearse.Kind { return a.kind }, len(ends))
	if i, is := row[rehearse.Given]; is {
		kinds[i].Name = "got units"
	}
	var rows []string
	from := 0
	for i, end := range ends {
		for _, b := range all[from:end] {
			kinds[row[b.kind]].values[i]++
		}
		rows, from = append(rows, tenth(i, len(ends))), end
	}
	f := figure{Says: fmt.Sprintf("%s in the order in which they sent their first requests, in ten parts, and the best that each was told.", count(int64(len(all)), "buyer", "buyers")), Legend: kinds}
	f.SVG, f.Table = parts(rows, kinds, "Buyers by the order of their arrival. "+f.Says), partsTable("Buyers by arrival", "buyers", rows, kinds)
	return f
}
