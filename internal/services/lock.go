package services

import "errors"

// lockHow is a way to lock a file.
type lockHow int

const (
	lockAndWait lockHow = iota // for oneself, when it is free
	lockOrFail                 // for oneself, now or not at all
	probeOrFail                // report whether it is free; several may probe at once
)

// errLocked means that another process has a file's lock.
var errLocked = errors.New("another process has its lock")
