package planner

import (
	"fmt"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
	"salectl/units"
)

// A plan refers to payloads by a digest only, since they may be secret and are large. An apply
// stores the payloads of new units in a log of their own before it appends the plan to the
// sale's log, after which the units may be sold. Payloads of a plan that is never appended are
// ignored: the sale's log records which plan added a unit.

// UnitsActual is the comparison of the planned sale's units with those of the present run.
type UnitsActual struct {
	Err error // why it is unknown; then the rest is empty

	Digest [32]byte       // digest of the declared payloads
	Added  int64          // number of declared units that the run lacks
	Gone   []ledger.Units // by shard: units no longer declared that are available there
	Taken  []int64        // units no longer declared that are not available
	// Leaving are, by shard, declared units that an earlier generation removes and the shard
	// has not removed yet.
	Leaving []ledger.Units

	Source *units.Source
	Change *units.Change // nil: all declared units are new
	Rows   []int64       // lengths of the rows of adjacent units among those added, in order
}

// rowsFrom returns the rows of the added units, whose first number is first.
func (u *UnitsActual) rowsFrom(first int64) (rows []*pb.Range) {
	if u == nil {
		return nil
	}
	for _, n := range u.Rows {
		rows = append(rows, &pb.Range{First: first, Count: n})
		first += n
	}
	return rows
}

// KeepUnits assumes that the planned sale has the units of the present run, for callers that
// do not read payloads.
func (a *Actual) KeepUnits() {
	if a.Sale.Live() {
		a.Units = &UnitsActual{}
		copy(a.Units.Digest[:], a.Sale.Newest().GetUnits())
	}
}

// payloadDigest compares the declared units with those of the sale and returns the digest of
// their payloads; nil if units are numbers.
func (p *planning) payloadDigest(desired spec.Sale) (digest []byte, err error) {
	is := p.actual.Units
	switch {
	case desired.Units == nil:
		return nil, nil
	case is == nil:
		return nil, fmt.Errorf("sale %s: the payloads of its units were not read", p.Sale)
	case is.Err != nil:
		return nil, is.Err
	}
	rows := len(is.Rows)
	if p.actual.Sale.Live() { // the rows of present units stay
		rows += len(p.actual.Sale.Newest().GetSettings().GetRows())
	}
	switch {
	case rows > ledger.MaxRows:
		return nil, Refuse("sale %s would have units in %d rows, with those that earlier plans added, and at most %d are counted with",
			p.Sale, rows, ledger.MaxRows).
			With("Leave choose out, or make of several rows one.")
	case len(is.Taken) > 0 && p.actual.Sale.Live() && string(p.actual.Sale.Newest().GetUnits()) == string(is.Digest[:]):
		p.warn("units that are no longer declared are claimed or in transfer: %s", spec.Numbers(is.Taken))
	case len(is.Taken) > 0:
		return nil, Refuse("sale %s no longer declares units that are claimed or in transfer: %s", p.Sale, spec.Numbers(is.Taken)).
			With("Declare them again, and count them in the stock. 'salectl audit --unit %d' shows who has unit %[1]d.", is.Taken[0])
	}
	return is.Digest[:], nil
}
