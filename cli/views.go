package cli

import (
	_ "embed"
	"reflect"
	"strings"
	"text/template"
	"time"

	"salectl/cli/terminal"
	"salectl/executor/rehearse"
	"salectl/planner"
	"salectl/report/threshold"
	"salectl/rules"
)

//go:embed views.tmpl
var viewsText string

// view prints a view of views.tmpl as the answer for one sale.
func (p *program) view(name string, data any) {
	c := p.colours(p.out)
	// whole converts a number of any type.
	whole := func(n any) int64 { return reflect.ValueOf(n).Convert(reflect.TypeFor[int64]()).Int() }
	views := template.Must(template.New("").Funcs(template.FuncMap{
		"bold": c.Bold, "dim": c.Dim, "green": c.Green, "red": c.Red, "yellow": c.Yellow,
		"accounted":    accountedText,
		"asked":        ofAsked,
		"count":        func(n any, noun string) string { return count(whole(n), noun) },
		"grouped":      func(n any) string { return grouped(whole(n)) },
		"indent":       func(text string) string { return strings.ReplaceAll(text, "\n", "\n      ") },
		"join":         strings.Join,
		"milliseconds": threshold.Milliseconds,
		"mostCost":     func() uint64 { return rules.MaxCost },
		"ordered":      rehearse.Ordered[int],
		"seconds":      func(s float64) time.Duration { return threshold.Milliseconds(1000 * s) },
		"some": func(mark string, texts []string, noun string, all bool) string {
			var b strings.Builder
			terminal.WriteSome(&b, mark, texts, noun, all)
			return b.String()
		},
		"sold":      soldText,
		"threshold": func(t threshold.Result) string { return thresholdText(c, t) },
		"time":      planner.TimeText, "units": unitList,
	}).Parse(viewsText))
	p.gap()
	if err := views.ExecuteTemplate(p.out, name, data); err != nil && p.out.Err == nil {
		panic(err) // the template does not fit its data
	}
}
