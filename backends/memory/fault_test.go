package memory

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/quorum"
)

// Each fault of an append, observed by the caller's error and the contents of the log: at
// once, after three more calls, and after all late writes.
func TestAppendFaults(t *testing.T) {
	for name, test := range map[string]struct {
		fault              Fault
		err                error
		now, later, landed string // entries of the log, "-" for no log
	}{
		"none":             {Fault{}, nil, "begin,mine", "begin,mine", "begin,mine"},
		"error before":     {Fault{Kind: ErrorBefore}, ErrInjected, "begin", "begin", "begin"},
		"reply lost":       {Fault{Kind: LostReply}, ErrInjected, "begin,mine", "begin,mine", "begin,mine"},
		"taken by oneself": {Fault{Kind: OwnTaken}, ledger.ErrTaken, "begin,mine", "begin,mine", "begin,mine"},
		"late":             {Fault{Kind: Late, N: 3}, ErrInjected, "begin", "begin,mine", "begin,mine"},
		"very late":        {Fault{Kind: Late}, ErrInjected, "begin", "begin", "begin,mine"},
		"twice":            {Fault{Kind: Twice, N: 2}, nil, "begin,mine", "begin,mine", "begin,mine"},
		"log vanished":     {Fault{Kind: Vanish}, ledger.ErrTaken, "-", "-", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStore()
			log := fillEntries(t, s.Handle(nil), "begin")
			bad := s.Handle(Script(test.fault))
			err := bad.Append(t.Context(), "log", 1, log, headOf(1, "one"), []byte("mine"))
			if !errors.Is(err, test.err) {
				t.Errorf("the caller gets %v, want %v", err, test.err)
			}
			wantNow(t, s, "now", test.now)
			for range 4 {
				s.Handle(nil).Heads(t.Context(), nil)
			}
			wantNow(t, s, "later", test.later)
			if held, landed := s.Held(), s.Land(); held != landed {
				t.Errorf("%d writes were held and %d landed", held, landed)
			}
			wantNow(t, s, "landed", test.landed)
		})
	}
}

// fillEntries begins the log "log" and returns its head.
func fillEntries(t *testing.T, logs ledger.Logs, entries ...string) (head []byte) {
	t.Helper()
	for slot, e := range entries {
		next := headOf(uint64(slot), "one")
		if err := logs.Append(t.Context(), "log", uint64(slot), head, next, []byte(e)); err != nil {
			t.Fatal(err)
		}
		head = next
	}
	return head
}

// headOf makes a head that names its slot and whoever wrote it.
func headOf(slot uint64, writer string) []byte {
	return fmt.Appendf(nil, `{"slot":%d,"writer":%q}`, slot, writer)
}

// wantNow reads the log without a call that late writes would count.
func wantNow(t *testing.T, s *Store, when, want string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := show(s.peek("log", 0)); got != want {
		t.Errorf("%s the log holds %s, want %s", when, got, want)
	}
}

func show(v version) string {
	if v.head == nil {
		return "-"
	}
	var all []string
	for _, e := range v.entries {
		all = append(all, string(e))
	}
	return strings.Join(all, ",")
}

// A late write is compared when it comes in, not when it was sent.
func TestLateWriteCompares(t *testing.T) {
	s := NewStore()
	good, bad := s.Handle(nil), s.Handle(Script(Fault{Kind: Late}, Fault{Kind: Twice}))
	head := fillEntries(t, good, "begin")
	bad.Append(t.Context(), "log", 1, head, headOf(1, "late"), []byte("late"))
	if err := good.Append(t.Context(), "log", 1, head, headOf(1, "one"), []byte("first")); err != nil {
		t.Fatal(err)
	}
	if s.Land() != 1 {
		t.Fatal("no write was held back")
	}
	wantNow(t, s, "the late one having lost", "begin,first")

	// A create that is repeated when its log is gone brings it back: the very
	// thing that the append protocol must guard against.
	if err := bad.Append(t.Context(), "another", 0, nil, headOf(0, "one"), []byte("twice")); err != nil {
		t.Fatal(err)
	}
	if err := good.Delete(t.Context(), "another", 0); err != nil {
		t.Fatal(err)
	}
	s.Land()
	if head, entries, err := good.Read(t.Context(), "another", 0, 10); err != nil || string(head) != string(headOf(0, "one")) || len(entries) != 1 {
		t.Errorf("the log has %d entries and the head %q, %v; want the one that was sent twice", len(entries), head, err)
	}
}

func TestStaleReads(t *testing.T) {
	s := NewStore()
	head := fillEntries(t, s.Handle(nil), "a", "b", "c")
	for back, want := range map[int]string{1: "a,b", 2: "a", 3: "-", 4: "-", 100: "-"} {
		logs := s.Handle(Script(Fault{Kind: Stale, N: back}, Fault{Kind: Stale, N: back}))
		got, entries, err := logs.Read(t.Context(), "log", 0, 10)
		if read := show(version{head: got, entries: entries}); read != want || err != nil {
			t.Errorf("%d changes back it reads %s, %v; want %s", back, read, err, want)
		}
		heads, err := logs.Heads(t.Context(), []string{"log", "nothing"})
		if err != nil || string(heads[0]) != string(got) || heads[1] != nil {
			t.Errorf("%d changes back the heads are %q, %v; want %q and none", back, heads, err, got)
		}
	}
	// A log that has gone is still read by who is behind.
	good := s.Handle(nil)
	if err := good.Delete(t.Context(), "log", 2); err != nil {
		t.Fatal(err)
	}
	got, _, err := s.Handle(Script(Fault{Kind: Stale})).Read(t.Context(), "log", 0, 10)
	if string(got) != string(head) || err != nil {
		t.Errorf("a stale read of a deleted log has the head %q, %v; want %q", got, err, head)
	}
}

func TestDeleteFaults(t *testing.T) {
	for name, test := range map[string]struct {
		fault       Fault
		err         error
		now, landed string
	}{
		"error before": {Fault{Kind: ErrorBefore}, ErrInjected, "a,b", "a,b"},
		"reply lost":   {Fault{Kind: LostReply}, ErrInjected, "-", "-"},
		"late":         {Fault{Kind: Late}, ErrInjected, "a,b", "-"},
		"twice":        {Fault{Kind: Twice}, nil, "-", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStore()
			fillEntries(t, s.Handle(nil), "a", "b")
			if err := s.Handle(Script(test.fault)).Delete(t.Context(), "log", 1); !errors.Is(err, test.err) {
				t.Errorf("the caller gets %v, want %v", err, test.err)
			}
			wantNow(t, s, "now", test.now)
			s.Land()
			wantNow(t, s, "landed", test.landed)
		})
	}
}

func TestFaultThatDoesNotSuit(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a read was served with a fault that only writes can have")
		}
	}()
	NewStore().Handle(Script(Fault{Kind: OwnTaken})).Read(t.Context(), "log", 0, 1)
}

func TestMaxEntry(t *testing.T) {
	s := NewStore()
	s.SetMaxEntry(10)
	err := s.Handle(nil).Append(t.Context(), "log", 0, nil, headOf(0, "one"), make([]byte, 11))
	if !errors.Is(err, ledger.ErrTooLarge) {
		t.Errorf("11 bytes where 10 are allowed: %v, want ErrTooLarge", err)
	}
	wantNow(t, s, "after it", "-")
}

// The same seed and the same calls give the same faults, and every requested kind occurs.
func TestRandomFaultsReproduce(t *testing.T) {
	rates := Rates{ErrorBefore: 0.1, LostReply: 0.1, OwnTaken: 0.1, Late: 0.1, Twice: 0.1, Stale: 0.3, Vanish: 0.05}
	if first, again := play(t, 7, rates), play(t, 7, rates); !slices.Equal(first, again) {
		t.Error("one seed gave two histories")
	}
	if first, other := play(t, 7, rates), play(t, 8, rates); slices.Equal(first, other) {
		t.Error("two seeds gave one history")
	}
	seen := make(map[Kind]int)
	faults := Random(1, rates)
	for i := range 2000 {
		seen[faults(Call{Op: []Op{OpAppend, OpRead}[i%2]}).Kind]++
	}
	for kind := range kinds {
		if seen[kind] < 20 && kind != Denied {
			t.Errorf("%v came up %d times in 2,000 calls", kind, seen[kind])
		}
	}
}

// play makes a fixed sequence of calls and returns their results.
func play(t *testing.T, seed uint64, rates Rates) (history []string) {
	s := NewStore()
	logs := s.Handle(Random(seed, rates))
	for i := range 200 {
		head, entries, err := logs.Read(t.Context(), "log", 0, 1000)
		history = append(history, fmt.Sprintf("%s %d %v", head, len(entries), err))
		slot := uint64(len(entries))
		history = append(history, fmt.Sprint(logs.Append(t.Context(), "log", slot, head, headOf(slot, fmt.Sprint(i)), nil)))
	}
	return append(history, fmt.Sprint(s.Held()))
}

func TestNodeFaults(t *testing.T) {
	for name, test := range map[string]struct {
		fault       Fault
		err         error
		now, landed int // leases
	}{
		"error before": {Fault{Kind: ErrorBefore}, ErrInjected, 0, 0},
		"denied":       {Fault{Kind: Denied}, fs.ErrPermission, 0, 0},
		"reply lost":   {Fault{Kind: LostReply}, ErrInjected, 1, 1},
		"late":         {Fault{Kind: Late}, ErrInjected, 0, 1},
		"twice":        {Fault{Kind: Twice}, nil, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			n, ballot := votingNode(t)
			n.SetFaults(On(OpVote, Script(test.fault)))
			if _, err := n.Vote(t.Context(), ballot); !errors.Is(err, test.err) {
				t.Errorf("the caller gets %v, want %v", err, test.err)
			}
			if got := len(n.Promises().leases); got != test.now {
				t.Errorf("the node has given %d leases, want %d", got, test.now)
			}
			n.Land()
			if got := len(n.Promises().leases); got != test.landed {
				t.Errorf("the node has given %d leases when all has landed, want %d", got, test.landed)
			}
		})
	}
}

func votingNode(t *testing.T) (*Node, quorum.Ballot) {
	t.Helper()
	n := NewNode("memory", time.Unix(1_800_000_000, 0))
	info, err := n.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Mark(t.Context(), "marker", info.RunID); err != nil {
		t.Fatal(err)
	}
	return n, quorum.Ballot{Marker: "marker", TTL: quorum.MaxTTL, Requests: []quorum.LeaseRequest{{Key: "key", Token: "one"}}}
}

func TestNodeHangs(t *testing.T) {
	n, ballot := votingNode(t)
	n.Hang()
	ctx, cancel := context.WithCancel(t.Context())
	answers := make(chan error)
	go func() {
		_, err := n.Vote(ctx, ballot)
		answers <- err
	}()
	cancel()
	if err := <-answers; !errors.Is(err, context.Canceled) {
		t.Errorf("a vote that hung until its context ended: %v", err)
	}
	if len(n.Promises().leases) > 0 {
		t.Error("it was counted all the same")
	}
	go func() {
		_, err := n.Vote(t.Context(), ballot)
		answers <- err
	}()
	n.Resume()
	if err := <-answers; err != nil || len(n.Promises().leases) != 1 {
		t.Errorf("after Resume the vote gets %v and the node has given %d leases", err, len(n.Promises().leases))
	}
}

// A restart from old data brings back what was promised then and nothing since.
func TestNodeRestartsFromOldData(t *testing.T) {
	n, ballot := votingNode(t)
	old := n.Promises()
	if _, err := n.Vote(t.Context(), ballot); err != nil {
		t.Fatal(err)
	}
	n.RestartFrom(old)
	if len(n.Promises().leases) != 0 {
		t.Error("it remembers what it promised after the data was written")
	}
	count, err := n.Vote(t.Context(), ballot)
	if err != nil || !count.Abstained {
		t.Errorf("the count is %+v, %v; want an abstention", count, err)
	}
	n.RestartFrom(old)
	if count, err := n.Vote(t.Context(), ballot); err != nil || !count.Abstained {
		t.Errorf("restarted again from the same data the count is %+v, %v; want an abstention", count, err)
	}
}
