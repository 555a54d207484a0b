package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"

	"salectl/planner"
	"salectl/spec"
)

// formatVersion stands in every JSON object that a command prints. It is raised
// when a field changes its meaning or goes away, not when one is added.
const formatVersion = 1

// emit prints one line of JSON as the answer.
func (p *program) emit(v any) {
	lines := json.NewEncoder(p.out)
	lines.SetEscapeHTML(false)
	// Views are plain structs, so only the write can fail; answer remembers that.
	_ = lines.Encode(v)
}

// pick chooses between the two ways to answer: for people, and in JSON.
func pick[View any](asJSON bool, human, inJSON View) View {
	if asJSON {
		return inJSON
	}
	return human
}

// gap sets the answers for two sales apart, where each has several lines.
func (p *program) gap() {
	if p.out.written {
		fmt.Fprintln(p.out)
	}
}

// shown is an error that its reader has seen already.
type shown struct{ error }

func (s shown) Unwrap() error { return s.error }

// advised is an error in words for people, with what to do about it.
type advised struct {
	what, remedy string
	err          error // which gives the exit code
}

func (a advised) Error() string { return a.what }
func (a advised) Unwrap() error { return a.err }

// report tells people on standard error what a command ended with, each failure
// with its remedy.
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
				p.say("")
			}
			fmt.Fprint(p.err, problem.Text())
		default:
			p.fault(e)
		}
	}
	if hint != "" {
		p.say("%s", hint)
	}
}

// onlyInterrupted reports whether there is nothing to tell but that a signal came,
// of which run speaks.
func onlyInterrupted(err error) bool {
	switch wrapped := err.(type) {
	case advised:
		return false
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(wrapped.Unwrap(), func(e error) bool { return !onlyInterrupted(e) })
	case interface{ Unwrap() error }:
		return onlyInterrupted(wrapped.Unwrap())
	}
	return err == context.Canceled || err == errInterrupted
}

// failuresOf takes a multierror apart.
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

// fault writes one error and, indented, what to do about it.
func (p *program) fault(err error) {
	what, remedy := explain(err)
	p.say("%s %s", p.colours(p.err).red("Error:"), what)
	if remedy != "" {
		p.say("  %s", strings.ReplaceAll(remedy, "\n", "\n  "))
	}
}

// explain splits an error into what is wrong and what to do about it.
func explain(err error) (what, remedy string) {
	what = err.Error()
	var a advised
	if errors.As(err, &a) {
		return what, a.remedy
	}
	var refusal *planner.Refusal
	if errors.As(err, &refusal) && refusal.Remedy != "" {
		// Whatever wraps a refusal ends with it.
		if bare, found := strings.CutSuffix(what, ". "+refusal.Remedy); found {
			return bare + ".", refusal.Remedy
		}
	}
	return what, ""
}
