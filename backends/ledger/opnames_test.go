package ledger

import (
	"slices"
	"testing"

	pb "salectl/backends/ledger/ledgerpb"
)

func TestOpNames(t *testing.T) {
	claim, in := &pb.Op{Op: &pb.Op_Claim{Claim: new(pb.Claim)}}, &pb.Op{Op: &pb.Op_In{In: new(pb.In)}}
	for _, test := range []struct {
		ops  []*pb.Op
		want []string
	}{
		{nil, nil},
		{[]*pb.Op{{Op: &pb.Op_Destroyed{Destroyed: new(pb.Destroyed)}}}, []string{"destroyed"}},
		{[]*pb.Op{claim, claim}, []string{"claim"}},
		{[]*pb.Op{in, claim, in, new(pb.Op)}, []string{"in", "claim", "other"}},
	} {
		if got := OpNames(&pb.Commit{Ops: test.ops}); !slices.Equal(got, test.want) {
			t.Errorf("%v: %q, want %q", test.ops, got, test.want)
		}
	}
}
