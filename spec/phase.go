package spec

import (
	"fmt"
	"slices"
	"time"
)

// Phase is the declared phase of a sale.
type Phase string

// Phases of a declaration.
const (
	PhaseOpen   Phase = "open" // within OpensAt and ClosesAt
	PhasePaused Phase = "paused"
	PhaseClosed Phase = "closed" // final
)

var phases = []Phase{PhaseOpen, PhasePaused, PhaseClosed}

// phase decodes the declared phase; "": none.
func (d *decoder) phase(o object) Phase {
	if o.keys["phase"] == nil {
		return ""
	}
	phase, _ := choice(d, o, "phase", phases...)
	return phase
}

func (p Phase) sane() error {
	if p != "" && !slices.Contains(phases, p) {
		return fmt.Errorf("the phase %q is not known to this program: use a newer one", p)
	}
	return nil
}

// times decodes the hours of a sale.
func (d *decoder) times(o object) (opens, closes time.Time) {
	opens, _ = d.time(o, "opensAt")
	closes, ok := d.time(o, "closesAt")
	if ok && !opens.IsZero() && !closes.After(opens) {
		d.refuse(o.values["closesAt"], "Let it close after it has opened.",
			"spec.closesAt is not after opensAt, which is on line %d", o.values["opensAt"].Line)
	}
	return opens, closes
}

// time decodes a time with or without quotes: YAML may take it for a date or text.
func (d *decoder) time(o object, key string) (time.Time, bool) {
	const example = "2026-11-11T20:00:00+08:00"
	v, ok := d.value(o, key)
	if !ok || !d.scalar(v, "a time", fmt.Sprintf("Write a time, such as %s: %s, or leave the key out.", key, example)) {
		return time.Time{}, false
	}
	t, f := readTime(v.node.Value)
	if f != nil {
		d.fault(v, f)
	}
	return t, f == nil
}

func timeOrNone(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}
