package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// find tries to find a mutant that is applied: by its test, or else by a soak.
func (t *tree) find(ctx context.Context, m mutant, o options) (finding, error) {
	if m.test == nil {
		return t.soak(ctx, o.seeds, o)
	}
	// What does not build would fail like a test that finds something.
	if err := t.build(ctx, []mutant{m}); err != nil {
		return finding{}, err
	}
	began := time.Now()
	output, err := t.test(ctx, m, o)
	f := finding{test: m.test[1], took: time.Since(began)}
	if f.found = err != nil && strings.Contains(output, "--- FAIL: "); f.found {
		f.problem = failedTest(output)
		return f, nil
	}
	return f, err
}

// errNoSuchTest reports that a patch names a test that there is not.
var errNoSuchTest = errors.New("no test has the name in the patch")

// test runs the test that is to find a mutant.
func (t *tree) test(ctx context.Context, m mutant, o options) (output string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, errors.New("the test did not end in time"))
	defer cancel()
	output, err = t.goTool(ctx, append([]string{"test", "-count=1", "-vet=off", "-ldflags=-w"}, m.test...)...)
	switch {
	case ctx.Err() != nil:
		return output, context.Cause(ctx)
	case err == nil && strings.Contains(output, "[no tests to run]"):
		return output, fmt.Errorf("%w: go test %s", errNoSuchTest, strings.Join(m.test, " "))
	}
	return output, err
}

// failedTest is the first thing that a test complained of.
func failedTest(output string) string {
	_, output, _ = strings.Cut(output, "--- FAIL: ")
	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(line); strings.Contains(line, ".go:") {
			return line
		}
	}
	return ""
}

// healthy fails if a soak or a test fails with no bug planted.
func (t *tree) healthy(ctx context.Context, mutants []mutant, o options) error {
	ran := map[string]bool{}
	for _, m := range mutants {
		if name := strings.Join(m.test, " "); m.test != nil && !ran[name] {
			ran[name] = true
			if _, err := t.test(ctx, m, o); err != nil {
				return err
			}
		}
	}
	if !slices.ContainsFunc(mutants, func(m mutant) bool { return m.test == nil }) {
		return nil
	}
	f, err := t.soak(ctx, o.seeds, o)
	if err == nil && f.found {
		err = fmt.Errorf("seed %d fails: %s", f.seed, f.problem)
	}
	return err
}
