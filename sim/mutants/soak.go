package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// finding is what a soak or a test came to.
type finding struct {
	found   bool
	test    string // that found it; "": a world did
	seed    uint64 // of the first world that failed
	problem string // what is wrong there
	took    time.Duration
}

// errUnsure reports that a soak ended before all its seeds were run, and none had
// failed: a world that hangs is a finding for a person, and not for a table.
var errUnsure = errors.New("the soak did not end in time")

// soak builds the command soak of the copy and runs it until a world fails.
func (t *tree) soak(ctx context.Context, seeds uint64, o options) (finding, error) {
	program := filepath.Join(t.temp, "soak")
	if err := t.compile(ctx, "-o", program, "./sim/soak"); err != nil {
		return finding{}, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.limit, errUnsure)
	defer cancel()
	began := time.Now()
	cmd := exec.CommandContext(ctx, program, "-seeds", fmt.Sprint(seeds), "-from", fmt.Sprint(o.from))
	lines, err := cmd.StdoutPipe()
	if err != nil {
		return finding{}, err
	}
	var crash tail
	cmd.Stderr = &crash
	if err := cmd.Start(); err != nil {
		return finding{}, err
	}
	f := follow(lines)
	if f.found {
		cancel() // one is enough
	}
	err = cmd.Wait()
	f.took = time.Since(began)
	switch {
	case f.found || err == nil:
		return f, nil
	case ctx.Err() != nil:
		return f, context.Cause(ctx)
	}
	return f, fmt.Errorf("the soak broke down: %w\n%s", err, crash.text)
}

// failure is the report of a soak about a world that failed.
var failure = regexp.MustCompile(`^FAILED .*-seed (\d+)[^:]*: (.*)`)

// follow reads the output of a soak until a world has failed, or to the end.
func follow(from io.Reader) (f finding) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	lines.Split(splitLines)
	for lines.Scan() {
		text := strings.TrimSpace(lines.Text())
		if m := failure.FindStringSubmatch(text); m != nil {
			seed, err := strconv.ParseUint(m[1], 10, 64)
			if err != nil {
				continue
			}
			f.found, f.seed, f.problem = true, seed, m[2]
			return f
		}
	}
	return f
}

// splitLines also ends a line where a terminal would begin to overwrite it.
func splitLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexAny(data, "\r\n"); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// by is who found it: a test, or a checker, which the soak names before the
// problem.
func (f finding) by() string {
	if f.test != "" {
		return f.test
	}
	if name, _, ok := strings.Cut(f.problem, ": "); ok && !strings.Contains(name, " ") {
		return name
	}
	return "rest" // the world did not come to it
}

// tail keeps the begin of the output of a program that breaks down.
type tail struct{ text []byte }

func (t *tail) Write(b []byte) (int, error) {
	if room := 2000 - len(t.text); room > 0 {
		t.text = append(t.text, b[:min(room, len(b))]...)
	}
	return len(b), nil
}
