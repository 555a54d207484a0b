package planner

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// A saved plan records an agreement and authorizes nothing: a process that can write its file
// can also write its digest. Commands carry out a plan that is made anew from the
// sale file and the ledger, if the saved plan agrees with it.

// Check returns the plan to carry out for a saved plan: the one that remake makes of the
// current state. If the two disagree, the error is ErrStale with the differences. If the
// sale's log has the saved plan, the result only completes it.
func (p *Plan) Check(desired spec.Sale, actual *Actual, remake func() (*Plan, error)) (*Plan, error) {
	sale := actual.Sale
	if err := errors.Join(p.CheckState(sale), p.checkDeclaration(desired, sale)); err != nil {
		return nil, err
	}
	agreed := p.storedIn(sale) || p.Kind == KindDestroy && p.UID == sale.UID() && !sale.Live()
	if agreed && p.Kind == KindApply {
		return completion(actual)
	}
	actual.Nonce = p.Nonce
	now, err := remake()
	if err != nil || agreed {
		return now, err
	}
	differs, err := p.differences(now)
	if err == nil && len(differs) > 0 {
		err = fmt.Errorf("%w: the file and the ledger of sale %s now require another one: %s; make a new plan", ErrStale, p.Sale, strings.Join(differs, ", "))
	}
	now.Digest = p.Digest // the sale's log refers to the saved plan
	return now, err
}

// completion returns a plan that completes the generations of a sale's log.
func completion(actual *Actual) (*Plan, error) {
	shards, err := actual.project()
	if err != nil {
		return nil, err
	}
	p := newPlan(KindApply, actual)
	return p.Plan, p.remaining(shards)
}

// differences lists the differences between a saved plan and the one made now. It ignores
// actions, summary and warnings, which change with nodes and claims, and the distribution of
// units over the shards of a live sale, as long as the totals agree.
func (p *Plan) differences(now *Plan) (differs []string, err error) {
	differ := func(name string, saved, now any) {
		differs = append(differs, fmt.Sprintf("%s is %v and not %v", name, cmp.Or(fmt.Sprint(now), "none"), cmp.Or(fmt.Sprint(saved), "none")))
	}
	note := func(name string, saved, now any) {
		if saved != now {
			differ(name, saved, now)
		}
	}
	note("kind", p.Kind, now.Kind)
	note("sale", p.Sale, now.Sale)
	note("run", p.Run, now.Run)
	note("generation", p.Generation, now.Generation)
	note("nonce", p.Nonce, now.Nonce)
	note("uid", p.UID, now.UID)
	note("beacon", hex.EncodeToString(p.Beacon), hex.EncodeToString(now.Beacon))
	note("entriesOnly", p.EntriesOnly, now.EntriesOnly)
	saved, err := p.planned()
	planned, err2 := now.planned()
	switch err := errors.Join(err, err2); {
	case err != nil, saved == nil && planned == nil: // the sale's log may have more slots by now
		return differs, err
	case saved == nil:
		return append(differs, "a new generation is due"), nil
	case planned == nil:
		return append(differs, "no new generation is due"), nil
	}
	note("phase", p.Phase, now.Phase)
	note("slot", p.Slot, now.Slot)
	note("after", hex.EncodeToString(p.After[:]), hex.EncodeToString(now.After[:]))
	if planned.GetGeneration() > 1 && len(saved.GetShards()) == len(planned.GetShards()) {
		saved.Shards, planned.Shards = unitTotals(saved.GetShards()), unitTotals(planned.GetShards())
	}
	if !bytes.Equal(saved.GetUnits(), planned.GetUnits()) {
		differs, saved.Units = append(differs, "the units have changed since the plan was made"), planned.GetUnits()
	}
	unlike("", saved.ProtoReflect(), planned.ProtoReflect(), differ)
	return differs, nil
}

// unlike reports the fields in which two messages differ.
func unlike(in string, saved, now protoreflect.Message, differ func(string, any, any)) {
	fields := now.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		name, a, b := in+f.JSONName(), saved.Get(f), now.Get(f)
		switch {
		case saved.Has(f) == now.Has(f) && a.Equal(b):
		case f.IsList() && a.List().Len() != b.List().Len():
			differ("the number of "+name, a.List().Len(), b.List().Len())
		case f.IsList(): // lists of messages only, in Planned and below
			i := 0
			for a.List().Get(i).Equal(b.List().Get(i)) {
				i++
			}
			differ(fmt.Sprintf("%s[%d]", name, i), a.List().Get(i).Message().Interface(), b.List().Get(i).Message().Interface())
		case f.Message() != nil && a.Message().IsValid() && b.Message().IsValid():
			unlike(name+".", a.Message(), b.Message(), differ)
		case f.Message() != nil:
			differ(name, a.Message().Interface(), b.Message().Interface())
		case f.Kind() == protoreflect.BytesKind:
			differ(name, fmt.Sprintf("%.8x…", a.Bytes()), fmt.Sprintf("%.8x…", b.Bytes()))
		case f.Enum() != nil:
			differ(name, enumText(f, a), enumText(f, b))
		default:
			differ(name, a, b)
		}
	}
}

func enumText(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	if known := f.Enum().Values().ByNumber(v.Enum()); known != nil {
		return known.Name()
	}
	return v
}

// unitTotals sums up the units added to and removed from all shards.
func unitTotals(shards []*pb.ShardChange) []*pb.ShardChange {
	sum := &pb.ShardChange{Add: []*pb.Range{{}}, Drop: []*pb.Range{{}}, Restore: []*pb.Range{{}}}
	for _, c := range shards {
		sum.Add[0].Count += countUnits(c.GetAdd())
		sum.Drop[0].Count += countUnits(c.GetDrop())
		sum.Restore[0].Count += countUnits(c.GetRestore())
		sum.Remove += c.GetRemove()
	}
	return []*pb.ShardChange{sum}
}

// Standing is the relation of the sale's log to the plan.
type Standing int

const (
	IsDue     Standing = iota // the plan's slot is the next one
	IsPlanned                 // the log has the plan
	IsEnded                   // the run is sealed or destroyed
	IsBehind                  // the log ends before the plan's slot
	IsOther                   // the log has diverged
)

// Standing returns the relation of the sale's log, as it was read, to the plan. intent is the op
// that the plan appends; nil: none.
func (p *Plan) Standing(intent *pb.Planned, s *ledger.Sale) Standing {
	switch {
	case s.Next() < p.Slot:
		return IsBehind
	case p.UID != "" && s.UID() == p.UID && !s.Live():
		return IsEnded
	case intent == nil && s.UID() == p.UID && s.Generation() == p.Generation:
		return IsPlanned
	case s.Root() == p.After:
		return IsDue
	}
	if p.storedIn(s) {
		return IsPlanned
	}
	return IsOther
}

// storedIn reports whether the sale's log has the plan.
func (p *Plan) storedIn(s *ledger.Sale) bool {
	for g := uint64(1); g <= s.Generation(); g++ {
		if s.PlannedAt(g) == p.Slot && string(s.Planned(g).GetPlanDigest()) == string(p.Digest[:]) {
			return true
		}
	}
	return false
}

// CheckState returns ErrStale if a plan could no longer be carried out when the sale's log was read.
// A caller with several plans checks all of them first. A plan that was carried out before,
// fully or in part, fits. An execution checks again.
func (p *Plan) CheckState(sale *ledger.Sale) error {
	intent, err := p.planned()
	if err != nil {
		return err
	}
	switch p.Standing(intent, sale) {
	case IsOther:
		return p.Changed(sale)
	case IsEnded:
		if p.Kind != KindDestroy {
			return Stale("was destroyed since the plan was made")
		}
	}
	return nil // the log ends before the plan's slot: the read lags
}

// checkDeclaration returns ErrStale if a plan of apply does not lead to the declaration in the sale
// file, because the file has changed or the plan was made for another. The sale's log was read
// as for CheckState.
func (p *Plan) checkDeclaration(desired spec.Sale, sale *ledger.Sale) error {
	intent, err := p.planned()
	if err != nil || p.Kind != KindApply {
		return err
	}
	repeats := intent == nil // of an earlier declaration
	if repeats {
		if intent = sale.Newest(); intent == nil {
			return nil // the read lags
		}
	}
	old, err := Declared(intent)
	switch {
	case err != nil && repeats:
		return fmt.Errorf("sale %s: %w", p.Sale, err)
	case err != nil:
		return fmt.Errorf("%w: sale %s: %w", ErrBadPlan, p.Sale, err)
	}
	if repeats && intent.GetSettings().GetPhase() == pb.Phase_CLOSED && desired.Phase != spec.PhaseOpen && desired.Phase != spec.PhasePaused {
		desired.Phase = old.Phase // as in nextPhase
	}
	_, changed, err := differ(desired, old)
	if err != nil || !changed {
		return err
	}
	var names []string
	for _, f := range (Action{Before: saleAttributes(old, old.Stock, "", 0), After: saleAttributes(desired, desired.Stock, "", 0)}).Fields() {
		names = append(names, f.Name)
	}
	return Stale("%s", strings.Join(append([]string{"has another declaration in its file than in the plan"}, names...), ", "))
}

// Changed returns the error of a plan whose sale has changed since. It names the newest generation, its author
// and its changes.
func (p *Plan) Changed(sale *ledger.Sale) error {
	newest, what := sale.Generation(), "has changed since the plan was made"
	if newest == 0 || sale.PlannedAt(newest) < p.Slot {
		return Stale("%s", what)
	}
	planned := sale.Planned(newest)
	if what += fmt.Sprintf(": generation %d", newest); planned.GetWho() != "" {
		what += " by " + planned.GetWho()
	}
	after, err := DeclaredAttributes(planned)
	if newest == 1 || err != nil {
		return Stale("%s", what)
	}
	before, err := DeclaredAttributes(sale.Planned(newest - 1))
	if err != nil {
		return Stale("%s", what)
	}
	var changes []string
	for _, f := range (Action{Before: before, After: after}).Fields() {
		changes = append(changes, fmt.Sprintf("%s %s -> %s", f.Name, cmp.Or(f.Before, "none"), cmp.Or(f.After, "none")))
	}
	if len(changes) > 0 {
		what += ": " + strings.Join(changes, ", ")
	}
	return Stale("%s", what)
}

// Stale returns the error of a plan that the sale has moved past.
func Stale(format string, args ...any) error {
	return fmt.Errorf("%w: the sale %s; make a new plan", ErrStale, fmt.Sprintf(format, args...))
}
