package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	pb "salectl/backends/ledger/ledgerpb"
)

// ErrCorrupt reports that a log is not what its writers wrote: a slot was lost or
// altered, or an op breaks an invariant. Nothing may be appended to such a log.
var ErrCorrupt = errors.New("the ledger is damaged")

// MaxEntry is the maximum size of an entry in bytes. Callers that fill a batch stop
// before it; a store may have a lower limit.
const MaxEntry = 1 << 20

// chain is a position in a log: the next slot, and the hash and time of the previous
// one. Before slot 0 the hash is that of the log's name, so an entry fits no other log.
type chain struct {
	log    string
	next   uint64
	hash   Hash
	timeUs int64
}

// Log returns the log's name.
func (c *chain) Log() string { return c.log }

// Next returns the slot after the last one folded.
func (c *chain) Next() uint64 { return c.next }

// Root returns the hash of the last slot folded; before slot 0, that of the log's name.
func (c *chain) Root() Hash { return c.hash }

// Skip moves to the slot after that of a head.
func (c *chain) Skip(h Head) { c.next, c.hash, c.timeUs = h.Slot+1, h.Hash, h.TimeUs }

func newChain(log string) chain { return chain{log: log, hash: sum([]byte(log))} }

// decode decodes the entry of the next slot and checks that it follows.
func (c *chain) decode(entry []byte) (*pb.Commit, error) {
	commit, err := decodeCommit(entry)
	if err != nil {
		return nil, c.corrupt("does not decode: %v", err)
	}
	if !bytes.Equal(commit.GetPrev(), c.hash[:]) {
		return nil, c.corrupt("does not follow the slot before it: a slot was lost or altered")
	}
	if commit.GetTimeUs() < c.timeUs && !owns(commit) {
		return nil, c.corrupt("its time is before that of the previous slot")
	}
	return commit, nil
}

func decodeCommit(entry []byte) (*pb.Commit, error) {
	commit := new(pb.Commit)
	if err := commit.UnmarshalVT(entry); err != nil {
		return nil, err
	}
	return commit, checkText(commit)
}

// checkText returns an error if a string of a commit is not UTF-8. The generated methods of
// commits do not check it.
func checkText(commit *pb.Commit) error {
	for _, op := range commit.GetOps() {
		valid := true
		switch kind := op.GetOp().(type) {
		case *pb.Op_Claim:
			valid = utf8.ValidString(kind.Claim.GetUser())
		case *pb.Op_Settle:
			valid = utf8Texts(kind.Settle)
		case *pb.Op_Payload:
			valid = utf8.ValidString(kind.Payload.GetKey()) && !slices.ContainsFunc(kind.Payload.GetColumns(), func(column string) bool {
				return !utf8.ValidString(column)
			})
		default: // rare and small; package proto checks strings
			_, err := proto.Marshal(op)
			valid = err == nil
		}
		if !valid {
			return errors.New("a text is not UTF-8")
		}
	}
	return nil
}

// owns reports whether a commit makes its writer the owner. Such a commit may set the
// log's time back.
func owns(commit *pb.Commit) bool {
	return slices.ContainsFunc(commit.GetOps(), func(op *pb.Op) bool { return op.GetOwn() != nil })
}

// MaxAhead is the maximum by which the time of a log may be ahead of the clock of its next
// writer before that writer sets it back. It is twice the longest ttl: the clocks of two
// writers that may append each differ by at most a ttl from those of the lock nodes.
const MaxAhead = 20 * time.Second

// ahead reports whether the log's time is ahead of a clock by more than MaxAhead, because
// an earlier writer's clock was wrong. timeUs 0 means no clock.
func (c *chain) ahead(timeUs int64) bool {
	return timeUs != 0 && c.timeUs-timeUs > MaxAhead.Microseconds()
}

// commitTime returns the time of the next commit for a writer whose clock reads timeUs. It is never
// before that of the previous slot, unless ahead reports that the log's time is wrong.
func (c *chain) commitTime(timeUs int64) int64 {
	if c.ahead(timeUs) {
		return timeUs
	}
	return max(timeUs, c.timeUs)
}

// advance moves past an entry that this process decoded or encoded.
func (c *chain) advance(commit *pb.Commit, hash Hash) {
	c.next++
	c.hash = hash
	c.timeUs = commit.GetTimeUs()
}

// Entry is an encoded commit with its head, ready to be appended.
type Entry struct {
	Commit *pb.Commit
	Hash   Hash
	Bytes  []byte
	Head   []byte
}

// encode completes the next commit, whose head has totals. Its time is never before that of the
// previous slot, unless it makes an owner.
func (c *chain) encode(commit *pb.Commit, totals Totals) (*Entry, error) {
	commit.Prev = bytes.Clone(c.hash[:])
	if !owns(commit) {
		commit.TimeUs = max(commit.GetTimeUs(), c.timeUs)
	}
	if err := checkText(commit); err != nil {
		return nil, fmt.Errorf("encoding a commit of log %s: %w", c.log, err)
	}
	stored, err := commit.MarshalVT()
	if err != nil {
		return nil, fmt.Errorf("encoding a commit of log %s: %w", c.log, err)
	}
	head := Head{Slot: c.next, Hash: sum(stored), TimeUs: commit.GetTimeUs(), Totals: totals}
	return &Entry{Commit: commit, Hash: head.Hash, Bytes: stored, Head: head.Encode()}, nil
}

func (c *chain) corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: log %s, slot %d: %s", ErrCorrupt, c.log, c.next, fmt.Sprintf(format, args...))
}

var opField = (*pb.Op)(nil).ProtoReflect().Descriptor().Oneofs().ByName("op")

// OpNames returns the kinds of ops in a commit by their names in ledger.proto, such as
// "claim" or "generation": each once, in the order of their first ops. A kind that
// unknown to this program is "other".
func OpNames(c *pb.Commit) (names []string) {
	var last reflect.Type
	for i, op := range c.GetOps() {
		kind := reflect.TypeOf(op.GetOp())
		if i > 0 && kind == last { // a commit's thousands of claims are examined once
			continue
		}
		last = kind
		name := "other"
		if field := op.ProtoReflect().WhichOneof(opField); field != nil {
			name = string(field.Name())
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Tail follows a log entry by entry without folding it. It checks each entry against the one
// before and stores nothing else, so it may begin anywhere in a log.
type Tail struct{ chain }

// NewTail returns the tail of a log before slot 0.
func NewTail(log string) *Tail { return &Tail{newChain(log)} }

// SkipTo moves to slot next, after the entry of slot next-1. It does not check the entry against
// the one before, so the caller must have its hash, which Root returns from then on.
func (t *Tail) SkipTo(next uint64, entry []byte) error {
	t.next, t.hash = next-1, sum(entry)
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
