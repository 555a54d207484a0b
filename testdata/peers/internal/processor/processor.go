// Package processor measures the use of the processors. Other work on a machine
// disturbs that less than it does a rate.
package processor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is what Linux counts the time of other processes in.
const tick = 10 * time.Millisecond

// Used is what this process and some others, which go on, have used so far.
func Used(others ...int) (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	used := time.Duration(u.Utime.Nano() + u.Stime.Nano())
	for _, pid := range others {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, err
		}
		theirs, err := parse(stat)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		used += theirs
	}
	return used, nil
}

// parse reads user and system time, the 14th and 15th field. The second, a name in
// brackets, may have blanks and brackets of its own.
func parse(stat []byte) (time.Duration, error) {
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const user, system = 14 - 3, 15 - 3
	if len(fields) <= system {
		return 0, fmt.Errorf("%d fields behind the name", len(fields))
	}
	u, err := strconv.ParseInt(string(fields[user]), 10, 64)
	if err != nil {
		return 0, err
	}
	s, err := strconv.ParseInt(string(fields[system]), 10, 64)
	return time.Duration(u+s) * tick, err
}

// Children are the processes that this one has started and that have not ended.
func Children() (pids []int, err error) {
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		return nil, err
	}
	for _, path := range lists {
		list, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) { // the thread has ended
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, field := range strings.Fields(string(list)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
