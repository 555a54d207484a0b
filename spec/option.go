package spec

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// option is a key of a document. The tags of a field of Sale, or of a struct below it, declare
// it once: the decoder, the encoder, the JSON Schema and the lists of plans all read them.
//
//	yaml     the key, or the path from the document's root; without omitempty it is required
//	json     the key of the stored declaration
//	min, max the bounds of a number (1 and the largest int64 without them), of a duration, or
//	         of the length of a list
//	words    the only texts
//	default  the value of an absent key, as in a document
//	form     a form of text, list or mapping; see forms
//	ledger   why engine redis does not take the option, as a relative clause
//	oneof    the name of a group of options, of which exactly one must be there
//	anyof    the same of one or more
//	with     keys, of which one must be there if the option is
//	add      what to write to add the option; without it the key and the example
//	unstored a name in capitals for a file that ledgers do not store
//	example  a value for people
//	doc      the meaning, for people; {bounds} stands for those of a duration
type option struct {
	key         string
	required    bool
	stored      bool  // in ledgers
	optional    bool  // a stored declaration may lack it
	field       []int // of the struct of the block; nil: a block of fields of the same struct
	typ         reflect.Type
	inner       *block // keys of the mapping, or of each item of the list; nil: neither
	least, most int64  // bounds of a number, a duration, or the length of a list
	words       []string
	standard    string // default
	form        string
	ledger      string
	group       *group // nil: none
	with        []string
	add         string
	unstored    string
	example     string
	doc         string
	constant    string // the only text, of a key that is no field
}

// block is a mapping of a document.
type block struct {
	typ     reflect.Type // struct of the fields
	root    bool         // the keys of all fields are below
	options []*option
	groups  []*group
}

// blocks are those of structs, by type: plans list many attributes.
var blocks sync.Map

// blockOf returns the block that a struct declares. Callers must not change it.
func blockOf(t reflect.Type) *block {
	if b, ok := blocks.Load(t); ok {
		return b.(*block)
	}
	b := newBlock(t)
	blocks.Store(t, b)
	return b
}

func newBlock(t reflect.Type) *block {
	whole := &block{typ: t, root: true}
	for _, f := range reflect.VisibleFields(t) {
		path, flag, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if !f.IsExported() || f.Anonymous || path == "-" {
			continue
		}
		keys := strings.Split(path, ".")
		b := whole
		for i := range keys[:len(keys)-1] {
			b = b.below(keys[i], strings.Join(keys[:i+1], "."))
		}
		o := &option{
			key: keys[len(keys)-1], required: flag != "omitempty", field: f.Index, typ: f.Type,
			words:    strings.Fields(f.Tag.Get("words")),
			standard: f.Tag.Get("default"), form: f.Tag.Get("form"), ledger: f.Tag.Get("ledger"), example: f.Tag.Get("example"), doc: f.Tag.Get("doc"),
			with: strings.Fields(f.Tag.Get("with")), add: f.Tag.Get("add"), unstored: f.Tag.Get("unstored"),
		}
		o.least, o.most = o.parse(f.Tag.Get("min"), 1), o.parse(f.Tag.Get("max"), math.MaxInt64)
		b.group(o, f.Tag.Get("oneof"), f.Tag.Get("anyof"))
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		o.stored, o.optional = name != "-", rest == "omitempty"
		if under := elem(f.Type); o.form == "" && under.Kind() == reflect.Struct && under != reflect.TypeFor[time.Time]() {
			o.inner = blockOf(under)
		}
		b.options = append(b.options, o)
	}
	return whole
}

// elem returns the type behind a pointer or of the items of a list.
func elem(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		return t.Elem()
	}
	return t
}

// groups are the meanings of blocks whose keys are fields of Sale itself.
var groups = map[string]string{
	"metadata":  "Identity of the sale.",
	"spec":      "Stock, terms and storage of the sale.",
	"spec.lock": "Locks of shards.",
}

// below returns the block of a key whose options are fields of the same struct.
func (b *block) below(key, path string) *block {
	if o := b.option(key); o != nil {
		return o.inner
	}
	o := &option{key: key, required: !strings.Contains(path, "."), inner: &block{typ: b.typ}, doc: groups[path]}
	b.options = append(b.options, o)
	return o.inner
}

// option returns the option with a key, or nil.
func (b *block) option(key string) *option {
	for _, o := range b.options {
		if o.key == key {
			return o
		}
	}
	return nil
}

// keysOf returns the keys of options, in order.
func keysOf(options []*option) (all []string) {
	for _, o := range options {
		all = append(all, o.key)
	}
	return all
}

// root is the block of a whole document.
var root = sync.OnceValue(func() *block {
	b := newBlock(reflect.TypeFor[Sale]())
	b.options = append([]*option{
		{key: "apiVersion", required: true, constant: APIVersion, doc: "Version of this format."},
		{key: "kind", required: true, constant: Kind, doc: "Kind of the document."},
	}, b.options...)
	return b
})

// homes maps every key of the document to the paths of its mappings; the outermost path is "".
var homes = sync.OnceValue(func() map[string][]string {
	found := map[string][]string{}
	root().walk("", func(path string, o *option) { found[o.key] = append(found[o.key], path) })
	return found
})

// walk calls f for every option of the block and those below, with the path of its mapping.
func (b *block) walk(path string, f func(path string, o *option)) {
	for _, o := range b.options {
		f(path, o)
		if o.inner != nil {
			o.inner.walk(join(path, o.key), f)
		}
	}
}

// join appends a key to the path of its mapping.
func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// isDuration reports whether the option is a duration.
func (o *option) isDuration() bool { return o.typ == reflect.TypeFor[Duration]() }

// parse returns a bound, or the default, of a number, a duration, or the length of a list.
func (o *option) parse(text string, absent int64) int64 {
	n, err := absent, error(nil)
	switch {
	case text == "":
	case o.isDuration():
		var d time.Duration
		d, err = time.ParseDuration(text)
		n = int64(d)
	default:
		n, err = strconv.ParseInt(text, 10, 64)
	}
	if err != nil {
		panic("spec: the key " + o.key + ": " + err.Error())
	}
	return n
}

// meaning returns the meaning of the option, for people.
func (o *option) meaning() string {
	bounds := ""
	if o.isDuration() {
		bounds = fmt.Sprintf("%s to %s, in h, m, s or ms", FormatTerm(time.Duration(o.least)), FormatTerm(time.Duration(o.most)))
	}
	return strings.ReplaceAll(o.doc, "{bounds}", bounds)
}

// initial returns the value of an absent key: the default, or zero.
func (o *option) initial() reflect.Value {
	v := reflect.New(o.typ).Elem()
	switch {
	case o.standard == "":
	case v.CanInt():
		v.SetInt(o.parse(o.standard, 0))
	case v.Kind() == reflect.String:
		v.SetString(o.standard)
	}
	return v
}

// isAbsent reports whether a document omits the option if it has the value v: the default, or
// no value. Zero is no value unless it is within the bounds of a number.
func (o *option) isAbsent(v reflect.Value) bool {
	switch {
	case o.standard != "" && v.Equal(o.initial()):
		return true
	case o.least == 0:
		return false
	case v.Kind() == reflect.Slice || v.Kind() == reflect.Map:
		return v.Len() == 0
	}
	return v.IsZero()
}

// sane checks what the rest of the program assumes about every option of a struct by itself, and
// about those that exclude or need each other. Zero is sane where it means absence.
func (b *block) sane(v reflect.Value) (err error) {
	b.visit("", v, func(path string, b *block, o *option, of reflect.Value) {
		switch {
		case err != nil || !of.IsValid():
		case o == nil:
			err = b.saneRelations(path, of)
		case o.stored && (!o.optional || !o.value(of).IsZero()):
			err = o.sane(path, o.value(of))
		}
	})
	return err
}

func (o *option) sane(path string, v reflect.Value) error {
	mayBeZero := o.least == 0
	check := forms[o.form].check
	switch {
	case len(o.words) > 0 && !slices.Contains(o.words, v.String()):
		return fmt.Errorf("%s %q is not known to this program: use a newer one", path, v)
	case o.isDuration() && (v.Int() < 0 || v.Int() == 0 && !mayBeZero || v.Int()%int64(time.Millisecond) != 0):
		return fmt.Errorf("%s of %v is no positive number of milliseconds", path, v)
	case !o.isDuration() && o.form == "" && v.CanInt() && (v.Int() < 0 || v.Int() == 0 && !mayBeZero):
		return fmt.Errorf("%s must be at least 1", path)
	case o.required && v.Kind() == reflect.String && v.Len() == 0:
		return fmt.Errorf("%s is missing", path)
	case check == nil || v.Len() == 0:
		return nil
	}
	if f := check(v.String()); f != nil {
		return fmt.Errorf("%s %q %s", path, v, f.message)
	}
	return nil
}

// visit calls f for every option of the struct v and of the structs below it, with the block and
// the struct of the option. After the options of a block, it calls f with a nil option. The struct
// of an absent block is the zero Value.
func (b *block) visit(path string, v reflect.Value, f func(path string, b *block, o *option, of reflect.Value)) {
	for _, o := range b.options {
		at := join(path, o.key)
		switch {
		case o.constant != "":
		case o.inner == nil:
			f(at, b, o, v)
		case o.field == nil:
			o.inner.visit(at, v, f)
		case !v.IsValid() && o.typ.Kind() == reflect.Slice:
		case !v.IsValid():
			o.inner.visit(at, v, f)
		case o.typ.Kind() == reflect.Pointer:
			o.inner.visit(at, o.value(v).Elem(), f)
		default:
			for _, item := range o.value(v).Seq2() { // rules and variables have names
				o.inner.visit(fmt.Sprintf("%s[%s]", at, item.FieldByName("Name")), item, f)
			}
		}
	}
	f(path, b, nil, v)
}

// value returns the value of the option in a struct of its block.
func (o *option) value(of reflect.Value) reflect.Value { return of.FieldByIndex(o.field) }

// Each calls show with the path and the text of every option of a block that ledgers store, such
// as a *Payment, in the order of a document. Paths are relative to the block. The text is as in a
// document, in one line; "" if the option is absent.
func Each[Block any](of *Block, show func(path, text string)) {
	blockOf(reflect.TypeFor[Block]()).visit("", reflect.ValueOf(of).Elem(), func(path string, _ *block, o *option, of reflect.Value) {
		switch {
		case o == nil || !o.stored:
		case !of.IsValid() || o.value(of).IsZero() && o.least != 0:
			show(path, "")
		default:
			show(path, strings.Join(strings.Fields(textOf(o.value(of).Interface())), " "))
		}
	})
}

// textOf returns the text of a value for people.
func textOf(value any) string {
	switch v := value.(type) {
	case Duration:
		return FormatTerm(time.Duration(v))
	case time.Time:
		return v.UTC().Format(time.RFC3339Nano)
	case []string:
		return strings.Join(v, ", ")
	case map[string]string:
		var words []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			words = append(words, key+" "+v[key])
		}
		return strings.Join(words, ", ")
	}
	return fmt.Sprint(value)
}
