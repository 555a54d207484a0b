package executor

import (
	"fmt"
	"reflect"
	"testing"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/ledger/payload"
	"salectl/backends/memory"
	"salectl/executor/saletest"
	"salectl/spec"
	"salectl/units"
)

// TestFollowLaterPlans: buyers of units that a later plan has added are told their payloads, too.
func TestFollowLaterPlans(t *testing.T) {
	const name = "test"
	logs, log := memory.NewStore().Handle(nil), spec.UnitsLog(saletest.UID)
	saletest.Provision(t, logs, saletest.Declared(name, 2, 1, 1), []int64{2})
	g, fold := new(payloads), payload.NewLog(log)
	for generation := range 2 {
		saletest.Replan(t, logs, name, func(p *pb.Planned) {
			p.Units = []byte{1}
			if generation > 0 {
				plan := ledger.Hash{2}
				p.PlanDigest = plan[:]
				saletest.Deal(p, 0, 2)
			}
		})
		sale := saletest.LoadSale(t, logs, name)
		added := sale.Added()[generation]
		first := added.Units.First
		op, err := payload.Seal(nil, nil, log, added.Plan, first, []string{"seat"}, []units.Unit{{Name: fmt.Sprint("A", first)}, {Name: fmt.Sprint("A", first+1)}})
		if err != nil {
			t.Fatal(err)
		}
		var before []byte
		if generation > 0 {
			before, _, _ = logs.Read(t.Context(), log, 0, 0)
		}
		entry, err := fold.Entry(saletest.Planner, saletest.PlannedUs, op)
		if err == nil {
			err = logs.Append(t.Context(), log, fold.Next(), before, entry.Head, entry.Bytes)
		}
		if err == nil {
			err = fold.Apply(entry.Commit, entry.Hash)
		}
		if err != nil {
			t.Fatal(err)
		}
		g.follow(sale, logs, nil)
		a := Answer{Outcome: api.Sold, Claim: Claim{State: api.Sold, Units: []int64{first}}}
		if g.add(t.Context(), &a); a.Claim.Undelivered || !reflect.DeepEqual(a.Claim.Payloads, seats(fmt.Sprint("A", first))) {
			t.Errorf("of generation %d: told %+v", sale.Generation(), a.Claim)
		}
	}
}
