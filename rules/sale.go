package rules

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unique"

	"cel.dev/cel-go/common/types"

	"salectl/spec"
)

// HashFor returns the hash of the set that ForSale returns, without compiling it. It also works for
// a declaration stored by another version of this program. It reports false if there is no set.
func HashFor(s spec.Sale) (Digest, bool) {
	if !evaluates(s) {
		return Digest{}, false
	}
	return hashOf(s), true
}

// SchemaFor returns the schema of the users of a sale.
func SchemaFor(s spec.Sale) *Schema {
	if s.Users == nil {
		return noAttributes
	}
	var attributes []Attribute
	for _, a := range s.Users.Attributes {
		kind, _ := ParseType(a.Type) // spec rejects other types
		attributes = append(attributes, Attribute{a.Name, kind})
	}
	return NewSchema(attributes...)
}

// SaleOf returns the sale as rules see it.
func SaleOf(s spec.Sale) Sale {
	return Sale{Name: s.Name, Stock: s.Stock, PerUserLimit: s.PerUserLimit, OpensAt: s.OpensAt, ClosesAt: s.ClosesAt}
}

func evaluates(s spec.Sale) bool { return len(s.Rules) > 0 || priorityOf(s) != "" }

func priorityOf(s spec.Sale) string {
	if s.Queue == nil {
		return ""
	}
	return s.Queue.Priority
}

// Hash identifies the rules, variables, attributes, priority and tables of a set. Equal
// declarations have equal hashes on every host and in every version.
func (s *Set) Hash() Digest { return s.hash }

// Schema returns the schema of the users that the set's rules read.
func (s *Set) Schema() *Schema { return s.schema }

// hashOf hashes each text after its length, so that different sales have different bytes. Rules cannot
// read the tables of users and history, but decisions based on different tables differ.
func hashOf(s spec.Sale) Digest {
	schema := SchemaFor(s)
	b := []byte("salectl.rules.v1\x00")
	count := func(n int) { b = binary.BigEndian.AppendUint32(b, uint32(n)) }
	count(len(schema.attributes))
	for _, i := range schema.sorted {
		b = appendText(b, schema.attributes[i].Name)
		b = append(b, byte(schema.attributes[i].Type))
	}
	b = BoolOf(s.History != nil).canonical(b)
	count(len(s.Variables))
	for _, v := range s.Variables {
		b = appendText(appendText(b, v.Name), v.Expression)
	}
	count(len(s.Rules))
	for _, r := range s.Rules {
		for _, text := range []string{r.Name, r.Require, r.Message, r.MessageExpression, string(r.Enforce)} {
			b = appendText(b, text)
		}
	}
	b = appendText(b, priorityOf(s))
	if s.Users != nil && s.Users.Table != nil {
		t := s.Users.Table
		b = appendText(b, fmt.Sprintf("users %q %q %q %q %q", t.Zookeeper, t.ZookeeperRoot, t.Table, t.Family, t.Columns))
	}
	if s.History != nil && s.History.Table != nil {
		t := s.History.Table
		b = appendText(b, fmt.Sprintf("history %q %q %q %q, files: %v", t.Zookeeper, t.ZookeeperRoot, t.Table, t.Family, s.History.Files != nil))
	}
	return sha256.Sum256(b)
}

// Type is the type of an attribute.
type Type uint8

// Types of attributes. Their numbers are part of digests and never change.
const (
	String Type = iota + 1
	Int
	Double
	Bool
	Timestamp
	Strings // a list of strings
)

var typeNames = map[Type]string{
	String: spec.TypeString, Int: spec.TypeInt, Double: spec.TypeDouble, Bool: spec.TypeBool,
	Timestamp: spec.TypeTimestamp, Strings: spec.TypeStrings,
}

// String returns the type's name in a declaration.
func (t Type) String() string { return typeNames[t] }

// ParseType parses a type's name. It reports false for any other text.
func ParseType(name string) (Type, bool) {
	for t, n := range typeNames {
		if n == name {
			return t, true
		}
	}
	return 0, false
}

func (t Type) cel() *types.Type {
	return map[Type]*types.Type{
		String: types.StringType, Int: types.IntType, Double: types.DoubleType, Bool: types.BoolType,
		Timestamp: types.TimestampType, Strings: types.NewListType(types.StringType),
	}[t]
}

// Attribute declares an attribute of users.
type Attribute struct {
	Name string // an identifier other than id and known, which every user has
	Type Type
}

// Schema lists the attributes of users. It is immutable.
type Schema struct {
	attributes []Attribute
	index      map[string]int
	sorted     []int                 // indices ordered by name, for digests
	same       unique.Handle[string] // equal for schemas of the same attributes in the same order
}

// NewSchema returns the schema of attributes that spec has checked.
func NewSchema(attributes ...Attribute) *Schema {
	s := &Schema{attributes: slices.Clone(attributes), index: map[string]int{}}
	for i, a := range attributes {
		s.index[a.Name] = i
		s.sorted = append(s.sorted, i)
	}
	s.same = unique.Make(fmt.Sprintf("%q", attributes))
	slices.SortFunc(s.sorted, func(i, j int) int { return strings.Compare(s.attributes[i].Name, s.attributes[j].Name) })
	return s
}

// Attributes returns the declared attributes, in the order of their declaration.
func (s *Schema) Attributes() []Attribute { return slices.Clone(s.attributes) }

// Names returns the names of the attributes, in the order of their declaration.
func (s *Schema) Names() []string {
	names := make([]string, len(s.attributes))
	for i, a := range s.attributes {
		names[i] = a.Name
	}
	return names
}

// noAttributes is the schema of a declaration without attributes.
var noAttributes = NewSchema()
