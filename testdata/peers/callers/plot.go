package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"

	"salectl/testdata/peers/internal/page"
)

// The plot's parts, in the units of its view box.
const (
	plotWidth  = 860.0
	plotHeight = 480.0
	panelWidth = 340.0
	panelTop   = 50.0
	panelFloor = 360.0
)

// styles are how the lines are drawn: salectl's are whole, its peers' dashed. The colours can
// be distinguished by the colour-blind, and the shapes without colour.
var styles = map[string]struct{ colour, dash, shape string }{
	inProcess:      {"#0072b2", "", "M-4 -4H4V4H-4z"},
	inProcessHBase: {"#009e73", "", "M0 -5L5 4H-5z"},
	overHTTP:       {"#d55e00", "", "M0 -5.5L5.5 0L0 5.5L-5.5 0z"},
	naiveProtocol:  {"#a3447a", "7 4", "M0 5L5 -4H-5z"},
	postgres:       {"#1b2733", "7 4", "M-4.5 0A4.5 4.5 0 1 1 4.5 0A4.5 4.5 0 1 1 -4.5 0z"},
	echo:           {"#7a8896", "2 3", "M-5 -1.3H-1.3V-5H1.3V-1.3H5V1.3H1.3V5H-1.3V1.3H-5z"},
}

// axis is a scale of powers of ten.
type axis struct{ least, most, from, to float64 }

// at is where a value stands.
func (a axis) at(v float64) float64 {
	return a.from + (a.to-a.from)*math.Log(v/a.least)/math.Log(a.most/a.least)
}

// tens is the axis, from one power of ten to another, on which all values are.
func tens(values []float64, from, to float64) axis {
	a := axis{math.Inf(1), math.Inf(-1), from, to}
	for _, v := range values {
		a.least, a.most = min(a.least, math.Pow(10, math.Floor(math.Log10(v)))), max(a.most, math.Pow(10, math.Ceil(math.Log10(v))))
	}
	if a.least == a.most {
		a.most *= 10
	}
	return a
}

// panel is one of the two charts.
type panel struct {
	title string
	left  float64
	value func(point) float64
	name  func(tick float64) string
	open  func(point) bool // the true value is beyond
}

// plot draws the lines as an SVG, on an opaque ground, so that it reads the same on a light
// and on a dark page.
func plot(lines []line) []byte {
	b := new(bytes.Buffer)
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]g %[2]g" role="img" aria-labelledby="title desc"
     font-family="system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif" font-size="13" fill="#1b2733">
  <title id="title">Claims a second, and how long they take, by the number of callers</title>
  <desc id="desc">Two charts with scales of powers of ten. The table beside them has the same numbers.</desc>
  <rect x="1" y="1" width="%[3]g" height="%[4]g" rx="14" fill="#f7f9fc" stroke="#9aa9ba"/>
`, plotWidth, plotHeight, plotWidth-2, plotHeight-2)
	draw(b, lines, panel{"claims a second", 80, func(p point) float64 { return p.rate }, page.Grouped, func(point) bool { return false }})
	draw(b, lines, panel{"99th percentile of the wait", 500, func(p point) float64 { return p.p99 },
		func(ms float64) string { return wait(point{p99: ms}) }, func(p point) bool { return p.atLeast }})
	legend(b, lines)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func draw(b *bytes.Buffer, lines []line, p panel) {
	var values []float64
	for _, l := range lines {
		for _, one := range shown(l, p) {
			values = append(values, p.value(one))
		}
	}
	x := axis{1, float64(crowds[len(crowds)-1]), p.left + 12, p.left + panelWidth - 12}
	y := tens(values, panelFloor, panelTop)
	fmt.Fprintf(b, "  <text x=\"%g\" y=\"30\" font-size=\"15\" font-weight=\"600\">%s</text>\n", p.left, p.title)
	for tick := y.least; tick <= y.most*1.001; tick *= 10 {
		fmt.Fprintf(b, "  <path d=\"M%g %.1fH%g\" stroke=\"#cdd6e0\"/><text x=\"%g\" y=\"%.1f\" text-anchor=\"end\" font-size=\"12\">%s</text>\n",
			p.left, y.at(tick), p.left+panelWidth, p.left-6, y.at(tick)+4, escaped(p.name(page.Rounded(tick, 1))))
	}
	for _, callers := range crowds {
		at := x.at(float64(callers))
		fmt.Fprintf(b, "  <path d=\"M%.1f %gV%g\" stroke=\"#e3e9f0\"/><text x=\"%.1f\" y=\"%g\" text-anchor=\"middle\" font-size=\"12\">%s</text>\n",
			at, panelTop, panelFloor, at, panelFloor+18, page.Grouped(float64(callers)))
	}
	fmt.Fprintf(b, "  <text x=\"%g\" y=\"%g\" text-anchor=\"middle\" font-size=\"12\">callers</text>\n", p.left+panelWidth/2, panelFloor+36)
	for _, l := range lines {
		style, path, shapes := styles[l.name], "", ""
		for i, one := range shown(l, p) {
			px, py := x.at(float64(one.callers)), y.at(p.value(one))
			path += fmt.Sprintf("%c%.1f %.1f", "ML"[min(i, 1)], px, py)
			fill := style.colour
			if p.open(one) {
				fill = "#f7f9fc"
			}
			shapes += fmt.Sprintf(`<path d="%s" transform="translate(%.1f %.1f)" fill="%s"/>`, style.shape, px, py, fill)
		}
		fmt.Fprintf(b, "  <g stroke=\"%s\" stroke-width=\"2\"><path d=\"%s\" fill=\"none\" stroke-dasharray=\"%s\"/>%s</g>\n",
			style.colour, path, dashes(style.dash), shapes)
	}
}

// shown are the points that a panel has a place for: 0 has none among powers of ten.
func shown(l line, p panel) (points []point) {
	for _, one := range l.points {
		if p.value(one) > 0 {
			points = append(points, one)
		}
	}
	return points
}

func dashes(dash string) string {
	if dash == "" {
		return "none"
	}
	return dash
}

// legend names the lines below both charts.
func legend(b *bytes.Buffer, lines []line) {
	beyond := false
	for i, l := range lines {
		style := styles[l.name]
		x, y := 40+float64(i%3)*282, panelFloor+62+float64(i/3)*24
		fmt.Fprintf(b, "  <g stroke=\"%s\" stroke-width=\"2\"><path d=\"M%g %gh34\" stroke-dasharray=\"%s\"/><path d=\"%s\" transform=\"translate(%g %g)\" fill=\"%s\"/></g><text x=\"%g\" y=\"%g\">%s</text>\n",
			style.colour, x, y, dashes(style.dash), style.shape, x+17, y, style.colour, x+42, y+4, escaped(l.name))
		for _, p := range l.points {
			beyond = beyond || p.atLeast
		}
	}
	if beyond {
		fmt.Fprintf(b, "  <text x=\"40\" y=\"%g\" font-size=\"12\">Hollow: the wait was longer; the measurement ended before.</text>\n", panelFloor+62+2*24+4)
	}
}

func escaped(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text)) // a buffer takes all
	return b.String()
}
