package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"salectl/sim/mutate/mutation"
)

// suite is a program with all mutants in it, and what its parts come by.
type suite struct {
	program string
	dir     string // that it runs in
	parts   []part // the tests, in the order of the source
	last    string // the part that found a mutant last
	quick   bool   // the slow ones are not run
}

// part is a test, or a soak.
type part struct {
	name   string
	args   []string
	cpu    time.Duration // that it takes while no mutant is on
	comeBy map[int]bool  // the mutants
}

// slow is how much processor time quick tests may take.
const slow = 200 * time.Millisecond

// try runs the parts that come by a mutant: what found the last one first, since
// neighbours tend to be found alike, then the quick ones, then one after another.
func (s *suite) try(ctx context.Context, r *result, how outcome) error {
	var last, quick []part
	var others [][]part
	for _, p := range s.parts {
		switch {
		case !p.comeBy[r.id]:
			continue
		case p.name == s.last:
			last = append(last, p)
		case p.cpu < slow:
			quick = append(quick, p)
		case !s.quick:
			others = append(others, []part{p})
		default:
			continue
		}
		r.outcome = max(r.outcome, survives)
	}
	slices.SortFunc(others, func(a, b []part) int { return cmp.Compare(a[0].cpu, b[0].cpu) })
	for _, some := range append([][]part{last, quick}, others...) {
		if len(some) == 0 {
			continue
		}
		var cpu time.Duration
		var names []string
		for _, p := range some {
			cpu += p.cpu
			names = append(names, p.name)
		}
		args := some[0].args
		if how == byTest {
			args = testArgs(names...)
		}
		output, err := s.run(ctx, 2*time.Second+5*cpu, args, fmt.Sprintf("%s=%d", mutation.Active, r.id))
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errTime):
			r.outcome = timedOut
			return nil
		case err != nil:
			r.outcome, r.by = how, complaint(output)
			s.last, _, _ = strings.Cut(r.by, "/")
			return nil
		}
	}
	return nil
}

// complaints match the first complaint of a test, a world or a panic.
var complaints = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|^.*FAILED .*?-seed (.*)|^(panic: .*|fatal error: .*)`)

func complaint(output string) string {
	found := complaints.FindStringSubmatch(output)
	if found == nil {
		return "exit"
	}
	return oneLine(strings.Join(found[1:], ""))
}

func testArgs(names ...string) []string {
	return []string{"-test.short", "-test.failfast", "-test.run", "^(" + strings.Join(names, "|") + ")$"}
}

// errTime reports that a program used up the processor time that it was given, or
// stood still.
var errTime = errors.New("it did not end in time")

// errFailed reports that a program was stopped after its first complaint: the other
// worlds of a soak need not be run.
var errFailed = errors.New("a world failed")

// listener keeps the begin of the output of a program.
type listener struct {
	output []byte
	failed func()
}

func (l *listener) Write(b []byte) (int, error) {
	if room := 20000 - len(l.output); room > 0 {
		l.output = append(l.output, b[:min(room, len(b))]...)
	}
	if bytes.Contains(b, []byte("FAILED ")) {
		l.failed()
	}
	return len(b), nil
}

// run runs the program for as much processor time as it is given: a bound that
// other programs on the machine do not move.
func (s *suite) run(ctx context.Context, cpu time.Duration, args []string, env ...string) (output string, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out := &listener{failed: func() { stop(errFailed) }}
	// 8 GB are for one that fills the memory in an endless loop. Not every system
	// can bound that.
	limits := fmt.Sprintf(`ulimit -v 8000000 2>/dev/null; ulimit -t %d && exec "$0" "$@"`, int(cpu.Seconds())+1)
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", limits, s.program}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, out, out
	// Without a path no test finds a server, and those that need one are skipped.
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "PATH=") || strings.HasPrefix(v, "CI=")
	}), append(env, "PATH=/nonexistent")...)
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return "", err
	}
	standstill := time.AfterFunc(patience, func() { stop(errTime) })
	defer standstill.Stop()
	ended := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { prolong(standstill, cmd.Process.Pid, ended) })
	err = cmd.Wait()
	close(ended)
	watch.Wait()
	if ctx.Err() != nil {
		return string(out.output), context.Cause(ctx)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && (status.Signal() == syscall.SIGXCPU || status.Signal() == syscall.SIGKILL) {
			return string(out.output), errTime
		}
	}
	return string(out.output), err
}

// patience is how long a program may use no processor time: tests wait for what
// they are about to happen, but not that long.
const patience = 15 * time.Second

// prolong puts off the end of a program's patience as long as it is at work.
// Where the system does not report it, nothing stands still for that long.
func prolong(standstill *time.Timer, pid int, ended <-chan struct{}) {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for last := ""; ; {
		select {
		case <-ended:
			return
		case <-every.C:
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, fields, _ := strings.Cut(string(text), ") ")
		if used := strings.Fields(fields); err != nil || len(used) < 13 {
			standstill.Reset(10 * time.Minute)
		} else if now := used[11] + " " + used[12]; now != last { // in user code, and in the system
			last = now
			standstill.Reset(patience)
		}
	}
}

// record runs a part while no mutant is on, and notes what it comes by.
func (s *suite) record(ctx context.Context, temp, name string, args []string) error {
	file := filepath.Join(temp, "reached")
	began := childTime()
	output, err := s.run(ctx, 10*time.Minute, args, mutation.Reached+"="+file)
	if err != nil {
		return fmt.Errorf("while no mutant is on, %s fails: %w\n%s", name, err, output)
	}
	p := part{name: name, args: args, cpu: childTime() - began, comeBy: map[int]bool{}}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it comes by none
	} else if err != nil {
		return err
	}
	for ; len(b) >= 4; b = b[4:] {
		p.comeBy[int(binary.LittleEndian.Uint32(b))] = true
	}
	s.parts = append(s.parts, p)
	return os.Remove(file)
}

// childTime is the processor time that programs have used which have ended.
func childTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
