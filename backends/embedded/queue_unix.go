//go:build unix

package embedded

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// fileQueue orders the writers of several processes that share a file. SQLite admits one and
// makes the others poll. On a busy machine a polling writer sleeps for longer than the file
// stays free between two transactions of another, and would starve. So only the head of the
// queue polls: it holds a lock on the write-ahead log, which SQLite itself does not lock, until
// its transaction has begun. The lock is free during the transaction, so another writer gets it
// before the one that ends the transaction tries again.
//
// The queue provides only fairness. A writer that has waited for headWait ignores it for
// unusedFor, since a stopped process may hold the lock.
type fileQueue struct {
	file        *os.File
	unusedUntil time.Time
}

const (
	headWait  = 500 * time.Millisecond
	unusedFor = 10 * time.Second
)

// openFileQueue opens the queue of a file with a session; nil if it has no write-ahead log yet.
func openFileQueue(path string) *fileQueue {
	file, err := os.Open(path + "-wal")
	if err != nil {
		return nil
	}
	return &fileQueue{file: file}
}

// enter waits until the caller is the head of the queue, for at most headWait. leave makes way
// for the next writer.
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

// mayWrite reports whether this process may write an existing file. It does not open the file:
// closing it again would drop SQLite's locks on it.
func mayWrite(path string) bool { return may(path, unix.W_OK|unix.R_OK) }

func mayRead(path string) bool { return may(path, unix.R_OK) }

func may(path string, mode uint32) bool {
	err := unix.Faccessat(unix.AT_FDCWD, path, mode, unix.AT_EACCESS)
	return err != unix.EACCES && err != unix.EROFS && err != unix.EPERM
}
