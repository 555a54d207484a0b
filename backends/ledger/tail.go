package ledger

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"google.golang.org/protobuf/proto"

	pb "salectl/backends/ledger/ledgerpb"
)

// Tail follows a log entry by entry without folding it: each is held against the one before,
// and nothing is remembered but the last. So it may begin anywhere in a log.
type Tail struct{ chain }

// NewTail returns a log's tail before slot 0.
func NewTail(log string) *Tail { return &Tail{newChain(log)} }

// Skip goes to the slot behind the one that a head belongs to.
func (t *Tail) Skip(h Head) { t.next, t.hash, t.timeUs = h.Slot+1, h.Hash, h.TimeUs }

// SkipTo goes to the slot behind an entry, which stands in slot next-1. The entry is not held
// against the one before it, so the caller must know its hash, which Root returns from then on.
func (t *Tail) SkipTo(next uint64, entry []byte) error {
	t.next, t.hash = next-1, sha256.Sum256(entry)
	commit := new(pb.Commit)
	if err := proto.Unmarshal(entry, commit); err != nil {
		return t.corrupt("does not decode: %v", err)
	}
	t.next, t.timeUs = next, commit.GetTimeUs()
	return nil
}

// Take takes in the next slot.
func (t *Tail) Take(entry []byte) (*pb.Commit, error) { return t.TakeRedacted(entry, sum(entry)) }

// Decode reads the entry of the next slot and checks that it follows. It does not take it in.
func (t *Tail) Decode(entry []byte) (*pb.Commit, error) { return t.decode(entry) }

// TakeRedacted is Take of a slot of whose stored bytes something is left out in entry. hash is
// that of the stored bytes. The caller must have it from where it trusts.
func (t *Tail) TakeRedacted(entry []byte, hash Hash) (*pb.Commit, error) {
	commit, err := t.decode(entry)
	if err != nil {
		return nil, err
	}
	t.advance(commit, hash)
	return commit, nil
}

// Entry completes a commit that is to follow and encodes it. Its head has no totals.
func (t *Tail) Entry(commit *pb.Commit) (*Entry, error) {
	stored, hash, err := t.encode(commit)
	if err != nil {
		return nil, err
	}
	head := Head{Slot: t.next, Hash: hash, TimeUs: commit.GetTimeUs()}
	return &Entry{Commit: commit, Hash: hash, Bytes: stored, Head: head.Encode()}, nil
}

// Corrupt returns ErrCorrupt of the next slot, with what is wrong.
func (t *Tail) Corrupt(format string, args ...any) error { return t.corrupt(format, args...) }

// Ends holds the log's head against what was taken of the log: it says whether the log ends
// with that. more: slots come behind it, or the read of one of the two lags.
func (t *Tail) Ends(head []byte) (more bool, err error) {
	h, err := ParseHead(head)
	switch {
	case err != nil:
		return false, t.corrupt("its head: %v", err)
	case h.Slot+1 == t.next && !bytes.Equal(h.Hash[:], t.hash[:]):
		return false, fmt.Errorf("%w: log %s: the head does not belong to slot %d", ErrCorrupt, t.log, h.Slot)
	}
	return h.Slot+1 > t.next, nil
}

// Next returns the slot after the last one taken.
func (t *Tail) Next() uint64 { return t.next }

// Root returns the hash of the last slot taken, and before slot 0 that of the log's name.
func (t *Tail) Root() Hash { return t.hash }

// TimeUs returns the time of the last slot taken, 0 if there is none.
func (t *Tail) TimeUs() int64 { return t.timeUs }
