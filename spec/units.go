package spec

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/invopop/jsonschema"
)

// Units declares units that are more than numbers: either Ranges or FromFile is set.
type Units struct {
	// Ranges are names of units, each item a name or the first and the last of many, such as
	// A1-A40. They name as many units as the stock has, and no unit twice.
	Ranges []string `yaml:"range,omitempty" json:"range,omitempty" oneof:"kind" form:"ranges" max:"1000" example:"A1-A40" doc:"Needs engine ledger. Public names, as many as the stock: single ones, or ranges with a number at the end, like A1-A40 or A01-A40."`
	// File is CSV with a header, one unit a line, resolved by Load. In a declaration of
	// FromJSON it is "", and FromFile reports that there is a file.
	File     string `yaml:"file,omitempty" json:"-" oneof:"kind" unstored:"UNITS.csv" form:"codes" example:"codes.csv" doc:"Needs engine ledger, and keyEnv, keyFile or public. CSV with a header and one line per unit of the stock."`
	FromFile bool   `yaml:"-" json:"file,omitempty"`
	// Column of File names a unit. "": the first.
	Column string `yaml:"column,omitempty" json:"column,omitempty" with:"file" form:"column" example:"code" doc:"Column of file with the unique name of the unit. Default: the first. Buyers also receive the other columns."`
	// KeyEnv is the environment variable with the key of the units. Or KeyFile is set, resolved
	// by Load and "" in a declaration of FromJSON.
	KeyEnv  string `yaml:"keyEnv,omitempty" json:"keyEnv,omitempty" oneof:"key" with:"file" add:"keyEnv: UNITS_KEY, the name of a variable with the output of openssl rand -base64 32" form:"env" example:"COUPON_KEY" doc:"Environment variable with the key that encrypts the units: 32 bytes or more in base64."`
	KeyFile string `yaml:"keyFile,omitempty" json:"-" oneof:"key" with:"file" unstored:"UNITS.key" add:"keyFile, a file that holds it" form:"key" example:"coupon.key" doc:"File with that key. Excludes keyEnv."`
	// Secret reports that units are stored encrypted: KeyEnv or KeyFile is declared. Public is
	// the opposite in a document, for a file only.
	Secret bool `yaml:"-" json:"secret,omitempty"`
	Public bool `yaml:"public,omitempty" json:"-" oneof:"key" with:"file" add:"public: true, if the units are not secret" doc:"Units of file are not secret and stored unencrypted. Excludes keyEnv and keyFile."`
	// Choose reports that buyers may choose units by name; not with Secret.
	Choose bool `yaml:"choose,omitempty" json:"choose,omitempty" with:"range file" doc:"Buyers may choose units by name, or request adjacent ones. Needs range or public: true."`
	// RedPacket is set in a document only: Sale.RedPacket replaces Units.
	RedPacket *RedPacket `yaml:"redPacket,omitempty" json:"-" oneof:"kind" doc:"Needs engine redis. Units are packets of money; the stock is their number."`
}

// Limits of declared units.
const (
	MaxUnits     = 100_000_000 // units that are more than numbers: plan keeps each in memory during a comparison
	MaxRangeText = 256         // bytes of an item of a range
)

func rangeSchema(s *jsonschema.Schema) {
	s.Items.MaxLength = new(uint64(MaxRangeText))
}

// constrain requires of a file of units a key, or that they are public. Units with a key cannot be
// chosen.
func (Units) constrain(s *jsonschema.Schema) {
	file := new(jsonschema.Schema)
	s.DependentSchemas["file"] = file
	for _, key := range []string{"keyEnv", "keyFile", "public"} {
		one := &jsonschema.Schema{Required: []string{key}, Properties: jsonschema.NewProperties()}
		one.Properties.Set("public", &jsonschema.Schema{Const: key == "public"})
		if key == "public" {
			one.Not = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Required: []string{"keyEnv"}}, {Required: []string{"keyFile"}}}}
		} else {
			one.Properties.Set("choose", &jsonschema.Schema{Const: false})
		}
		file.OneOf = append(file.OneOf, one)
	}
}

// units checks the units of the sale, and moves packets of money out of them. s.Stock is 0 if
// unknown. If the engine is unknown, conflicts with it cannot be reported.
func (d *decoder) units(s *Sale) {
	o, ok := d.objects["spec.units"]
	if !ok {
		return
	}
	u := s.Units
	s.Units, u.FromFile, u.Secret = nil, o.keys["file"] != nil, o.keys["keyEnv"] != nil || o.keys["keyFile"] != nil
	if v, ok := d.value(o, "range"); ok {
		d.asMany(v, u, s.Stock)
	}
	at := cmp.Or(o.keys["range"], o.keys["file"])
	switch packets := o.keys["redPacket"]; {
	case packets != nil:
		if u.RedPacket != nil {
			d.redPacket(u.RedPacket, s.Stock)
		}
		if s.Engine == EngineLedger && at == nil {
			d.refuse(packets, "Add engine: redis, or remove units.", "%s needs engine: redis", join(o.path, "redPacket"))
		}
		s.RedPacket = u.RedPacket
		return
	case at == nil:
		return
	case s.Engine == EngineRedis:
		d.refuse(at, "Use engine: ledger, or remove units.", "%s does not fit engine: redis, whose units are numbers or red packets",
			join(o.path, target(at).Value))
	}
	if s.Units = u; u.Choose && u.Secret {
		d.refuse(o.values["choose"], "Remove choose; or write public: true instead of the key, if the units are not secret.",
			"%s does not fit a key: buyers cannot choose secret names", join(o.path, "choose"))
	}
	u.Public = false
	if s.Stock > MaxUnits {
		d.refuse(d.objects["spec"].values["stock"], fmt.Sprintf("Write at most %d, or leave units out.", MaxUnits),
			"spec.stock is above %d, the maximum for units with payloads", MaxUnits)
	}
}

// keyFile decodes the path of a key. A text that may be the key itself is masked.
func (d *decoder) keyFile(v value, o *option) (any, bool) {
	path, ok := d.file(v, "file", o.example, func(text string) *fault {
		if _, err := base64.StdEncoding.DecodeString(text); err != nil || !strings.HasSuffix(text, "=") {
			return nil
		}
		d.hide(v.node)
		return &fault{"is not a file name, and may be the key itself",
			"Put the key into a file of its own and write the file's name here. If it was the key, make another: it has been in a file that others read."}
	})
	return d.src.resolve(path), ok
}

// checkColumn returns the check of the name of a column.
func checkColumn(remedy string) func(string) *fault {
	return func(text string) *fault {
		if strings.TrimSpace(text) == "" || strings.ContainsFunc(text, unicode.IsControl) {
			return &fault{"is no name of a column", remedy}
		}
		return nil
	}
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
	case u.Secret && u.Choose:
		return errors.New("secret units can be chosen")
	case u.FromFile:
		return nil
	}
	var distinct distinctRanges
	for _, text := range u.Ranges {
		if f := distinct.add(text); f != nil {
			return fmt.Errorf("the range %q of units %s", text, f.message)
		}
	}
	if count := u.named(); count != stock {
		return fmt.Errorf("the ranges name %s, and the stock is %d", Count(count, "unit"), stock)
	}
	return nil
}
