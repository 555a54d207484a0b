package planner

import (
	"fmt"
	"slices"
	"strings"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// fixed refuses changes of a live sale that cannot be made.
func fixed(desired, old spec.Sale, actual *Actual, changed bool) error {
	startOver := fmt.Sprintf("Either destroy the sale and write metadata.run: %d, or declare a sale of another name.", old.Run+1)
	refuse := func(format string, args ...any) error {
		return &Refusal{Reason: fmt.Sprintf("sale %s is live, ", actual.Name) + fmt.Sprintf(format, args...), Remedy: startOver}
	}
	phase := actual.Sale.Newest().GetSettings().GetPhase()
	if err := fixedLists(desired, old, actual, refuse); err != nil {
		return err
	}
	switch {
	case desired.LockCount != actual.Sale.Shards():
		return refuse("its lockCount cannot go from %d to %d: it decides where each user's claims are",
			actual.Sale.Shards(), desired.LockCount)
	case place(desired) != place(old):
		return refuse("it cannot move from %s to %s", place(old), place(desired))
	case changed && phase == pb.Phase_CLOSED:
		return &Refusal{
			Reason: fmt.Sprintf("sale %s is closed, which is for good: no change of its declaration would matter", actual.Name),
			Remedy: startOver,
		}
	case !slices.Equal(nodesOf(desired), nodesOf(old)) && phase != pb.Phase_PAUSED:
		return &Refusal{
			Reason: fmt.Sprintf("sale %s is open, its lock nodes cannot go from %s to %s: two processes could each have a majority",
				actual.Name, strings.Join(nodesOf(old), ", "), strings.Join(nodesOf(desired), ", ")),
			Remedy: "Run 'salectl pause', then 'salectl apply', start the server anew, then run 'salectl resume'.",
		}
	}
	return nil
}

// place names where a sale's logs are.
func place(s spec.Sale) string {
	if s.HBase != nil {
		return "the HBase table " + s.HBase.Table
	}
	return "embedded files"
}

// nodesOf returns the lock nodes in an order that does not matter.
func nodesOf(s spec.Sale) []string {
	if s.Redis == nil {
		return nil
	}
	return slices.Sorted(slices.Values(s.Redis.Nodes))
}

func tooManyUnits(sale string, last int64) error {
	return &Refusal{
		Reason: fmt.Sprintf("sale %s would number its units up to %d, beyond what can be counted with", sale, last),
		Remedy: fmt.Sprintf("At most %d units can be dealt in the life of a sale.", int64(maxUnit)),
	}
}
