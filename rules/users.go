package rules

import (
	"context"
	"hash/maphash"
	"math"

	"salectl/spec"
)

// Users provides the attributes of users. All methods are safe for concurrent use.
type Users interface {
	// Lookup returns the attributes of each id, in the order of ids, which may contain duplicates.
	// A user without an entry is Schema.Unknown, and one whose values do not fit the schema is
	// Schema.Unreadable; neither is an error. An error leaves all of them unknown: the caller
	// refuses their claims, or tries again. Implementations do not retry beyond ctx. Without ids,
	// Lookup only reads what the source keeps in memory as a whole.
	Lookup(ctx context.Context, ids []string) ([]Attributes, error)
}

// UnknownUsers returns a Users without an entry for any user.
func UnknownUsers(s *Schema) Users { return &File{newTable(s)} }

// SourceError reports that the source does not contain the users as declared. A retry does not help.
type SourceError struct {
	What   string // a clause without a period
	Remedy string // in sentences
}

func (e *SourceError) Error() string { return e.What }

// table keeps the users of a file in memory without pointers to them, so that the garbage collector
// has nothing to trace: one byte slice holds all records, and a map their places. A record is the id
// and the values, as appendText and canonical write them.
type table struct {
	schema *Schema
	seed   maphash.Seed      // random in each process, so that ids cannot be chosen to collide
	places map[uint64]uint32 // by hash of the id; that of an id with the hash of another is the next free one
	bytes  []byte
}

func newTable(s *Schema) *table {
	return &table{schema: s, seed: maphash.MakeSeed(), places: map[uint64]uint32{}}
}

// maxTable is the maximum size of records that 32-bit places can address.
const maxTable = math.MaxUint32 - 1

// full reports whether another record might not fit.
func (t *table) full() bool {
	return len(t.bytes) > maxTable-(2*MaxText+spec.MaxAttributes*(MaxList+1)*(MaxText+2))
}

// find returns the encoded values of a user, or the free hash for it.
func (t *table) find(id string) (values []byte, free uint64, ok bool) {
	for hash := maphash.String(t.seed, id); ; hash++ {
		at, ok := t.places[hash]
		if !ok {
			return nil, hash, false
		}
		if known, values := readText(t.bytes[at:]); string(known) == id {
			return values, 0, true
		}
	}
}

// add adds a user. It reports false if the user exists already.
func (t *table) add(id string, values []Value) bool {
	_, free, ok := t.find(id)
	if ok {
		return false
	}
	t.places[free] = uint32(len(t.bytes))
	t.bytes = appendText(t.bytes, id)
	for _, v := range values {
		t.bytes = canonical(t.bytes, v)
	}
	return true
}

// get returns a user's attributes, or Unknown if there is no such user.
func (t *table) get(id string) Attributes {
	b, _, ok := t.find(id)
	if !ok {
		return t.schema.Unknown(id)
	}
	values := make([]Value, len(t.schema.attributes))
	for i, a := range t.schema.attributes {
		values[i], b = readValue(a.Type, b)
	}
	return t.schema.Known(id, values)
}
