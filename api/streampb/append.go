package streampb

import (
	"encoding/binary"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// NewClaim and Answer, which a stream has once for each claim, are encoded here and decoded in
// parse.go by hand, in less than half of the time. All else is left to the generated code,
// against which tests compare both.

// MaxMessage is the maximum size in bytes of a message to a server.
const MaxMessage = 64 << 10

// MaxReply is the maximum size in bytes of a server's message: a user may have many claims.
const MaxReply = 16 << 20

// AppendRequest appends a length-prefixed message.
func AppendRequest(b []byte, r *Request) []byte {
	asks, ok := r.GetAsks().(*Request_Claim)
	if !ok {
		return appendWhole(b, r)
	}
	b, whole := open(b)
	b = appendUint(b, 1, r.Id)
	b = appendUint(b, 2, uint64(r.TimeoutMs))
	b = appendBool(b, 3, r.Forwarded)
	c := asks.Claim
	b, claim := openNewClaim(b, c.GetUser(), c.GetKey(), c.GetQuantity())
	b = appendBool(appendUnits(b, 4, c.GetUnits()), 5, c.GetAdjacent())
	for _, name := range c.GetNames() {
		b = protowire.AppendString(append(b, tag(6, protowire.BytesType)), name)
	}
	return shut(appendString(shut(b, claim), 11, r.Run), whole)
}

// AppendClaim is AppendRequest for a claim without other fields.
func AppendClaim(b []byte, id uint64, user, key string, quantity int64, adjacent bool) []byte {
	b, whole := open(b)
	b = appendUint(b, 1, id)
	b, claim := openNewClaim(b, user, key, quantity)
	return shut(shut(appendBool(b, 5, adjacent), claim), whole)
}

// openNewClaim begins a claim with the fields that every claim has.
func openNewClaim(b []byte, user, key string, quantity int64) (_ []byte, claim int) {
	b, claim = openField(b, 5)
	b = appendString(b, 1, user)
	b = appendString(b, 2, key)
	return appendUint(b, 3, uint64(quantity)), claim
}

// AppendReply appends a length-prefixed message.
func AppendReply(b []byte, r *Reply) []byte {
	says, ok := r.GetSays().(*Reply_Answer)
	if !ok {
		return appendWhole(b, r)
	}
	b, whole := open(b)
	b = appendUint(b, 1, r.Id)
	b, at := openField(b, 2)
	a := says.Answer
	b = appendString(b, 1, a.GetOutcome())
	if a.GetClaim() != nil {
		b = appendClaim(b, 2, a.Claim)
	}
	b = appendBool(b, 3, a.GetReplayed())
	for _, c := range a.GetClaims() {
		b = appendClaim(b, 4, c)
	}
	b = appendBool(b, 5, a.GetRefundDue())
	b = appendBool(b, 6, a.GetOtherRules())
	b = appendString(b, 7, a.GetRule())
	b = appendString(b, 8, a.GetReason())
	b = appendFixed(b, 9, a.GetOpensAtNs())
	b = appendUint(b, 10, uint64(a.GetRetryAfterNs()))
	b = appendString(b, 11, a.GetMessage())
	b = appendString(b, 12, a.GetOwner())
	b = appendUint(b, 13, uint64(a.GetShard()))
	b = appendUint(b, 14, uint64(a.GetShards()))
	b = appendFixed(b, 15, a.GetServerTimeNs())
	if n := a.GetCount(); n != 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, 16, protowire.VarintType), uint64(n))
	}
	return shut(shut(b, at), whole)
}

func appendClaim(b []byte, field protowire.Number, c *Claim) []byte {
	b, claim := openField(b, field)
	if id := c.GetId(); id != nil {
		var at int
		b, at = openField(b, 1)
		b = appendUint(b, 1, uint64(id.Shard))
		b = appendUint(b, 2, id.Slot)
		b = appendUint(b, 3, uint64(id.Index))
		b = shut(appendUint(b, 4, uint64(id.Unit)), at)
	}
	b = appendString(b, 2, c.User)
	b = appendUnits(b, 3, c.Units)
	b = appendUint(b, 4, uint64(c.Asked))
	b = appendString(b, 5, c.State)
	b = appendFixed(b, 6, c.AtNs)
	b = appendFixed(b, 7, c.HeldUntilNs)
	if c.Books != nil {
		b = appendMessage(append(b, tag(8, protowire.BytesType)), c.Books)
	}
	if c.Packets != nil {
		b = appendMessage(append(b, tag(9, protowire.BytesType)), c.Packets)
	}
	for _, p := range c.Payloads {
		b = appendMessage(append(b, tag(10, protowire.BytesType)), p)
	}
	return shut(appendBool(b, 11, c.Undelivered), claim)
}

func appendUnits(b []byte, field protowire.Number, units []int64) []byte {
	if len(units) == 0 {
		return b
	}
	b, at := openField(b, field)
	for _, unit := range units {
		b = binary.AppendUvarint(b, uint64(unit))
	}
	return shut(b, at)
}

// appendWhole appends any length-prefixed message.
func appendWhole(b []byte, m proto.Message) []byte { return appendMessage(b, m) }

func appendMessage(b []byte, m proto.Message) []byte {
	b, at := open(b)
	// It fails only for invalid UTF-8, which this module never sends. Then the message is
	// empty, and its reader refuses it.
	if whole, err := (proto.MarshalOptions{}).MarshalAppend(b, m); err == nil {
		b = whole
	}
	return shut(b, at)
}

// tag returns the tag of a field with a number below 16, as all fields encoded here have.
func tag(field protowire.Number, kind protowire.Type) byte { return byte(field)<<3 | byte(kind) }

// open reserves a byte for the length of what follows, which shut writes.
func open(b []byte) (_ []byte, at int) { return append(b, 0), len(b) + 1 }

func openField(b []byte, field protowire.Number) (_ []byte, at int) {
	return open(append(b, tag(field, protowire.BytesType)))
}

// shut writes the length of what was appended since open. A short length fits into the
// reserved byte; otherwise the content is moved.
func shut(b []byte, at int) []byte {
	n := len(b) - at
	if n < 0x80 {
		b[at-1] = byte(n)
		return b
	}
	var length [binary.MaxVarintLen64]byte
	size := binary.PutUvarint(length[:], uint64(n))
	return slices.Replace(b, at-1, at, length[:size]...)
}

func appendUint(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return binary.AppendUvarint(append(b, tag(field, protowire.VarintType)), v)
}

func appendBool(b []byte, field protowire.Number, v bool) []byte {
	if !v {
		return b
	}
	return append(append(b, tag(field, protowire.VarintType)), 1)
}

func appendFixed(b []byte, field protowire.Number, v int64) []byte {
	if v == 0 {
		return b
	}
	return binary.LittleEndian.AppendUint64(append(b, tag(field, protowire.Fixed64Type)), uint64(v))
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	b = binary.AppendUvarint(append(b, tag(field, protowire.BytesType)), uint64(len(s)))
	return append(b, s...)
}
