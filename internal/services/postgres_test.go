package services

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"salectl/internal/wait"
)

func startPostgres(t *testing.T, o PostgresOptions) *Postgres {
	t.Helper()
	p, err := StartPostgres(t.Context(), o)
	Require(t, err)
	t.Cleanup(p.Stop)
	return p
}

func wantRows(t *testing.T, p *Postgres, sql, want string) {
	t.Helper()
	if got, err := p.Query(t.Context(), sql); err != nil || strings.TrimSpace(got) != want {
		t.Errorf("%s: got %q, %v, want %q", sql, got, err, want)
	}
}

func TestPostgresKeepsWhatItCommittedWhenKilled(t *testing.T) {
	p := startPostgres(t, PostgresOptions{Args: []string{"-c", "max_connections=7"}})
	wantRows(t, p, "SHOW max_connections", "7")
	wantRows(t, p, "SHOW fsync", "on")
	wantRows(t, p, "CREATE TABLE t (n int, name text); INSERT INTO t VALUES (1, 'one'), (2, 'two')", "")
	url := p.URL()
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("tcp", address(p.port)); err == nil {
		_ = conn.Close()
		t.Error("a killed server takes connections")
	}
	if _, err := p.Query(t.Context(), "SELECT 1"); err == nil {
		t.Error("a killed server answers")
	}
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.URL() != url {
		t.Errorf("it moved from %s to %s", url, p.URL())
	}
	wantRows(t, p, "SELECT * FROM t ORDER BY n", "1|one\n2|two")
	if err := p.Start(t.Context()); !errors.Is(err, errRunning) {
		t.Errorf("starting it twice: %v", err)
	}
	if _, err := p.Query(t.Context(), "SELECT * FROM none"); err == nil || !strings.Contains(err.Error(), `relation "none" does not exist`) {
		t.Errorf("a question that is wrong: %v", err)
	}

	if _, err := StartPostgres(t.Context(), PostgresOptions{Port: p.port}); err == nil || !strings.Contains(err.Error(), "another program has the port") {
		t.Errorf("a taken port: %v", err)
	}

	// A client that is connected does not keep it from ending, cleanly.
	queried := make(chan error, 1)
	go func() { _, err := p.Query(t.Context(), "SELECT pg_sleep(600)"); queried <- err }()
	wait.Until(t, "the client", func() bool {
		rows, err := p.Query(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
		return err == nil && strings.TrimSpace(rows) == "1"
	})
	p.Stop()
	if err := <-queried; err == nil || !strings.Contains(err.Error(), "terminating connection due to administrator command") {
		t.Errorf("the error of a connected client is %v", err)
	}
	if _, err := os.Stat(p.temporary); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there (%v)", err)
	}
}

func TestNewestPostgresIsFound(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{"lib/9/bin", "lib/15/bin", "lib/other/bin", "opt/postgresql@16/bin", "opt/postgresql@10/bin"} {
		fakeProgram(t, filepath.Join(dir, folder), "postgres", "")
	}
	path := filepath.Join(dir, "path")
	fakeProgram(t, path, "postgres", "")
	t.Setenv("PATH", path)
	lib, opt := filepath.Join(dir, "lib/*/bin"), filepath.Join(dir, "opt/postgresql@*/bin")
	for name, c := range map[string]struct {
		patterns []string
		want     string
	}{
		"of one folder":     {[]string{lib}, "lib/15/bin"},
		"of both":           {[]string{lib, opt}, "opt/postgresql@16/bin"},
		"none beside PATH":  {[]string{filepath.Join(dir, "none/*")}, "path"},
		"only other things": {[]string{filepath.Join(dir, "lib/other*/bin")}, "path"},
	} {
		got, err := findPostgres(c.patterns)
		if err != nil || got != filepath.Join(dir, c.want, "postgres") {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
	t.Setenv("PATH", "")
	if got, err := findPostgres(nil); err == nil {
		t.Errorf("there is none, and found was %s", got)
	}
}
