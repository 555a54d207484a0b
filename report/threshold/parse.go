package threshold

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"salectl/spec"
)

// form matches the name, the comparison and the number of a condition, each of which may be
// missing. The unit follows.
var form = regexp.MustCompile(`^[ \t]*([_.\pL\p{Nd}]*)[ \t]*(<=|>=|==|!=|<|>|)[ \t]*([.\p{Nd}]*)[ \t]*`)

// Parse parses a condition: a metric's name, a comparison, and a value in the metric's unit,
// with or without spaces between them. An error states the position and what is expected
// there.
func (m Metrics) Parse(text string) (Threshold, error) {
	p := parser{m, text, form.FindStringSubmatchIndex(text)}
	t := Threshold{text: strings.TrimSpace(text)}
	for _, read := range []func(*Threshold) error{p.name, p.comparison, p.value} {
		if err := read(&t); err != nil {
			return Threshold{}, err
		}
	}
	return t, nil
}

// parser parses one condition from left to right.
type parser struct {
	Metrics
	text  string
	parts []int // submatch indices of form; the first pair is the whole match
}

// part returns a submatch of form and its index.
func (p *parser) part(i int) (string, int) { return p.text[p.parts[2*i]:p.parts[2*i+1]], p.parts[2*i] }

// wrong returns an error at a byte of the text.
func (p *parser) wrong(at int, format string, args ...any) error {
	return fmt.Errorf("threshold %q, character %d: %s", p.text, utf8.RuneCountInString(p.text[:at])+1, fmt.Sprintf(format, args...))
}

func (p *parser) name(t *Threshold) error {
	name, at := p.part(1)
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
	is, at := p.part(2)
	t.is = comparison(is)
	switch {
	case is != "":
		return nil
	case strings.HasPrefix(p.text[at:], "="):
		return p.wrong(at, "write == to ask for equality")
	}
	return p.wrong(at, "a comparison belongs here: one of <, <=, >, >=, == and !=")
}

// value parses the bound, and checks its unit.
func (p *parser) value(t *Threshold) error {
	figure, at := p.part(3)
	bound, err := strconv.ParseFloat(figure, 64)
	if err != nil {
		return p.wrong(at, "a number belongs here, as in %s", p.like(t.metric))
	}
	unitAt := p.parts[1]
	unit := strings.TrimSpace(p.text[unitAt:])
	if i := strings.IndexAny(unit, ",&|;"); i >= 0 {
		if i == 0 && unit[0] == ',' && len(unit) > 1 && unicode.IsDigit(rune(unit[1])) {
			return p.wrong(unitAt, "write the number without commas")
		}
		return p.wrong(unitAt+strings.IndexAny(p.text[unitAt:], ",&|;"), "a threshold is one condition; give --threshold again for another one")
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

// like returns an example of a threshold on a metric.
func (p *parser) like(m Metric) string {
	switch m.Kind {
	case Duration:
		return m.Name + "<50ms"
	case Rate:
		return m.Name + ">10000"
	}
	return m.Name + "==100"
}
