package planner

import (
	"fmt"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// fixed refuses changes that a live sale does not allow.
func fixed(desired, old spec.Sale, actual *Actual, changed bool) error {
	startOver := fmt.Sprintf("Either destroy the sale and write metadata.run: %d, or declare a sale of another name.", old.Run+1)
	refuse := func(format string, args ...any) error {
		return &Refusal{Reason: fmt.Sprintf("sale %s is live, ", actual.Name) + fmt.Sprintf(format, args...), Remedy: startOver}
	}
	phase := actual.Sale.Newest().GetSettings().GetPhase()
	from, to, err := HomesOf(old, desired)
	if err != nil {
		return &Refusal{Reason: fmt.Sprintf("sale %s is live, and whether it would move cannot be told: %v", actual.Name, err)}
	}
	if err := fixedLists(desired, old, actual, refuse); err != nil {
		return err
	}
	if err := fixedUnits(desired.Units, old.Units, refuse); err != nil {
		return err
	}
	if err := fixedDraw(desired, old, actual, refuse); err != nil {
		return err
	}
	if end := desired.ClosesAt; desired.Protect && !end.IsZero() && !end.After(actual.At) && !end.Equal(old.ClosesAt) {
		if err := protected(desired, actual.Name, "its closesAt cannot become "+TimeText(end)+", which has passed"); err != nil {
			return err
		}
	}
	switch {
	case desired.LockCount != actual.Sale.Shards():
		return refuse("its lockCount cannot go from %d to %d: it decides where each user's claims are",
			actual.Sale.Shards(), desired.LockCount)
	case from.Ledger.Kind != to.Ledger.Kind || from.Ledger.Place != to.Ledger.Place:
		return refuse("it cannot move from %s to %s", from.Ledger.Place, to.Ledger.Place)
	case changed && phase == pb.Phase_CLOSED:
		return &Refusal{
			Reason: fmt.Sprintf("sale %s is closed, which is for good: no change of its declaration would matter", actual.Name),
			Remedy: startOver,
		}
	case !SameNodes(from.Locks, to.Locks) && phase != pb.Phase_PAUSED && actual.Sale.Applied() > 0:
		return &Refusal{
			Reason: fmt.Sprintf("sale %s is open, its lock nodes cannot go from %s to %s: two processes could each have a majority",
				actual.Name, nodeNames(from.Locks), nodeNames(to.Locks)),
			Remedy: pauseFirst,
		}
	}
	return nil
}

// fixedUnits refuses to change what the units of a live sale are.
func fixedUnits(desired, old *spec.Units, refuse func(string, ...any) error) error {
	switch {
	case (desired == nil) != (old == nil):
		return refuse("its units cannot begin or cease to be more than numbers")
	case desired == nil:
		return nil
	case desired.Secret != old.Secret:
		return refuse("its units cannot become secret, or cease to be")
	case desired.Choose != old.Choose:
		return refuse("whether its buyers may choose cannot change")
	}
	return nil
}
