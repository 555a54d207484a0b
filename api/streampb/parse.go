package streampb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// ErrTooLong reports a message above its maximum size.
var ErrTooLong = errors.New("the message is too long")

// Cut splits the first message off b, without its length. Without an error, nil means that the
// message is incomplete.
func Cut(b []byte, most int) (message, rest []byte, err error) {
	n, size := binary.Uvarint(b)
	switch {
	case size < 0 || size == 0 && len(b) >= binary.MaxVarintLen64:
		return nil, b, errors.New("there is no length where a message is to begin")
	case size > 0 && n > uint64(most):
		return nil, b, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrTooLong, n, most)
	case size == 0 || uint64(len(b)-size) < n:
		return nil, b, nil
	}
	end := size + int(n)
	return b[size:end:end], b[end:], nil
}

// Decoder decodes messages in sequence. A result is overwritten by the next one, except for
// its strings. The zero value is ready to use.
type Decoder struct {
	request   Request
	asksClaim Request_Claim
	newClaim  NewClaim

	reply      Reply
	saysAnswer Reply_Answer
	answer     Answer
	claim      Claim
	id         ClaimID
	units      [8]int64

	owner string // of the previous answer: most have the same
	run   string // of the previous request: most have the same
}

var errMalformed = errors.New("the message is no protobuf of the stream")

// Request decodes a message to a server.
func (d *Decoder) Request(b []byte) (*Request, error) {
	r := &d.request
	r.Reset()
	for rest := b; len(rest) > 0; {
		f, err := next(&rest)
		if err != nil {
			return nil, err
		}
		switch {
		case f.is(1, protowire.VarintType):
			r.Id = f.number
		case f.is(2, protowire.VarintType):
			r.TimeoutMs = uint32(f.number)
		case f.is(3, protowire.VarintType):
			r.Forwarded = f.number != 0
		case f.is(5, protowire.BytesType) && (r.Asks == nil || r.Asks == &d.asksClaim):
			if r.Asks == nil {
				d.newClaim.Reset()
				d.asksClaim.Claim = &d.newClaim
				r.Asks = &d.asksClaim
			}
			if err := d.newClaim.merge(f.bytes); err != nil {
				return nil, err
			}
		case f.is(10, protowire.BytesType) && r.Asks == nil:
			r.Asks = &Request_Peer{Peer: bytes.Clone(f.bytes)}
		case f.is(11, protowire.BytesType):
			if string(f.bytes) != d.run {
				if d.run, err = f.text(); err != nil {
					return nil, err
				}
			}
			r.Run = d.run
		default: // rare: decoded by the generated code
			r.Reset()
			if err := proto.Unmarshal(b, r); err != nil {
				return nil, errMalformed
			}
			return r, nil
		}
	}
	return r, nil
}

func (c *NewClaim) merge(b []byte) (err error) {
	if len(b) > mostTexts {
		return merge(b, c)
	}
	texts := string(b) // both strings share one allocation
	for whole := b; len(b) > 0; {
		f, err := next(&b)
		if err != nil {
			return err
		}
		end := len(whole) - len(b)
		switch {
		case f.is(1, protowire.BytesType):
			c.User = texts[end-len(f.bytes) : end]
		case f.is(2, protowire.BytesType):
			c.Key = texts[end-len(f.bytes) : end]
		case f.is(3, protowire.VarintType):
			c.Quantity = int64(f.number)
			continue
		default:
			return merge(whole, c)
		}
		if !utf8.Valid(f.bytes) {
			return errMalformed
		}
	}
	return nil
}

// mostTexts bounds the strings of a claim that share an allocation: a user and a key are
// shorter.
const mostTexts = 1024

// Reply decodes a message of a server.
func (d *Decoder) Reply(b []byte) (*Reply, error) {
	r := &d.reply
	r.Reset()
	for rest := b; len(rest) > 0; {
		f, err := next(&rest)
		if err != nil {
			return nil, err
		}
		switch {
		case f.is(1, protowire.VarintType):
			r.Id = f.number
		case f.is(2, protowire.BytesType) && (r.Says == nil || r.Says == &d.saysAnswer):
			if r.Says == nil {
				d.answer.Reset()
				d.saysAnswer.Answer = &d.answer
				r.Says = &d.saysAnswer
			}
			if err := d.mergeAnswer(f.bytes); err != nil {
				return nil, err
			}
		default:
			r.Reset()
			if err := proto.Unmarshal(b, r); err != nil {
				return nil, errMalformed
			}
			return r, nil
		}
	}
	return r, nil
}

func (d *Decoder) mergeAnswer(b []byte) error {
	a := &d.answer
	for whole := b; len(b) > 0; {
		f, err := next(&b)
		if err != nil {
			return err
		}
		switch {
		case f.is(1, protowire.BytesType):
			a.Outcome, err = f.word()
		case f.is(2, protowire.BytesType):
			if a.Claim == nil {
				d.claim.Reset()
				a.Claim = &d.claim
			}
			err = d.mergeClaim(f.bytes)
		case f.is(3, protowire.VarintType):
			a.Replayed = f.number != 0
		case f.is(10, protowire.VarintType):
			a.RetryAfterNs = int64(f.number)
		case f.is(12, protowire.BytesType):
			if string(f.bytes) != d.owner {
				d.owner, err = f.text()
			}
			a.Owner = d.owner
		case f.is(13, protowire.VarintType):
			a.Shard = uint32(f.number)
		case f.is(14, protowire.VarintType):
			a.Shards = uint32(f.number)
		default:
			return mergeAgain(whole, b, f, a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *Decoder) mergeClaim(b []byte) error {
	c := &d.claim
	for whole := b; len(b) > 0; {
		f, err := next(&b)
		if err != nil {
			return err
		}
		switch {
		case f.is(1, protowire.BytesType):
			if c.Id == nil {
				d.id.Reset()
				c.Id = &d.id
			}
			err = d.id.merge(f.bytes)
		case f.is(2, protowire.BytesType):
			c.User, err = f.text()
		case f.is(3, protowire.BytesType):
			if c.Units == nil {
				c.Units = d.units[:0]
			}
			for rest := f.bytes; err == nil && len(rest) > 0; {
				var unit uint64
				if unit, err = varint(&rest); err == nil {
					c.Units = append(c.Units, int64(unit))
				}
			}
		case f.is(4, protowire.VarintType):
			c.Asked = int64(f.number)
		case f.is(5, protowire.BytesType):
			c.State, err = f.word()
		case f.is(6, protowire.Fixed64Type):
			c.AtNs = int64(f.number)
		case f.is(7, protowire.Fixed64Type):
			c.HeldUntilNs = int64(f.number)
		default:
			return mergeAgain(whole, b, f, c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (id *ClaimID) merge(b []byte) error {
	for whole := b; len(b) > 0; {
		f, err := next(&b)
		if err != nil {
			return err
		}
		switch {
		case f.is(1, protowire.VarintType):
			id.Shard = uint32(f.number)
		case f.is(2, protowire.VarintType):
			id.Slot = f.number
		case f.is(3, protowire.VarintType):
			id.Index = uint32(f.number)
		case f.is(4, protowire.VarintType):
			id.Unit = int64(f.number)
		default:
			return mergeAgain(whole, b, f, id)
		}
	}
	return nil
}

// mergeAgain decodes by the generated code what has no decoder here: the field f and the rest
// after it, at the end of whole.
func mergeAgain(whole, rest []byte, f field, m proto.Message) error {
	return merge(whole[len(whole)-len(rest)-f.size:], m)
}

func merge(b []byte, m proto.Message) error {
	if err := (proto.UnmarshalOptions{Merge: true}).Unmarshal(b, m); err != nil {
		return errMalformed
	}
	return nil
}

// field is one field of a message. The generated code skips fields of unused types.
type field struct {
	number uint64 // value of a varint or fixed64
	bytes  []byte
	tag    uint64
	size   int // includes the tag
}

func (f *field) is(number protowire.Number, kind protowire.Type) bool {
	return f.tag == protowire.EncodeTag(number, kind)
}

// next splits a field off b.
func next(b *[]byte) (f field, err error) {
	before := len(*b)
	if f.tag, err = varint(b); err != nil {
		return f, err
	}
	switch protowire.Type(f.tag & 7) {
	case protowire.VarintType:
		f.number, err = varint(b)
	case protowire.Fixed64Type:
		if len(*b) < 8 {
			return f, errMalformed
		}
		f.number = binary.LittleEndian.Uint64(*b)
		*b = (*b)[8:]
	case protowire.BytesType:
		var n uint64
		if n, err = varint(b); err != nil || n > uint64(len(*b)) {
			return f, errMalformed
		}
		f.bytes, *b = (*b)[:n], (*b)[n:]
	}
	f.size = before - len(*b)
	return f, err
}

func varint(b *[]byte) (uint64, error) {
	if in := *b; len(in) > 0 && in[0] < 0x80 {
		*b = in[1:]
		return uint64(in[0]), nil
	}
	v, n := protowire.ConsumeVarint(*b)
	if n < 0 {
		return 0, errMalformed
	}
	*b = (*b)[n:]
	return v, nil
}

func (f *field) text() (string, error) {
	if !utf8.Valid(f.bytes) {
		return "", errMalformed
	}
	return string(f.bytes), nil
}

// word returns a string that is most often one of a few, without an allocation then.
func (f *field) word() (string, error) {
	switch string(f.bytes) {
	case "sold":
		return "sold", nil
	case "held":
		return "held", nil
	case "sold_out":
		return "sold_out", nil
	case "none_now":
		return "none_now", nil
	}
	return f.text()
}
