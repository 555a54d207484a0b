package threshold

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"salectl/spec"
)

// comparison is how a measured value is to be to the bound.
type comparison string

// comparisons are all of them, each before those that it begins with.
var comparisons = []comparison{"<=", ">=", "==", "!=", "<", ">"}

func (c comparison) holds(measured, bound float64) bool {
	switch c {
	case "<":
		return measured < bound
	case "<=":
		return measured <= bound
	case ">":
		return measured > bound
	case ">=":
		return measured >= bound
	case "==":
		return measured == bound
	}
	return measured != bound
}

// Parse reads a condition: a metric's name, a comparison, and a value in the metric's unit,
// with spaces between them or without. An error names the place and what belongs there.
func (m Metrics) Parse(text string) (Threshold, error) {
	p := parser{Metrics: m, text: text}
	t, err := p.threshold()
	if err != nil {
		return Threshold{}, err
	}
	t.text = strings.TrimSpace(text)
	return t, nil
}

// parser reads one condition from left to right.
type parser struct {
	Metrics
	text string
	at   int // the byte that is read next
}

// wrong is an error at a byte of the text.
func (p *parser) wrong(at int, format string, args ...any) error {
	return fmt.Errorf("threshold %q, character %d: %s", p.text, utf8.RuneCountInString(p.text[:at])+1, fmt.Sprintf(format, args...))
}

func (p *parser) space() {
	for p.at < len(p.text) && (p.text[p.at] == ' ' || p.text[p.at] == '\t') {
		p.at++
	}
}

// take reads as long as the letters are fit.
func (p *parser) take(fit func(rune) bool) string {
	rest := p.text[p.at:]
	n := strings.IndexFunc(rest, func(r rune) bool { return !fit(r) })
	if n < 0 {
		n = len(rest)
	}
	p.at += n
	return rest[:n]
}

func (p *parser) threshold() (t Threshold, err error) {
	if err := p.name(&t); err != nil {
		return t, err
	}
	p.space()
	if err := p.comparison(&t); err != nil {
		return t, err
	}
	p.space()
	return t, p.value(&t)
}

func (p *parser) name(t *Threshold) error {
	p.space()
	at := p.at
	name := p.take(func(r rune) bool { return r == '_' || r == '.' || unicode.IsLetter(r) || unicode.IsDigit(r) })
	if name == "" {
		return p.wrong(at, "it begins with the name of what is measured, as in %s; the names are %s", p.example(), strings.Join(p.Names(), ", "))
	}
	if digits, is := strings.CutPrefix(name, "p"); is && p.Latency {
		if percent, err := strconv.ParseFloat(digits, 64); err == nil {
			if !(percent > 0 && percent <= 100) {
				return p.wrong(at, "there is no percentile %s: they are above 0 and at most 100, as in p99.9", name)
			}
			t.metric, t.percent = Metric{Name: name, Kind: Duration}, percent
			return nil
		}
	}
	metric, known := p.find(name)
	if !known {
		if near := spec.Nearest(name, p.Names()); near != "" {
			return p.wrong(at, "%q is not measured; did you mean %s?", name, near)
		}
		return p.wrong(at, "%q is not measured; the names are %s", name, strings.Join(p.Names(), ", "))
	}
	t.metric = metric
	return nil
}

func (p *parser) example() string {
	if p.Latency {
		return "p99<50ms"
	}
	return "sold==100"
}

func (p *parser) comparison(t *Threshold) error {
	for _, c := range comparisons {
		if strings.HasPrefix(p.text[p.at:], string(c)) {
			t.is = c
			p.at += len(c)
			return nil
		}
	}
	if strings.HasPrefix(p.text[p.at:], "=") {
		return p.wrong(p.at, "write == to ask for equality")
	}
	return p.wrong(p.at, "a comparison belongs here: one of <, <=, >, >=, == and !=")
}

// value reads the bound, and checks its unit.
func (p *parser) value(t *Threshold) error {
	at := p.at
	figure := p.take(func(r rune) bool { return r == '.' || unicode.IsDigit(r) })
	bound, err := strconv.ParseFloat(figure, 64)
	if err != nil {
		return p.wrong(at, "a number belongs here, as in %s", p.like(t.metric))
	}
	p.space()
	unitAt := p.at
	unit := strings.TrimSpace(p.text[p.at:])
	if i := strings.IndexAny(unit, ",&|;"); i >= 0 {
		if i == 0 && unit[0] == ',' && len(unit) > 1 && unicode.IsDigit(rune(unit[1])) {
			return p.wrong(unitAt, "write the number without commas")
		}
		return p.wrong(unitAt+strings.IndexAny(p.text[p.at:], ",&|;"), "a threshold is one condition; give --threshold again for another one")
	}
	switch {
	case unit == "%":
		if t.metric.Of == "" {
			return p.wrong(unitAt, "%s is no share of anything; write it as in %s", t.metric.Name, p.like(t.metric))
		}
		t.bound, t.share = bound, true
	case t.metric.Kind == Duration:
		d, err := time.ParseDuration(figure + unit)
		switch {
		case unit == "":
			return p.wrong(unitAt, "%s is a time, whose unit is missing: ns, us, ms, s, m or h, as in %s", t.metric.Name, p.like(t.metric))
		case err != nil:
			return p.wrong(unitAt, "%q is no unit of time: ns, us, ms, s, m or h, as in %s", unit, p.like(t.metric))
		}
		t.bound = float64(d) / float64(time.Millisecond)
	case t.metric.Kind == Rate && (unit == "" || unit == "/s"), unit == "":
		t.bound = bound
	default:
		allowed := []string{"no unit"}
		if t.metric.Kind == Rate {
			allowed = append(allowed, "/s")
		}
		if t.metric.Of != "" {
			allowed = append(allowed, "% of "+t.metric.Of)
		}
		return p.wrong(unitAt, "%s has %s, and not %q", t.metric.Name, strings.Join(slices.Compact(allowed), " or "), unit)
	}
	return nil
}

// like is a threshold on a metric, as an example.
func (p *parser) like(m Metric) string {
	switch m.Kind {
	case Duration:
		return m.Name + "<50ms"
	case Rate:
		return m.Name + ">10000"
	}
	return m.Name + "==100"
}
