package rules

import (
	"context"
	"encoding/binary"
	"hash/maphash"
	"math"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/traits"
)

// Users provides the attributes of users. All methods are safe for concurrent use.
type Users interface {
	// Lookup returns the attributes of each id, in the order of ids, which may contain duplicates.
	// A user without an entry is Schema.Unknown, and one whose values do not fit the schema is
	// Schema.Unreadable; neither is an error. An error leaves all of them unknown: the caller
	// refuses their claims, or tries again. Implementations do not retry beyond ctx.
	Lookup(ctx context.Context, ids []string) ([]Attributes, error)
}

// UnknownUsers returns a Users without an entry for any user.
func UnknownUsers(s *Schema) Users { return unknownUsers{s} }

type unknownUsers struct{ schema *Schema }

func (u unknownUsers) Lookup(_ context.Context, ids []string) ([]Attributes, error) {
	all := make([]Attributes, len(ids))
	for i, id := range ids {
		all[i] = u.schema.Unknown(id)
	}
	return all, nil
}

// SourceError reports that the source does not contain the users as declared. A retry does not help.
type SourceError struct {
	What   string // a clause without a period
	Remedy string // in sentences
}

func (e *SourceError) Error() string { return e.What }

// table keeps the users of a file in memory without pointers to them, so that the garbage collector
// has nothing to trace. One byte slice holds all records, and an open hash table holds their places.
type table struct {
	schema *Schema
	seed   maphash.Seed // random in each process, so that ids cannot be chosen to collide
	slots  []uint32     // place of a record, plus 1; 0: free
	bytes  []byte
	users  int
}

func newTable(s *Schema) *table {
	return &table{schema: s, seed: maphash.MakeSeed(), slots: make([]uint32, 64)}
}

// maxTable is the maximum size of records that 32-bit places can address.
const maxTable = math.MaxUint32 - 1

// full reports whether another record might not fit.
func (t *table) full() bool {
	return len(t.bytes) > maxTable-(2*MaxText+MaxAttributes*(MaxList+1)*(MaxText+2))
}

// find returns the place of a user's record, or the free slot for it.
func (t *table) find(id string) (at uint32, slot int, ok bool) {
	mask := len(t.slots) - 1
	for slot = int(maphash.String(t.seed, id)) & mask; ; slot = (slot + 1) & mask {
		switch place := t.slots[slot]; {
		case place == 0:
			return 0, slot, false
		case string(t.idAt(place-1)) == id:
			return place - 1, slot, true
		}
	}
}

func (t *table) idAt(at uint32) []byte {
	n, width := binary.Uvarint(t.bytes[at:])
	begin := int(at) + width
	return t.bytes[begin : begin+int(n)]
}

// add adds a user. It reports false if the user exists already.
func (t *table) add(id string, values []Value) bool {
	_, slot, ok := t.find(id)
	if ok {
		return false
	}
	t.slots[slot] = uint32(len(t.bytes)) + 1
	t.bytes = appendShort(t.bytes, id)
	present := len(t.bytes)
	t.bytes = append(t.bytes, make([]byte, (len(values)+7)/8)...)
	for i, v := range values {
		if v.Present() {
			t.bytes[present+i/8] |= 1 << (i % 8)
			t.bytes = v.pack(t.bytes)
		}
	}
	if t.users++; t.users*4 > len(t.slots)*3 {
		t.grow()
	}
	return true
}

func (t *table) grow() {
	old := t.slots
	t.slots = make([]uint32, 2*len(old))
	for _, place := range old {
		if place != 0 {
			_, slot, _ := t.find(string(t.idAt(place - 1)))
			t.slots[slot] = place
		}
	}
}

// get returns a user's attributes, or Unknown if there is no such user.
func (t *table) get(id string) Attributes {
	at, _, ok := t.find(id)
	if !ok {
		return t.schema.Unknown(id)
	}
	b := t.bytes[at:]
	n, width := binary.Uvarint(b)
	b = b[width+int(n):]
	values := make([]Value, len(t.schema.attributes))
	present := b[:(len(values)+7)/8]
	b = b[len(present):]
	for i, a := range t.schema.attributes {
		if present[i/8]&(1<<(i%8)) != 0 {
			values[i], b = unpack(a.Type, b)
		}
	}
	return t.schema.trusted(id, true, values)
}

// pack appends a compact encoding of a value; unpack decodes it.
func (v Value) pack(b []byte) []byte {
	switch val := v.val.(type) {
	case types.String:
		return appendShort(b, string(val))
	case types.Int:
		return binary.AppendVarint(b, int64(val))
	case types.Double:
		return binary.BigEndian.AppendUint64(b, math.Float64bits(float64(val)))
	case types.Bool:
		if val {
			return append(b, 1)
		}
		return append(b, 0)
	case types.Timestamp:
		b = binary.AppendVarint(b, val.Unix())
		return binary.AppendUvarint(b, uint64(val.Nanosecond()))
	case traits.Lister:
		size := val.Size().(types.Int)
		b = binary.AppendUvarint(b, uint64(size))
		for i := range size {
			b = appendShort(b, string(val.Get(i).(types.String)))
		}
	}
	return b
}

func unpack(t Type, b []byte) (Value, []byte) {
	switch t {
	case Int:
		n, width := binary.Varint(b)
		return IntOf(n), b[width:]
	case Double:
		return DoubleOf(math.Float64frombits(binary.BigEndian.Uint64(b))), b[8:]
	case Bool:
		return BoolOf(b[0] == 1), b[1:]
	case Timestamp:
		seconds, width := binary.Varint(b)
		nanos, more := binary.Uvarint(b[width:])
		return TimestampOf(time.Unix(seconds, int64(nanos))), b[width+more:]
	case Strings:
		size, width := binary.Uvarint(b)
		b = b[width:]
		list := make([]string, size)
		for i := range list {
			list[i], b = readShort(b)
		}
		return StringsOf(list), b
	}
	s, b := readShort(b)
	return StringOf(s), b
}

func appendShort(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func readShort(b []byte) (string, []byte) {
	n, width := binary.Uvarint(b)
	b = b[width:]
	return string(b[:n]), b[n:]
}
