package spec

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/invopop/jsonschema"
)

// Users is the source of the attributes of users that rules read. Either File or Table is set.
type Users struct {
	Attributes []Attribute // sorted by name
	File       string      // CSV or NDJSON, resolved by Load; "" in a declaration of FromJSON
	Table      *UsersTable
	Fresh      time.Duration // maximum age of what is known of a user; MinFresh to MaxFresh
	Cached     int64         // maximum number of users in memory; 1 to MaxCached
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

// UsersTable is an HBase table with a row for each user, by the user's id.
type UsersTable struct {
	// Zookeeper are the servers as host:port. The default is that of the sale's own table.
	Zookeeper     []string `yaml:"zookeeper,omitempty" json:"zookeeper" jsonschema_description:"ZooKeeper servers, host:port each. Default: those of spec.hbase."`
	ZookeeperRoot string   `yaml:"zookeeperRoot,omitempty" json:"zookeeperRoot" jsonschema:"example=/hbase" jsonschema_description:"Parent znode of HBase. Default: that of spec.hbase, or /hbase with zookeeper."`
	Table         string   `yaml:"table" json:"table" jsonschema:"example=users" jsonschema_description:"Table of the users; salectl only reads it."`
	Family        string   `yaml:"family" json:"family" jsonschema:"example=u" jsonschema_description:"Column family of the attributes."`
	// Columns are the columns of attributes, by name; the default is the attribute's name.
	Columns map[string]string `yaml:"columns,omitempty" json:"columns,omitempty" jsonschema_description:"Column names of attributes, where they differ from the attribute's name."`
}

// Limits of users.
const (
	MaxAttributes = 64
	MinFresh      = time.Second
	MaxFresh      = time.Hour
	MaxCached     = 10_000_000
)

// Defaults of a document.
const (
	DefaultFresh  = 30 * time.Second
	DefaultCached = 100_000
)

type usersPart struct {
	Attributes map[string]string `yaml:"attributes,omitempty" jsonschema_description:"Attributes that rules read as user.NAME, each with its type: string, int, double, bool, timestamp or list of string."`
	File       string            `yaml:"file,omitempty" jsonschema:"example=users.csv" jsonschema_description:"CSV with a header, or one JSON object a line (.ndjson), with an id each. Excludes hbase."`
	HBase      *UsersTable       `yaml:"hbase,omitempty" jsonschema_description:"Table with one row per user, keyed by user id. Excludes file."`
	Fresh      Duration          `yaml:"fresh,omitempty" jsonschema:"example=30s" jsonschema_description:"Maximum age of a user's attributes, 1s to 1h. Older ones are read again; if that fails, claims are refused."`
	Cached     int64             `yaml:"cached,omitempty" jsonschema_description:"Maximum number of users of an HBase table in memory."`
}

func (usersPart) JSONSchemaExtend(s *jsonschema.Schema) {
	attributes, most := property(s, "attributes"), uint64(MaxAttributes)
	attributes.PropertyNames = &jsonschema.Schema{Not: &jsonschema.Schema{Enum: []any{"id", "known"}}}
	identifier(attributes.PropertyNames)
	attributes.MaxProperties = &most
	for _, name := range AttributeTypes {
		attributes.AdditionalProperties.Enum = append(attributes.AdditionalProperties.Enum, name)
	}
	property(s, "file").Pattern = `[.]([cC][sS][vV]|[nN][dD][jJ][sS][oO][nN]|[jJ][sS][oO][nN][lL])$`
	property(s, "fresh").Default = FormatTerm(DefaultFresh)
	bound(s, "cached", MaxCached, DefaultCached)
	s.OneOf = []*jsonschema.Schema{{Required: []string{"file"}}, {Required: []string{"hbase"}}}
	s.DependentRequired = map[string][]string{"hbase": {"attributes"}}
}

func (UsersTable) JSONSchemaExtend(s *jsonschema.Schema) {
	outerTable(s)
	property(s, "columns").AdditionalProperties.Pattern = "[^ ]"
}

// users decodes the source of users' attributes.
func (d *decoder) users(spec object, from tableHome) *Users {
	o, ok := d.part(spec, "users", reflect.TypeFor[usersPart]())
	if !ok {
		return nil
	}
	u := &Users{Fresh: DefaultFresh, Cached: DefaultCached}
	if v, ok := d.value(o, "attributes"); ok {
		u.Attributes = d.attributes(v)
	}
	if d.one(o, "file", "hbase", "for the users") {
		if v, ok := d.value(o, "file"); ok {
			if path, ok := d.file(v, "users.csv", checkUsersFile); ok {
				u.File = d.src.resolve(path)
			}
		}
		if v, ok := d.value(o, "hbase"); ok {
			u.Table = d.usersTable(v, u.Attributes, from)
			if o.keys["attributes"] == nil {
				d.refuse(v.at, "Add attributes: {level: string}, with those that each user's row has.",
					"%s stands without attributes: which columns to read is not known", v.path)
			}
		}
	}
	if o.keys["fresh"] != nil {
		u.Fresh = time.Duration(d.term(o, "fresh", "30s", MinFresh, MaxFresh))
	}
	if v, ok := d.value(o, "cached"); ok {
		u.Cached, _ = d.number(v, 1, MaxCached)
	}
	return u
}

// one reports a mapping without exactly one of two keys.
func (d *decoder) one(o object, first, second, what string) bool {
	a, b := o.keys[first], o.keys[second]
	switch {
	case a == nil && b == nil:
		d.refuse(o.at, fmt.Sprintf("Add %s or %s %s.", first, second, what), "%s has neither %s nor %s", o.path, first, second)
	case a != nil && b != nil:
		d.beside(o, a, b, "Keep one of them.")
		return false
	}
	return true
}

// attributes decodes names and their types.
func (d *decoder) attributes(v value) []Attribute {
	var all []Attribute
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
		d.refuse(v.at, "Leave out those that no rule reads.", "%s has %d attributes, and may have %d", v.path, len(all), MaxAttributes)
	}
	slices.SortFunc(all, byName)
	return all
}

func byName(a, b Attribute) int { return cmp.Compare(a.Name, b.Name) }

func (d *decoder) attributeType(v value) string {
	remedy := fmt.Sprintf("The types are %s.", and(AttributeTypes))
	if !d.scalar(v, "a type", remedy) {
		return ""
	}
	if near := Nearest(v.node.Value, AttributeTypes); near != "" {
		remedy = fmt.Sprintf("Did you mean %s?", near)
	}
	if !slices.Contains(AttributeTypes, v.node.Value) {
		d.refuse(v.at, remedy, "%s is %q, which is no type of an attribute", v.path, v.node.Value)
	}
	return v.node.Value
}

func checkAttribute(name string) *fault {
	if name == "id" || name == "known" {
		return &fault{"is what every user has", "Leave it out."}
	}
	return checkIdentifier(name)
}

// usersTable decodes a table of users.
func (d *decoder) usersTable(v value, attributes []Attribute, from tableHome) *UsersTable {
	o, ok := d.object(v, reflect.TypeFor[UsersTable]())
	if !ok {
		return nil
	}
	t := &UsersTable{}
	t.Zookeeper, t.ZookeeperRoot = d.zookeeper(o, from)
	t.Table, t.Family = d.table(o, "users"), d.family(o)
	if v, ok := d.value(o, "columns"); ok {
		t.Columns = d.columns(v, attributes)
	}
	return t
}

// columns decodes the columns of attributes that have other names than these.
func (d *decoder) columns(v value, attributes []Attribute) map[string]string {
	var known []string
	for _, a := range attributes {
		known = append(known, a.Name)
	}
	columns := map[string]string{}
	for _, v := range d.entries(v, "level: lvl") {
		column, ok := checked(d, v.value, "lvl", checkColumn)
		switch {
		case !slices.Contains(known, v.key):
			remedy := "Name attributes that are declared."
			if near := Nearest(v.key, known); near != "" {
				remedy = fmt.Sprintf("Did you mean %s?", near)
			}
			d.refuse(v.keyAt, remedy, "%s is of no attribute", v.path)
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

func checkUsersFile(path string) *fault {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".csv", ".ndjson", ".jsonl":
		return nil
	}
	return &fault{"does not say what the file holds", "Name it .csv for CSV with a header, or .ndjson for one JSON object a line."}
}

func checkColumn(text string) *fault {
	if strings.TrimSpace(text) == "" || strings.ContainsFunc(text, unicode.IsControl) {
		return &fault{"is no column", "Write the column's name, without its family."}
	}
	return nil
}

// someUsers replaces the file of users, which a stored declaration lacks.
const someUsers = "USERS.csv"

// part converts users to their part of a document. own is the ledger of the sale.
func (u *Users) part(own *HBase) *usersPart {
	if u == nil {
		return nil
	}
	part := &usersPart{Fresh: Duration(unless(DefaultFresh, u.Fresh))}
	if len(u.Attributes) > 0 {
		part.Attributes = make(map[string]string)
	}
	for _, a := range u.Attributes {
		part.Attributes[a.Name] = a.Type
	}
	t := u.Table
	if t == nil {
		part.File = orElse(u.File, someUsers)
		return part
	}
	part.Cached = unless(DefaultCached, u.Cached)
	part.HBase = &UsersTable{Table: t.Table, Family: t.Family, Columns: t.Columns}
	part.HBase.Zookeeper, part.HBase.ZookeeperRoot = own.elsewhere(t.Zookeeper, t.ZookeeperRoot)
	return part
}

// storedUsers is a Users without the name of the file: a sale that is moved with its files is
// unchanged.
type storedUsers struct {
	Attributes map[string]string `json:"attributes,omitempty"` // types by name
	File       bool              `json:"file,omitempty"`
	HBase      *UsersTable       `json:"hbase,omitempty"`
	Fresh      Duration          `json:"freshMs"`
	Cached     int64             `json:"cached"`
}

func (u *Users) stored() *storedUsers {
	if u == nil {
		return nil
	}
	out := &storedUsers{File: u.Table == nil, HBase: u.Table, Fresh: Duration(u.Fresh), Cached: u.Cached}
	if len(u.Attributes) > 0 {
		out.Attributes = map[string]string{}
	}
	for _, a := range u.Attributes {
		out.Attributes[a.Name] = a.Type
	}
	return out
}

func (in *storedUsers) read() *Users {
	if in == nil {
		return nil
	}
	u := &Users{Table: in.HBase, Fresh: time.Duration(in.Fresh), Cached: in.Cached}
	for name, kind := range in.Attributes {
		u.Attributes = append(u.Attributes, Attribute{name, kind})
	}
	slices.SortFunc(u.Attributes, byName)
	return u
}

// withFile returns the users with the file of local.
func (u *Users) withFile(local *Users) *Users {
	if u == nil || u.Table != nil || local == nil {
		return u
	}
	users := *u
	users.File = local.File
	return &users
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
	switch {
	case u.File != "" && u.Table != nil:
		return errors.New("the users are in a file and in a table")
	case u.Fresh <= 0 || u.Fresh%time.Millisecond != 0:
		return fmt.Errorf("the users' fresh of %v is no positive number of milliseconds", u.Fresh)
	case u.Cached < 1:
		return errors.New("the users' cached must be at least 1")
	}
	return nil
}
