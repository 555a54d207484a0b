package streampb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// filler sets the fields of messages.
type filler struct {
	*rand.Rand
	every bool // no field is left out, and none has its zero value
}

// fill sets fields of a message, and of each oneof the member that is named, or any.
func (f filler) fill(m protoreflect.Message, member protoreflect.Name) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch one := field.ContainingOneof(); {
		case one != nil && member != "" && field.Name() != member:
			continue
		case one != nil && member == "" && f.IntN(one.Fields().Len()) > 0:
			continue
		case one == nil && !f.every && f.IntN(3) == 0:
			continue
		}
		switch {
		case field.IsList():
			list := m.Mutable(field).List()
			for range 1 + f.IntN(12) {
				if field.Kind() == protoreflect.MessageKind {
					f.fill(list.AppendMutable().Message(), "")
				} else {
					list.Append(f.value(field))
				}
			}
		case field.Kind() == protoreflect.MessageKind:
			f.fill(m.Mutable(field).Message(), "")
		default:
			m.Set(field, f.value(field))
		}
	}
}

func (f filler) value(field protoreflect.FieldDescriptor) protoreflect.Value {
	n := f.Uint64() >> f.IntN(64)
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(f.every || f.IntN(2) == 0)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(n) | 1)
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(n | 1)
	case protoreflect.Int64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(int64(n) | 1)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(f.text()))
	}
	return protoreflect.ValueOfString(f.text())
}

func (f filler) text() string {
	texts := []string{"sold", "held", "sold_out", "none_now", "ada", "zwölf Äpfel", string(bytes.Repeat([]byte("long"), 1+f.IntN(60)))}
	return texts[f.IntN(len(texts))]
}

// messages calls f with messages of each kind: first with such as have each field, then
// with random ones.
func messages[M proto.Message](t *testing.T, fresh func() M, check func(M)) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	members := fresh().ProtoReflect().Descriptor().Oneofs().ByName("kind").Fields()
	for round := range 60 {
		for i := range members.Len() {
			m := fresh()
			filler{r, round == 0}.fill(m.ProtoReflect(), members.Get(i).Name())
			check(m)
		}
	}
	check(fresh())
}

// What Append encodes is what package proto decodes, and the other way round.
func TestCode(t *testing.T) {
	var decoder Decoder
	held := func(m proto.Message, framed []byte, decode func([]byte) (proto.Message, error)) {
		t.Helper()
		message, rest, err := Cut(framed, math.MaxInt32)
		if err != nil || len(rest) > 0 || message == nil {
			t.Fatalf("%v is cut to %x, %x, %v", m, message, rest, err)
		}
		back := m.ProtoReflect().New().Interface()
		if err := proto.Unmarshal(message, back); err != nil || !proto.Equal(m, back) {
			t.Fatalf("encoded %v is %v, %v", m, back, err)
		}
		generated, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decode(generated); err != nil || !proto.Equal(m, got) {
			t.Fatalf("decoded %v is %v, %v", m, got, err)
		}
	}
	messages(t, func() *Request { return new(Request) }, func(m *Request) {
		held(m, Append(nil, m), func(b []byte) (proto.Message, error) { return decoder.Request(b) })
	})
	messages(t, func() *Reply { return new(Reply) }, func(m *Reply) {
		held(m, Append([]byte("before")[:0], m), func(b []byte) (proto.Message, error) { return decoder.Reply(b) })
	})
}

// Of odd bytes that both accept, both make the same. Only the Decoder accepts text that is not
// UTF-8 and unknown fields that end too early, and only proto a known field of another type.
func TestDecodesOddBytesAlike(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var decoder Decoder
	accepted := 0
	alike := func(b []byte, fresh proto.Message, decode func([]byte) (proto.Message, error)) {
		t.Helper()
		wrong := proto.Unmarshal(b, fresh)
		got, err := decode(b)
		if wrong != nil || err != nil {
			return
		}
		if accepted++; !same(got, fresh) {
			t.Fatalf("%x is %v; by package proto %v", b, got, fresh)
		}
	}
	mangled := func(b []byte) []byte {
		b = slices.Clone(b)
		for range 1 + r.IntN(3) {
			switch at := r.IntN(len(b) + 1); r.IntN(5) {
			case 0:
				b = b[:at]
			case 1:
				b = slices.Insert(b, at, byte(r.Uint32()))
			case 2: // some field of any kind
				b = append(b, binary.AppendUvarint(nil, r.Uint64N(200))...)
				b = append(b, byte(r.UintN(20)), byte(r.UintN(20)))
			case 3: // all of it twice
				b = append(b, b...)
			default:
				if at < len(b) {
					b[at] ^= 1 << r.IntN(8)
				}
			}
		}
		return b
	}
	messages(t, func() *Request { return new(Request) }, func(m *Request) {
		b, _ := proto.Marshal(m)
		for range 8 {
			alike(mangled(b), new(Request), func(b []byte) (proto.Message, error) { return decoder.Request(b) })
		}
	})
	messages(t, func() *Reply { return new(Reply) }, func(m *Reply) {
		b, _ := proto.Marshal(m)
		for range 8 {
			alike(mangled(b), new(Reply), func(b []byte) (proto.Message, error) { return decoder.Reply(b) })
		}
	})
	if accepted < 200 {
		t.Errorf("only %d were messages", accepted)
	}
}

// same reports whether messages are equal but for fields that they do not know.
func same(a, b proto.Message) bool {
	a, b = proto.Clone(a), proto.Clone(b)
	for _, m := range []proto.Message{a, b} {
		forget(m.ProtoReflect())
	}
	return proto.Equal(a, b)
}

func forget(m protoreflect.Message) {
	m.SetUnknown(nil)
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.Kind() != protoreflect.MessageKind:
		case field.IsList():
			for i := range v.List().Len() {
				forget(v.List().Get(i).Message())
			}
		default:
			forget(v.Message())
		}
		return true
	})
}

// What a decoder has returned, but for its texts, is overwritten by the next message alone.
func TestDecoderIsUsedAgain(t *testing.T) {
	var d Decoder
	encode := func(m proto.Message) []byte { b, _ := proto.Marshal(m); return b }
	full := &Reply{Id: 1, Kind: &Reply_Answer{Answer: &Answer{
		Outcome: "expired", Message: "late", Owner: "a:1", Shard: 3, Shards: 4, Replayed: true,
		Claim: &Claim{Id: &ClaimID{Slot: 9, Unit: 2}, User: "ada", Units: []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, Requested: 12, State: "expired", AtNs: 1, HeldUntilNs: 2, Books: &Books{Who: "me"}},
	}}}
	if got, err := d.Reply(encode(full)); err != nil || !proto.Equal(got, full) {
		t.Fatalf("%v, %v", got, err)
	}
	empty := &Reply{Kind: &Reply_Answer{Answer: &Answer{Claim: &Claim{Id: &ClaimID{}}}}}
	if got, err := d.Reply(encode(empty)); err != nil || !proto.Equal(got, empty) {
		t.Errorf("after another one: %v, %v", got, err)
	}
	claim := &Request{Id: 1, TimeoutMs: 2, Forwarded: true, Run: "of before", Kind: &Request_Claim{Claim: &NewClaim{User: "ada", Key: "k", Quantity: 3}}}
	first, err := d.Request(encode(claim))
	if err != nil {
		t.Fatal(err)
	}
	user := first.GetClaim().User
	if got, err := d.Request(encode(&Request{Kind: &Request_Claim{Claim: &NewClaim{}}})); err != nil || !proto.Equal(got, &Request{Kind: &Request_Claim{Claim: &NewClaim{}}}) || user != "ada" {
		t.Errorf("after another one: %v, %v; the text is %q", got, err, user)
	}
}

func TestCut(t *testing.T) {
	for name, c := range map[string]struct {
		in            []byte
		message, rest string
		none, bad     bool
	}{
		"nothing":          {in: nil, none: true},
		"a length":         {in: []byte{5}, none: true},
		"half a length":    {in: []byte{0x80}, none: true},
		"half a message":   {in: []byte{3, 'a', 'b'}, none: true, rest: "\x03ab"},
		"a message":        {in: []byte{2, 'a', 'b'}, message: "ab"},
		"one and a half":   {in: []byte{2, 'a', 'b', 7}, message: "ab", rest: "\x07"},
		"an empty one":     {in: []byte{0, 1}, rest: "\x01"},
		"a padded length":  {in: []byte{0x82, 0, 'a', 'b'}, message: "ab"},
		"too long":         {in: []byte{101}, bad: true},
		"much too long":    {in: []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, bad: true},
		"no length at all": {in: bytes.Repeat([]byte{0xff}, 11), bad: true},
	} {
		message, rest, err := Cut(c.in, 100)
		if c.rest == "" && c.none {
			c.rest = string(c.in)
		}
		if (err != nil) != c.bad || !c.bad && (message == nil) != c.none || string(message) != c.message || !c.bad && string(rest) != c.rest {
			t.Errorf("%s: %q, %q, %v", name, message, rest, err)
		}
	}
	if _, _, err := Cut([]byte{101}, 100); !errors.Is(err, ErrTooLong) {
		t.Errorf("one that is too long: %v", err)
	}
}

func BenchmarkAnswer(b *testing.B) {
	m := &Reply{Id: 77, Kind: &Reply_Answer{Answer: &Answer{Outcome: "sold", Owner: "127.0.0.1:8080", Shard: 3, Shards: 5, Claim: &Claim{
		Id: &ClaimID{Shard: 3, Slot: 1234, Index: 56}, User: "user-00000000001", Units: []int64{123456}, State: "sold", AtNs: 1762862400123456789,
	}}}}
	encoded, _ := proto.Marshal(m)
	var buf []byte
	b.Run("append", func(b *testing.B) {
		for b.Loop() {
			buf = Append(buf[:0], m)
		}
	})
	b.Run("append-proto", func(b *testing.B) {
		for b.Loop() {
			buf, _ = proto.MarshalOptions{}.MarshalAppend(buf[:0], m)
		}
	})
	b.Run("decode", func(b *testing.B) {
		var d Decoder
		for b.Loop() {
			_, _ = d.Reply(encoded)
		}
	})
	b.Run("decode-proto", func(b *testing.B) {
		var r Reply
		for b.Loop() {
			_ = proto.Unmarshal(encoded, &r)
		}
	})
}

// A Reader finds the messages however they are divided among reads.
func TestReader(t *testing.T) {
	var all []byte
	users := []string{"ada", "", strings.Repeat("b", 100_000), "c"}
	for i, user := range users {
		all = Append(all, &Request{Id: uint64(i), Kind: &Request_Claim{Claim: &NewClaim{User: user}}})
	}
	for name, in := range map[string]io.Reader{
		"as they are":  bytes.NewReader(all),
		"byte by byte": iotest.OneByteReader(bytes.NewReader(all)),
		"with the end": iotest.DataErrReader(bytes.NewReader(all)),
	} {
		r := NewReader(in, 1<<20)
		for i, user := range users {
			message, err := r.Next()
			if err != nil {
				t.Fatalf("%s: message %d: %v", name, i, err)
			}
			if got, err := new(Decoder).Request(message); err != nil || got.Id != uint64(i) || got.GetClaim().GetUser() != user {
				t.Errorf("%s: message %d has %d bytes, %v", name, i, len(message), err)
			}
		}
		if _, err := r.Next(); err != io.EOF {
			t.Errorf("%s: at the end: %v", name, err)
		}
	}
	r := NewReader(bytes.NewReader(all[:10]), 1<<20)
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); err != io.ErrUnexpectedEOF {
		t.Errorf("within a message: %v", err)
	}
	if _, err := NewReader(bytes.NewReader(all), 1).Next(); !errors.Is(err, ErrTooLong) {
		t.Errorf("a long message: %v", err)
	}
}
