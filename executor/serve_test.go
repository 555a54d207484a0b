package executor

import (
	"context"
	"testing"

	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/internal/wait"
)

// serve runs an executor until the test ends, and waits until it is ready.
func serve(t testing.TB, logs ledger.Logs, node quorum.Node, name string) *Executor {
	t.Helper()
	return serveWith(t, Config{Logs: logs, Nodes: []quorum.Node{node}, Sale: name, Address: "127.0.0.1:1"})
}

// serveWith is serve with a config of the test's own.
func serveWith(t testing.TB, cfg Config) *Executor {
	t.Helper()
	e := New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	wait.UntilNil(t, "the process", e.Ready)
	return e
}
