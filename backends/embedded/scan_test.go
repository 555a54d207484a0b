package embedded

import (
	"fmt"
	"slices"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// TestScan hands out all of the logs that most of the file is of, and nothing where it is not.
// A log that lacks a slot is handed out up to there.
func TestScan(t *testing.T) {
	dir := t.TempDir()
	logs := mustOpenLogs(t, dir)
	var names []string
	var chains []*chain
	for i := range 9 {
		c := &chain{logs: logs, log: fmt.Sprint("log ", i)}
		names, chains = append(names, c.log), append(chains, c)
	}
	entry := make([]byte, scanBytes/60)
	for range 10 {
		for _, c := range chains {
			c.mustAppend(t, entry)
		}
	}
	handed := func(names []string) []int {
		t.Helper()
		n := make([]int, len(names))
		err := logs.Scan(t.Context(), names, func(log int, entry []byte) error {
			n[log]++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if got := handed(names); !slices.Equal(got, slices.Repeat([]int{10}, 9)) {
		t.Errorf("of the logs %v entries are handed out, each has 10", got)
	}
	if got := handed(names[:5]); !slices.Equal(got, slices.Repeat([]int{10}, 5)) {
		t.Errorf("of most logs %v entries are handed out, each has 10", got)
	}
	if got := handed(names[:4]); !slices.Equal(got, make([]int, 4)) {
		t.Errorf("of the fewest logs %v entries are handed out", got)
	}
	conn, err := sqlite.OpenConn(ledgerDatabase(dir).path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := sqlitex.ExecuteTransient(conn, "DELETE FROM entries WHERE slot = 4 AND log = 3", nil); err != nil {
		t.Fatal(err)
	}
	if got := handed(names); !slices.Equal(got, []int{10, 10, 4, 10, 10, 10, 10, 10, 10}) {
		t.Errorf("of the logs %v entries are handed out, the third lacks slot 4", got)
	}
}
