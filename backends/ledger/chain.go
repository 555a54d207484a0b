package ledger

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	pb "salectl/backends/ledger/ledgerpb"
)

// ErrCorrupt says that a log is not what its writers wrote: a slot is lost or
// altered, or an op breaks an invariant. Nothing may be appended to such a log.
var ErrCorrupt = errors.New("the ledger is damaged")

// MaxEntry bounds the bytes of one entry. Whoever fills a batch stops short of
// it; a store may refuse more.
const MaxEntry = 1 << 20

// chain is how far a log has been read: the next slot, and the hash and time of
// the one before. Slot 0 hashes the log's name, so that an entry fits into no
// other log than its own.
type chain struct {
	log    string
	next   uint64
	hash   Hash
	timeUs int64
}

// Log returns the log's name.
func (c *chain) Log() string { return c.log }

func newChain(log string) chain {
	return chain{log: log, hash: sha256.Sum256([]byte(log))}
}

// decode reads the entry of the next slot and checks that it follows.
func (c *chain) decode(entry []byte) (*pb.Commit, error) {
	commit := new(pb.Commit)
	if err := proto.Unmarshal(entry, commit); err != nil {
		return nil, c.corrupt("does not decode: %v", err)
	}
	if !bytes.Equal(commit.GetPrev(), c.hash[:]) {
		return nil, c.corrupt("does not follow the slot before it: a slot was lost or altered")
	}
	return commit, c.follows(commit)
}

func (c *chain) follows(commit *pb.Commit) error {
	if commit.GetTimeUs() < c.timeUs && !owns(commit) {
		return c.corrupt("its time lies before the slot before it")
	}
	return nil
}

// owns reports whether a commit makes its writer the owner. Such a one may set the
// log's time back.
func owns(commit *pb.Commit) bool {
	return slices.ContainsFunc(commit.GetOps(), func(op *pb.Op) bool { return op.GetOwn() != nil })
}

// MaxAhead is how far the time of a log may be ahead of the clock of its next writer
// before it is set back: twice the longest ttl, since the clocks of two writers that
// may append are each no more than a ttl off those of the lock nodes.
const MaxAhead = 20 * time.Second

// ahead reports whether the log's time was dragged along by a clock that was wrong.
// Microseconds of 0 are no clock.
func (c *chain) ahead(timeUs int64) bool {
	return timeUs != 0 && c.timeUs-timeUs > MaxAhead.Microseconds()
}

// at is the time by which a writer decides whose clock says timeUs: never before the
// slot before, unless that is to be set back.
func (c *chain) at(timeUs int64) int64 {
	if c.ahead(timeUs) {
		return timeUs
	}
	return max(timeUs, c.timeUs)
}

// advance moves on past an entry that was decoded or encoded here.
func (c *chain) advance(commit *pb.Commit, hash Hash) {
	c.next++
	c.hash = hash
	c.timeUs = commit.GetTimeUs()
}

// encode completes a commit that is to follow and returns its stored bytes.
// Its time never falls behind the slot before it, unless it makes an owner.
func (c *chain) encode(commit *pb.Commit) ([]byte, Hash, error) {
	commit.Prev = bytes.Clone(c.hash[:])
	if !owns(commit) {
		commit.TimeUs = max(commit.GetTimeUs(), c.timeUs)
	}
	entry, err := appendCommit(make([]byte, 0, 128+64*len(commit.GetOps())), commit)
	if err != nil {
		return nil, Hash{}, fmt.Errorf("encoding a commit of log %s: %w", c.log, err)
	}
	return entry, sha256.Sum256(entry), nil
}

func (c *chain) corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: log %s, slot %d: %s", ErrCorrupt, c.log, c.next, fmt.Sprintf(format, args...))
}
