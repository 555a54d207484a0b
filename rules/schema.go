package rules

import (
	"fmt"
	"slices"
	"strings"
	"unique"

	"cel.dev/cel-go/common/types"

	"salectl/spec"
)

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
