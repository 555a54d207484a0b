package ledger

import (
	"errors"
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
		if claim, ok := op.GetOp().(*pb.Op_Claim); ok {
			if b, err = appendClaim(b, claim.Claim); err != nil {
				return nil, err
			}
			continue
		}
		if settle, ok := op.GetOp().(*pb.Op_Settle); ok {
			if b, err = appendSettle(b, settle.Settle); err != nil {
				return nil, err
			}
			continue
		}
		b = protowire.AppendVarint(b, uint64(proto.Size(op)))
		if b, err = (proto.MarshalOptions{UseCachedSize: true}).MarshalAppend(b, op); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// appendClaim appends the op of a claim, preceded by its length.
func appendClaim(b []byte, c *pb.Claim) ([]byte, error) {
	if !utf8.ValidString(c.GetUser()) {
		return nil, errors.New("a user's name is not UTF-8 text")
	}
	units := sizeUnits(c.GetUnits())
	size := sizeBytes(len(c.GetUser())) + sizeBytes(len(c.GetKey())) + sizeBytes(units) +
		sizeNumber(uint64(c.GetHeldUntilUs())) + sizeNumber(c.GetFill()) + sizeNumber(uint64(c.GetGrantedUs())) + sizeNumber(uint64(c.GetGraceUs())) +
		sizeBytes(len(c.GetAttributes())) + sizeNumber(uint64(c.GetAsked())) + sizeNumber(bit(c.GetEntry()))
	b = protowire.AppendVarint(b, uint64(1+protowire.SizeBytes(size)))
	b = protowire.AppendTag(b, 2, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	b = appendText(b, 1, c.GetUser())
	b = appendBytes(b, 2, c.GetKey())
	b = appendUnits(b, 3, units, c.GetUnits())
	b = appendNumber(b, 4, uint64(c.GetHeldUntilUs()))
	b = appendNumber(b, 5, c.GetFill())
	b = appendNumber(b, 6, uint64(c.GetGrantedUs()))
	b = appendNumber(b, 7, uint64(c.GetGraceUs()))
	b = appendBytes(b, 8, c.GetAttributes())
	b = appendNumber(b, 9, uint64(c.GetAsked()))
	return appendNumber(b, 10, bit(c.GetEntry())), nil
}

func bit(is bool) uint64 {
	if is {
		return 1
	}
	return 0
}

// appendSettle appends the op of a settlement, preceded by its length.
func appendSettle(b []byte, s *pb.Settle) ([]byte, error) {
	if !utf8.ValidString(s.GetPayment()) || !utf8.ValidString(s.GetWho()) || !utf8.ValidString(s.GetReason()) {
		return nil, errors.New("a payment, name or reason is not UTF-8 text")
	}
	units, how, retire := sizeUnits(s.GetUnits()), uint64(s.GetHow()), bit(s.GetRetire())
	size := sizeNumber(s.GetSlot()) + sizeNumber(uint64(s.GetIndex())) + sizeNumber(how) +
		sizeBytes(len(s.GetPayment())) + sizeBytes(len(s.GetWho())) + sizeBytes(len(s.GetReason())) +
		sizeNumber(uint64(s.GetHeldUntilUs())) + sizeBytes(units) + sizeNumber(retire) + sizeNumber(uint64(s.GetGraceUs()))
	b = protowire.AppendVarint(b, uint64(1+protowire.SizeBytes(size)))
	b = protowire.AppendTag(b, 3, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(size))
	b = appendNumber(b, 1, s.GetSlot())
	b = appendNumber(b, 2, uint64(s.GetIndex()))
	b = appendNumber(b, 3, how)
	b = appendText(b, 4, s.GetPayment())
	b = appendText(b, 5, s.GetWho())
	b = appendText(b, 6, s.GetReason())
	b = appendNumber(b, 7, uint64(s.GetHeldUntilUs()))
	b = appendUnits(b, 8, units, s.GetUnits())
	b = appendNumber(b, 9, retire)
	return appendNumber(b, 10, uint64(s.GetGraceUs())), nil
}

// The functions below omit empty and zero fields, as proto does. All tags take one byte.

func appendBytes(b []byte, field protowire.Number, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}

func appendText(b []byte, field protowire.Number, v string) []byte {
	if v == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), v)
}

// appendUnits appends unit numbers as a packed field of size bytes.
func appendUnits(b []byte, field protowire.Number, size int, units []int64) []byte {
	if size == 0 {
		return b
	}
	b = protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), uint64(size))
	for _, unit := range units {
		b = protowire.AppendVarint(b, uint64(unit))
	}
	return b
}

func sizeUnits(units []int64) (n int) {
	for _, unit := range units {
		n += protowire.SizeVarint(uint64(unit))
	}
	return n
}

func appendNumber(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func sizeBytes(n int) int {
	if n == 0 {
		return 0
	}
	return 1 + protowire.SizeBytes(n)
}

func sizeNumber(v uint64) int {
	if v == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(v)
}
