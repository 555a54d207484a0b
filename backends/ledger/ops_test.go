package ledger

import (
	"testing"

	pb "salectl/backends/ledger/ledgerpb"
)

// Short names for commits that a test writes by hand, past Draft.

// commit is a pb.Commit without what follows from the log.
type commit struct {
	writer string
	epoch  uint64
	timeUs int64
	ops    []*pb.Op
}

// by is a commit of the owner "a" under epoch 1 at time 10.
func By(ops ...*pb.Op) commit { return commit{"a", 1, 10, ops} }

func (c commit) as(writer string, epoch uint64) commit {
	c.writer, c.epoch = writer, epoch
	return c
}

func (c commit) at(timeUs int64) commit {
	c.timeUs = timeUs
	return c
}

func (c commit) proto() *pb.Commit {
	return &pb.Commit{Writer: []byte(c.writer), Epoch: c.epoch, TimeUs: c.timeUs, Ops: c.ops}
}

// fold stores a commit as the next slot of a state and folds the stored bytes.
func FoldCommit(s *State, c commit) ([]byte, error) {
	entry, err := s.encode(c.proto(), Totals{})
	if err != nil {
		return nil, err
	}
	return entry.Bytes, s.Fold(entry.Bytes)
}

func MustFold(t testing.TB, s *State, commits ...commit) {
	t.Helper()
	for _, c := range commits {
		if _, err := FoldCommit(s, c); err != nil {
			t.Fatal(err)
		}
	}
}

func own() *pb.Op { return &pb.Op{Op: &pb.Op_Own{Own: &pb.Own{Address: "a:1"}}} }

func ClaimOp(user, key string, units ...int64) *pb.Op { return HoldOp(user, key, 0, units...) }

func HoldOp(user, key string, untilUs int64, units ...int64) *pb.Op {
	return &pb.Op{Op: &pb.Op_Claim{Claim: &pb.Claim{User: user, Key: []byte(key), Units: units, HeldUntilUs: untilUs}}}
}

func SettleOp(slot uint64, index uint32, how pb.Settle_How) *pb.Op {
	return &pb.Op{Op: &pb.Op_Settle{Settle: &pb.Settle{Slot: slot, Index: index, How: how}}}
}

func OutOp(to uint32, k uint64, units ...Range) *pb.Op {
	return &pb.Op{Op: &pb.Op_Out{Out: &pb.Out{To: to, K: k, Units: Units(units).Proto()}}}
}

func InOp(from uint32, k uint64, units ...Range) *pb.Op {
	return &pb.Op{Op: &pb.Op_In{In: &pb.In{From: from, K: k, Units: Units(units).Proto()}}}
}

func AckOp(to uint32, k uint64) *pb.Op { return &pb.Op{Op: &pb.Op_Ack{Ack: &pb.Ack{To: to, K: k}}} }

func GenerationOp(number uint64, remove int64, settings *pb.Settings, add ...Range) *pb.Op {
	return &pb.Op{Op: &pb.Op_Generation{Generation: &pb.Generation{
		Number: number, Remove: remove, Settings: settings, Add: Units(add).Proto(),
	}}}
}

func seal() *pb.Op { return &pb.Op{Op: &pb.Op_Seal{Seal: &pb.Seal{}}} }

func PhaseSettings(p pb.Phase) *pb.Settings { return &pb.Settings{PerUserLimit: 3, Phase: p} }

// paying is a sale whose claims are held.
func paying(perUser int64, p *pb.Payment) *pb.Settings {
	return &pb.Settings{PerUserLimit: perUser, Phase: pb.Phase_OPEN, Payment: p}
}
