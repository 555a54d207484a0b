package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"salectl/backends/quorum"
)

// wantRefused checks that an error is of a kind and names the path.
func wantRefused(t *testing.T, err, want error, path string) {
	t.Helper()
	if !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
		t.Errorf("%v\nwant %s and: %v", err, path, want)
	}
}

// wantEntries checks that a log has entries 0 to n-1 and nothing else.
func wantEntries(t *testing.T, logs *Logs, log string, n uint64) {
	t.Helper()
	_, entries, err := logs.Read(t.Context(), log, 0, 1<<20)
	if err != nil || uint64(len(entries)) != n {
		t.Fatalf("%s has %d entries, %v; want %d", log, len(entries), err, n)
	}
	for slot, e := range entries {
		if string(e[:len(e)-padding]) != fmt.Sprintf("entry %d", slot) {
			t.Fatalf("%s, slot %d: %.40q", log, slot, e)
		}
	}
}

func wantOnFresh(t *testing.T, folder string, c *chain) {
	t.Helper()
	logs := mustOpenLogs(t, folder)
	defer logs.Close()
	wantEntries(t, logs, c.log, c.next)
}

// padding makes entries of a size that soon fills a disk.
const padding = 20_000

func entryOf(slot uint64) []byte {
	return append(fmt.Appendf(nil, "entry %d", slot), make([]byte, padding)...)
}

// fillUp appends until the store refuses, and returns why.
func fillUp(t *testing.T, c *chain) error {
	t.Helper()
	for range 10_000 {
		if err := c.append(t.Context(), entryOf(c.next)); err != nil {
			return err
		}
	}
	t.Fatal("the disk does not become full")
	return nil
}

func TestDiskFull(t *testing.T) {
	onOwnDisk(t, func(t *testing.T, dir string, mounted bool) {
		folder := filepath.Join(dir, "sale")
		path := filepath.Join(folder, ledgerFile)
		if !mounted {
			db := ledgerDatabase(folder)
			db.maxPages = 100
			c := &chain{logs: newLogs(db), log: "log"}
			defer c.logs.Close()
			wantRefused(t, fillUp(t, c), ErrFull, path)
			wantEntries(t, c.logs, c.log, c.next)
			wantOnFresh(t, folder, c)
			return
		}

		// Full before anything is there.
		ballast := filepath.Join(dir, "ballast")
		fillDisk(t, ballast)
		c := &chain{logs: mustOpenLogs(t, folder), log: "log"}
		wantRefused(t, c.append(t.Context(), entryOf(0)), ErrFull, path)
		mustRemove(t, ballast)

		// Full in the middle; the same handle continues when space is free.
		mustWrite(t, ballast, make([]byte, 1<<20))
		wantRefused(t, fillUp(t, c), ErrFull, path)
		if c.next == 0 {
			t.Fatal("nothing was stored before the disk was full")
		}
		for range 5 {
			wantRefused(t, c.append(t.Context(), entryOf(c.next)), ErrFull, path)
		}
		wantEntries(t, c.logs, c.log, c.next)
		wantOnFresh(t, folder, c)
		mustRemove(t, ballast)
		c.mustAppend(t, entryOf(c.next))
		wantEntries(t, c.logs, c.log, c.next)

		// Full to the last byte, what is there can still be read.
		c.logs.Close()
		c.logs = mustOpenLogs(t, folder)
		wantRefused(t, fillUp(t, c), ErrFull, path)
		fillDisk(t, ballast)
		wantRefused(t, c.append(t.Context(), entryOf(c.next)), ErrFull, path)
		wantOnFresh(t, folder, c)
		mustRemove(t, ballast)

		// Full when it is closed, and still when it is opened.
		wantRefused(t, fillUp(t, c), ErrFull, path)
		fillDisk(t, ballast)
		c.logs.Close()
		c.logs = mustOpenLogs(t, folder)
		wantRefused(t, c.append(t.Context(), entryOf(c.next)), ErrFull, path)
		mustRemove(t, ballast)
		wantEntries(t, c.logs, c.log, c.next)
	})
}

// fillDisk writes into a file until no more goes in.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for range 64 {
			if _, err := f.Write(make([]byte, size)); err != nil {
				break
			}
		}
	}
}

func mustRemove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func TestReadOnly(t *testing.T) {
	onOwnDisk(t, func(t *testing.T, dir string, mounted bool) {
		folder := filepath.Join(dir, "sale")
		c := &chain{logs: mustOpenLogs(t, folder), log: "log"}
		for range 3 {
			c.mustAppend(t, entryOf(c.next))
		}
		node := mustOpenNode(t, folder, time.Now)
		if err := errors.Join(node.Mark(t.Context(), "marker", ""), node.Close(), c.logs.Close()); err != nil {
			t.Fatal(err)
		}

		ledger, locks := ledgerDatabase(folder), newNode(locksDatabase(folder), ThisHost())
		if mounted {
			remount(t, dir, false)
			fresh := mustOpenLogs(t, filepath.Join(dir, "another", "sale"))
			err := (&chain{logs: fresh, log: "log"}).append(t.Context(), nil)
			wantRefused(t, err, ErrReadOnly, filepath.Join(dir, "another", "sale", ledgerFile))
			if head, _, err := fresh.Read(t.Context(), "log", 0, 1); head != nil || err != nil {
				t.Errorf("reading what cannot be there: %q, %v", head, err)
			}
		} else {
			ledger.readOnly, locks.writer.db.readOnly = true, true
		}
		c.logs = newLogs(ledger)
		defer c.logs.Close()
		defer locks.Close()
		wantRefused(t, c.append(t.Context(), nil), ErrReadOnly, ledger.path)
		_, err := locks.Vote(t.Context(), quorum.Ballot{Marker: "marker", TTL: quorum.MinTTL})
		wantRefused(t, err, ErrReadOnly, filepath.Join(folder, locksFile))
		if mounted {
			wantEntries(t, c.logs, c.log, c.next)
			if found, err := locks.List(t.Context(), ""); found != nil || err != nil {
				t.Errorf("the node lists %v, %v", found, err)
			}
			remount(t, dir, true)
			c.mustAppend(t, entryOf(c.next))
		}
		wantEntries(t, c.logs, c.log, c.next)
	})
}
