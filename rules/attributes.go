package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// Attributes are the attributes of one user. They are immutable and may be shared. The zero
// Attributes belongs to no user: no rule that reads an attribute of it can be evaluated.
type Attributes struct{ of *record }

type record struct {
	schema *Schema
	id     string
	boxed  ref.Val // id as a CEL value
	known  bool
	values []Value // in the order of the schema
	err    error   // error of reading the values; nil: none
	digest Digest

	history []Purchase // nil: not looked up
}

var nobody = &record{schema: noAttributes}

// record returns the record of a, that of nobody for the zero Attributes.
func (a Attributes) record() *record {
	if a.of == nil {
		return nobody
	}
	return a.of
}

// Digest is a SHA-256 over canonical bytes.
type Digest [sha256.Size]byte

// String returns the digest in hex.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// New returns the attributes of a known user, with one value for each attribute of the schema in
// its order. The error names the attribute, the fault and the remedy.
func (s *Schema) New(id string, values []Value) (Attributes, error) {
	if err := checkID(id); err != nil {
		return Attributes{}, err
	}
	if len(values) != len(s.attributes) {
		return Attributes{}, fmt.Errorf("user %q has %d values for %d attributes", id, len(values), len(s.attributes))
	}
	for i, v := range values {
		a := s.attributes[i]
		if !v.Present() {
			continue
		}
		if v.kind != a.Type {
			return Attributes{}, fmt.Errorf("user %q: %s is declared as %s and is of type %s", id, a.Name, a.Type, v.kind)
		}
		if err := v.check(); err != nil {
			return Attributes{}, fmt.Errorf("user %q: %s %w", id, a.Name, err)
		}
	}
	return s.trusted(id, true, values), nil
}

// Unknown returns the attributes of a user without an entry in the source: user.known is false and
// all attributes are missing.
func (s *Schema) Unknown(id string) Attributes {
	return s.trusted(id, false, make([]Value, len(s.attributes)))
}

// Unreadable returns the attributes of a user whose entry does not fit the schema. Such a user satisfies
// no rule, not even one that only tests whether a value is present: the unread value may contradict it.
func (s *Schema) Unreadable(id string, err error) Attributes {
	a := s.Unknown(id)
	a.of.err = err
	a.of.digest = sha256.Sum256(append(a.of.canonical(nil), "unreadable"...))
	return a
}

// trusted is New for checked values. It retains values.
func (s *Schema) trusted(id string, known bool, values []Value) Attributes {
	r := &record{schema: s, id: id, boxed: types.String(id), known: known, values: values}
	r.digest = sha256.Sum256(r.canonical(nil))
	return Attributes{r}
}

func checkID(id string) error {
	if id == "" {
		return errors.New("a user has no id")
	}
	if err := checkText(id); err != nil {
		return fmt.Errorf("the user id %s %w", quoted(id), err)
	}
	return nil
}

// canonical appends the id, whether the user is known, and the name, type and value of each
// attribute in the order of the names.
func (r *record) canonical(b []byte) []byte {
	b = append(b, "salectl.attributes.v1\x00"...)
	b = appendText(b, r.id)
	b = BoolOf(r.known).canonical(b)
	for _, i := range r.schema.sorted {
		b = appendText(b, r.schema.attributes[i].Name)
		b = append(b, byte(r.schema.attributes[i].Type))
		b = r.values[i].canonical(b)
	}
	return b
}

// ID returns the user's id. It is empty for the zero Attributes.
func (a Attributes) ID() string { return a.record().id }

// Known reports whether the source has an entry for the user.
func (a Attributes) Known() bool { return a.record().known }

// Err returns the error of reading the values, or nil.
func (a Attributes) Err() error { return a.record().err }

// Digest identifies the user and all values. It depends neither on the order of declared attributes
// nor on the notation of values. The zero Attributes has the zero digest.
func (a Attributes) Digest() Digest { return a.record().digest }

// Value returns the value of an attribute. It is missing if there is none or the schema lacks the
// attribute.
func (a Attributes) Value(name string) Value {
	r := a.record()
	if i, ok := r.schema.index[name]; ok {
		return r.values[i]
	}
	return Value{}
}

// at returns the value of attribute i of a schema. Rules may be newer than the schema of the user;
// then values are matched by name and type.
func (a Attributes) at(s *Schema, i int) Value {
	if r := a.record(); r.schema == s || r.schema.same == s.same {
		return r.values[i]
	}
	if v := a.Value(s.attributes[i].Name); v.kind == s.attributes[i].Type {
		return v
	}
	return Value{}
}
