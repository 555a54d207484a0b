package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
)

// checkAll reports which mutants do not apply, or do not build. It goes on after one that fails.
func checkAll(ctx context.Context, t *tree, mutants []mutant, out io.Writer) error {
	var apply []mutant
	bad := make(map[string]error)
	for _, m := range mutants {
		if bad[m.name] = t.with(ctx, m, func() error { return nil }); bad[m.name] == nil {
			apply = append(apply, m)
		}
	}
	if err := t.buildAll(ctx, apply, bad); err != nil {
		return err
	}
	failed := 0
	for _, m := range mutants {
		if err := bad[m.name]; err != nil {
			failed++
			fmt.Fprintf(out, "%s: %v\n", m.name, err)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d planted bugs do not apply or build: the code has changed under them, so write them anew", failed, len(mutants))
	}
	fmt.Fprintf(out, "%d planted bugs apply and build\n", len(mutants))
	return nil
}

// buildAll writes to bad which mutants do not build. Those that apply on top of each other
// are built together, which takes a small part of the time; where that fails, halves of them
// are, until it is known which one it is. An error means that it is not known.
func (t *tree) buildAll(ctx context.Context, mutants []mutant, bad map[string]error) error {
	for len(mutants) > 0 {
		var group, rest []mutant
		for _, m := range mutants {
			if len(group) == 0 || t.apply(ctx, m, "--check") == nil {
				if err := t.apply(ctx, m); err != nil {
					bad[m.name] = err
					continue
				}
				group = append(group, m)
			} else {
				rest = append(rest, m)
			}
		}
		err := t.build(ctx, group)
		for _, m := range slices.Backward(group) {
			// Also when ctx has ended: the next group would find what this one left.
			if back := t.apply(context.WithoutCancel(ctx), m, "--reverse"); back != nil {
				return errors.Join(err, fmt.Errorf("%s cannot be taken back: %w", m.name, back))
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch half := len(group) / 2; {
		case err != nil && len(group) == 1:
			bad[group[0].name] = err
		case err != nil:
			if err := errors.Join(t.buildAll(ctx, group[:half], bad), t.buildAll(ctx, group[half:], bad)); err != nil {
				return err
			}
		}
		mutants = rest
	}
	return nil
}

// build compiles what mutants touch, and the tests that are to find them.
func (t *tree) build(ctx context.Context, mutants []mutant) error {
	var packages, tests []string
	for _, m := range mutants {
		packages = append(packages, m.packages()...)
		if m.test != nil {
			tests = append(tests, m.test[2])
		}
	}
	err := t.compile(ctx, unique(packages)...)
	if err == nil && len(tests) > 0 {
		_, err = t.goTool(ctx, append([]string{"vet"}, unique(tests)...)...)
	}
	return err
}

func unique(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
