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
)

// Users says where that is found which rules read of a user. Either File or Table is
// set.
type Users struct {
	Attributes []Attribute // by name, in the order of the names
	File       string      // CSV, NDJSON; Load has resolved a relative path. Empty in a declaration read by FromJSON
	Table      *UsersTable
	Fresh      time.Duration // how old what is known of a user may be; MinFresh to MaxFresh
	Cached     int64         // most users that are kept in memory; 1 to MaxCached
}

// Attribute is something that may be known of a user.
type Attribute struct {
	Name string // an identifier; neither id nor known, which every user has
	Type string // one of AttributeTypes
}

// The types of attributes.
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
	Zookeeper     []string // host:port; that of the sale's own table unless it is said
	ZookeeperRoot string
	Table         string
	Family        string
	Columns       map[string]string // by attribute; one that is not there has the attribute's name
}

// History says where that is found which users bought in other sales. Files, Table or both
// are set.
type History struct {
	// Files are exports of sales, or patterns of their names as filepath.Match has them.
	// Load has resolved relative ones. Empty and not nil in a declaration read by FromJSON
	// that has some.
	Files []string
	// Table has a row for each user, and a column for each run of a sale in which the user
	// bought. Destroy appends to it.
	Table *HistoryTable
}

// HistoryTable is an HBase table of what users bought.
type HistoryTable struct {
	Zookeeper     []string // host:port; that of the sale's own table unless it is said
	ZookeeperRoot string
	Table         string
	Family        string
}

// Limits of what rules stand on.
const (
	MaxAttributes = 64
	MaxFiles      = 99 // patterns of a history
	MinFresh      = time.Second
	MaxFresh      = time.Hour
	MaxCached     = 10_000_000
)

// What a document has where it says nothing.
const (
	DefaultFresh  = 30 * time.Second
	DefaultCached = 100_000
)

// tableHome is where a table is looked for that says nothing of its ZooKeeper.
type tableHome struct {
	declared bool   // whether the document has the sale's own table
	sale     *HBase // of the sale's own ledger; nil: it has none, or a problem
}

// users takes where that is found which rules read of a user.
func (d *decoder) users(v value, from tableHome) *Users {
	o, ok := d.object(v, reflect.TypeFor[usersPart]())
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
		u.Fresh = d.term(o, "fresh", "30s", MinFresh, MaxFresh)
	}
	if v, ok := d.value(o, "cached"); ok {
		u.Cached, _ = d.number(v, 1, MaxCached)
	}
	return u
}

// one reports a mapping that does not have exactly one of two keys.
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

// attributes takes names and their types.
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

// usersTable takes a table of users.
func (d *decoder) usersTable(v value, attributes []Attribute, from tableHome) *UsersTable {
	o, ok := d.object(v, reflect.TypeFor[usersTablePart]())
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

// columns takes the columns of attributes that are not called like these.
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

// history takes where that is found which users bought.
func (d *decoder) history(v value, from tableHome) *History {
	o, ok := d.object(v, reflect.TypeFor[historyPart]())
	if !ok {
		return nil
	}
	h := new(History)
	if o.keys["files"] == nil && o.keys["hbase"] == nil {
		d.refuse(o.at, `Add files: ["exports/*.ndjson"], or hbase.`, "%s has neither files nor hbase", o.path)
	}
	if v, ok := d.value(o, "files"); ok {
		h.Files = d.patterns(v)
	}
	if v, ok := d.value(o, "hbase"); ok {
		if o, ok := d.object(v, reflect.TypeFor[historyTablePart]()); ok {
			h.Table = new(HistoryTable)
			h.Table.Zookeeper, h.Table.ZookeeperRoot = d.zookeeper(o, from)
			h.Table.Table, h.Table.Family = d.table(o, "purchases"), d.family(o)
		}
	}
	return h
}

// patterns takes patterns of file names.
func (d *decoder) patterns(v value) []string {
	const example = "exports/*.ndjson"
	items, ok := d.items(v, fmt.Sprintf("Write %s: [%q].", v.key, example))
	switch {
	case ok && len(items) == 0:
		d.refuse(v.at, fmt.Sprintf("Write %s: [%q], or leave the key out.", v.key, example), "%s is an empty list", v.path)
	case len(items) > MaxFiles:
		d.refuse(v.at, "Write patterns, such as exports/*.ndjson.", "%s has %d items, and may have %d", v.path, len(items), MaxFiles)
		return nil
	}
	var all []string
	for _, item := range items {
		if pattern, ok := d.file(item, example, checkPattern); ok {
			all = append(all, d.src.resolvePattern(pattern))
		}
	}
	return all
}

// file takes the path of a file, or a pattern, as it is written.
func (d *decoder) file(v value, example string, check func(string) *fault) (path string, ok bool) {
	return checked(d, v, example, func(text string) *fault {
		f := checkPath(text, "file", example)
		if f == nil {
			f = check(text)
		}
		return f
	})
}

// resolvePattern is resolve for a pattern: the document's folder has no special
// characters in it.
func (s *source) resolvePattern(pattern string) string {
	if filepath.IsAbs(pattern) {
		return filepath.Clean(pattern)
	}
	folder := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(s.dir)
	return filepath.Join(folder, pattern)
}

func checkUsersFile(path string) *fault {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".csv", ".ndjson", ".jsonl":
		return nil
	}
	return &fault{"does not say what the file holds", "Name it .csv for CSV with a header, or .ndjson for one JSON object a line."}
}

func checkPattern(pattern string) *fault {
	if _, err := filepath.Match(pattern, ""); err != nil {
		return &fault{"is no pattern of file names", "Write a pattern such as exports/*.ndjson, with a backslash before a [ that is meant."}
	}
	return nil
}

// zookeeper takes where the table's servers are found, by default where the sale's own
// are.
func (d *decoder) zookeeper(o object, from tableHome) (servers []string, root string) {
	root = DefaultZookeeperRoot
	if from.sale != nil && o.keys["zookeeper"] == nil {
		servers, root = from.sale.Zookeeper, from.sale.ZookeeperRoot
	}
	if v, ok := d.value(o, "zookeeper"); ok {
		servers = d.addresses(v, "127.0.0.1:2181")
	} else if !from.declared {
		d.refuse(o.at, `Add zookeeper: ["127.0.0.1:2181"].`, "%s lacks zookeeper, and the sale has no hbase of its own", o.path)
	}
	if v, ok := d.value(o, "zookeeperRoot"); ok {
		root, _ = checked(d, v, DefaultZookeeperRoot, checkZnode)
	}
	return servers, root
}

func (d *decoder) family(o object) string {
	v, ok := d.value(o, "family")
	if !ok {
		return ""
	}
	family, _ := checked(d, v, "u", func(text string) *fault {
		if familyRE.MatchString(text) {
			return nil
		}
		return &fault{"is no column family that HBase takes", "Use letters, digits, and _ . - behind the first."}
	})
	return family
}

func checkColumn(text string) *fault {
	if strings.TrimSpace(text) == "" || strings.ContainsFunc(text, unicode.IsControl) {
		return &fault{"is no column", "Write the column's name, without its family."}
	}
	return nil
}

// check holds users to what the rest of the program takes for granted.
func (u Users) check() error {
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
