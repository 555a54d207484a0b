package spec

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"unicode"

	"github.com/invopop/jsonschema"
	"gopkg.in/yaml.v3"
)

// Draw configures the draw of a sale with OrderDraw: claims are entries until the close, then
// entries are ranked.
type Draw struct {
	// KeyEnv is the environment variable with the key of the secret. Or KeyFile is set, resolved
	// by Load; it is not stored in ledgers, as Units.File.
	KeyEnv  string `yaml:"keyEnv,omitempty" json:"keyEnv,omitempty" oneof:"key" add:"keyEnv: DRAW_KEY, the name of a variable with the output of openssl rand -base64 32" form:"env" example:"DRAW_KEY" doc:"Environment variable with the key of the draw's secret: 32 bytes or more in base64."`
	KeyFile string `yaml:"keyFile,omitempty" json:"-" oneof:"key" unstored:"DRAW.key" add:"keyFile, a file that holds it" form:"key" example:"draw.key" doc:"File with that key. Excludes keyEnv."`
	// Substitutes is the number of ranks drawn beyond the stock, for awards that lapse. The
	// default of a document is the stock.
	Substitutes int64 `yaml:"substitutes,omitempty" json:"substitutes" min:"0" max:"10000000" doc:"Ranks beyond the stock, for awards that lapse. Default: as many as the stock."`
	// Beacon nil: entries and secret alone determine the order.
	Beacon *Beacon `yaml:"beacon,omitempty" json:"beacon,omitempty" doc:"Public randomness, mixed into the order so that the secret alone does not reveal it. Default: none."`
}

// Beacon is a public source of randomness, with the round that determines the order.
type Beacon struct {
	Name     string   `yaml:"name" json:"name" form:"beacon" example:"drand quicknet" doc:"Name of the beacon, for people who verify the draw."`
	Round    string   `yaml:"round" json:"round" form:"round" doc:"Number or text of a round that comes after closesAt."`
	Fallback Fallback `yaml:"fallback,omitempty" json:"fallback" words:"none secret" default:"none" doc:"If the beacon has no value for the round: none draws nothing, secret draws by entries and secret alone."`
}

// Fallback is what a draw does if the round of its beacon has no value.
type Fallback string

// Fallbacks of a beacon.
const (
	FallbackNone   Fallback = "none"   // default: nothing is revealed without the value
	FallbackSecret Fallback = "secret" // entries and secret alone determine the order
)

// Limits of a draw.
const (
	MaxRanks      = 10_000_000 // stock plus substitutes
	MaxBeaconText = 255        // bytes of a beacon's name, and of its round
)

func roundSchema(s *jsonschema.Schema) {
	s.Type = ""
	s.OneOf = []*jsonschema.Schema{{Type: "integer", Minimum: "0"}, {Type: "string", Pattern: notBlank}}
}

// draw checks the draw of a sale.
func (d *decoder) draw(s *Sale) {
	o := d.objects["spec"]
	isDraw := s.Queue != nil && s.Queue.Order == OrderDraw
	if _, declared := d.value(o, "draw"); !declared {
		if isDraw && o.keys["draw"] == nil && !o.merged {
			d.refuse(o.keys["queue"], adding(blockOf(reflect.TypeFor[Draw]()).groups[0].options)+", in draw.",
				"%s has order: draw, but %s is missing", join(o.path, "queue"), join(o.path, "draw"))
		}
		return
	}
	if !isDraw && (s.Queue == nil || s.Queue.Order != "") {
		d.refuse(o.keys["draw"], "Add queue: {order: draw}, or remove draw.", "%s needs order: draw in %s", join(o.path, "draw"), join(o.path, "queue"))
	}
	if s.Draw != nil && d.objects["spec.draw"].keys["substitutes"] == nil {
		s.Draw.Substitutes = s.Stock
	}
	if isDraw {
		d.drawn(o, s, s.Draw)
	}
}

// round decodes the round of a beacon, a number or text.
func (d *decoder) round(v value, _ *option) (any, bool) {
	if v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == "!!int" {
		n, ok := d.number(v, 0, math.MaxInt64)
		return fmt.Sprint(n), ok
	}
	return checked(d, v, "12345678", checkBeacon)
}

func checkBeacon(text string) *fault {
	switch {
	case strings.TrimSpace(text) == "" || strings.ContainsFunc(text, unicode.IsControl):
		return &fault{"is blank, or has a control character in it", "Write the text by which verifiers of the draw look up the value."}
	case len(text) > MaxBeaconText:
		return &fault{fmt.Sprintf("has %d bytes, at most %d are allowed", len(text), MaxBeaconText), "Shorten it."}
	}
	return nil
}

// drawn reports options that conflict with a draw.
func (d *decoder) drawn(o object, s *Sale, w *Draw) {
	queue := join(o.path, "queue")
	if o.keys["closesAt"] == nil && !o.merged {
		d.refuse(o.keys["queue"], "Add closesAt: entries are collected until then.", "%s has order: draw, but %s is missing", queue, join(o.path, "closesAt"))
	}
	if s.PerUserLimit > 1 {
		d.refuse(o.values["perUserLimit"], "Write perUserLimit: 1, or leave it out.", "%s is above 1 with order: draw: a user has one entry, which wins one unit", join(o.path, "perUserLimit"))
	}
	if s.Partial {
		d.refuse(o.keys["partial"], "Remove it.", "%s does not fit order: draw, where an entry wins one unit", join(o.path, "partial"))
	}
	if s.Payment != nil && s.Payment.Late == LateResell {
		d.refuse(o.keys["payment"], "Write late: refuse, or leave it out.",
			"%s has late: resell, which does not fit order: draw: returned units go to the next winner", join(o.path, "payment"))
	}
	if s.Units != nil && s.Units.Choose {
		d.refuse(o.keys["units"], "Remove choose.", "%s has choose, which does not fit order: draw", join(o.path, "units"))
	}
	if s.Engine == EngineRedis {
		d.refuse(o.keys["queue"], "Use engine: ledger.", "%s has order: draw, which does not fit engine: redis", queue)
	}
	if w != nil && s.Stock > MaxRanks-min(w.Substitutes, MaxRanks) {
		d.refuse(o.values["stock"], "Lower the stock, or draw.substitutes.", "%s and the substitutes of the draw are above %d, the most ranks there are", join(o.path, "stock"), MaxRanks)
	}
}

// saneDraw checks the draw for sane.
func (s Sale) saneDraw() error {
	isDraw := s.Queue != nil && s.Queue.Order == OrderDraw
	switch w := s.Draw; {
	case isDraw != (w != nil):
		return errors.New("order: draw and the block draw need each other")
	case w == nil:
		return nil
	case s.Engine == EngineRedis || s.ClosesAt.IsZero() || s.PerUserLimit != 1 || s.Partial || s.Units != nil && s.Units.Choose:
		return errors.New("a draw needs engine ledger, closesAt and perUserLimit 1, and goes with neither partial nor units to choose")
	case s.Payment != nil && s.Payment.Late == LateResell:
		return errors.New("a draw resells to late payments")
	case w.Substitutes > MaxRanks || s.Stock > MaxRanks-w.Substitutes:
		return fmt.Errorf("the draw has more than %d ranks, or less than none", MaxRanks)
	}
	return nil
}
