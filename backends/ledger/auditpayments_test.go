package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
)

// A payment buys one claim. Where it has bought several, on whatever shards, audits of the ledger
// and of an export report it until the others are refunded, and also a refund that is due.
func TestAuditOfSharedPayments(t *testing.T) {
	w := ledger.WorldOf(t, ledger.HeldSettings())
	settle := func(shard int, do func(d *ledger.Draft, claim func(int) ledger.Claim)) {
		d := w.Draft(shard)
		do(d, w.Shards[shard].Claim)
		w.Commit(shard, d)
	}
	want := func(warnings []string, problems ...string) {
		t.Helper()
		file := mustExport(t, w)
		for what, a := range map[string]*audit.Report{"ledger": mustAudit(t, w.Logs), "export": mustAuditExport(t, file)} {
			if a.OK != (len(problems) == 0) || !slices.Equal(a.Problems, problems) || !slices.Equal(a.Warnings, warnings) {
				t.Errorf("audit of the %s: %v\n%q\n%q", what, a.OK, a.Problems, a.Warnings)
			}
		}
	}
	for shard := range ledger.WorldShards {
		settle(shard, func(d *ledger.Draft, _ func(int) ledger.Claim) {
			for range 3 {
				d.Claim(w.Buyer(shard), "key", 1)
			}
		})
		settle(shard, func(d *ledger.Draft, claim func(int) ledger.Claim) {
			d.Confirm(claim(0), fmt.Sprint("own ", shard))
			d.Confirm(claim(1), "")
			d.Cancel(claim(2), "", "")
		})
	}
	want([]string{})
	settle(0, func(d *ledger.Draft, claim func(int) ledger.Claim) { d.Late(claim(2), "own 0") })
	owed := fmt.Sprintf(`payment "own 0" is owed back for claim %s and has bought claim %s: pay back, once, only the part that bought nothing`,
		w.Shards[0].Claim(2).ID(0), w.Shards[0].Claim(0).ID(0))
	want([]string{owed})

	ids := []string{w.Shards[0].Claim(0).ID(0)}
	for shard := range 2 {
		settle(shard, func(d *ledger.Draft, _ func(int) ledger.Claim) { d.Claim(w.Buyer(shard), "key", 1) })
		settle(shard, func(d *ledger.Draft, claim func(int) ledger.Claim) { d.Confirm(claim(3), "own 0") })
		ids = append(ids, w.Shards[shard].Claim(3).ID(shard))
	}
	slices.Sort(ids)
	owed = fmt.Sprintf(`payment "own 0" is owed back for claim %s and has bought 3 claims (%s, %s, %s): pay back, once, only the part that bought nothing`,
		w.Shards[0].Claim(2).ID(0), ids[0], ids[1], ids[2])
	want([]string{owed}, fmt.Sprintf(`payment "own 0" has bought 3 claims (%s, %s, %s), but a payment buys one claim: refund the others`, ids[0], ids[1], ids[2]))

	for shard := range 2 {
		settle(shard, func(d *ledger.Draft, claim func(int) ledger.Claim) { d.Refund(claim(3), "ada", "not paid", false) })
	}
	owing := []string{w.Shards[0].Claim(2).ID(0), w.Shards[0].Claim(3).ID(0), w.Shards[1].Claim(3).ID(1)}
	slices.Sort(owing)
	want([]string{fmt.Sprintf(`payment "own 0" is owed back for 3 claims (%s) and has bought claim %s: pay back, once, only the part that bought nothing`,
		strings.Join(owing, ", "), w.Shards[0].Claim(0).ID(0))})

	settle(0, func(d *ledger.Draft, claim func(int) ledger.Claim) {
		d.Return(claim(2), "own 0", "ada", "")
		d.Return(claim(3), "own 0", "ada", "")
	})
	want([]string{fmt.Sprintf(`payment "own 0" is owed back for claim %s and has bought claim %s: pay back, once, only the part that bought nothing`,
		w.Shards[1].Claim(3).ID(1), w.Shards[0].Claim(0).ID(0))})
	settle(1, func(d *ledger.Draft, claim func(int) ledger.Claim) { d.Return(claim(3), "own 0", "ada", "") })
	want([]string{})
}
