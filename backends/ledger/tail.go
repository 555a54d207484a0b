package ledger

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	pb "salectl/backends/ledger/ledgerpb"
)

// Tail follows a log entry by entry without folding it. It checks each entry against the one
// before and stores nothing else, so it may begin anywhere in a log.
type Tail struct{ chain }

// NewTail returns the tail of a log before slot 0.
func NewTail(log string) *Tail { return &Tail{newChain(log)} }

// Skip moves to the slot after that of a head.
func (t *Tail) Skip(h Head) { t.next, t.hash, t.timeUs = h.Slot+1, h.Hash, h.TimeUs }

// SkipTo moves to slot next, after the entry of slot next-1. It does not check the entry against
// the one before, so the caller must know its hash, which Root returns from then on.
func (t *Tail) SkipTo(next uint64, entry []byte) error {
	t.next, t.hash = next-1, sha256.Sum256(entry)
	commit, err := decodeCommit(entry)
	if err != nil {
		return t.corrupt("does not decode: %v", err)
	}
	t.next, t.timeUs = next, commit.GetTimeUs()
	return nil
}

// Take checks the entry of the next slot and moves past it.
func (t *Tail) Take(entry []byte) (*pb.Commit, error) { return t.TakeRedacted(entry, sum(entry)) }

// Decode decodes the entry of the next slot and checks that it follows, without moving past it.
func (t *Tail) Decode(entry []byte) (*pb.Commit, error) { return t.decode(entry) }

// TakeRedacted is like Take, for an entry that lacks some of its stored bytes. hash is that of the
// stored bytes, which the caller must have from a trusted source.
func (t *Tail) TakeRedacted(entry []byte, hash Hash) (*pb.Commit, error) {
	commit, err := t.decode(entry)
	if err != nil {
		return nil, err
	}
	t.advance(commit, hash)
	return commit, nil
}

// Entry completes and encodes the next commit. Its head has no totals.
func (t *Tail) Entry(commit *pb.Commit) (*Entry, error) { return t.encode(commit, Totals{}) }

// Corrupt returns an ErrCorrupt for the next slot, with the reason.
func (t *Tail) Corrupt(format string, args ...any) error { return t.corrupt(format, args...) }

// CompareHead compares the log's head with the last slot taken. It fails if the head is of that slot and
// has another hash. more reports whether the head is of a later slot.
func (t *Tail) CompareHead(head []byte) (more bool, err error) {
	h, err := ParseHead(head)
	switch {
	case err != nil:
		return false, t.corrupt("its head: %v", err)
	case h.Slot+1 == t.next && !bytes.Equal(h.Hash[:], t.hash[:]):
		return false, fmt.Errorf("%w: log %s: the head does not belong to slot %d", ErrCorrupt, t.log, h.Slot)
	}
	return h.Slot+1 > t.next, nil
}

// TimeUs returns the time of the last slot taken, 0 if there is none.
func (t *Tail) TimeUs() int64 { return t.timeUs }
