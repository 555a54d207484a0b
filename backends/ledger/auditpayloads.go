package ledger

import (
	"context"
	"errors"

	"salectl/spec"
)

// What an audit knows of what units are, where they are more than numbers: that it is stored of
// each. What it is needs the key, and is held against the declaration by a plan.

// payloadBook is the log of units as an audit reads it; nil where units are numbers.
type payloadBook struct {
	fold   *Payloads
	damage error // why it cannot be read further
}

func newPayloadBook(sale *Sale) *payloadBook {
	if len(sale.Newest().GetUnits()) == 0 {
		return nil
	}
	return &payloadBook{fold: NewPayloads(spec.UnitsLog(sale.UID()))}
}

// read reads the log, and again a few times while it does not say what units are that were added:
// a read may lag.
func (g *payloadBook) read(ctx context.Context, logs Logs, added []Added) error {
	if g == nil {
		return nil
	}
	for try := 1; ; try++ {
		_, err := Load(ctx, logs, g.fold.log, g.fold)
		switch {
		case errors.Is(err, ErrCorrupt) || errors.Is(err, ErrGone):
			g.damage = err
			return nil
		case err != nil || try == MissingTries || len(g.lacks(added)) == 0:
			return err
		}
		if err := Wait(ctx, logs, MissingPause); err != nil {
			return err
		}
	}
}

// lacks are units that plans have added and of which the log does not say what they are.
func (g *payloadBook) lacks(added []Added) (all []Units) {
	for _, plan := range added {
		lacks := Units{plan.Units}
		if known := g.fold.plans[plan.Plan]; known != nil {
			for _, p := range known.parts {
				lacks = lacks.minus(Units{p.units})
			}
		}
		if len(lacks) > 0 {
			all = append(all, lacks)
		}
	}
	return all
}

// gone reports whether the log has nothing that could be read.
func (g *payloadBook) gone() bool {
	return g != nil && (g.fold.next == 0 || errors.Is(g.damage, ErrGone))
}

// checkPayloads checks that the log has the payload of each unit that plans had added before the
// log was read.
func (a *Audit) checkPayloads(g *payloadBook, added []Added) {
	if g == nil {
		return
	}
	if g.damage != nil {
		a.problem("what the units are: %v", g.damage)
	}
	for _, lacks := range g.lacks(added) {
		a.problem("units %v are in the sale, and what they are is not stored", lacks)
	}
}
