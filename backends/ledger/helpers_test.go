package ledger

import (
	"fmt"
	"testing"

	pb "salectl/backends/ledger/ledgerpb"
)

const testLog = "00/0123456789abcdef/0"

var TestOwner = []byte("owner-01")

// names returns n different names of 16 bytes.
func names(prefix byte, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%c%015d", prefix, i)
	}
	return all
}

func OpenSettings(perUser int64) *pb.Settings {
	return &pb.Settings{PerUserLimit: perUser, Phase: pb.Phase_OPEN}
}

// MustCommit encodes a draft and applies it.
func MustCommit(t testing.TB, s *State, d *Draft) *Entry {
	t.Helper()
	e, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(e.Commit, e.Hash, len(e.Bytes)); err != nil {
		t.Fatal(err)
	}
	return e
}

// mustGeneration returns the first commit of a log: units 1 to stock.
func mustGeneration(t testing.TB, s *State, stock, perUser int64) *Entry {
	t.Helper()
	d := s.Draft([]byte("planner1"), 0)
	err := d.Generation(&pb.Generation{
		Number: 1, Add: []*pb.Range{{First: 1, Count: stock}}, Settings: OpenSettings(perUser),
	})
	if err != nil {
		t.Fatal(err)
	}
	return MustCommit(t, s, d)
}

func mustOwn(t testing.TB, s *State) *Entry {
	t.Helper()
	d := s.Draft(TestOwner, 0)
	d.Own("127.0.0.1:7080")
	return MustCommit(t, s, d)
}

// MustOpenShard returns a shard with an owner and its stored entries so far.
func MustOpenShard(t testing.TB, stock, perUser int64) (*State, []*Entry) {
	t.Helper()
	s := NewState(testLog)
	return s, []*Entry{mustGeneration(t, s, stock, perUser), mustOwn(t, s)}
}

// Units returns the units of a claim granted here.
func (draft *Draft) Units(op int) []int64 { return draft.commit.Ops[op].GetClaim().GetUnits() }
