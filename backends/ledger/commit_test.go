package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	pb "salectl/backends/ledger/ledgerpb"
)

// anyClaim draws a claim, of which fields may be empty that never are in a log.
func anyClaim(t *rapid.T) *pb.Claim {
	return &pb.Claim{
		User: rapid.String().Draw(t, "user"), Key: rapid.SliceOf(rapid.Byte()).Draw(t, "key"),
		Units:       rapid.SliceOf(rapid.Int64()).Draw(t, "units"),
		HeldUntilUs: rapid.Int64().Draw(t, "held"), Fill: rapid.Uint64().Draw(t, "fill"), GrantedUs: rapid.Int64().Draw(t, "granted"),
		GraceUs: rapid.Int64().Draw(t, "grace"), Attributes: rapid.SliceOf(rapid.Byte()).Draw(t, "attributes"),
		Requested: rapid.Uint32().Draw(t, "asked"), Entry: rapid.Bool().Draw(t, "entry"),
	}
}

// anySettle draws a settlement, of which all fields may be there together.
func anySettle(t *rapid.T) *pb.Settle {
	return &pb.Settle{
		Slot: rapid.Uint64().Draw(t, "slot"), Index: rapid.Uint32().Draw(t, "index"), How: pb.Settle_How(rapid.Int32().Draw(t, "how")),
		Payment: rapid.String().Draw(t, "payment"), Who: rapid.String().Draw(t, "who"), Reason: rapid.String().Draw(t, "reason"),
		HeldUntilUs: rapid.Int64().Draw(t, "held"), Units: rapid.SliceOf(rapid.Int64()).Draw(t, "units"), Retire: rapid.Bool().Draw(t, "retire"),
		GraceUs: rapid.Int64().Draw(t, "grace"),
	}
}

// TestCommitBytes compares the bytes of a commit with those of package proto, and decodes them.
func TestCommitBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &pb.Commit{
			Writer: rapid.SliceOf(rapid.Byte()).Draw(t, "writer"), Epoch: rapid.Uint64().Draw(t, "epoch"),
			TimeUs: rapid.Int64().Draw(t, "time"), Prev: rapid.SliceOf(rapid.Byte()).Draw(t, "prev"),
		}
		for range rapid.IntRange(0, 5).Draw(t, "ops") {
			op := &pb.Op{Op: &pb.Op_Claim{Claim: anyClaim(t)}}
			switch rapid.IntRange(0, 2).Draw(t, "another") {
			case 1:
				op = &pb.Op{Op: &pb.Op_Settle{Settle: anySettle(t)}}
			case 2:
				op = &pb.Op{Op: &pb.Op_Out{Out: &pb.Out{To: 3, K: rapid.Uint64().Draw(t, "k"), Units: []*pb.Range{{First: 7, Count: 9}}}}}
			}
			c.Ops = append(c.Ops, op)
		}
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.MarshalVT()
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%x, %v, want %x", got, err, want)
		}
		if decoded, err := decodeCommit(got); err != nil || !proto.Equal(decoded, c) {
			t.Fatalf("decoded %v, %v, want %v", decoded, err, c)
		}
	})
}

// A text that is not UTF-8 is neither stored nor accepted from a store.
func TestTextOfCommits(t *testing.T) {
	const text = "\xff"
	for name, op := range map[string]*pb.Op{
		"user":    {Op: &pb.Op_Claim{Claim: &pb.Claim{User: text}}},
		"payment": {Op: &pb.Op_Settle{Settle: &pb.Settle{Payment: text}}},
		"name":    {Op: &pb.Op_Settle{Settle: &pb.Settle{Who: text}}},
		"reason":  {Op: &pb.Op_Settle{Settle: &pb.Settle{Reason: text}}},
		"key":     {Op: &pb.Op_Payload{Payload: &pb.Payload{Key: text}}},
		"column":  {Op: &pb.Op_Payload{Payload: &pb.Payload{Columns: []string{"code", text}}}},
		"address": {Op: &pb.Op_Own{Own: &pb.Own{Address: text}}},
	} {
		commit := &pb.Commit{Ops: []*pb.Op{op}}
		c := newChain("test/log")
		if entry, err := c.encode(commit, Totals{}); err == nil {
			t.Errorf("a %s that is not text is stored as %x", name, entry.Bytes)
		}
		entry, err := commit.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		if decoded, err := c.decode(entry); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "not UTF-8") {
			t.Errorf("a %s that is not text is read as %v, %v", name, decoded, err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	c := &pb.Commit{Writer: make([]byte, 8), Epoch: 3, TimeUs: 1_700_000_000_000_000, Prev: make([]byte, 32)}
	for i := range 1000 {
		c.Ops = append(c.Ops, &pb.Op{Op: &pb.Op_Claim{Claim: &pb.Claim{
			User: fmt.Sprintf("user-%011d", i), Key: fmt.Appendf(nil, "key-%012d", i), Units: []int64{int64(i + 1)},
			Fill: 2, GrantedUs: 1_700_000_000_000_000,
		}}})
	}
	for name, encode := range map[string]func() ([]byte, error){
		"generated": c.MarshalVT,
		"proto":     func() ([]byte, error) { return proto.Marshal(c) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := encode(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
