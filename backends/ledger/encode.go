package ledger

import (
	"errors"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	pb "salectl/backends/ledger/ledgerpb"
)

// appendCommit appends the stored form of a commit: the same bytes as proto.Marshal, which
// takes twice as long. Nearly all ops of a busy sale are claims and settlements, which are
// encoded here; the proto package encodes the others.
func appendCommit(b []byte, c *pb.Commit) (_ []byte, err error) {
	b = appendBytes(b, 1, c.GetWriter())
	b = appendNumber(b, 2, c.GetEpoch())
	b = appendNumber(b, 3, uint64(c.GetTimeUs()))
	b = appendBytes(b, 4, c.GetPrev())
	for _, op := range c.GetOps() {
		b = protowire.AppendTag(b, 5, protowire.BytesType)
		start := len(b)
		if b, err = appendOp(b, op); err != nil {
			return nil, err
		}
		b = insertLength(b, start)
	}
	return b, nil
}

// insertLength inserts the length of a message that begins at start and ends with b.
func insertLength(b []byte, start int) []byte {
	var length [10]byte
	return slices.Insert(b, start, protowire.AppendVarint(length[:0], uint64(len(b)-start))...)
}

func appendOp(b []byte, op *pb.Op) ([]byte, error) {
	start := len(b) + 1
	switch kind := op.GetOp().(type) {
	case *pb.Op_Claim:
		c := kind.Claim
		if !utf8.ValidString(c.GetUser()) {
			return nil, errors.New("a user's name is not UTF-8 text")
		}
		b = protowire.AppendTag(b, 2, protowire.BytesType)
		b = appendBytes(b, 1, c.GetUser())
		b = appendBytes(b, 2, c.GetKey())
		b = appendUnits(b, 3, c.GetUnits())
		b = appendNumber(b, 4, uint64(c.GetHeldUntilUs()))
		b = appendNumber(b, 5, c.GetFill())
		b = appendNumber(b, 6, uint64(c.GetGrantedUs()))
		b = appendNumber(b, 7, uint64(c.GetGraceUs()))
		b = appendBytes(b, 8, c.GetAttributes())
		b = appendNumber(b, 9, uint64(c.GetAsked()))
		b = appendNumber(b, 10, protowire.EncodeBool(c.GetEntry()))
	case *pb.Op_Settle:
		s := kind.Settle
		if !utf8.ValidString(s.GetPayment()) || !utf8.ValidString(s.GetWho()) || !utf8.ValidString(s.GetReason()) {
			return nil, errors.New("a payment, name or reason is not UTF-8 text")
		}
		b = protowire.AppendTag(b, 3, protowire.BytesType)
		b = appendNumber(b, 1, s.GetSlot())
		b = appendNumber(b, 2, uint64(s.GetIndex()))
		b = appendNumber(b, 3, uint64(s.GetHow()))
		b = appendBytes(b, 4, s.GetPayment())
		b = appendBytes(b, 5, s.GetWho())
		b = appendBytes(b, 6, s.GetReason())
		b = appendNumber(b, 7, uint64(s.GetHeldUntilUs()))
		b = appendUnits(b, 8, s.GetUnits())
		b = appendNumber(b, 9, protowire.EncodeBool(s.GetRetire()))
		b = appendNumber(b, 10, uint64(s.GetGraceUs()))
	default:
		return proto.MarshalOptions{}.MarshalAppend(b, op)
	}
	return insertLength(b, start), nil
}

// The functions below omit empty and zero fields, as proto does. All tags take one byte.

func appendBytes[T string | []byte](b []byte, field protowire.Number, v T) []byte {
	if len(v) == 0 {
		return b
	}
	b = protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), uint64(len(v)))
	return append(b, v...)
}

// appendUnits appends unit numbers as a packed field.
func appendUnits(b []byte, field protowire.Number, units []int64) []byte {
	if len(units) == 0 {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.BytesType)
	start := len(b)
	for _, unit := range units {
		b = protowire.AppendVarint(b, uint64(unit))
	}
	return insertLength(b, start)
}

func appendNumber(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}
