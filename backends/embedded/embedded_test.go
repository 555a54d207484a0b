package embedded

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/quorum"
)

// chain appends to one log, slot by slot.
type chain struct {
	logs *Logs
	log  string
	head []byte
	next uint64
}

func (c *chain) append(ctx context.Context, entry []byte) error {
	head := fmt.Appendf(nil, `{"slot":%d,"chain":"%p"}`, c.next, c) // no two chains have a head in common
	if err := c.logs.Append(ctx, c.log, c.next, c.head, head, entry); err != nil {
		return err
	}
	c.head, c.next = head, c.next+1
	return nil
}

func (c *chain) mustAppend(t testing.TB, entry []byte) {
	t.Helper()
	if err := c.append(t.Context(), entry); err != nil {
		t.Fatalf("append to %s, slot %d: %v", c.log, c.next, err)
	}
}

func TestReadingCreatesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sub", "sale")
	logs, node := mustOpenLogs(t, dir), mustOpenNode(t, dir, time.Now)
	ctx := t.Context()
	if head, entries, err := logs.Read(ctx, "log", 0, 10); head != nil || entries != nil || err != nil {
		t.Errorf("read: %q, %q, %v", head, entries, err)
	}
	if heads, err := logs.Heads(ctx, []string{"log"}); len(heads) != 1 || heads[0] != nil || err != nil {
		t.Errorf("heads: %q, %v", heads, err)
	}
	if err := logs.Append(ctx, "log", 1, []byte("head 0"), []byte("head 1"), nil); !errors.Is(err, ledger.ErrTaken) {
		t.Errorf("append to a log that cannot be there: %v, want ErrTaken", err)
	}
	if err := logs.Delete(ctx, "log", 1); err != nil {
		t.Errorf("delete: %v", err)
	}
	info, err := node.Info(ctx)
	if info.RunID == "" || err != nil {
		t.Errorf("info: %+v, %v", info, err)
	}
	if found, err := node.List(ctx, ""); found != nil || err != nil {
		t.Errorf("list: %+v, %v", found, err)
	}
	if freed, err := node.Release(ctx, []quorum.LeaseRequest{{Key: "key", Token: "one"}}); freed != 0 || err != nil {
		t.Errorf("release: %d, %v", freed, err)
	}
	if err := node.Forget(ctx, "marker"); err != nil {
		t.Errorf("forget: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder's parent is there (%v); want nothing created", err)
	}

	if err := node.Mark(ctx, "marker", info.RunID); err != nil {
		t.Errorf("the first write, a mark with the run id that info foretold: %v", err)
	}
	other, err := mustOpenNode(t, dir, time.Now).Info(ctx)
	if err != nil || other.RunID != info.RunID {
		t.Errorf("another handle sees run %q, %v; want %q", other.RunID, err, info.RunID)
	}
}

// A process killed while it made the file leaves it empty.
func TestUnfinishedFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, ledgerFile)
	mustWrite(t, path, nil)
	c := &chain{logs: mustOpenLogs(t, dir), log: "log"}
	if head, _, err := c.logs.Read(t.Context(), "log", 0, 1); head != nil || err != nil {
		t.Errorf("read: %q, %v", head, err)
	}
	if data, err := os.ReadFile(path); len(data) != 0 || err != nil {
		t.Errorf("reading wrote %d bytes (%v)", len(data), err)
	}
	c.mustAppend(t, []byte("entry"))
	if _, entries, err := c.logs.Read(t.Context(), "log", 0, 10); len(entries) != 1 || err != nil {
		t.Errorf("%d entries, %v; want 1", len(entries), err)
	}
}

func TestDurabilityIsSwitchedOn(t *testing.T) {
	dir := t.TempDir()
	for _, test := range []struct {
		db          *database
		synchronous string
	}{
		{ledgerDatabase(dir), "2"}, // FULL
		{mustOpenNode(t, dir, time.Now).writer.db, "1"},
	} {
		s, err := test.db.open(true)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"synchronous": test.synchronous, "journal_mode": "wal", "page_size": fmt.Sprint(pageSize)} {
			if got, err := pragma(s.Conn, name); got != want || err != nil {
				t.Errorf("%s: %s is %q, %v; want %q", test.db.path, name, got, err, want)
			}
		}
		s.Close()
	}
}

func TestSizes(t *testing.T) {
	c := &chain{logs: mustOpenLogs(t, t.TempDir()), log: "log"}
	c.mustAppend(t, make([]byte, 1<<20))
	c.mustAppend(t, make([]byte, maxEntry-100))
	err := c.append(t.Context(), make([]byte, maxEntry))
	if !errors.Is(err, ledger.ErrTooLarge) {
		t.Errorf("an entry of %d bytes: %v, want ErrTooLarge", maxEntry, err)
	}
	if err := c.logs.Append(t.Context(), "log", 2, c.head, nil, nil); err == nil {
		t.Error("an empty head was stored; it would read as no log")
	}
	if err := c.logs.Append(t.Context(), "log", math.MaxUint64, c.head, []byte("head"), nil); err == nil {
		t.Error("a slot beyond the largest number of SQLite was stored")
	}
	if err := c.logs.Append(t.Context(), "log", 5, c.head, []byte("head"), nil); !errors.Is(err, ledger.ErrTaken) {
		t.Errorf("an append that leaves slots out: %v, want ErrTaken", err)
	}
	if _, entries, err := c.logs.Read(t.Context(), "log", 0, 10); len(entries) != 2 || err != nil {
		t.Errorf("%d entries, %v; want the 2 that were taken", len(entries), err)
	}
	if _, entries, err := c.logs.Read(t.Context(), "log", math.MaxUint64, 10); len(entries) != 0 || err != nil {
		t.Errorf("%d entries from the largest slot, %v", len(entries), err)
	}
	if err := c.logs.Delete(t.Context(), "log", math.MaxUint64); err != nil {
		t.Error(err)
	}
	if head, _, err := c.logs.Read(t.Context(), "log", 0, 10); head != nil || err != nil {
		t.Errorf("the head after a delete of all slots is %q, %v", head, err)
	}
}
