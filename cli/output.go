package cli

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/hashicorp/go-multierror"

	"salectl/backends/ledger"
	"salectl/cli/terminal"
	"salectl/executor/rehearse"
	"salectl/internal/files"
	"salectl/internal/signals"
	"salectl/planner"
	"salectl/report"
	"salectl/report/threshold"
	"salectl/rules"
	"salectl/spec"
)

// formatVersion is in every JSON object that a command prints. It increases when a field
// changes its meaning or is removed, not when one is added.
const formatVersion = 1

// emit prints one line of JSON as the answer: the fields of a struct after the format version,
// which only a plan has itself.
func (p *program) emit(v any) {
	var line bytes.Buffer
	lines := json.NewEncoder(&line)
	lines.SetEscapeHTML(false)
	if err := lines.Encode(v); err != nil {
		panic(err) // views are plain structs
	}
	text := line.Bytes()
	if _, versioned := v.(*planner.Plan); !versioned {
		text = append(fmt.Appendf(nil, `{"formatVersion":%d,`, formatVersion), text[1:]...)
	}
	_, _ = p.out.Write(text) // the answer records a failure
}

// pick selects one of two views: for people, and in JSON.
func pick[View any](asJSON bool, human, inJSON View) View {
	if asJSON {
		return inJSON
	}
	return human
}

// gap separates the answers for two sales, if each has several lines.
func (p *program) gap() {
	if p.out.Written {
		fmt.Fprintln(p.out)
	}
}

// shown is an error that was already reported.
type shown struct{ error }

func (s shown) Unwrap() error { return s.error }

// advised is an error with a text for people and a remedy.
type advised struct {
	what, remedy string
	err          error // determines the exit code
}

func (a advised) Error() string { return a.what }
func (a advised) Unwrap() error { return a.err }

// report prints the error of a command to standard error, each failure with its remedy.
func (p *program) report(err error) {
	failures := failuresOf(err)
	hint := ""
	for i, e := range failures {
		var usage *usageError
		var problem *spec.Problem
		switch {
		case errors.As(e, new(shown)), onlyInterrupted(e):
		case errors.As(e, &usage):
			p.fault(e)
			hint = usage.hint()
		case errors.As(e, &problem):
			if i > 0 {
				p.logf("")
			}
			fmt.Fprint(p.err, problem.Text())
		default:
			p.fault(e)
		}
	}
	if hint != "" {
		p.logf("%s", hint)
	}
}

// onlyInterrupted reports whether the only error is a signal, which run reports.
func onlyInterrupted(err error) bool {
	switch wrapped := err.(type) {
	case advised:
		return false
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(wrapped.Unwrap(), func(e error) bool { return !onlyInterrupted(e) })
	case interface{ Unwrap() error }:
		return onlyInterrupted(wrapped.Unwrap())
	}
	return err == context.Canceled || err == signals.ErrInterrupted
}

// failuresOf splits a multierror into its failures.
func failuresOf(err error) []error {
	if err == nil {
		return nil
	}
	var all *multierror.Error
	if errors.As(err, new(shown)) || !errors.As(err, &all) {
		return []error{err}
	}
	var failures []error
	for _, e := range all.Errors {
		failures = append(failures, failuresOf(e)...)
	}
	return failures
}

// fault prints one error and, indented, its remedy.
func (p *program) fault(err error) { p.logf("%s", faultText(p.colours(p.err), err)) }

// faultText returns the text of an error with its remedy below.
func faultText(c terminal.Palette, err error) string {
	what, remedy := split(err)
	if remedy != "" {
		remedy = "\n  " + strings.ReplaceAll(remedy, "\n", "\n  ")
	}
	return c.Red("Error:") + " " + what + remedy
}

// failureText returns the text of an error without colours.
func failureText(err error) string {
	if problem, is := errors.AsType[*spec.Problem](err); is {
		return problem.Text()
	}
	return faultText(false, err)
}

// split returns the message of an error and its remedy; "": it has none.
func split(err error) (what, remedy string) {
	what = err.Error()
	if a, is := errors.AsType[advised](err); is {
		return what, a.remedy
	}
	if refusal, is := errors.AsType[*planner.Refusal](err); is && refusal.Remedy != "" {
		return what + ".", refusal.Remedy
	}
	if none, is := errors.AsType[ledger.NoSale](err); is && none.Fate == "" {
		return what, "Run 'salectl apply' first."
	}
	if failed, is := errors.AsType[*files.Error](err); is {
		remedy = failed.Remedy
	}
	return what, remedy
}

// count formats a number with its noun: "1 problem", "12,345 problems".
func count[N int | int64 | uint64](n N, noun string) string { return spec.Count(n, noun) }

// grouped formats a number with a comma every three digits.
func grouped[N int | int64 | uint64](n N) string { return spec.Grouped(n) }

//go:embed views.tmpl
var viewsText string

// view prints a view of views.tmpl as the answer for one sale.
func (p *program) view(name string, data any) {
	c := p.colours(p.out)
	views := template.Must(template.New("").Funcs(report.Numbers).Funcs(template.FuncMap{
		"bold": c.Bold, "dim": c.Dim, "green": c.Green, "red": c.Red, "yellow": c.Yellow,
		"accounted":   accountedText,
		"ofRequested": ofRequested,
		"indent":      func(text string) string { return strings.ReplaceAll(text, "\n", "\n      ") },
		"join":        strings.Join,
		"mostCost":    func() uint64 { return rules.MaxCost },
		"ordered":     rehearse.Ordered[int],
		"past":        func(t time.Time) bool { return t.Before(time.Now()) },
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
