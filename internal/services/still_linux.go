package services

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// still reports whether all threads of a paused process stand still. SIGSTOP is
// taken by each of them when it next runs, so on a busy machine some still
// answer when the signal has long been sent.
func still(pid int) bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return true
	}
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue // the thread has ended
		}
		// The state stands behind the name, which is in brackets and may have any in it.
		_, state, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
		if !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return true
}
