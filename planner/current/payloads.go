package current

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
	"salectl/units"
)

// Payloads supplies the payloads of the units that a plan adds, in order, for one execution.
type Payloads struct {
	source *units.Source
	change *units.Change
	digest [32]byte // digest of all declared payloads
	// SlotUnits is the maximum number of units in a slot.
	SlotUnits int

	at   int64 // index of the unit that next returns
	next func() (units.Unit, error, bool)
	stop func()
}

// PayloadsOf returns the payloads for a plan made from an Actual; nil if units are numbers or
// could not be read.
func PayloadsOf(a *planner.Actual) *Payloads {
	if a.Units == nil || a.Units.Err != nil {
		return nil
	}
	return &Payloads{source: a.Units.Source, change: a.Units.Change, digest: a.Units.Digest, SlotUnits: slotUnits}
}

// Check returns an error unless these are the payloads of the units that a plan adds. Plans
// without payloads always pass.
func (n *Payloads) Check(planned *pb.Planned) error {
	switch {
	case len(planned.GetUnits()) == 0 || planned.GetSettings().GetPhase() == pb.Phase_CLOSED:
		return nil
	case n == nil && !slices.ContainsFunc(planned.GetShards(), func(c *pb.ShardChange) bool { return len(c.GetAdd()) > 0 }):
		return nil
	case n == nil:
		return errors.New("the plan adds units, but their payloads are missing")
	case string(n.digest[:]) != string(planned.GetUnits()):
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
	for size := 0; size < slotSize && len(slot) < n.SlotUnits; {
		u, err, more := n.next()
		switch {
		case err != nil:
			return nil, err
		case !more:
			return slot, nil
		}
		if n.at++; n.at > i {
			slot = append(slot, u)
			size += sizeOf(u)
		}
	}
	return slot, nil
}

func sizeOf(u units.Unit) int {
	size := len(u.Name) + 2
	for _, a := range u.Attributes {
		size += len(a) + 2
	}
	return size
}

// all yields the new units of the source.
func (n *Payloads) all(yield func(units.Unit, error) bool) {
	enough := errors.New("enough")
	err := n.source.New(context.Background(), n.change, func(u units.Unit) error {
		if !yield(u, nil) {
			return enough
		}
		return nil
	})
	if err != nil && !errors.Is(err, enough) {
		yield(units.Unit{}, err)
	}
}

// Payload builds the payload of added units from first on.
func (n *Payloads) Payload(random io.Reader, log string, plan ledger.Hash, added ledger.Range, first int64) (*pb.Payload, error) {
	us, err := n.from(first - added.First)
	if err != nil {
		return nil, err
	}
	if len(us) == 0 || first+int64(len(us)) > added.First+added.Count {
		return nil, fmt.Errorf("the units have changed since the plan was made: %w", planner.ErrStale)
	}
	return payload.Seal(n.source.Key(), random, log, plan, first, n.source.Columns(), us)
}
