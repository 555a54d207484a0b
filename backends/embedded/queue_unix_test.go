//go:build unix

package embedded

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"salectl/internal/wait"
)

// A writer that waits for the file is the head of the queue until its transaction has begun. One
// that is stopped there does not stop the others.
func TestQueue(t *testing.T) {
	dir := t.TempDir()
	c := &chain{logs: mustOpenLogs(t, dir), log: "log"}
	c.mustAppend(t, []byte("first"))
	path := filepath.Join(dir, ledgerFile)
	other := openFileQueue(path) // of another process
	defer other.close()
	isFree := func() bool { return other.lock(unix.LOCK_EX|unix.LOCK_NB) == nil }

	db := ledgerDatabase(dir)
	busy, err := db.open(false)
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	if err := execute(busy.Conn, "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	appended := make(chan error)
	go func() { appended <- c.append(t.Context(), []byte("second")) }()
	wait.Until(t, "a writer at the head of the queue", func() bool {
		if isFree() {
			other.lock(unix.LOCK_UN)
			return false
		}
		return true
	})
	if err := execute(busy.Conn, "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-appended; err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the queue is free", isFree)
	for range 2 { // the second one does not even wait for the queue
		c.mustAppend(t, []byte("without the queue"))
	}
	if c.logs.writer.fileQueue.unusedUntil.IsZero() {
		t.Error("the writer does not wait for the queue")
	}
}
