package rules

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"unique"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"salectl/spec"
)

// Schema lists the attributes of users. It is immutable.
type Schema struct {
	attributes spec.Attributes
	same       unique.Handle[string] // equal for schemas of the same attributes in the same order
}

// NewSchema returns the schema of attributes that spec has checked. It retains them.
func NewSchema(attributes ...spec.Attribute) *Schema {
	return &Schema{attributes, unique.Make(fmt.Sprintf("%q", attributes))}
}

// Attributes returns the declared attributes, which must not be changed.
func (s *Schema) Attributes() spec.Attributes { return s.attributes }

// SchemaFor returns the schema of the users of a sale.
func SchemaFor(s spec.Sale) *Schema {
	if s.Users == nil {
		return noAttributes
	}
	return NewSchema(s.Users.Attributes...)
}

// noAttributes is the schema of a declaration without attributes.
var noAttributes = NewSchema()

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

	history []Purchase // nil: not read
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

// Known returns the attributes of a user with an entry in the source: one value for each attribute of
// the schema, in its order and of its type, as ParseValue returns it. It retains values.
func (s *Schema) Known(id string, values []Value) Attributes { return s.user(id, true, values) }

// Unknown returns the attributes of a user without an entry in the source: user.known is false and
// all attributes are missing.
func (s *Schema) Unknown(id string) Attributes {
	return s.user(id, false, make([]Value, len(s.attributes)))
}

// Unreadable returns the attributes of a user whose entry does not fit the schema. Such a user satisfies
// no rule, not even one that only tests whether a value is present: the unread value may contradict it.
func (s *Schema) Unreadable(id string, err error) Attributes {
	a := s.Unknown(id)
	a.of.err = err
	a.of.digest = sha256.Sum256(append(a.of.canonical(), "unreadable"...))
	return a
}

func (s *Schema) user(id string, known bool, values []Value) Attributes {
	r := &record{schema: s, id: id, boxed: types.String(id), known: known, values: values}
	r.digest = sha256.Sum256(r.canonical())
	return Attributes{r}
}

// canonical returns the id, whether the user is known, and the name, type and value of each attribute.
func (r *record) canonical() []byte {
	b := canonical(appendText([]byte("salectl.attributes.v1\x00"), r.id), types.Bool(r.known))
	for i, a := range r.schema.attributes {
		b = canonical(appendText(appendText(b, a.Name), a.Type), r.values[i])
	}
	return b
}

// ID returns the user's id. It is empty for the zero Attributes.
func (a Attributes) ID() string { return a.record().id }

// Known reports whether the source has an entry for the user.
func (a Attributes) Known() bool { return a.record().known }

// Err returns the error of reading the values, or nil.
func (a Attributes) Err() error { return a.record().err }

// Digest identifies the user and all values. It does not depend on the notation of values. The zero
// Attributes has the zero digest.
func (a Attributes) Digest() Digest { return a.record().digest }

// Value returns the value of an attribute. It is missing if there is none or the schema lacks the
// attribute.
func (a Attributes) Value(name string) Value {
	v, _ := a.value(name)
	return v
}

func (a Attributes) value(name string) (v Value, kind string) {
	r := a.record()
	for i, a := range r.schema.attributes {
		if a.Name == name {
			return r.values[i], a.Type
		}
	}
	return nil, ""
}

// at returns the value of attribute i of a schema. Rules may be newer than the schema of the user;
// then values are matched by name and type.
func (a Attributes) at(s *Schema, i int) Value {
	if r := a.record(); r.schema == s || r.schema.same == s.same {
		return r.values[i]
	}
	if v, kind := a.value(s.attributes[i].Name); kind == s.attributes[i].Type {
		return v
	}
	return nil
}
