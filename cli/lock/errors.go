package lock

import "fmt"

// Exit codes of commands on locks, beside those of the commands that are run.
const (
	ExitLost        = 5   // a lock was not acquired, not broken, or was lost
	ExitMayBeHeld   = 6   // a lock may still be held
	ExitNotRunnable = 126 // the command exists and cannot be run
	ExitNotFound    = 127 // the command does not exist
	ExitSignal      = 128 // plus the number of the signal that ended the command
)

// ExitError is an error with an exit code.
type ExitError struct {
	Code  int
	Quiet bool // the command has printed its own error
	Err   error
}

func (e *ExitError) Error() string { return e.Err.Error() }
func (e *ExitError) Unwrap() error { return e.Err }

// exit returns an error with an exit code.
func exit(code int, format string, args ...any) error {
	return &ExitError{Code: code, Err: fmt.Errorf(format, args...)}
}
