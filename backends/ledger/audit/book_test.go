package audit

import (
	"errors"
	"testing"
	"testing/synctest"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/memory"
)

func claimOp(user string, unit int64) *pb.Op {
	return &pb.Op{Op: &pb.Op_Claim{Claim: &pb.Claim{User: user, Key: []byte("k"), Units: []int64{unit}}}}
}

func ackOp() *pb.Op { return &pb.Op{Op: &pb.Op_Ack{Ack: &pb.Ack{To: 3}}} }

// first are the commits that a shard of 10 units begins with.
var first = []*pb.Commit{
	{Ops: []*pb.Op{{Op: &pb.Op_Generation{Generation: &pb.Generation{
		Number: 1, Add: []*pb.Range{{First: 1, Count: 10}}, Settings: &pb.Settings{PerUserLimit: 3, Phase: pb.Phase_OPEN},
	}}}}},
	{Writer: []byte("a"), Epoch: 1, Ops: []*pb.Op{{Op: &pb.Op_Own{Own: &pb.Own{Address: "a:1"}}}}},
}

// log is a log of a store that a test writes.
type log struct {
	t    *testing.T
	logs ledger.Logs
	tail *ledger.Tail
	head []byte
}

func newLog(t *testing.T) *log {
	return &log{t: t, logs: memory.NewStore().Handle(nil), tail: ledger.NewTail("00/0123456789abcdef/0")}
}

// append stores a commit; damaged: with bytes that do not decode.
func (l *log) append(c *pb.Commit, damaged bool) {
	l.t.Helper()
	e, err := l.tail.Entry(c)
	if err != nil {
		l.t.Fatal(err)
	}
	stored := e.Bytes
	if damaged {
		stored = []byte("noise")
	}
	if err := l.logs.Append(l.t.Context(), l.tail.Log(), l.tail.Next(), l.head, e.Head, stored); err != nil {
		l.t.Fatal(err)
	}
	l.head = e.Head
	if _, err := l.tail.Take(e.Bytes); err != nil {
		l.t.Fatal(err)
	}
}

// A book finds a claim by its place, and nothing elsewhere.
func TestBookFindsClaims(t *testing.T) {
	l := newLog(t)
	for _, c := range append(first[:2:2],
		&pb.Commit{Ops: []*pb.Op{claimOp("u", 1), ackOp(), claimOp("v", 2)}}, &pb.Commit{Ops: []*pb.Op{claimOp("w", 3)}},
		&pb.Commit{}, &pb.Commit{Ops: []*pb.Op{ackOp(), claimOp("x", 4)}}) {
		l.append(c, false)
	}
	b := newBook(l.tail.Log(), 0, 1, ledger.NewState(l.tail.Log()))
	if err := b.read(t.Context(), l.logs); err != nil || b.damage != nil {
		t.Fatal(err, b.damage)
	}
	places := map[place]uint32{{2, 0}: 0, {2, 2}: 1, {3, 0}: 2, {5, 1}: 3}
	for slot := range uint64(8) {
		for index := range uint32(4) {
			want, there := places[place{slot, index}]
			if n, ok := b.find(place{slot, index}); ok != there || ok && n != want {
				t.Errorf("slot %d, op %d: claim %d, %v, want %d, %v", slot, index, n, ok, want, there)
			}
		}
	}
}

// A log that is damaged behind what was read first is in the audit too, and is no
// failure to read.
func TestBookReadsOnIntoDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a slot that does not fit is waited for
		l := newLog(t)
		l.append(first[0], false)
		l.append(first[1], false)
		b := newBook(l.tail.Log(), 0, 1, ledger.NewState(l.tail.Log()))
		if err := b.read(t.Context(), l.logs); err != nil || b.damage != nil {
			t.Fatal(err, b.damage)
		}
		l.append(&pb.Commit{Ops: []*pb.Op{claimOp("u", 1)}}, true)
		never := func() bool { return false }
		if err := b.readOn(t.Context(), l.logs, never); err != nil || !errors.Is(b.damage, ledger.ErrCorrupt) {
			t.Errorf("%v, the damage is %v", err, b.damage)
		}
		if err := b.readOn(t.Context(), nil, never); err != nil { // a log that is damaged is not read again
			t.Error(err)
		}
	})
}
