package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"salectl/spec"
)

// exists refuses an operation that requires a live sale.
func exists(actual *Actual, does string) error {
	switch sale := actual.Sale; {
	case actual.Lost() != "":
		return &Refusal{Reason: actual.Lost(), Remedy: LostRemedy}
	case sale.UID() == "":
		return &Refusal{Reason: fmt.Sprintf("sale %s does not exist", actual.Name), Remedy: "Run 'salectl apply' first."}
	case !sale.Live():
		first := "" // steps before a new run
		if !sale.Destroyed() {
			first = "destroy it, "
		}
		return &Refusal{
			Reason: fmt.Sprintf("sale %s is %s: nothing %s any more", actual.Name, sale.Phase(), does),
			Remedy: fmt.Sprintf("To sell under this name again, %swrite metadata.run: %d and run 'salectl apply'.", first, sale.Run()+1),
		}
	}
	return nil
}

// LostRemedy is the remedy for a sale that lock nodes know and the ledger lacks.
const LostRemedy = "Put the ledger back. A new run sells all units again."

// protected refuses to end a sale whose newest generation declares protect.
func protected(old spec.Sale, name, refusal string) error {
	if !old.Protect {
		return nil
	}
	return &Refusal{
		Reason: fmt.Sprintf("sale %s is protected: %s", name, refusal),
		Remedy: "If that is meant, remove metadata.protect from its file and run 'salectl apply' first.",
	}
}

// HomesOf returns the location of a sale in an old and a new declaration. It fails if one of
// them does not tell, as such locations cannot be compared.
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
	return &Refusal{
		Reason: fmt.Sprintf("sale %s would number its units up to %d, beyond what can be counted with", sale, last),
		Remedy: fmt.Sprintf("At most %d units can be dealt in the life of a sale.", int64(maxUnit)),
	}
}
