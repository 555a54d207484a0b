package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// The events that are counted where perf may count them.
const (
	allCalls   = "raw_syscalls:sys_enter"
	futexCalls = "syscalls:sys_enter_futex"
	pollCalls  = "syscalls:sys_enter_epoll_pwait"
	readCalls  = "syscalls:sys_enter_read"
	writeCalls = "syscalls:sys_enter_write"
	misses     = "cache-misses"
)

var counted = []string{allCalls, futexCalls, pollCalls, readCalls, writeCalls, misses}

// kernel counts events of this process that only the kernel sees, by the program perf.
type kernel struct {
	perf string // the program; "": there is none
}

func newKernel() kernel {
	path, err := exec.LookPath("perf")
	if err != nil {
		return kernel{}
	}
	k := kernel{path}
	if stop, err := k.count(); err != nil || drop(stop()) != nil { // this user may not count
		return kernel{}
	}
	return k
}

// count begins to count. stop ends that and returns the counts of those events that the
// machine can count.
func (k kernel) count() (stop func() (map[string]int64, error), err error) {
	if k.perf == "" {
		return func() (map[string]int64, error) { return nil, nil }, nil
	}
	commands, control, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	answer, answers, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, commands.Close(), control.Close())
	}
	var output bytes.Buffer
	c := exec.Command(k.perf, "stat", "-x", ",", "-D", "-1", "--control", "fd:3,4", "-p", strconv.Itoa(os.Getpid()), "-e", strings.Join(counted, ","))
	c.Env = append(os.Environ(), "LC_ALL=C")
	c.Stderr, c.ExtraFiles = &output, []*os.File{commands, answers}
	err = c.Start()
	err = errors.Join(err, commands.Close(), answers.Close())
	order := func(what string) error {
		if _, err := fmt.Fprintln(control, what); err != nil {
			return err
		}
		if _, err := bufio.NewReader(answer).ReadString('\n'); err != nil {
			return fmt.Errorf("perf has ended: %w", err)
		}
		return nil
	}
	end := func() error {
		_ = c.Process.Signal(os.Interrupt) // by which it prints, and then ends itself
		_ = c.Wait()
		return errors.Join(control.Close(), answer.Close())
	}
	if err != nil {
		return nil, errors.Join(err, control.Close(), answer.Close())
	}
	if err := order("enable"); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %s", err, bytes.TrimSpace(output.Bytes())), end())
	}
	return func() (map[string]int64, error) {
		if err := errors.Join(order("disable"), end()); err != nil {
			return nil, err
		}
		return parseCounts(output.String())
	}, nil
}

// parseCounts reads what perf prints: a line an event, with the count and, two fields on, the
// name. An event that the machine cannot count has no number.
func parseCounts(output string) (map[string]int64, error) {
	counts := make(map[string]int64)
	for line := range strings.Lines(output) {
		fields := strings.Split(strings.TrimSpace(line), ",")
		if len(fields) < 3 || strings.HasPrefix(fields[0], "<") {
			continue
		}
		n, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("perf answers %q: %w", strings.TrimSpace(line), err)
		}
		counts[fields[2]] = n
	}
	return counts, nil
}
