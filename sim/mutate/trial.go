package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// trial tries mutants: first by the tests of their package, and of others that try its
// code, then by worlds.
type trial struct {
	options
	root, temp, overlay string
	out                 io.Writer
	suites              map[string]*suite // by the folder of a package
	worlds              *suite            // of the soak, once it is needed
}

// outcome is what became of a mutant.
type outcome int

const (
	notReached outcome = iota // by no test, and by no world
	survives
	byTest
	byWorld
	timedOut // in a test or a world
	noted    // survivors are not tried again
)

// result is a mutant and what became of it.
type result struct {
	mutant
	outcome
	by   string // the test, or what the world complains of
	note note
}

func newTrial(ctx context.Context, root string, all []pkg, o options, out io.Writer) (*trial, error) {
	temp, err := os.MkdirTemp("", "mutate-")
	if err != nil {
		return nil, err
	}
	t := &trial{options: o, root: root, temp: temp, out: out, suites: map[string]*suite{}}
	if t.overlay, err = overlay(root, temp, all); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *trial) close() { os.RemoveAll(t.temp) }

// judge tries mutants one after the other.
func (t *trial) judge(ctx context.Context, mutants []mutant, known notes) (results []result, err error) {
	for _, m := range mutants {
		r := result{mutant: m}
		if n, ok := known[m.name()]; ok {
			r.outcome, r.note = noted, n
		} else if err := t.try(ctx, &r); err != nil {
			return results, err
		}
		results = append(results, r)
		if t.verbose || r.outcome == survives || r.outcome == notReached {
			fmt.Fprintln(t.out, r)
		}
	}
	return results, nil
}

// try runs whatever comes by a mutant until something notices it.
func (t *trial) try(ctx context.Context, r *result) error {
	for _, folder := range testedIn(path.Dir(r.file)) {
		tests, err := t.tests(ctx, folder)
		if err != nil {
			return err
		}
		if err := tests.try(ctx, r, byTest); err != nil || r.outcome > survives {
			return err
		}
	}
	if t.seeds == 0 {
		return nil
	}
	worlds, err := t.soak(ctx)
	if err != nil {
		return err
	}
	return worlds.try(ctx, r, byWorld)
}

// tests builds the tests of a package, once.
func (t *trial) tests(ctx context.Context, folder string) (*suite, error) {
	if s, ok := t.suites[folder]; ok {
		return s, nil
	}
	// A test that fails may leave a file where it runs: not in the repository.
	s := &suite{program: filepath.Join(t.temp, strings.ReplaceAll(folder, "/", "_")+".test"), dir: t.temp, quick: t.quick}
	if _, err := goTool(ctx, t.root, "test", "-c", "-vet=off", "-overlay", t.overlay, "-o", s.program, "./"+folder); err != nil {
		return nil, err
	}
	list, err := s.run(ctx, time.Minute, []string{"-test.list", "^(Test|Example|Fuzz)"})
	if err != nil {
		return nil, err
	}
	for name := range strings.FieldsSeq(list) {
		if err := s.record(ctx, t.temp, name, testArgs(name)); err != nil {
			return nil, err
		}
	}
	t.suites[folder] = s
	return s, nil
}

// soak builds the simulation, once.
func (t *trial) soak(ctx context.Context) (*suite, error) {
	if t.worlds != nil {
		return t.worlds, nil
	}
	s := &suite{program: filepath.Join(t.temp, "soak"), dir: t.temp}
	if _, err := goTool(ctx, t.root, "build", "-overlay", t.overlay, "-o", s.program, "./sim/soak"); err != nil {
		return nil, err
	}
	args := []string{"-from", "1", "-seeds", fmt.Sprint(t.seeds)}
	if err := s.record(ctx, t.temp, "the simulation", args); err != nil {
		return nil, err
	}
	t.worlds = s
	return s, nil
}
