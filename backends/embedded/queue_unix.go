//go:build unix

package embedded

import (
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// queue orders the writers of several processes that share a file. SQLite lets one in and has the
// others poll. On a busy machine a writer that polls sleeps for longer than the file stays free
// between two transactions of another, and would starve. So only the head of the queue polls: it
// holds a lock on the write-ahead log, which SQLite itself locks nowhere, until its transaction
// has begun. A writer that has just ended a transaction queues behind it.
//
// The queue is about fairness alone. A writer that has waited for headWait begins without the
// lock, since a process that is stopped may have it.
type queue struct {
	file *os.File
	late atomic.Bool // an attempt has waited for headWait and still waits
}

const headWait = 500 * time.Millisecond

// openQueue opens the queue of a file that has a session; nil: it has no write-ahead log yet.
func openQueue(path string) *queue {
	file, err := os.Open(path + "-wal")
	if err != nil {
		return nil
	}
	return &queue{file: file}
}

// enter waits until the caller is the head of the queue, for headWait at most. leave lets the next
// one be it.
func (q *queue) enter() (leave func()) {
	if q == nil || q.late.Load() {
		return func() {}
	}
	unlock := func() { q.lock(unix.LOCK_UN) }
	if q.lock(unix.LOCK_EX|unix.LOCK_NB) == nil {
		return unlock
	}
	var taken atomic.Bool // by enter, or by the attempt that is late
	entered := make(chan struct{})
	go func() {
		q.lock(unix.LOCK_EX)
		if taken.CompareAndSwap(false, true) {
			close(entered)
			return
		}
		unlock()
		q.late.Store(false)
	}()
	select {
	case <-entered:
		return unlock
	case <-time.After(headWait):
	}
	q.late.Store(true)
	if taken.CompareAndSwap(false, true) {
		return func() {}
	}
	<-entered
	q.late.Store(false)
	return unlock
}

func (q *queue) lock(how int) error {
	for {
		if err := unix.Flock(int(q.file.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

func (q *queue) close() {
	if q != nil {
		q.file.Close()
	}
}
