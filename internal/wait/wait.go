// Package wait polls for a state that another goroutine or process reaches.
//
// A test waits for a state and never for a duration: how long a server takes
// depends on the machine, and a state that passes can be missed on a busy one.
// So the state to wait for must stay once it is reached.
package wait

import (
	"fmt"
	"testing"
	"time"
)

// Limit is the longest wait for one state. Only a fault takes that long, also
// on a machine whose processors are shared by many tests.
const Limit = 2 * time.Minute

// Polls are between shortest and longest apart: an eighth of the time waited so far, so that a
// long wait leaves the processor to what it waits for.
const shortest, longest = 5 * time.Millisecond, 200 * time.Millisecond

// Until polls reached and returns when it is true. After Limit the test fails
// with a message that names the state. Only the goroutine of the test may call it.
func Until(t testing.TB, state string, reached func() bool) {
	t.Helper()
	UntilNil(t, state, func() error {
		if !reached() {
			return fmt.Errorf("not reached")
		}
		return nil
	})
}

// UntilNil is Until for a poll that describes what is missing: the test fails
// with the error of the last poll.
func UntilNil(t testing.TB, state string, poll func() error) {
	t.Helper()
	if err := Poll(Limit, poll); err != nil {
		t.Fatalf("waited %v for %s: %v", Limit, state, err)
	}
}

// Poll calls poll until it returns nil, and returns the last error if that
// takes longer than limit. It is for callers without a testing.TB, such as the
// commands of scripts.
func Poll(limit time.Duration, poll func() error) error {
	for began := time.Now(); ; {
		err := poll()
		waited := time.Since(began)
		if err == nil || waited > limit {
			return err
		}
		time.Sleep(min(max(waited/8, shortest), longest))
	}
}
