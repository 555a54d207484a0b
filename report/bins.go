package report

import (
	"fmt"
	"strings"
	"time"
)

// maxBins is the maximum number of bins of a chart over time: each is some pixels wide, and
// their table stays readable.
const maxBins = 120

// steps are the widths of bins, chosen so that their edges are round numbers.
var steps = func() (all []time.Duration) {
	for unit := time.Microsecond; unit < time.Second; unit *= 10 {
		all = append(all, unit, 2*unit, 5*unit)
	}
	for _, s := range []int{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600} {
		all = append(all, time.Duration(s)*time.Second)
	}
	for day := 24 * time.Hour; day < 100_000*time.Hour; day *= 2 {
		all = append(all, day)
	}
	return all
}()

// stepFor returns the smallest step of which at most n cover a span.
func stepFor(span time.Duration, n int) time.Duration {
	for _, step := range steps {
		if span <= step*time.Duration(n) {
			return step
		}
	}
	return steps[len(steps)-1] * (1 + span/steps[len(steps)-1]/time.Duration(n))
}

// bins divide a duration from 0 on.
type bins struct {
	width time.Duration
	n     int
}

// binsFor returns at most n bins that cover the time up to last, at least one.
func binsFor(last time.Duration, n int) bins {
	width := stepFor(max(last, 1), n)
	return bins{width, max(int((max(last, 1)+width-1)/width), 1)}
}

// of returns the bin of a time. The end of the last bin belongs to it.
func (b bins) of(at time.Duration) int { return min(max(int(at/b.width), 0), b.n-1) }

// covers reports whether a time is within the bins.
func (b bins) covers(at time.Duration) bool { return at >= 0 && at <= b.end() }

func (b bins) end() time.Duration         { return time.Duration(b.n) * b.width }
func (b bins) from(bin int) time.Duration { return time.Duration(bin) * b.width }

// names returns the times of the bins.
func (b bins) names() (all []string) {
	for bin := range b.n {
		all = append(all, lasting(b.from(bin))+" to "+lasting(b.from(bin+1)))
	}
	return all
}

// rushShare and rushPart define a rush: rushShare of all events are in the first rushPart of
// the time, where a chart of the whole time hides them.
const (
	rushShare = 0.95
	rushPart  = 0.1
)

// rushOf returns the end of the rush, if the sorted times have one. It is a little after the
// time by which 95 % had come.
func rushOf(times []time.Duration) (end time.Duration, ok bool) {
	if len(times) < 20 {
		return 0, false
	}
	last := times[len(times)-1]
	by := times[int(rushShare*float64(len(times)-1))]
	if float64(by) >= rushPart*float64(last) {
		return 0, false
	}
	return max(by+by/10, time.Millisecond), true
}

// lasting formats a duration without units that are 0: 1.5s, 90m as 1h30m, 48h.
func lasting(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// niceTicks returns round numbers from 0, at most n steps; the last one is at least most.
func niceTicks(most float64, n int) (ticks []float64) {
	most = max(most, 1) // counts are whole
	step := 1.0
	for i := 0; step*float64(n) < most*(1-1e-9); i++ {
		step *= [...]float64{2, 2.5, 2}[i%3] // 1, 2, 5, 10, 20…
	}
	for at := 0.0; at < most+step; at += step {
		ticks = append(ticks, at)
	}
	return ticks
}

// timesOf returns the time of each of some things.
func timesOf[E any](things []E, of func(E) time.Duration) []time.Duration {
	times := make([]time.Duration, len(things))
	for i, t := range things {
		times[i] = of(t)
	}
	return times
}

// window is the time range of a chart.
type window struct {
	bins
	label string // part of the time; "": all of it
}

// windows returns the time ranges for charts of events at sorted times: the whole time,
// preceded by the rush if a chart of the whole hides that, each in at most maxBins bins.
func windows(times []time.Duration) (all []window) {
	whole := window{binsFor(times[len(times)-1], maxBins), ""}
	if end, ok := rushOf(times); ok {
		return whole.behind(window{binsFor(end, maxBins), fmt.Sprintf(" The rush: the first %.0f%% of them.", 100*rushShare)})
	}
	return []window{whole}
}

// behind returns part and then the whole time w.
func (w window) behind(part window) []window {
	w.label = " The whole time."
	return []window{part, w}
}
