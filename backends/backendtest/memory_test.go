package backendtest

import (
	"testing"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/memory"
	"salectl/backends/quorum"
)

func TestMemory(t *testing.T) {
	TestLogs(t, func(*testing.T) (a, b ledger.Logs) {
		s := memory.NewStore()
		return s.Handle(nil), s.Handle(nil)
	})
	TestLogsReopened(t, func(*testing.T) (reopen func() ledger.Logs) {
		s := memory.NewStore()
		return func() ledger.Logs { return s.Handle(nil) }
	})
}

// A store that compares heads alone takes any slot with the right head, as HBase
// does without its driver.
func TestMemoryThatComparesHeadsOnly(t *testing.T) {
	s := memory.NewStore()
	s.CompareHeadsOnly(true)
	l := fill(t, s.Handle(nil), "log", 4)
	if err := l.logs.Append(t.Context(), l.name, 1, l.head, headOf(1, "two"), []byte("over it")); err != nil {
		t.Fatal(err)
	}
	l.entries[1] = []byte("over it")
	l.wantOn(t, l.logs)
	if err := l.logs.Append(t.Context(), l.name, 5, l.head, headOf(5, "two"), []byte("beyond")); err != nil {
		t.Fatal(err)
	}
	wantRead(t, l.logs, l.name, 0, 10, headOf(5, "two"), l.entries)
	wantRead(t, l.logs, l.name, 5, 10, headOf(5, "two"), [][]byte{[]byte("beyond")})
}

func TestMemoryPages(t *testing.T) {
	s := memory.NewStore()
	s.SetPage(3)
	l := fill(t, s.Handle(nil), "log", 7)
	wantRead(t, l.logs, l.name, 0, 10, l.head, l.entries[:3])
	wantRead(t, l.logs, l.name, 3, 2, l.head, l.entries[3:5])
	wantRead(t, l.logs, l.name, 6, 10, l.head, l.entries[6:])
}

func TestMemoryNode(t *testing.T) {
	TestNode(t, func(*testing.T) (a, b quorum.Node, hands Hands) {
		n := memory.NewNode("memory", time.Unix(1_800_000_000, 0))
		return n, n, Hands{
			Advance: n.Advance,
			Lose:    n.RestartEmpty,
			Restart: func() { n.RestartFrom(n.Promises()) },
		}
	})
}

func TestMemoryLists(t *testing.T) {
	TestLists(t, func(*testing.T) (a, b lists.Node, hands ListsHands) {
		n := memory.NewLists("memory", func() time.Time { return time.Unix(1_800_000_000, 0) })
		var saved memory.ListsSnapshot
		return n, n, ListsHands{
			Restart: n.Restart, RestartEmpty: n.RestartEmpty, Flush: n.Flush,
			Save:         func() { saved = n.Snapshot() },
			RestartSaved: func() { n.RestartFrom(saved) },
		}
	})
}
