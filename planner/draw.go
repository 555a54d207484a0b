package planner

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// fixedDraw refuses to change the draw of a live sale. The hours are fixed after the close,
// when some shards may have ended their entries.
func fixedDraw(desired, old spec.Sale, actual *Actual, refuse func(string, ...any) error) error {
	switch {
	case (desired.Draw == nil) != (old.Draw == nil):
		return refuse("it cannot become a draw, or cease to be one")
	case desired.Draw == nil:
		return nil
	case desired.Draw.Substitutes != old.Draw.Substitutes:
		return Refuse("sale %s is live, and the substitutes of its draw cannot change from %d to %d", actual.Name, old.Draw.Substitutes, desired.Draw.Substitutes).
			With("Declare draw: {substitutes: %d}; without it, the number would follow the stock.", old.Draw.Substitutes)
	case (desired.Draw.Beacon == nil) != (old.Draw.Beacon == nil), desired.Draw.Beacon != nil && *desired.Draw.Beacon != *old.Draw.Beacon:
		return refuse("the beacon of its draw cannot change: values of another may be known already")
	case !desired.ClosesAt.Equal(old.ClosesAt) && drawCloses(old, actual):
		return Refuse("sale %s closed at %s and takes no entries any more: its closesAt cannot change", actual.Name, old.ClosesAt.Format(time.RFC3339Nano)).
			With("Declare closesAt as it was.")
	case old.Draw.Beacon != nil && desired.ClosesAt.After(old.ClosesAt):
		return Refuse("sale %s is drawn by round %s of %s, which must come after closesAt: closesAt cannot become later", actual.Name, old.Draw.Beacon.Round, old.Draw.Beacon.Name).
			With("Declare closesAt as it was, or an earlier time.")
	}
	return nil
}

// drawCloses reports whether some shard may have accepted its last entry.
func drawCloses(old spec.Sale, actual *Actual) bool {
	return actual.Sale.EntriesClosed() != nil || !actual.At.Before(old.ClosesAt)
}

// keepsWinners refuses to remove units from a draw that entries may have won.
func keepsWinners(old spec.Sale, actual *Actual, delta int64) error {
	if old.Draw == nil || !drawCloses(old, actual) {
		return nil
	}
	reason := "sale %s has closed, and a winner may get each of its units: "
	if is := actual.Units; is != nil && slices.ContainsFunc(is.Gone, func(u ledger.Units) bool { return len(u) > 0 }) {
		return Refuse(reason+"none can be exchanged", actual.Name).
			With("Declare the units as they were.")
	}
	if delta >= 0 {
		return nil
	}
	return Refuse(reason+"the stock cannot be lowered by %d", actual.Name, -delta).
		With("Declare the stock as it was.")
}

// MakeCloseDraw plans to publish the entries of a closed draw and nothing that follows from
// them, so that everybody can record the root before the order can be known. The plan is empty
// if that is done.
func MakeCloseDraw(actual *Actual) (*Plan, error) {
	p, old, err := drawPlan(actual)
	switch {
	case err != nil:
		return nil, err
	case actual.Sale.EntriesClosed() != nil:
		return p.Plan, nil
	}
	p.EntriesOnly = true
	return p.Plan, p.revealed(old, "entries are published")
}

// MakeReveal plans to reveal a closed draw with the value of its beacon's round. Nil: there is
// no value, which fallback must confirm. The plan is empty if all is published.
func MakeReveal(actual *Actual, beacon []byte, fallback bool) (*Plan, error) {
	p, old, err := drawPlan(actual)
	if err != nil {
		return nil, err
	}
	if p.Beacon, err = beaconGiven(actual.Sale, old.Draw.Beacon, beacon, fallback); err != nil || actual.Sale.Ranked() {
		return p.Plan, err
	}
	return p.Plan, p.revealed(old, "entries are published, the secret is revealed, and ranks are published")
}

// drawPlan returns an empty plan for the draw of a sale, and the newest declaration. It
// refuses a sale that is no draw or cannot be drawn yet.
func drawPlan(actual *Actual) (*planning, spec.Sale, error) {
	sale := actual.Sale
	if err := exists(actual, "is drawn"); err != nil {
		return nil, spec.Sale{}, err
	}
	if sale.Draw() == nil {
		return nil, spec.Sale{}, Refuse("sale %s is no draw", actual.Name).
			With("Declare queue: {order: draw} in a new run.")
	}
	old, err := Declared(sale.Newest())
	if err != nil {
		return nil, old, fmt.Errorf("sale %s: %w", actual.Name, err)
	}
	phase := sale.Newest().GetSettings().GetPhase()
	if phase != pb.Phase_CLOSED && actual.At.Before(old.ClosesAt) {
		return nil, old, Refuse("sale %s takes entries until %s", actual.Name, old.ClosesAt.Format(time.RFC3339)).
			With("Run it again then.")
	}
	if sale.Applied() < sale.Generation() { // units may still leave a shard, and must not be won
		return nil, old, Refuse("generation %d of sale %s has not reached every shard yet", sale.Generation(), actual.Name).
			With("Run 'salectl apply' first.")
	}
	p := newPlan(KindReveal, actual)
	return p, old, p.complete()
}

// revealed adds the action of a reveal and completes the plan.
func (p *planning) revealed(old spec.Sale, what string) error {
	attributes := saleAttributes(old, old.Stock, p.Phase, p.actual.Sale.Generation())
	p.updateSale(ReasonRequested, what, attributes, attributes)
	return p.complete()
}

// beaconGiven returns the value that determines the order. It refuses a value that contradicts
// the declaration or an earlier reveal.
func beaconGiven(sale *ledger.Sale, b *spec.Beacon, value []byte, fallback bool) ([]byte, error) {
	drawn := sale.Drawn()
	switch {
	case drawn != nil && (value != nil && !bytes.Equal(drawn.GetBeacon(), value) || fallback && len(drawn.GetBeacon()) > 0):
		return nil, &Refusal{Reason: "the draw is revealed already, " + DrawnBy(drawn), Remedy: "Leave the value out, to complete it."}
	case drawn != nil:
		return drawn.GetBeacon(), nil
	case b == nil && (len(value) > 0 || fallback):
		return nil, &Refusal{Reason: "the sale declares no beacon, but a value or the fallback was given", Remedy: "Leave it out."}
	case b != nil && len(value) == 0 && b.Fallback == spec.FallbackNone:
		return nil, Refuse("the order follows from round %s of %s, whose value was not given, and the sale declares no fallback", b.Round, b.Name).
			With("Pass the value, in hex, with --beacon. Until it is known, 'salectl draw close' publishes the entries.")
	case b != nil && len(value) == 0 && !fallback:
		return nil, Refuse("the order follows from round %s of %s, whose value was not given", b.Round, b.Name).
			With("Pass the value, in hex, with --beacon; or use --fallback if the beacon has none. Until it is known, 'salectl draw close' publishes the entries.")
	}
	return value, nil
}

// DrawnBy describes the beacon value of a reveal.
func DrawnBy(drawn *pb.Drawn) string {
	if len(drawn.GetBeacon()) == 0 {
		return "without a value of a beacon"
	}
	return "with the beacon's value " + hex.EncodeToString(drawn.GetBeacon())
}
