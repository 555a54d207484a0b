package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"salectl/backends/backendtest"
	"salectl/backends/ledger"
	"salectl/backends/quorum"
)

// mustOpenLogs opens a handle that the test's end closes.
func mustOpenLogs(t testing.TB, dir string) *Logs {
	t.Helper()
	logs, err := OpenLogs(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { logs.Close() })
	return logs
}

func mustOpenNode(t testing.TB, dir string, wall func() time.Time) *Node {
	t.Helper()
	node, err := OpenNode(dir, Host{Wall: wall})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { node.Close() })
	return node
}

func TestLogs(t *testing.T) {
	backendtest.TestLogs(t, func(t *testing.T) (a, b ledger.Logs) {
		dir := filepath.Join(t.TempDir(), "not", "there", "yet")
		return mustOpenLogs(t, dir), mustOpenLogs(t, dir)
	})
	backendtest.TestLogsReopened(t, func(t *testing.T) (reopen func() ledger.Logs) {
		dir := t.TempDir()
		var last *Logs
		return func() ledger.Logs {
			if last != nil {
				last.Close()
			}
			last = mustOpenLogs(t, dir)
			return last
		}
	})
}

func TestNode(t *testing.T) {
	backendtest.TestNode(t, func(t *testing.T) (a, b quorum.Node, hands backendtest.Hands) {
		dir := t.TempDir()
		var wall atomic.Int64
		wall.Store(1_800_000_000_000_000)
		now := func() time.Time { return time.UnixMicro(wall.Load()) }
		return mustOpenNode(t, dir, now), mustOpenNode(t, dir, now), backendtest.Hands{
			Advance: func(d time.Duration) { wall.Add(d.Microseconds()) },
			Fill:    func(registry string) { fillRegistry(t, dir, registry, now) },
			Lose: func() {
				files, err := filepath.Glob(filepath.Join(dir, locksFile+"*"))
				if err != nil || len(files) == 0 {
					t.Fatalf("the node's files are %q, %v", files, err)
				}
				for _, f := range files {
					if err := os.Remove(f); err != nil {
						t.Fatal(err)
					}
				}
			},
		}
	})
}

// fillRegistry writes the rows of quorum.MaxMembers members. Each call of Announce would read all
// members.
func fillRegistry(t *testing.T, dir, registry string, now func() time.Time) {
	t.Helper()
	n := mustOpenNode(t, dir, now)
	err := n.writer.do(t.Context(), &change{creates: true, step: func(conn *sqlite.Conn) (answer, failed error) {
		for i := range quorum.MaxMembers {
			failed = errors.Join(failed, execute(conn, "REPLACE INTO members (registry, id, note, expires) VALUES (?, ?, '', ?)",
				registry, fmt.Sprint("member-", i), now().Add(time.Hour).UnixMicro()))
		}
		return nil, failed
	}})
	if err != nil {
		t.Fatal(err)
	}
}
