package ledger

import (
	"fmt"
	"time"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/draw"
)

// State is one shard: the fold of its log and nothing else. Its methods that are named
// after ops are the only implementation of what is allowed; a Draft checks the same
// conditions first.
//
// A State is not safe for concurrent use. Concurrent readers may share it while no
// entry is folded.
type State struct {
	chain
	claims
	holdings

	owner      string     // writer id of the owner
	awardBound int64      // see DrawShard, once the sale is closed for good
	entries    *draw.Tree // of a draw: the tree of its entries, once no more are accepted
	bytes      int64
}

// NewState returns the state of a shard before its first slot.
func NewState(log string) *State {
	return &State{chain: newChain(log), claims: newClaims(), holdings: holdings{transfers: make(transfers)}}
}

// Fold applies the entry of the next slot. After an error the state must not be used.
func (s *State) Fold(entry []byte) error {
	commit, err := s.decode(entry)
	if err != nil {
		return err
	}
	return s.Apply(commit, sum(entry), len(entry))
}

// Apply applies a commit whose stored bytes are known to be right: this process decoded
// or encoded it. size is the number of these bytes.
func (s *State) Apply(c *pb.Commit, hash Hash, size int) error {
	if s.Sealed() {
		return s.corrupt("a commit after the seal")
	}
	s.claims.times = append(s.claims.times, c.GetTimeUs())
	for i, op := range c.GetOps() {
		if err := s.applyOp(c, i, op); err != nil {
			return s.corrupt("op %d: %v", i, err)
		}
	}
	s.advance(c, hash)
	s.bytes += int64(size)
	return nil
}

func (s *State) applyOp(c *pb.Commit, i int, op *pb.Op) error {
	if s.Sealed() {
		return fmt.Errorf("it comes after the seal")
	}
	if _, isOwn := op.GetOp().(*pb.Op_Own); !isOwn && c.GetEpoch() != s.Epoch {
		return fmt.Errorf("it was written under epoch %d, the shard is at %d", c.GetEpoch(), s.Epoch)
	}
	if _, first := op.GetOp().(*pb.Op_Generation); s.Generation == 0 && !first {
		return fmt.Errorf("a log begins with its first generation")
	}
	switch op := op.GetOp().(type) {
	case *pb.Op_Claim:
		return s.claim(c, i, op.Claim)
	case *pb.Op_Settle:
		return s.settle(c, op.Settle)
	case *pb.Op_Own:
		return s.own(c, op.Own)
	case *pb.Op_Out:
		units, err := UnitsOf(op.Out.GetUnits())
		if err == nil && !s.IsOwner(c.GetWriter()) {
			err = fmt.Errorf("a transfer by a writer that is not the owner")
		}
		if err != nil {
			return err
		}
		return s.out(int(op.Out.GetTo()), op.Out.GetK(), units)
	case *pb.Op_In:
		units, err := UnitsOf(op.In.GetUnits())
		if err != nil {
			return err
		}
		return s.in(int(op.In.GetFrom()), op.In.GetK(), units)
	case *pb.Op_Ack:
		return s.ack(int(op.Ack.GetTo()), op.Ack.GetK())
	case *pb.Op_Generation:
		return s.generation(op.Generation)
	case *pb.Op_Seal:
		return s.seal()
	case *pb.Op_Rebuild:
		return s.rebuild(op.Rebuild)
	case *pb.Op_Entries:
		return s.closeEntries(c, op.Entries)
	}
	return fmt.Errorf("it is of a kind that no shard has (written by a newer version?)")
}

// Head returns the head that belongs to the last slot folded.
func (s *State) Head() Head {
	return Head{Slot: s.next - 1, Hash: s.hash, TimeUs: s.timeUs, Totals: s.Totals}
}

// Bytes returns the size of the entries folded.
func (s *State) Bytes() int64 { return s.bytes }

// Sealed reports whether the log is sealed.
func (s *State) Sealed() bool { return s.Phase == PhaseSealed }

// Settings returns the settings of the newest generation, nil before the first.
func (s *State) Settings() *pb.Settings { return s.settings }

// IsOwner reports whether a writer is the shard's owner.
func (s *State) IsOwner(writer []byte) bool { return s.Epoch > 0 && s.owner == string(writer) }

// Time returns a time of settings, in microseconds since 1970; the zero time for 0, which is none.
func Time(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us)
}

// FormatTime formats microseconds since 1970 as exports do, in RFC 3339 and UTC; "" for 0, which
// is none.
func FormatTime(us int64) string {
	if us == 0 {
		return ""
	}
	return time.UnixMicro(us).UTC().Format(time.RFC3339Nano)
}
