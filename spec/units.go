package spec

import (
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/invopop/jsonschema"
	"gopkg.in/yaml.v3"
)

// Units declares units that are more than numbers: either Ranges or FromFile is set.
type Units struct {
	// Ranges are names of units, each item a name or the first and the last of many, such as
	// A1-A40. They name as many units as the stock has, and no unit twice.
	Ranges []string
	// File is CSV with a header, one unit a line, resolved by Load. In a declaration of
	// FromJSON it is "", and FromFile reports that there is a file.
	File     string
	FromFile bool
	Column   string // column of File that names a unit; "": the first
	KeyEnv   string // environment variable with the key of the units; or KeyFile
	KeyFile  string // resolved by Load; "" in a declaration of FromJSON
	Secret   bool   // units are stored encrypted: KeyEnv or KeyFile is declared
	Choose   bool   // buyers may choose units by name; not with Secret
}

// Limits of declared units.
const (
	MaxUnits     = 100_000_000 // units that are more than numbers: plan keeps each in memory during a comparison
	MaxRanges    = 1000
	MaxRangeText = 256 // bytes of an item of a range
)

type unitsPart struct {
	Range     []string       `yaml:"range,omitempty" jsonschema:"example=A1-A40" jsonschema_description:"Needs engine ledger. Public names, as many as the stock: single ones, or ranges with a number at the end, like A1-A40 or A01-A40."`
	File      string         `yaml:"file,omitempty" jsonschema:"example=codes.csv" jsonschema_description:"Needs engine ledger, and keyEnv, keyFile or public. CSV with a header and one line per unit of the stock."`
	Column    string         `yaml:"column,omitempty" jsonschema:"example=code" jsonschema_description:"Column of file with the unique name of the unit. Default: the first. Buyers also receive the other columns."`
	KeyEnv    string         `yaml:"keyEnv,omitempty" jsonschema:"example=COUPON_KEY" jsonschema_description:"Environment variable with the key that encrypts the units: 32 bytes or more in base64."`
	KeyFile   string         `yaml:"keyFile,omitempty" jsonschema:"example=coupon.key" jsonschema_description:"File with that key. Excludes keyEnv."`
	Public    bool           `yaml:"public,omitempty" jsonschema_description:"Units of file are not secret and stored unencrypted. Excludes keyEnv and keyFile."`
	Choose    bool           `yaml:"choose,omitempty" jsonschema_description:"Buyers may choose units by name, or ask for adjacent ones. Needs range or public: true."`
	RedPacket *redPacketPart `yaml:"redPacket,omitempty" jsonschema_description:"Needs engine redis. Units are packets of money; the stock is their number."`
}

func (unitsPart) JSONSchemaExtend(s *jsonschema.Schema) {
	longest := uint64(MaxRangeText)
	list(property(s, "range"), MaxRanges)
	property(s, "range").Items.MaxLength = &longest
	property(s, "keyEnv").Pattern = envForm
	notBlank(s, "file", "column", "keyFile")
	property(s, "public").Default = false
	property(s, "choose").Default = false
	for _, kind := range unitKinds {
		if kind.key != "file" {
			s.OneOf = append(s.OneOf, unitsOf(kind.key, kind.with))
			continue
		}
		for _, key := range []string{"keyEnv", "keyFile"} {
			withKey := unitsOf("file", []string{"column", "public", "choose", key}, key)
			withKey.Properties.Set("public", &jsonschema.Schema{Const: false})
			withKey.Properties.Set("choose", &jsonschema.Schema{Const: false})
			s.OneOf = append(s.OneOf, withKey)
		}
		public := unitsOf("file", []string{"column", "public", "choose"}, "public")
		public.Properties.Set("public", &jsonschema.Schema{Const: true})
		s.OneOf = append(s.OneOf, public)
	}
}

// unitsOf returns the schema of one kind of units: its key, the keys allowed beside it, and
// those of them that are required.
func unitsOf(key string, with []string, must ...string) *jsonschema.Schema {
	s := &jsonschema.Schema{Required: append([]string{key}, must...), Properties: jsonschema.NewProperties(), Not: &jsonschema.Schema{}}
	for _, k := range keysOf(reflect.TypeFor[unitsPart]()) {
		if k.name != key && !slices.Contains(with, k.name) {
			s.Not.AnyOf = append(s.Not.AnyOf, &jsonschema.Schema{Required: []string{k.name}})
		}
	}
	return s
}

// unitKinds are the kinds of units, each with the allowed keys.
var unitKinds = []struct {
	key  string
	with []string
}{
	{"redPacket", nil},
	{"range", []string{"choose"}},
	{"file", []string{"column", "keyEnv", "keyFile", "public", "choose"}},
}

// unitKind returns the kind of units in the document, and reports conflicting keys. "": none,
// or more than one.
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

// units decodes the units of the sale, packets of money or others. s.Stock is 0 if unknown. If
// the engine is unknown, conflicts with it cannot be reported.
func (d *decoder) units(spec object, s *Sale) (*Units, *RedPacket) {
	o, ok := d.part(spec, "units", reflect.TypeFor[unitsPart]())
	if !ok {
		return nil, nil
	}
	u := d.unitsFile(o)
	if v, ok := d.value(o, "range"); ok {
		u.Ranges = d.ranges(v, s.Stock)
	}
	u.Choose = d.flag(o, "choose")
	public, publicOK := false, true
	if v, ok := d.value(o, "public"); ok {
		public, publicOK = d.boolean(v)
	}
	packet := d.redPacket(o, s.Stock)
	kind := d.unitKind(o)
	at := o.keys[kind]
	switch kind {
	case "":
		return nil, nil
	case "redPacket":
		if s.Engine == EngineLedger {
			d.refuse(at, "Add engine: redis, or remove units.", "%s stands without engine: redis", join(o.path, kind))
		}
		return nil, packet
	}
	if s.Engine == EngineRedis {
		d.refuse(at, "Use engine: ledger, or remove units.", "%s stands with engine: redis, whose units are numbers or red packets", join(o.path, kind))
	}
	if kind == "file" && publicOK && !o.merged {
		d.mayKnow(o, u, public)
	}
	if s.Stock > MaxUnits {
		d.refuse(spec.values["stock"], fmt.Sprintf("Write at most %d, or leave units out.", MaxUnits),
			"%s is above %d, the most units that are more than numbers", join(spec.path, "stock"), MaxUnits)
	}
	return u, nil
}

// unitsFile decodes the file of the units and its key.
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

// mayKnow reports a file without exactly one of key and public.
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

// keyFile decodes the path of a key. A text that may be the key itself is masked.
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

// Names that replace files, which a stored declaration lacks.
const (
	someUnits    = "UNITS.csv"
	someUnitsKey = "UNITS.key"
)

// unitsPartOf converts units to their part of a document: packets of money, or others.
func unitsPartOf(u *Units, r *RedPacket) *unitsPart {
	if r != nil {
		return &unitsPart{RedPacket: r.part()}
	}
	if u == nil {
		return nil
	}
	part := &unitsPart{Range: u.Ranges, Column: u.Column, KeyEnv: u.KeyEnv, Choose: u.Choose}
	if u.FromFile {
		part.File = orElse(u.File, someUnits)
		part.Public = !u.Secret
	}
	if u.Secret && u.KeyEnv == "" {
		part.KeyFile = orElse(u.KeyFile, someUnitsKey)
	}
	return part
}

// storedUnits is a Units without the names of the files: a sale that is moved with its files
// is unchanged.
type storedUnits struct {
	RedPacket *storedRedPacket `json:"redPacket,omitempty"` // excludes the other fields

	Range  []string `json:"range,omitempty"`
	File   bool     `json:"file,omitempty"`
	Column string   `json:"column,omitempty"`
	KeyEnv string   `json:"keyEnv,omitempty"`
	Secret bool     `json:"secret,omitempty"`
	Choose bool     `json:"choose,omitempty"`
}

func storeUnits(u *Units, r *RedPacket) *storedUnits {
	switch {
	case r != nil:
		return &storedUnits{RedPacket: r.stored()}
	case u != nil:
		return &storedUnits{Range: u.Ranges, File: u.FromFile, Column: u.Column, KeyEnv: u.KeyEnv, Secret: u.Secret, Choose: u.Choose}
	}
	return nil
}

func (in *storedUnits) read() (*Units, *RedPacket, error) {
	switch {
	case in == nil:
		return nil, nil, nil
	case in.RedPacket != nil:
		packet, err := in.RedPacket.read()
		return nil, packet, err
	}
	return &Units{Ranges: in.Range, FromFile: in.File, Column: in.Column, KeyEnv: in.KeyEnv, Secret: in.Secret, Choose: in.Choose}, nil, nil
}

// withFiles returns the units with the files of local.
func (u *Units) withFiles(local *Units) *Units {
	if u == nil || local == nil {
		return u
	}
	units := *u
	units.File, units.KeyFile = local.File, local.KeyFile
	return &units
}

// sane checks what the rest of the program assumes about units.
func (u *Units) sane(stock int64) error {
	switch {
	case u == nil:
		return nil
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
