package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/ledger/payload"
	"salectl/planner"
	"salectl/planner/machine"
	"salectl/spec"
	"salectl/units"
)

// storeUnits stores the payloads of the plan's new units, if there are any. The plan's slot
// must be the next of the sale's log. Another process that carries out the same plan stores the
// same slots, and neither repeats a slot of the other.
func (x *execution) storeUnits() {
	if x.Units == nil {
		return
	}
	first := int64(1)
	if x.intent.GetGeneration() > 1 {
		first = x.sale.Newest().GetNextUnit()
	}
	added := ledger.Range{First: first, Count: x.intent.GetNextUnit() - first}
	if added.Count <= 0 {
		return
	}
	x.begin("storing payloads")
	name := spec.UnitsLog(x.intent.GetUid())
	fold := payload.NewLog(name)
	log := &machine.Log{Core: x.core, Writer: ledger.NewWriter(name, fold), Apply: func(e *ledger.Entry) error {
		return fold.Apply(e.Commit, e.Hash)
	}}
	for e := log.Read(); ; {
		switch e {
		case ledger.Gone:
			x.stale("was destroyed meanwhile")
		case ledger.Again: // the log of a run that is not planned yet is never deleted
			x.core.Sleep(againPause)
			e = log.Resend()
			continue
		}
		first := max(fold.Stored(x.plan.Digest), added.First)
		if first >= added.First+added.Count {
			return
		}
		p, err := machine.OnStore(x.core, "read units", machine.CallTimeout, func(context.Context, ledger.Logs) (*pb.Payload, error) {
			return x.Units.payload(x.Rand, name, x.plan.Digest, added, first)
		})
		x.core.Check(err)
		entry, err := fold.Entry(x.Writer, x.timeUs(), p)
		x.core.Check(err)
		e = log.Append(entry)
	}
}

// keyFits refuses to end a sale whose payloads cannot be decrypted: the export contains them.
func keyFits(plan *planner.Plan, planned *pb.Planned, key *units.Key) error {
	if plan.Kind != planner.KindDestroy || planned == nil || !planned.GetSettings().GetSecret() || key != nil {
		return nil
	}
	return fmt.Errorf("the units of sale %s are encrypted, but the export needs their payloads: provide the key", plan.Sale)
}

// Payloads supplies the payloads of the units that a plan adds, in order, for one execution.
type Payloads struct {
	*planner.UnitsActual
	slotUnits int // maximum number of units in a slot

	at   int64 // index of the unit that next returns
	next func() (units.Unit, error, bool)
	stop func()
}

// PayloadsOf returns the payloads for a plan made from an Actual; nil if units are numbers.
func PayloadsOf(a *planner.Actual) (*Payloads, error) {
	switch {
	case a.Units == nil:
		return nil, nil
	case a.Units.Err != nil:
		return nil, a.Units.Err
	}
	return &Payloads{UnitsActual: a.Units, slotUnits: slotUnits}, nil
}

// check returns an error unless these are the payloads of the units that a plan adds. Plans
// without payloads always pass.
func (n *Payloads) check(planned *pb.Planned) error {
	switch {
	case len(planned.GetUnits()) == 0 || planned.GetSettings().GetPhase() == pb.Phase_CLOSED:
		return nil
	case n == nil && !slices.ContainsFunc(planned.GetShards(), func(c *pb.ShardChange) bool { return len(c.GetAdd()) > 0 }):
		return nil
	case n == nil:
		return errors.New("the plan adds units, but their payloads are missing")
	case string(n.Digest[:]) != string(planned.GetUnits()):
		return fmt.Errorf("%w: the units have changed since the plan was made; make a new plan", planner.ErrStale)
	}
	return nil
}

// Close stops the reading of payloads.
func (n *Payloads) Close() {
	if n != nil && n.stop != nil {
		n.stop()
		n.next, n.stop, n.at = nil, nil, 0
	}
}

// slotSize is the approximate size of a slot in bytes and slotUnits its maximum number of
// units. To read one unit, a whole slot is read and decrypted.
const (
	slotSize  = 64 << 10
	slotUnits = 4096
)

// from returns the units from the i-th on that fit into a slot; none after the last.
func (n *Payloads) from(i int64) (slot []units.Unit, err error) {
	if n.next == nil || i < n.at {
		n.Close()
		n.next, n.stop = iter.Pull2(n.all)
	}
	for size := 0; size < slotSize && len(slot) < n.slotUnits; {
		u, err, more := n.next()
		switch {
		case err != nil:
			return nil, err
		case !more:
			return slot, nil
		}
		if n.at++; n.at > i {
			slot = append(slot, u)
			size += len(u.Name) + 2
			for _, a := range u.Attributes {
				size += len(a) + 2
			}
		}
	}
	return slot, nil
}

// all yields the new units of the source.
func (n *Payloads) all(yield func(units.Unit, error) bool) {
	enough := errors.New("enough")
	err := n.Source.Read(context.Background(), n.Change, func(u units.Unit, added bool) error {
		if added && !yield(u, nil) {
			return enough
		}
		return nil
	})
	if err != nil && !errors.Is(err, enough) {
		yield(units.Unit{}, err)
	}
}

// payload builds the payload of added units from first on.
func (n *Payloads) payload(random io.Reader, log string, plan ledger.Hash, added ledger.Range, first int64) (*pb.Payload, error) {
	us, err := n.from(first - added.First)
	if err != nil {
		return nil, err
	}
	if len(us) == 0 || first+int64(len(us)) > added.First+added.Count {
		return nil, fmt.Errorf("the units have changed since the plan was made: %w", planner.ErrStale)
	}
	return payload.Seal(n.Source.Key(), random, log, plan, first, n.Source.Columns(), us)
}
