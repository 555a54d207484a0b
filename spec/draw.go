package spec

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"
)

// Draw says how a sale is drawn whose queue has OrderDraw: claims are entries until it
// closes, and then entries are ranked.
type Draw struct {
	KeyEnv  string // the environment variable with the key of the secret; or KeyFile
	KeyFile string // Load has resolved a relative path. Empty in a declaration read by FromJSON
	// Substitutes is how many ranks are drawn beyond the stock, for awards that come to
	// nothing. Where a document says nothing they are as many as the stock.
	Substitutes int64
	Beacon      *Beacon // nil: the order follows from entries and secret alone
}

// Beacon is a public source of randomness, and the round of it that the order follows
// from.
type Beacon struct {
	Name     string
	Round    string
	Fallback Fallback
}

// Fallback is what a draw does if the round of its beacon has no value.
type Fallback string

// The fallbacks of a beacon.
const (
	FallbackNone   Fallback = "none"   // the default: without the value nothing is revealed
	FallbackSecret Fallback = "secret" // the order follows from entries and secret alone
)

// Limits of a draw.
const (
	MaxRanks      = 10_000_000 // stock and substitutes
	MaxBeaconText = 255        // bytes of a beacon's name, and of its round
)

// draw takes how the sale is drawn.
func (d *decoder) draw(o object, s *Sale, engineOK bool) {
	v, declared := d.value(o, "draw")
	isDraw := s.Queue != nil && s.Queue.Order == OrderDraw
	if !declared {
		if isDraw && o.keys["draw"] == nil && !o.merged {
			d.refuse(o.keys["queue"], "Add draw: {keyEnv: DRAW_KEY}, the name of a variable with the output of openssl rand -base64 32; or keyFile, a file that holds it.",
				"%s has order: draw, and %s is not there", join(o.path, "queue"), join(o.path, "draw"))
		}
		return
	}
	if !isDraw && (s.Queue == nil || s.Queue.Order != "") {
		d.refuse(o.keys["draw"], "Add queue: {order: draw}, or remove draw.", "%s stands without order: draw in %s", v.path, join(o.path, "queue"))
	}
	if part, ok := d.object(v, reflect.TypeFor[drawPart]()); ok {
		s.Draw = d.drawOf(part, s.Stock)
	}
	if isDraw {
		d.drawn(o, s, engineOK)
	}
}

func (d *decoder) drawOf(o object, stock int64) *Draw {
	w := &Draw{Substitutes: stock, KeyEnv: d.env(o, "keyEnv")}
	if v, ok := d.value(o, "keyFile"); ok {
		w.KeyFile = d.keyFile(v)
	}
	switch env, file := o.keys["keyEnv"], o.keys["keyFile"]; {
	case env != nil && file != nil:
		d.beside(o, env, file, "Keep one of them.")
	case env == nil && file == nil && !o.merged:
		d.refuse(o.at, "Add keyEnv: DRAW_KEY, the name of a variable with the output of openssl rand -base64 32; or keyFile, a file that holds it.",
			"%s has neither keyEnv nor keyFile", o.path)
	}
	if v, ok := d.value(o, "substitutes"); ok {
		w.Substitutes, _ = d.number(v, 0, MaxRanks)
	}
	if v, ok := d.value(o, "beacon"); ok {
		w.Beacon = d.beacon(v)
	}
	return w
}

func (d *decoder) beacon(v value) *Beacon {
	o, ok := d.object(v, reflect.TypeFor[beaconPart]())
	if !ok {
		return nil
	}
	b := new(Beacon)
	if v, ok := d.value(o, "name"); ok {
		b.Name, _ = checked(d, v, "drand quicknet", checkBeacon)
	}
	if v, ok := d.value(o, "round"); ok {
		b.Round = d.round(v)
	}
	b.Fallback, _ = choice(d, o, "fallback", FallbackNone, FallbackSecret)
	return b
}

// round takes the round of a beacon, which is a number or text.
func (d *decoder) round(v value) string {
	if v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == "!!int" {
		n, _ := d.number(v, 0, math.MaxInt64)
		return fmt.Sprint(n)
	}
	text, _ := checked(d, v, "12345678", checkBeacon)
	return text
}

func checkBeacon(text string) *fault {
	switch {
	case strings.TrimSpace(text) == "" || strings.ContainsFunc(text, unicode.IsControl):
		return &fault{"is blank, or has a control character in it", "Write what people who verify the draw look the value up by."}
	case len(text) > MaxBeaconText:
		return &fault{fmt.Sprintf("has %d bytes, and may have %d", len(text), MaxBeaconText), "Shorten it."}
	}
	return nil
}

// drawn reports what does not go with a draw.
func (d *decoder) drawn(o object, s *Sale, engineOK bool) {
	queue := join(o.path, "queue")
	if o.keys["closesAt"] == nil && !o.merged {
		d.refuse(o.keys["queue"], "Add closesAt: entries are collected until then.", "%s has order: draw, and %s is not there", queue, join(o.path, "closesAt"))
	}
	if s.PerUserLimit > 1 {
		d.refuse(o.values["perUserLimit"], "Write perUserLimit: 1, or leave it out.", "%s is above 1 with order: draw: a user has one entry, which wins one unit", join(o.path, "perUserLimit"))
	}
	if s.Partial {
		d.refuse(o.keys["partial"], "Remove it.", "%s stands with order: draw, where an entry is for one unit", join(o.path, "partial"))
	}
	if s.Payment != nil && s.Payment.Late == LateResell {
		d.refuse(o.keys["payment"], "Write late: refuse, or leave it out.",
			"%s has late: resell with order: draw, where a unit that comes back is the next one's who has won", join(o.path, "payment"))
	}
	if s.Units != nil && s.Units.Choose {
		d.refuse(o.keys["units"], "Remove choose.", "%s has choose with order: draw, where nobody may choose", join(o.path, "units"))
	}
	if engineOK && s.Engine == EngineRedis {
		d.refuse(o.keys["queue"], "Use engine: ledger.", "%s has order: draw with engine: redis", queue)
	}
	if s.Draw != nil && s.Stock > MaxRanks-min(s.Draw.Substitutes, MaxRanks) {
		d.refuse(o.values["stock"], "Lower the stock, or draw.substitutes.", "%s and the substitutes of the draw are above %d, the most ranks there are", join(o.path, "stock"), MaxRanks)
	}
}

// saneDraw is the part of sane that says how a sale is drawn.
func (s Sale) saneDraw() error {
	isDraw := s.Queue != nil && s.Queue.Order == OrderDraw
	switch w := s.Draw; {
	case isDraw != (w != nil):
		return errors.New("order: draw stands without draw, or the other way round")
	case w == nil:
		return nil
	case s.Engine == EngineRedis || s.ClosesAt.IsZero() || s.PerUserLimit != 1 || s.Partial || s.Units != nil && s.Units.Choose:
		return errors.New("a draw needs engine ledger, closesAt and perUserLimit 1, and goes with neither partial nor units to choose")
	case s.Payment != nil && s.Payment.Late == LateResell:
		return errors.New("a draw resells to late payments")
	case w.KeyEnv != "" && w.KeyFile != "":
		return errors.New("the draw has two keys")
	case w.Substitutes < 0 || w.Substitutes > MaxRanks || s.Stock > MaxRanks-w.Substitutes:
		return fmt.Errorf("the draw has more than %d ranks, or less than none", MaxRanks)
	case w.Beacon == nil:
		return nil
	case checkBeacon(w.Beacon.Name) != nil || checkBeacon(w.Beacon.Round) != nil:
		return errors.New("the draw's beacon has no name or no round")
	case w.Beacon.Fallback != FallbackNone && w.Beacon.Fallback != FallbackSecret:
		return fmt.Errorf("the fallback %q is not known to this program: use a newer one", w.Beacon.Fallback)
	}
	return nil
}

// storedDraw is without the name of the key's file, as storedUnits is.
type storedDraw struct {
	KeyEnv      string        `json:"keyEnv,omitempty"`
	Substitutes int64         `json:"substitutes"`
	Beacon      *storedBeacon `json:"beacon,omitempty"`
}

type storedBeacon struct {
	Name     string   `json:"name"`
	Round    string   `json:"round"`
	Fallback Fallback `json:"fallback"`
}

func (w *Draw) stored() *storedDraw {
	if w == nil {
		return nil
	}
	out := &storedDraw{KeyEnv: w.KeyEnv, Substitutes: w.Substitutes}
	if b := w.Beacon; b != nil {
		out.Beacon = &storedBeacon{b.Name, b.Round, b.Fallback}
	}
	return out
}

func (in *storedDraw) read() *Draw {
	if in == nil {
		return nil
	}
	w := &Draw{KeyEnv: in.KeyEnv, Substitutes: in.Substitutes}
	if b := in.Beacon; b != nil {
		w.Beacon = &Beacon{b.Name, b.Round, b.Fallback}
	}
	return w
}
