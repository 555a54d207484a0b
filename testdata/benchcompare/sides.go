package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// sides are the two versions, each with its test programs built.
type sides struct {
	repository string // the working tree
	temp       string // a folder of our own
	base, now  side
}

// side is one version.
type side struct {
	tree     string // where its sources are
	programs string // the folder of its test programs
}

// openSides builds the test programs of a list of benchmarks, of a commit in a git
// worktree that close removes, and of the working tree as it is.
func openSides(ctx context.Context, folder, base string, list []benchmark) (_ *sides, err error) {
	top, err := command(ctx, folder, "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp("", "benchcompare-")
	if err != nil {
		return nil, err
	}
	s := &sides{repository: strings.TrimSpace(string(top)), temp: temp}
	s.base = side{filepath.Join(temp, "base"), filepath.Join(temp, "base.programs")}
	s.now = side{s.repository, filepath.Join(temp, "now.programs")}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if _, err := command(ctx, s.repository, "git", "worktree", "add", "--detach", s.base.tree, base); err != nil {
		return nil, err
	}
	for _, v := range []side{s.base, s.now} {
		var packages []string
		for _, b := range list {
			packages = append(packages, "./"+v.folder(b))
		}
		slices.Sort(packages)
		packages = slices.Compact(packages)
		progress("building the test programs of %s", v.tree)
		build := append([]string{"test", "-c", "-o", v.programs + "/"}, packages...)
		if _, err := command(ctx, v.tree, "go", build...); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// close removes the worktree and the programs, also when the context has ended.
func (s *sides) close() error {
	var err error
	if _, there := os.Stat(s.base.tree); there == nil {
		_, err = command(context.Background(), s.repository, "git", "worktree", "remove", "--force", s.base.tree)
	}
	return errors.Join(err, os.RemoveAll(s.temp))
}

// pair runs a benchmark on both sides, one right after the other.
func (s *sides) pair(ctx context.Context, b benchmark, nowFirst bool) (base, now result, err error) {
	if nowFirst {
		if now, err = s.now.run(ctx, b); err == nil {
			base, err = s.base.run(ctx, b)
		}
		return base, now, err
	}
	if base, err = s.base.run(ctx, b); err == nil {
		now, err = s.now.run(ctx, b)
	}
	return base, now, err
}

// folder returns the folder of a benchmark in this version.
func (v side) folder(b benchmark) string {
	if _, err := os.Stat(filepath.Join(v.tree, b.pkg)); err != nil && b.former != "" {
		return b.former
	}
	return b.pkg
}

// run runs one benchmark once, in the folder in which `go test` would.
func (v side) run(ctx context.Context, b benchmark) (result, error) {
	folder := v.folder(b)
	program := filepath.Join(v.programs, filepath.Base(folder)+".test")
	out, err := command(ctx, filepath.Join(v.tree, folder), program,
		"-test.run", "^$", "-test.bench", exactly(b.name), "-test.benchtime", b.times, "-test.timeout", "5m")
	if err != nil {
		return nil, err
	}
	r, err := parse(out, b.name)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", b.name, filepath.Join(v.tree, b.pkg), err)
	}
	return r, nil
}

// exactly is the pattern of -test.bench that matches one benchmark only.
func exactly(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	parts[0] = strings.Replace(parts[0], "^", "^Benchmark", 1)
	return strings.Join(parts, "/")
}

// command runs a program in a folder and returns what it printed, with an error that has
// that as well.
func command(ctx context.Context, folder, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = folder
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s%s", strings.Join(cmd.Args, " "), err, stderr.Bytes(), out.Bytes())
	}
	return out.Bytes(), nil
}
