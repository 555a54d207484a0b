package spec

import (
	"fmt"
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

// hours checks the hours of a sale.
func (d *decoder) hours(o object, s *Sale) {
	if !s.OpensAt.IsZero() && !s.ClosesAt.IsZero() && !s.ClosesAt.After(s.OpensAt) {
		d.refuse(o.values["closesAt"], "Write a closesAt after opensAt.",
			"spec.closesAt is not after opensAt, which is on line %d", o.values["opensAt"].Line)
	}
}

// time decodes a time with or without quotes: YAML may take it for a date or text. It returns
// the zero time if there is a problem.
func (d *decoder) time(v value, example string) time.Time {
	if !d.scalar(v, "a time", fmt.Sprintf("Write a time, such as %s: %s, or leave the key out.", v.key, example)) {
		return time.Time{}
	}
	t, f := readTime(v.node.Value)
	if f != nil {
		d.fault(v, f)
	}
	return t
}
