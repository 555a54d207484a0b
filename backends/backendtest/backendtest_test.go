package backendtest

import (
	"testing"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
)

func TestMemory(t *testing.T) {
	TestLogs(t, func(*testing.T) (a, b ledger.Logs) {
		s := NewStore()
		return s.Handle(nil), s.Handle(nil)
	})
	TestLogsReopened(t, func(*testing.T) (reopen func() ledger.Logs) {
		s := NewStore()
		return func() ledger.Logs { return s.Handle(nil) }
	})
}

func TestMemoryNode(t *testing.T) {
	TestNode(t, func(*testing.T) (a, b quorum.Node, hands Hands) {
		n := NewNode("memory", time.Unix(1_800_000_000, 0))
		return n, n, Hands{
			Advance: n.Advance,
			Lose:    n.RestartEmpty,
			Restart: func() { n.RestartFrom(n.Promises()) },
		}
	})
}

func TestMemoryLists(t *testing.T) {
	TestLists(t, func(*testing.T) (a, b lists.Node, hands ListsHands) {
		n := NewLists("memory", func() time.Time { return time.Unix(1_800_000_000, 0) })
		var saved ListsSnapshot
		return n, n, ListsHands{
			Restart: n.Restart, RestartEmpty: n.RestartEmpty, Flush: n.Flush,
			Save:         func() { saved = n.Snapshot() },
			RestartSaved: func() { n.RestartFrom(saved) },
		}
	})
}
