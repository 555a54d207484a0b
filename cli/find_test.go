package cli

import (
	"testing"

	"salectl/backends/ledger"
	"salectl/backends/ledger/export"
	"salectl/backends/memory"
	"salectl/executor/saletest"
	"salectl/spec"
)

// An audit finds claims in what it has audited, even if a destroy deletes the logs of the shards
// right after that.
func TestAuditFindsClaimsOfItsCut(t *testing.T) {
	logs, sale := memory.NewStore().Handle(nil), saletest.Declared("tickets", 2, 1, 1)
	saletest.Provision(t, logs, sale, []int64{2})
	log := spec.ShardLog(saletest.UID, 0, 1)
	state := ledger.NewState(log)
	w, err := ledger.Load(t.Context(), logs, log, state)
	if err != nil {
		t.Fatal(err)
	}
	d := state.Draft(saletest.Planner, saletest.PlannedUs)
	d.Own("a:1")
	d.Claim("ada", "k", 1)
	e, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	saletest.Append(t, logs, w, e)
	a, err := auditFinding(t.Context(), logs, sale, export.Filter{User: "ada"}, func(*ledger.Sale, []*ledger.State) {
		if err := logs.Delete(t.Context(), log, 100); err != nil {
			t.Fatal(err)
		}
	})
	if err != nil || !a.OK || a.Sold != 1 || len(a.Found) != 1 || a.Found[0].User != "ada" {
		t.Errorf("%v, %+v found %+v", err, a.Report, a.Found)
	}
}
