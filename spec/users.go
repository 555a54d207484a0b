package spec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/invopop/jsonschema"
)

// Users is the source of the attributes of users that rules read. Either File or Table is set.
type Users struct {
	Attributes Attributes `yaml:"attributes,omitempty" json:"attributes,omitempty" form:"attributes" add:"attributes: {level: string}, with those that each user's row has" doc:"Attributes that rules read as user.NAME, each with its type: string, int, double, bool, timestamp or list of string."`
	// File is CSV or NDJSON, resolved by Load; "" in a declaration of FromJSON: a sale that is
	// moved with its files is unchanged.
	File  string      `yaml:"file,omitempty" json:"-" oneof:"source" unstored:"USERS.csv" form:"users" example:"users.csv" doc:"CSV with a header, or one JSON object a line (.ndjson), with an id each. Excludes hbase."`
	Table *UsersTable `yaml:"hbase,omitempty" json:"hbase,omitempty" oneof:"source" with:"attributes" doc:"Table with one row per user, keyed by user id; salectl only reads it. Excludes file."`
	// Fresh is the maximum age of what is known of a user, Cached the maximum number of users
	// in memory.
	Fresh  Duration `yaml:"fresh,omitempty" json:"freshMs" min:"1s" max:"1h" default:"30s" example:"30s" doc:"Maximum age of a user's attributes: {bounds}. Older ones are read again; if that fails, claims are refused."`
	Cached int64    `yaml:"cached,omitempty" json:"cached" max:"10000000" default:"100000" doc:"Maximum number of users of an HBase table in memory."`
}

// Attributes are attributes of users, sorted by name: in documents and JSON a mapping of names to
// types.
type Attributes []Attribute

// MarshalJSON returns the mapping.
func (all Attributes) MarshalJSON() ([]byte, error) { return json.Marshal(all.types()) }

// MarshalYAML returns the mapping.
func (all Attributes) MarshalYAML() (any, error) { return all.types(), nil }

// UnmarshalJSON reads the mapping.
func (all *Attributes) UnmarshalJSON(text []byte) error {
	var types map[string]string
	err := json.Unmarshal(text, &types)
	*all = nil
	for _, name := range slices.Sorted(maps.Keys(types)) {
		*all = append(*all, Attribute{name, types[name]})
	}
	return err
}

// String lists the attributes for people.
func (all Attributes) String() string { return textOf(all.types()) }

func (all Attributes) types() map[string]string {
	types := map[string]string{}
	for _, a := range all {
		types[a.Name] = a.Type
	}
	return types
}

// Attribute is an attribute of users.
type Attribute struct {
	Name string // an identifier; neither id nor known, which every user has
	Type string // one of AttributeTypes
}

// Types of attributes.
const (
	TypeString    = "string"
	TypeInt       = "int"
	TypeDouble    = "double"
	TypeBool      = "bool"
	TypeTimestamp = "timestamp"
	TypeStrings   = "list of string"
)

// AttributeTypes are all types of attributes.
var AttributeTypes = []string{TypeString, TypeInt, TypeDouble, TypeBool, TypeTimestamp, TypeStrings}

// UsersTable is an HBase table with the attributes of users.
type UsersTable struct {
	Rows
	// Columns are the columns of attributes, by name; the default is the attribute's name.
	Columns map[string]string `yaml:"columns,omitempty" json:"columns,omitempty" form:"columns" doc:"Column names of attributes, where they differ from the attribute's name."`
}

// MaxAttributes is the maximum number of attributes, MinFresh the least Users.Fresh.
const (
	MaxAttributes = 64
	MinFresh      = time.Second
)

// Defaults of a document.
const (
	DefaultFresh  = Duration(30 * time.Second)
	DefaultCached = 100_000
)

func attributeSchema(s *jsonschema.Schema) {
	s.PropertyNames = &jsonschema.Schema{Not: &jsonschema.Schema{Enum: []any{"id", "known"}}}
	identifier(s.PropertyNames)
	s.MaxProperties = new(uint64(MaxAttributes))
	for _, name := range AttributeTypes {
		s.AdditionalProperties.Enum = append(s.AdditionalProperties.Enum, name)
	}
}

// users checks the source of users' attributes.
func (d *decoder) users(s *Sale) {
	u := s.Users
	if u == nil || u.Table == nil {
		return
	}
	d.rows("spec.users.hbase", s, &u.Table.Rows)
	if v, ok := d.value(d.objects["spec.users.hbase"], "columns"); ok {
		u.Table.Columns = d.columns(v, u.Attributes)
	}
}

// attributes decodes names and their types.
func (d *decoder) attributes(v value, _ *option) (any, bool) {
	var all Attributes
	for _, v := range d.entries(v, "level: string") {
		a := Attribute{Name: v.key}
		f := checkAttribute(a.Name)
		if f != nil {
			d.refuse(v.keyAt, f.remedy, "%s %s", v.path, f.message)
		}
		a.Type = d.attributeType(v.value)
		all = append(all, a)
	}
	if len(all) > MaxAttributes {
		d.refuse(v.at, "Leave out those that no rule reads.", "%s has %d attributes, at most %d are allowed", v.path, len(all), MaxAttributes)
	}
	slices.SortFunc(all, func(a, b Attribute) int { return cmp.Compare(a.Name, b.Name) })
	return all, true
}

func (d *decoder) attributeType(v value) string {
	remedy := fmt.Sprintf("The types are %s.", and(AttributeTypes))
	if !d.scalar(v, "a type", remedy) {
		return ""
	}
	if near := Nearest(v.node.Value, AttributeTypes); near != "" {
		remedy = fmt.Sprintf("Did you mean %s?", near)
	}
	if !slices.Contains(AttributeTypes, v.node.Value) {
		d.refuse(v.at, remedy, "%s is %q, which is not a type of attributes", v.path, v.node.Value)
	}
	return v.node.Value
}

func checkAttribute(name string) *fault {
	if name == "id" || name == "known" {
		return &fault{"is predefined for every user", "Leave it out."}
	}
	return checkIdentifier(name)
}

// columns decodes the columns of attributes that have other names than these.
func (d *decoder) columns(v value, attributes Attributes) map[string]string {
	var known []string
	for _, a := range attributes {
		known = append(known, a.Name)
	}
	columns := map[string]string{}
	for _, v := range d.entries(v, "level: lvl") {
		column, ok := checked(d, v.value, "lvl", checkColumn("Write the column's name, without its family."))
		switch {
		case !slices.Contains(known, v.key):
			remedy := "Name attributes that are declared."
			if near := Nearest(v.key, known); near != "" {
				remedy = fmt.Sprintf("Did you mean %s?", near)
			}
			d.refuse(v.keyAt, remedy, "%s names no attribute", v.path)
		case ok:
			columns[v.key] = column
		}
	}
	owners := map[string]string{}
	for _, name := range known {
		column := cmp.Or(columns[name], name)
		if other, twice := owners[column]; twice {
			d.refuse(v.at, "Give each attribute a column of its own.", "%s has the column %s for both %s and %s", v.path, column, other, name)
		}
		owners[column] = name
	}
	return columns
}

// sane checks what the rest of the program assumes about users.
func (u *Users) sane() error {
	if u == nil {
		return nil
	}
	for i, a := range u.Attributes {
		switch {
		case checkAttribute(a.Name) != nil || i > 0 && a.Name <= u.Attributes[i-1].Name:
			return fmt.Errorf("the users' attribute %q is no identifier, or not in the order of the names", a.Name)
		case !slices.Contains(AttributeTypes, a.Type):
			return fmt.Errorf("the type %q of the users' attribute %s is not known to this program: use a newer one", a.Type, a.Name)
		}
	}
	return nil
}
