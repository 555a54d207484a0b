package apply

import (
	"context"
	"fmt"

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
			return x.Units.Payload(x.Rand, name, x.plan.Digest, added, first)
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
	return fmt.Errorf("the units of sale %s are encrypted, but the export needs their payloads: give the key", plan.Sale)
}
