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

// storing stores the payloads of the units that a plan adds. Another process that carries out
// the same plan stores the same slots, and neither repeats a slot of the other.
type storing struct {
	x     *execution
	log   *machine.Log
	fold  *payload.Log
	plan  ledger.Hash
	added ledger.Range
	then  func()
}

// storeUnits stores the payloads of the plan's new units, if there are any. The plan's slot
// must be the next of the sale's log.
func (x *execution) storeUnits(then func()) {
	if x.Units == nil {
		then()
		return
	}
	first := int64(1)
	if x.intent.GetGeneration() > 1 {
		first = x.sale.Newest().GetNextUnit()
	}
	added := ledger.Range{First: first, Count: x.intent.GetNextUnit() - first}
	if added.Count <= 0 {
		then()
		return
	}
	x.begin(storingUnits)
	name := spec.UnitsLog(x.intent.GetUid())
	fold := payload.NewLog(name)
	s := &storing{x: x, fold: fold, plan: x.plan.Digest, added: added, then: then}
	s.log = &machine.Log{Core: x.core, Writer: ledger.NewWriter(name, fold), Apply: func(e *ledger.Entry) error {
		return fold.Apply(e.Commit, e.Hash)
	}}
	s.log.Read(s.look)
}

// look stores the next slot.
func (s *storing) look(e ledger.Event) {
	switch e {
	case ledger.Gone:
		s.x.stale("was destroyed meanwhile")
		return
	case ledger.Again: // the log of a run that is not planned yet is never deleted
		s.x.core.After(againPause, func() { s.log.Resend(s.look) })
		return
	}
	first := max(s.fold.Stored(s.plan), s.added.First)
	if first >= s.added.First+s.added.Count {
		s.then()
		return
	}
	read := func(context.Context, ledger.Logs) (*pb.Payload, error) {
		return s.x.Units.Payload(s.x.Rand, s.log.Writer.Log(), s.plan, s.added, first)
	}
	machine.OnStore(s.x.core, "read units", machine.CallTimeout, read, func(p *pb.Payload, err error) {
		if err != nil {
			s.x.core.End(err)
			return
		}
		entry, err := s.fold.Entry(s.x.Writer, s.x.timeUs(), p)
		if err != nil {
			s.x.core.End(err)
			return
		}
		s.log.Append(entry, s.look)
	})
}

// keyFits refuses to end a sale whose payloads cannot be decrypted: the export contains them.
func keyFits(plan *planner.Plan, planned *pb.Planned, key *units.Key) error {
	if plan.Kind != planner.KindDestroy || planned == nil || !planned.GetSettings().GetSecret() || key != nil {
		return nil
	}
	return fmt.Errorf("the units of sale %s are encrypted, and the export is to say what was sold: give the key", plan.Sale)
}
