package report

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
	"time"

	"salectl/report/threshold"
	"salectl/spec"
)

// Charts are SVG without scripts: mail programs, printers and browsers without a network show
// them alike. Colours are classes of the page's style sheet, which adapt to dark screens and
// paper. Each chart has a table of its numbers for screen readers.

// Dimensions of a chart and its margins, in units of its view box.
const (
	chartWidth   = 880.0
	chartLeft    = 64.0
	chartRight   = 16.0
	chartTop     = 26.0
	chartBottom  = 30.0
	chartHeight  = 260.0
	lowHeight    = 180.0
	labelWidth   = 6.6  // approximate width of a letter
	leastBarGap  = 3.0  // narrower bars have no gap between them
	widestBar    = 64.0 // maximum width if there are few bars
	roomForNames = 46.0
)

// series is one series of values in a chart.
type series struct {
	Name  string
	Class string // class of the style sheet
	Line  bool   // drawn as a line, otherwise as a bar or an area

	values []float64 // by bin; NaN: no value
}

// measure formats the values of a chart.
type measure struct {
	tick func(v, step float64) string // of the scale, whose ticks are a step apart
	bar  func(v float64) string       // of one bar
}

// counted formats values that are numbers of things.
var counted = measure{
	tick: func(v, _ float64) string { return short(v) },
	bar:  func(v float64) string { return spec.Grouped(int64(v)) },
}

// amounts formats values in minor units of a currency. The scale has no decimals if all its
// ticks are whole.
func amounts(of *spec.RedPacket) measure {
	whole := math.Pow10(of.Scale)
	return measure{
		tick: func(v, step float64) string {
			if math.Mod(step, whole) == 0 {
				return short(v / whole)
			}
			return of.Format(int64(v))
		},
		bar: func(v float64) string { return of.Format(int64(v)) + " " + of.Currency },
	}
}

// level is a named line across a chart. The zero value is none.
type level struct {
	at   float64
	name string
}

// canvas is an SVG in progress.
type canvas struct {
	strings.Builder
	height, right float64
	top           float64 // maximum of the values
	log           bool    // logarithmic, from low on
	low           float64
}

func (c *canvas) printf(format string, args ...any) { fmt.Fprintf(&c.Builder, format, args...) }

func newCanvas(height float64) *canvas { return &canvas{height: height, right: chartRight} }

func (c *canvas) width() float64 { return chartWidth - chartLeft - c.right }
func (c *canvas) floor() float64 { return c.height - chartBottom }

// y returns the position of a value.
func (c *canvas) y(v float64) float64 {
	part := v / c.top
	if c.log {
		part = math.Log(max(v, c.low)/c.low) / math.Log(c.top/c.low)
	}
	return c.floor() - part*(c.floor()-chartTop)
}

func (c *canvas) text(x, y float64, class, text string) {
	c.printf(`<text x="%.1f" y="%.1f" class="%s">%s</text>`, x, y, class, html.EscapeString(text))
}

// scale draws the scale of values, from 0 to at least most.
func (c *canvas) scale(most float64, what string, in measure) {
	ticks := niceTicks(most, 4)
	c.top = ticks[len(ticks)-1]
	for _, t := range ticks {
		c.tick(t, in.tick(t, ticks[1]))
	}
	c.text(0, 12, "what", what)
}

// logScale draws a scale of milliseconds by powers of ten, so that both 1 ms and 100 ms are
// visible.
func (c *canvas) logScale(least, most float64, what string) {
	c.log, c.low = true, math.Pow(10, math.Floor(math.Log10(max(least, .001))))
	c.top = c.low
	for c.top < most*(1-1e-9) || c.top == c.low {
		c.top *= 10
	}
	if c.top/10*5 >= most && c.top/10 > c.low {
		c.top /= 2
	}
	several := c.top/c.low > 1001
	for power := c.low; power <= c.top*1.001; power *= 10 {
		for _, f := range []float64{1, 2, 5} {
			if v := power * f; v <= c.top*1.001 && (f == 1 || !several) {
				c.tick(v, threshold.Milliseconds(v).String())
			}
		}
	}
	c.text(0, 12, "what", what)
}

func (c *canvas) tick(v float64, name string) {
	y := c.y(v)
	c.printf(`<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" class="grid"/>`, chartLeft, chartWidth-c.right, y, y)
	c.text(chartLeft-8, y+4, "left", name)
}

// times draws the time axis.
func (c *canvas) times(b bins) {
	step := stepFor(b.end(), 10)
	for at := time.Duration(0); at <= b.end(); at += step {
		x := c.x(b, at)
		c.printf(`<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" class="axis"/>`, x, x, c.floor(), c.floor()+4)
		class := "under"
		if x > chartWidth-c.right-20 {
			class = "under last"
		}
		c.text(x, c.floor()+18, class, lasting(at))
	}
	c.axis()
}

func (c *canvas) x(b bins, at time.Duration) float64 {
	return chartLeft + float64(at)/float64(b.end())*c.width()
}

// hits adds a tooltip for each of the named bins that has values above zero, as format formats them.
func (c *canvas) hits(names []string, all []series, format func(s series, v float64) string) {
	w := c.width() / float64(len(names))
	for i, name := range names {
		var words []string
		for _, s := range all {
			if v := s.values[i]; v > 0 {
				words = append(words, format(s, v))
			}
		}
		if len(words) > 0 {
			c.printf(`<rect class="hit" x="%.2f" y="%.1f" width="%.2f" height="%.1f"><title>%s</title></rect>`,
				chartLeft+float64(i)*w, chartTop, w, c.floor()-chartTop, html.EscapeString(name+": "+strings.Join(words, ", ")))
		}
	}
}

// svg returns the finished SVG. label describes it in a sentence.
func (c *canvas) svg(label string) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">%s</svg>`,
		chartWidth, c.height, html.EscapeString(label), c.String()))
}

// bars draws the series as n stacked bars of at most a width, with gaps of at most another one
// unless that leaves too little of the bars.
func (c *canvas) bars(all []series, n int, widestGap, widest float64) {
	w := c.width() / float64(n)
	gap := 0.0
	if w >= leastBarGap {
		gap = max(min(w/5, widestGap), w-widest)
	}
	for i := range n {
		below := 0.0
		for _, s := range all {
			if v := s.values[i]; v > 0 {
				c.printf(`<rect class="%s" x="%.2f" y="%.2f" width="%.2f" height="%.2f"/>`,
					s.Class, chartLeft+float64(i)*w+gap/2, c.y(below+v), w-gap, c.y(below)-c.y(below+v))
				below += v
			}
		}
	}
}

// axis draws the line below the bars.
func (c *canvas) axis() {
	c.printf(`<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" class="axis"/>`, chartLeft, chartWidth-c.right, c.floor(), c.floor())
}

// barChart is a chart of stacked bars, over time or by name.
type barChart struct {
	title, caption string
	what           string   // name of the scale
	in             *measure // of the scale; nil: counted
	limit          level
	over           *bins    // nil: by name
	rows           string   // heading of the names in the table
	names          []string // of the bars
	all            []series
}

// figure returns the chart with its numbers.
func (b barChart) figure() figure {
	in, n := cmp.Or(b.in, &counted), len(b.names)
	highest := b.limit.at
	for i := range n {
		highest = max(highest, sum(b.all, i))
	}
	c := newCanvas(lowHeight)
	if b.over != nil {
		c.height = chartHeight
	}
	c.scale(highest, b.what, *in)
	if b.over != nil {
		c.bars(b.all, n, 2, math.Inf(1))
		c.times(*b.over)
	} else {
		c.bars(b.all, n, 8, widestBar)
		c.named(b.names)
	}
	if l := b.limit; l.at > 0 {
		c.printf(`<line class="limit" x1="%.1f" x2="%.1f" y1="%.2f" y2="%.2f"/>`, chartLeft, chartWidth-c.right, c.y(l.at), c.y(l.at))
		c.text(chartWidth-c.right, 12, "limit-name", l.name) // bars may exceed the line
	}
	c.hits(b.names, b.all, func(s series, v float64) string { return in.bar(v) + " " + s.Name })
	return figure{Caption: b.caption, Legend: b.all, SVG: c.svg(b.title + ". " + b.caption), Table: numbers(b.title, b.rows, b.names, b.all, false)}
}

// sum returns the sum of all series in a bin.
func sum(all []series, bin int) (sum float64) {
	for _, s := range all {
		sum += s.values[bin]
	}
	return sum
}

// named draws the axis of named bars, with as many of the names as there is room for.
func (c *canvas) named(names []string) {
	w, longest := c.width()/float64(len(names)), 0
	for _, name := range names {
		longest = max(longest, len(name))
	}
	every := int(math.Ceil(labelWidth * float64(longest+2) / w))
	for i, name := range names {
		x := chartLeft + (float64(i)+.5)*w
		if half := labelWidth * float64(len(name)) / 2; i%every == 0 && x+half > chartWidth {
			c.text(chartWidth, c.floor()+18, "under last", name)
		} else if i%every == 0 {
			c.text(x, c.floor()+18, "under", name)
		}
	}
	c.axis()
}

// curves draws times in milliseconds as lines, each with its name at its end.
func curves(b bins, all []series, what, label string) template.HTML {
	c := newCanvas(chartHeight)
	c.right = roomForNames
	least, most := math.Inf(1), 0.0
	for _, s := range all {
		for _, v := range s.values {
			if !math.IsNaN(v) {
				least, most = min(least, v), max(most, v)
			}
		}
	}
	if most == 0 {
		least, most = .1, 1
	}
	c.logScale(least, most, what)
	w := c.width() / float64(b.n)
	var names []float64
	for k := len(all) - 1; k >= 0; k-- { // the name of a higher one keeps its place
		s := all[k]
		var path strings.Builder
		pen, x, y := "M%.2f,%.2fh0 ", 0.0, 0.0 // a single value is a dot
		for i, v := range s.values {
			if math.IsNaN(v) { // a gap
				pen = "M%.2f,%.2fh0 "
				continue
			}
			x, y = chartLeft+(float64(i)+.5)*w, c.y(v)
			fmt.Fprintf(&path, pen, x, y)
			pen = "L%.2f,%.2f "
		}
		if path.Len() == 0 {
			continue
		}
		c.printf(`<path class="line %s" d="%s"/>`, s.Class, strings.TrimSpace(path.String()))
		for _, other := range names {
			y = max(y, other+13)
		}
		names = append(names, y)
		c.text(x+6, y+4, "name", s.Name)
	}
	c.times(b)
	c.hits(b.names(), all, func(s series, v float64) string { return fmt.Sprint(s.Name, " ", threshold.Milliseconds(v)) })
	return c.svg(label)
}

// parts draws a bar for each row, from 0 to 100 %, divided into the shares of the series.
func parts(rows []string, all []series, label string) template.HTML {
	const left, high, gap = 130.0, 20.0, 6.0
	c := newCanvas(float64(len(rows))*(high+gap) + 26)
	width := chartWidth - left - chartRight
	for i, name := range rows {
		y := float64(i) * (high + gap)
		c.text(left-10, y+high-5, "left", name)
		whole, x := sum(all, i), left
		for _, s := range all {
			if s.values[i] == 0 {
				continue
			}
			share := s.values[i] / whole
			c.printf(`<rect class="%s" x="%.2f" y="%.2f" width="%.2f" height="%.2f"><title>%s</title></rect>`, s.Class, x, y, share*width, high,
				html.EscapeString(fmt.Sprintf("%s: %s %s, %s", name, spec.Grouped(int64(s.values[i])), s.Name, percent(share))))
			if label := percent(share); share*width > labelWidth*float64(len(label))+8 {
				c.text(x+6, y+high-5.5, "inside in-"+s.Class, label)
			}
			x += share * width
		}
	}
	floor := float64(len(rows)) * (high + gap)
	for share := 0; share <= 100; share += 25 {
		class := "under"
		if share == 100 {
			class = "under last"
		}
		c.text(left+float64(share)/100*width, floor+14, class, fmt.Sprintf("%d%%", share))
	}
	return c.svg(label)
}

// short formats a number of a scale.
func short(v float64) string {
	switch {
	case v >= 10_000_000:
		return fmt.Sprintf("%gM", v/1e6)
	case v >= 10_000:
		return fmt.Sprintf("%gk", v/1e3)
	}
	return spec.Grouped(int64(v))
}

// percent formats a share of 1. Only 0 and 1 are shown as 0 % and 100 %.
func percent(share float64) string {
	p := share * 100
	switch {
	case p > 0 && p < .1:
		return "<0.1%"
	case p < 100 && p > 99.9:
		return ">99.9%"
	case p == math.Trunc(p):
		return fmt.Sprintf("%.0f%%", p)
	}
	return fmt.Sprintf("%.1f%%", p)
}
