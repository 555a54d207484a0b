package memory

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"salectl/backends/ledger"
)

// Store is a set of logs in memory. Handles on it keep every promise of
// ledger.Logs, apart from the faults that they are given.
type Store struct {
	// mu guards everything below.
	mu        sync.Mutex
	logs      map[string]*log
	late      lateWrites
	maxEntry  int
	headsOnly bool
	page      int // entries that a read returns at most
}

// log is a log, and what it was. Versions are never changed, so the past
// can be read.
type log struct {
	versions []version // the last is now
}

// version is a log after one change. A log that does not exist has no head.
type version struct {
	head    []byte
	first   uint64 // slot of entries[0]
	entries [][]byte
}

// next is the slot behind the head's.
func (v version) next() uint64 { return v.first + uint64(len(v.entries)) }

// keptVersions bounds how far back a stale read can see.
const keptVersions = 16

// NewStore returns an empty store. It refuses entries above 1 MiB.
func NewStore() *Store {
	return &Store{logs: make(map[string]*log), maxEntry: 1 << 20, page: math.MaxInt}
}

// CompareHeadsOnly makes appends as permissive as HBase itself, without the check of its
// driver: with the right head an entry goes into any slot. This exposes callers that rely
// on the check.
func (s *Store) CompareHeadsOnly(only bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.headsOnly = only
}

// SetPage changes how many entries a read returns at most.
func (s *Store) SetPage(entries int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.page = entries
}

// SetMaxEntry changes the size, in bytes, above which entries are refused.
func (s *Store) SetMaxEntry(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.maxEntry = bytes
}

// Land lets in all writes that are held back, in the order in which they were
// sent, and returns how many that were.
func (s *Store) Land() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.late.landAll()
}

// Held returns how many writes are held back.
func (s *Store) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.late.held)
}

// Handle returns a handle of its own on the store, whose calls suffer the
// faults; nil for none.
func (s *Store) Handle(faults Faults) *Logs {
	return &Logs{store: s, faults: faults}
}

// Logs is a handle on a Store.
type Logs struct {
	store  *Store
	faults Faults // called under the store's mu
}

var _ ledger.Logs = (*Logs)(nil)

var _ ledger.Lister = (*Logs)(nil)

// List implements ledger.Lister.
func (m *Logs) List(ctx context.Context, prefix string) (names []string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := m.store
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, l := range s.logs {
		if strings.HasPrefix(name, prefix) && l.at(0).head != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// begin counts a call and returns its fault. The store's mu is held.
func (m *Logs) begin(c Call) Fault {
	m.store.late.call()
	fault := m.faults.decide(c)
	if fault.Kind == Vanish {
		m.store.log(c.Log).change(version{})
	}
	return fault
}

// Append implements ledger.Logs.
func (m *Logs) Append(ctx context.Context, log string, slot uint64, prev, head, entry []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := m.store
	s.mu.Lock()
	defer s.mu.Unlock()
	fault := m.begin(Call{Op: OpAppend, Log: log, Slot: slot})
	prev, head = bytes.Clone(prev), bytes.Clone(head)
	entry = append([]byte{}, entry...) // never nil: that is a slot without one
	_, err := write(&s.late, fault, func() (struct{}, error) {
		return struct{}{}, s.append(log, slot, prev, head, entry)
	})
	if fault.Kind == OwnTaken && err == nil {
		err = ledger.ErrTaken
	}
	return err
}

// append is the one step that decides. mu is held.
func (s *Store) append(log string, slot uint64, prev, head, entry []byte) error {
	if len(entry) > s.maxEntry {
		return fmt.Errorf("%s, slot %d: %d bytes: %w", log, slot, len(entry), ledger.ErrTooLarge)
	}
	l := s.log(log)
	now := l.at(0)
	if !bytes.Equal(now.head, prev) || !s.headsOnly && slot != now.next() {
		return ledger.ErrTaken
	}
	if slot < now.next() {
		l.change(now.overwrite(slot, entry))
		return nil
	}
	for now.next() < slot {
		now.entries = append(now.entries, nil)
	}
	l.change(version{head: head, first: now.first, entries: append(now.entries, entry)})
	return nil
}

// overwrite replaces an entry. The head stays: it has the timestamp of its slot,
// and a cell of an earlier one does not hide it.
func (v version) overwrite(slot uint64, entry []byte) version {
	if slot >= v.first {
		v.entries = slices.Clone(v.entries)
		v.entries[slot-v.first] = entry
	}
	return v
}

// Read implements ledger.Logs. Head and entries are of one moment, and entries[i] is
// slot from+i: where from has been deleted there are none.
func (m *Logs) Read(ctx context.Context, log string, from uint64, max int) (head []byte, entries [][]byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	s := m.store
	s.mu.Lock()
	defer s.mu.Unlock()
	fault := m.begin(Call{Op: OpRead, Log: log, Slot: from})
	switch fault.Kind {
	case ErrorBefore:
		return nil, nil, fmt.Errorf("%w: not read", ErrInjected)
	case Denied:
		return nil, nil, errDenied
	}
	v := s.peek(log, back(fault))
	if from < v.first || from >= v.next() || max <= 0 {
		return bytes.Clone(v.head), nil, nil
	}
	for _, e := range v.entries[from-v.first : min(from-v.first+uint64(min(max, s.page)), uint64(len(v.entries)))] {
		if e == nil {
			break // a slot that was left out
		}
		entries = append(entries, bytes.Clone(e))
	}
	return bytes.Clone(v.head), entries, nil
}

// Heads implements ledger.Logs.
func (m *Logs) Heads(ctx context.Context, logs []string) ([][]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := m.store
	s.mu.Lock()
	defer s.mu.Unlock()
	fault := m.begin(Call{Op: OpHeads})
	switch fault.Kind {
	case ErrorBefore:
		return nil, fmt.Errorf("%w: not read", ErrInjected)
	case Denied:
		return nil, errDenied
	}
	heads := make([][]byte, len(logs))
	for i, log := range logs {
		heads[i] = bytes.Clone(s.peek(log, back(fault)).head)
	}
	return heads, nil
}

// Delete implements ledger.Logs.
func (m *Logs) Delete(ctx context.Context, log string, upTo uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := m.store
	s.mu.Lock()
	defer s.mu.Unlock()
	fault := m.begin(Call{Op: OpDelete, Log: log, Slot: upTo})
	_, err := write(&s.late, fault, func() (struct{}, error) {
		s.delete(log, upTo)
		return struct{}{}, nil
	})
	return err
}

// delete removes the front of a log, or all of it. mu is held.
func (s *Store) delete(log string, upTo uint64) {
	l := s.log(log)
	now := l.at(0)
	switch {
	case now.head == nil || upTo < now.first:
	case upTo >= now.next()-1:
		l.change(version{})
	default:
		l.change(version{head: now.head, first: upTo + 1, entries: now.entries[upTo+1-now.first:]})
	}
}

// log returns a log to be changed. mu is held.
func (s *Store) log(name string) *log {
	l := s.logs[name]
	if l == nil {
		l = &log{versions: []version{{}}}
		s.logs[name] = l
	}
	return l
}

// peek returns a log as it was some changes ago. mu is held.
func (s *Store) peek(name string, back int) version {
	if l := s.logs[name]; l != nil {
		return l.at(back)
	}
	return version{}
}

// at returns the version some changes ago, or the oldest that is kept.
func (l *log) at(back int) version {
	return l.versions[max(0, len(l.versions)-1-back)]
}

func (l *log) change(v version) {
	if len(l.versions) == keptVersions {
		copy(l.versions, l.versions[1:])
		l.versions = l.versions[:keptVersions-1]
	}
	l.versions = append(l.versions, v)
}

// back returns how many changes ago a read is answered.
func back(fault Fault) int {
	if fault.Kind == Stale {
		return max(1, fault.N)
	}
	return 0
}
