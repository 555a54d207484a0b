package planner

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// exists refuses an operation that requires a live sale.
func exists(actual *Actual, does string) error {
	switch sale := actual.Sale; {
	case actual.Lost() != "":
		return &Refusal{Reason: actual.Lost(), Remedy: LostRemedy}
	case sale.UID() == "":
		return Refuse("sale %s does not exist", actual.Name).With("Run 'salectl apply' first.")
	case !sale.Live():
		first := "" // steps before a new run
		if !sale.Destroyed() {
			first = "destroy it, "
		}
		return Refuse("sale %s is %s: nothing %s any more", actual.Name, sale.Phase(), does).
			With("To sell under this name again, %swrite metadata.run: %d and run 'salectl apply'.", first, sale.Run()+1)
	}
	return nil
}

// LostRemedy is the remedy for a sale that lock nodes have and the ledger lacks.
const LostRemedy = "Restore the ledger. A new run would sell all units again."

// protected refuses to end a sale whose newest generation declares protect.
func protected(old spec.Sale, name, refusal string) error {
	if !old.Protect {
		return nil
	}
	return Refuse("sale %s is protected: %s", name, refusal).
		With("If this is intended, remove metadata.protect from its file and run 'salectl apply' first.")
}

// HomesOf returns the location of a sale in an old and a new declaration. It fails if one of
// them declares none, as such locations cannot be compared.
func HomesOf(old, desired spec.Sale) (from, to spec.Homes, err error) {
	var errs [4]error
	from.Ledger, errs[0] = old.Ledger()
	from.Locks, errs[1] = old.Locks()
	to.Ledger, errs[2] = desired.Ledger()
	to.Locks, errs[3] = desired.Locks()
	return from, to, cmp.Or(errs[:]...)
}

// SameNodes reports whether two declarations name the same lock nodes, in any order.
func SameNodes(a, b spec.Home) bool {
	return a.Kind == b.Kind && slices.Equal(slices.Sorted(slices.Values(a.Nodes)), slices.Sorted(slices.Values(b.Nodes)))
}

// nodeNames lists the names of lock nodes for people.
func nodeNames(locks spec.Home) string {
	return strings.Join(slices.Sorted(slices.Values(locks.Nodes)), ", ")
}

func tooManyUnits(sale string, last int64) error {
	return Refuse("sale %s would number its units up to %d, above the maximum", sale, last).
		With("At most %d units can be dealt in the life of a sale.", int64(maxUnit))
}

// fixed refuses changes that a live sale does not allow.
func fixed(desired, old spec.Sale, actual *Actual, changed bool) error {
	startOver := fmt.Sprintf("Either destroy the sale and write metadata.run: %d, or declare a sale of another name.", old.Run+1)
	refuse := func(format string, args ...any) error {
		return Refuse("sale %s is live, "+format, append([]any{actual.Name}, args...)...).With("%s", startOver)
	}
	phase := actual.Sale.Newest().GetSettings().GetPhase()
	from, to, err := HomesOf(old, desired)
	if err != nil {
		return Refuse("sale %s is live, and its stores cannot be compared with those of the file: %v", actual.Name, err)
	}
	err = cmp.Or(fixedLists(desired, old, actual, refuse), fixedUnits(desired.Units, old.Units, refuse), fixedDraw(desired, old, actual, refuse))
	if err != nil {
		return err
	}
	if end := desired.ClosesAt; !end.IsZero() && !end.After(actual.At) && !end.Equal(old.ClosesAt) {
		if err := protected(desired, actual.Name, "its closesAt cannot become "+TimeText(end)+", which has passed"); err != nil {
			return err
		}
	}
	switch {
	case desired.LockCount != actual.Sale.Shards():
		return refuse("its lockCount cannot change from %d to %d: it determines the shard of each user",
			actual.Sale.Shards(), desired.LockCount)
	case from.Ledger.Kind != to.Ledger.Kind || from.Ledger.Place != to.Ledger.Place:
		return refuse("it cannot move from %s to %s", from.Ledger.Place, to.Ledger.Place)
	case changed && phase == pb.Phase_CLOSED:
		return Refuse("sale %s is closed for good: a change of its declaration would have no effect", actual.Name).With("%s", startOver)
	case !SameNodes(from.Locks, to.Locks) && phase != pb.Phase_PAUSED && actual.Sale.Applied() > 0:
		return actual.pauseFirst("its lock nodes cannot change from %s to %s: two processes could each have a majority",
			nodeNames(from.Locks), nodeNames(to.Locks))
	}
	return nil
}

// pauseFirst returns the refusal of a change for which the sale must be paused.
func (a *Actual) pauseFirst(format string, args ...any) error {
	return Refuse("sale %s is open, "+format, append([]any{a.Name}, args...)...).
		With("Run 'salectl pause' with the file as it was, then 'salectl apply', start the server anew, then run 'salectl resume'.")
}

// fixedUnits refuses to change what the units of a live sale are.
func fixedUnits(desired, old *spec.Units, refuse func(string, ...any) error) error {
	switch {
	case (desired == nil) != (old == nil):
		return refuse("its units cannot gain or lose payloads")
	case desired == nil:
		return nil
	case desired.Secret != old.Secret:
		return refuse("its units cannot become secret, or cease to be")
	case desired.Choose != old.Choose:
		return refuse("whether its buyers may choose cannot change")
	}
	return nil
}

// TableActual is the table of the logs.
type TableActual struct {
	Name string
	// Err is the result of ledger.Table.CheckTable; nil if the table is fit, or was not
	// checked (current.ReadSale).
	Err error
}

// Unfit reports whether the table was checked and does not fit a ledger.
func (t *TableActual) Unfit() bool { return t != nil && errors.Is(t.Err, ledger.ErrTableUnfit) }

// UnfitTable returns the refusal of a change if the table is unfit.
func UnfitTable(name string, err error) error {
	refusal := Refuse("table %s: %s", name, err)
	if unfit, is := errors.AsType[*ledger.UnfitError](err); is {
		refusal.Remedy = unfit.Remedy
	}
	return &DriftError{Address: TableAddress(name), Reason: ReasonTableUnfit, Err: refusal}
}

// table plans the creation of the table for a new run; the logs of a live sale are in it.
// fresh reports that the run is new.
func (p *planning) table(t *TableActual, fresh bool) error {
	switch {
	case t == nil || t.Err == nil:
	case t.Unfit():
		return UnfitTable(t.Name, t.Err)
	case !fresh:
		p.warn("table %s cannot be checked: %s; the sale continues", t.Name, ShortError(t.Err))
	case errors.Is(t.Err, ledger.ErrNoTable):
		p.add(Action{Address: TableAddress(t.Name), Action: Create, After: &Attributes{}, ActionReason: ReasonNew, Reason: "it does not exist"})
	default:
		return &StoreError{Err: fmt.Errorf("table %s cannot be checked, which a new sale needs: %w", t.Name, t.Err)}
	}
	return nil
}
