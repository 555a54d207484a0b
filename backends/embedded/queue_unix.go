//go:build unix

package embedded

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// fileQueue orders the writers of several processes that share a file. SQLite lets one in and has the
// others poll. On a busy machine a writer that polls sleeps for longer than the file stays free
// between two transactions of another, and would starve. So only the head of the queue polls: it
// holds a lock on the write-ahead log, which SQLite itself locks nowhere, until its transaction
// has begun. The lock is free for the rest of the transaction, so that another writer gets it
// before the one that ends the transaction comes back.
//
// The queue is about fairness alone. A writer that has waited for headWait leaves it unused for
// unusedFor, since a process that is stopped may have the lock.
type fileQueue struct {
	file        *os.File
	unusedUntil time.Time
}

const (
	headWait  = 500 * time.Millisecond
	unusedFor = 10 * time.Second
)

// openFileQueue opens the queue of a file that has a session; nil: it has no write-ahead log yet.
func openFileQueue(path string) *fileQueue {
	file, err := os.Open(path + "-wal")
	if err != nil {
		return nil
	}
	return &fileQueue{file: file}
}

// enter waits until the caller is the head of the queue, for headWait at most. leave lets another
// writer be it.
func (q *fileQueue) enter() (leave func()) {
	leave = func() {}
	if q == nil || time.Now().Before(q.unusedUntil) {
		return leave
	}
	for begin := time.Now(); ; time.Sleep(pollEvery) {
		switch err := q.lock(unix.LOCK_EX | unix.LOCK_NB); {
		case err == nil:
			return func() { q.lock(unix.LOCK_UN) }
		case err != unix.EWOULDBLOCK:
			return leave
		case time.Since(begin) >= headWait:
			q.unusedUntil = time.Now().Add(unusedFor)
			return leave
		}
	}
}

func (q *fileQueue) lock(how int) error {
	for {
		if err := unix.Flock(int(q.file.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

func (q *fileQueue) close() {
	if q != nil {
		q.file.Close()
	}
}
