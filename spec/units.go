package spec

import (
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// Units says what the units of a sale are, where they are more than numbers: either
// Ranges or FromFile is set.
type Units struct {
	// Ranges are names of units, each item a name or the first and the last of many, such
	// as A1-A40. They name as many units as the stock has, and no unit twice.
	Ranges []string
	// File is CSV with a header, one unit a line. Load has resolved a relative path. Empty
	// in a declaration read by FromJSON, where FromFile says that there is one.
	File     string
	FromFile bool
	Column   string // the column of File that names a unit; empty: the first
	KeyEnv   string // the environment variable with the key of the units; or KeyFile
	KeyFile  string // Load has resolved a relative path. Empty in a declaration read by FromJSON
	Secret   bool   // units are encrypted where they are kept: KeyEnv or KeyFile is declared
	Choose   bool   // buyers may choose units by name; not with Secret
}

// Rows are how many names each item of Ranges has, in their order: units of one item lie
// side by side, those of two do not. None for nil, and for units of a file.
func (u *Units) Rows() (counts []int64) {
	if u == nil {
		return nil
	}
	for _, text := range u.Ranges {
		if r, f := readRange(text); f == nil { // else neither Load nor FromJSON takes it
			counts = append(counts, r.count())
		}
	}
	return counts
}

// Limits of what units are declared to be.
const (
	MaxUnits     = 100_000_000 // that are more than numbers: plan remembers each while it compares
	MaxRanges    = 1000
	MaxRangeText = 256 // bytes of an item of a range
)

// Names are the names of the units that Ranges have, in their order; none for nil.
func (u *Units) Names() iter.Seq[string] {
	return func(yield func(string) bool) {
		if u == nil {
			return
		}
		for _, text := range u.Ranges {
			r, f := readRange(text)
			if f != nil {
				continue // neither Load nor FromJSON takes it
			}
			for n := r.from; n <= r.to; n++ {
				if !yield(r.name(n)) {
					return
				}
			}
		}
	}
}

// unitRange is the names from prefix and one number to prefix and another.
type unitRange struct {
	prefix   string // does not end in a digit
	from, to int64
	width    int  // digits of each number, zeros before it; 0: as many as the number has
	bare     bool // there is no number, and prefix is the only name
}

func (r unitRange) count() int64 { return r.to - r.from + 1 }

func (r unitRange) name(n int64) string {
	if r.bare {
		return r.prefix
	}
	return fmt.Sprintf("%s%0*d", r.prefix, r.width, n)
}

// common returns a name that two ranges share.
func (r unitRange) common(other unitRange) (string, bool) {
	if r.prefix != other.prefix || r.bare != other.bare || r.width > 0 && other.width > 0 && r.width != other.width {
		return "", false
	}
	// Between numbers of a width and those without, the ones that begin with a zero differ.
	first, last := max(r.from, other.from), min(r.to, other.to)
	if r.width != other.width {
		first = max(first, int64(math.Pow10(max(r.width, other.width)-1)))
	}
	return r.name(first), first <= last
}

// maxRangeDigits keeps the numbers of a range, and what they add up to, within an int64.
const maxRangeDigits = 15

var numberedRE = regexp.MustCompile(`^(.*[^0-9])?([0-9]+)$`)

// readRange reads an item of a range. Both names of FROM-TO have the same prefix, and so
// the hyphen between them is the middle one.
func readRange(text string) (unitRange, *fault) {
	const write = "Write the first and the last name, such as A1-A40, or one name."
	switch {
	case len(text) > MaxRangeText:
		return unitRange{}, &fault{fmt.Sprintf("has %d bytes, and may have %d", len(text), MaxRangeText), "Shorten the names."}
	case strings.TrimSpace(text) != text || text == "":
		return unitRange{}, &fault{"begins or ends with a blank, or is nothing else", write}
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return unitRange{}, &fault{"has a control character in it", write}
	}
	parts := strings.Split(text, "-")
	if len(parts)%2 == 1 {
		if len(parts) > 1 {
			return unitRange{}, &fault{"is neither a name without a hyphen nor the first and the last of many", write}
		}
		return readOneName(text)
	}
	middle := len(parts) / 2
	first, last := strings.Join(parts[:middle], "-"), strings.Join(parts[middle:], "-")
	from, to := numberedRE.FindStringSubmatch(first), numberedRE.FindStringSubmatch(last)
	if from == nil || to == nil {
		return unitRange{}, &fault{fmt.Sprintf("is no range: %s has to end in a number, and so has %s", first, last), write}
	}
	if from[1] != to[1] {
		return unitRange{}, &fault{fmt.Sprintf("goes from %q to %q, and only the number may differ", first, last),
			fmt.Sprintf("Write %s-%s%s, if that is meant, and an item for each row.", first, from[1], to[2])}
	}
	return numbered(from[1], from[2], to[2])
}

func readOneName(name string) (unitRange, *fault) {
	if at := numberedRE.FindStringSubmatch(name); at != nil {
		return numbered(at[1], at[2], at[2])
	}
	return unitRange{prefix: name, bare: true}, nil
}

func numbered(prefix, from, to string) (unitRange, *fault) {
	if max(len(from), len(to)) > maxRangeDigits {
		return unitRange{}, &fault{fmt.Sprintf("has a number of more than %d digits", maxRangeDigits), "Write shorter numbers."}
	}
	r := unitRange{prefix: prefix}
	r.from, _ = strconv.ParseInt(from, 10, 64)
	r.to, _ = strconv.ParseInt(to, 10, 64)
	if from[0] == '0' && len(from) > 1 || to[0] == '0' && len(to) > 1 {
		if r.width = len(from); len(to) != r.width {
			return unitRange{}, &fault{"has a number that begins with a zero, and numbers of different length",
				"Write as many digits in both, such as A01-A40, or no zeros before them."}
		}
	}
	if r.to < r.from {
		return unitRange{}, &fault{fmt.Sprintf("ends before it begins: %d is below %d", r.to, r.from),
			fmt.Sprintf("Write %s%s-%s%s, if that is meant.", prefix, to, prefix, from)}
	}
	return r, nil
}

// unitKinds are the ways to say what units are, each with the keys that go with it.
var unitKinds = []struct {
	key  string
	with []string
}{
	{"redPacket", nil},
	{"range", []string{"choose"}},
	{"file", []string{"column", "keyEnv", "keyFile", "public", "choose"}},
}

// unitKind returns which of unitKinds the document has, and reports what does not go with
// it. Empty: none, or more than one.
func (d *decoder) unitKind(o object) string {
	found := ""
	var with []string
	for _, kind := range unitKinds {
		switch {
		case o.keys[kind.key] == nil:
		case found == "":
			found, with = kind.key, kind.with
		default:
			d.beside(o, o.keys[found], o.keys[kind.key], "Keep one of them.")
			return ""
		}
	}
	if found == "" {
		if !o.merged {
			d.refuse(o.at, "Add range: [\"A1-A40\"] for units with these names, file: codes.csv for those of a file, or redPacket for packets of money.",
				"%s has neither range, file nor redPacket", o.path)
		}
		return ""
	}
	for _, key := range keysOf(reflect.TypeFor[unitsPart]()) {
		if at := o.keys[key.name]; at != nil && key.name != found && !slices.Contains(with, key.name) {
			d.refuse(at, "Remove it.", "%s does not go with %s", join(o.path, key.name), found)
		}
	}
	return found
}

// units takes what the units of the sale are. Its stock is 0 if that is not known. If the
// engine could not be made out, nobody can say which units go with it.
func (d *decoder) units(v value, s *Sale, engineOK bool) {
	o, ok := d.object(v, reflect.TypeFor[unitsPart]())
	if !ok {
		return
	}
	u := d.unitsFile(o)
	if v, ok := d.value(o, "range"); ok {
		u.Ranges = d.ranges(v, s.Stock)
	}
	if v, ok := d.value(o, "choose"); ok {
		u.Choose, _ = d.boolean(v)
	}
	public, publicOK := false, true
	if v, ok := d.value(o, "public"); ok {
		public, publicOK = d.boolean(v)
	}
	var packet *RedPacket
	if v, ok := d.value(o, "redPacket"); ok {
		packet = d.redPacket(v, s.Stock)
	}
	kind := d.unitKind(o)
	at := o.keys[kind]
	switch kind {
	case "":
	case "redPacket":
		s.RedPacket = packet
		if engineOK && s.Engine != EngineRedis {
			d.refuse(at, "Add engine: redis, or remove units.", "%s stands without engine: redis", join(o.path, kind))
		}
	default:
		s.Units = u
		if engineOK && s.Engine == EngineRedis {
			d.refuse(at, "Use engine: ledger, or remove units.", "%s stands with engine: redis, whose units are numbers or red packets", join(o.path, kind))
		}
		if kind == "file" && publicOK && !o.merged {
			d.mayKnow(o, u, public)
		}
	}
}

// unitsFile takes the file of the units and its key.
func (d *decoder) unitsFile(o object) *Units {
	u := &Units{FromFile: o.keys["file"] != nil, Secret: o.keys["keyEnv"] != nil || o.keys["keyFile"] != nil}
	if v, ok := d.value(o, "file"); ok {
		if path, ok := d.file(v, "codes.csv", func(string) *fault { return nil }); ok {
			u.File = d.src.resolve(path)
		}
	}
	if v, ok := d.value(o, "column"); ok {
		u.Column, _ = checked(d, v, "code", checkUnitColumn)
	}
	u.KeyEnv = d.env(o, "keyEnv")
	if v, ok := d.value(o, "keyFile"); ok {
		u.KeyFile = d.keyFile(v)
	}
	return u
}

// mayKnow reports a file that does not say who may know its units, or says it twice.
func (d *decoder) mayKnow(o object, u *Units, public bool) {
	var says []*yaml.Node
	for _, key := range []string{"keyEnv", "keyFile"} {
		if at := o.keys[key]; at != nil {
			says = append(says, at)
		}
	}
	if public {
		says = append(says, o.keys["public"])
	}
	switch len(says) {
	case 0:
		d.refuse(o.keys["file"], "Add keyEnv: UNITS_KEY, the name of a variable with the output of openssl rand -base64 32; "+
			"or keyFile, a file that holds it; or public: true, if anybody may know the units.",
			"%s stands without keyEnv, keyFile or public: true", join(o.path, "file"))
	case 1:
	default:
		d.beside(o, says[0], says[1], "Keep one of them: keyEnv or keyFile if nobody may know the units, public: true if anybody may.")
	}
	if u.Choose && u.Secret {
		d.refuse(o.values["choose"], "Remove choose; or write public: true instead of the key, if anybody may know the units.",
			"%s stands with a key, and names that nobody may know cannot be chosen", join(o.path, "choose"))
	}
}

// keyFile takes the path of a key. What looks like a key itself is not shown.
func (d *decoder) keyFile(v value) string {
	path, ok := d.file(v, "coupon.key", func(text string) *fault {
		if _, err := base64.StdEncoding.DecodeString(text); err != nil || !strings.HasSuffix(text, "=") {
			return nil
		}
		d.hide(v.node)
		return &fault{"is no name of a file, and may be the key itself",
			"Put the key into a file of its own and write the file's name here. If it was the key, make another: it has been in a file that others read."}
	})
	if !ok {
		return ""
	}
	return d.src.resolve(path)
}

func checkUnitColumn(text string) *fault {
	if strings.TrimSpace(text) == "" || strings.ContainsFunc(text, unicode.IsControl) {
		return &fault{"is no name of a column", "Write a name of the file's header."}
	}
	return nil
}

// ranges takes names that make up a stock, with 0 for one that is not known.
func (d *decoder) ranges(v value, stock int64) []string {
	const example = "A1-A40"
	items, ok := d.items(v, fmt.Sprintf("Write %s: [%q].", v.key, example))
	switch {
	case ok && len(items) == 0:
		d.refuse(v.at, fmt.Sprintf("Write %s: [%q].", v.key, example), "%s is an empty list", v.path)
	case len(items) > MaxRanges:
		d.refuse(v.at, "Write longer ranges, or name the units in a file.", "%s has %d items, and may have %d", v.path, len(items), MaxRanges)
		return nil
	}
	var all []string
	var read []unitRange
	var count int64
	complete := ok && len(items) > 0
	for _, item := range items {
		text, ok := d.text(item, example)
		if !ok {
			complete = false
			continue
		}
		r, f := readRange(text)
		if f != nil {
			d.fault(item, f)
			complete = false
			continue
		}
		for i, other := range read {
			if name, twice := r.common(other); twice {
				d.refuse(item.at, "Name each unit once.", "%s names %s, which %q does already", item.path, name, all[i])
				complete = false
				break
			}
		}
		all, read, count = append(all, text), append(read, r), count+r.count()
	}
	if complete && stock > 0 && count != stock {
		d.refuse(v.at, fmt.Sprintf("Write stock: %d, or name as many units as the stock has.", count), "%s names %s, and the stock is %d",
			v.path, Count(count, "unit"), stock)
	}
	return all
}

// tooMany reports a stock that is too large for what its units are.
func (d *decoder) tooMany(o object, s *Sale) {
	if s.Units != nil && s.Stock > MaxUnits {
		d.refuse(o.values["stock"], fmt.Sprintf("Write at most %d, or leave units out.", MaxUnits),
			"%s is above %d, the most units that are more than numbers", join(o.path, "stock"), MaxUnits)
	}
}

// check holds units to what the rest of the program takes for granted.
func (u Units) check(stock int64) error {
	switch {
	case !u.FromFile && len(u.Ranges) == 0:
		return errors.New("the units are of a kind that is not known to this program: use a newer one")
	case u.FromFile && len(u.Ranges) > 0:
		return errors.New("the units have both a range and a file")
	case !u.FromFile && (u.File != "" || u.Column != "" || u.Secret):
		return errors.New("the units of a range have a file, a column or a key")
	case !u.Secret && (u.KeyEnv != "" || u.KeyFile != ""):
		return errors.New("units that are not secret have a key")
	case u.KeyEnv != "" && u.KeyFile != "":
		return errors.New("the units have two keys")
	case u.Secret && u.Choose:
		return errors.New("secret units can be chosen")
	case u.FromFile:
		return nil
	}
	var read []unitRange
	var count int64
	for _, text := range u.Ranges {
		r, f := readRange(text)
		if f != nil {
			return fmt.Errorf("the range %q of units %s", text, f.message)
		}
		for _, other := range read {
			if name, twice := r.common(other); twice {
				return fmt.Errorf("the ranges of units name %s twice", name)
			}
		}
		read, count = append(read, r), count+r.count()
	}
	if count != stock {
		return fmt.Errorf("the ranges name %s, and the stock is %d", Count(count, "unit"), stock)
	}
	return nil
}
