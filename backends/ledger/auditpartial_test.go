package ledger_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
)

// Parts that no draft would give are refused by the reducer, and found by the audit's own
// book.
func TestPartsThatAreNone(t *testing.T) {
	const partial = "in a sale whose partial is "
	for name, test := range map[string]struct {
		settings  *pb.Settings
		requested uint32
		units     int // of 10
		want      string
		problem   string
	}{
		"in a sale that gives none": {ledger.PhaseSettings(pb.Phase_OPEN), 4, 3, "gets all or nothing", "of 3 units of 4 requested, " + partial + "false"},
		"requested as many":         {ledger.SomeSettings(), 3, 3, "a claim of 3 units that requested 3", "of 3 units of 3 requested, " + partial + "true"},
		"requested fewer":           {ledger.SomeSettings(), 2, 3, "a claim of 3 units that requested 2", "of 3 units of 2 requested, " + partial + "true"},
		"more are there": {ledger.SomeSettings(), 3, 2, "a claim of 2 units that requested 3, of a user who has 0, where 10 are available",
			partial + "true, where 1 more could be given"},
		"the limit":      {ledger.SomeSettings(), 4, 3, "", ""},
		"all of it":      {ledger.SomeSettings(), 0, 2, "", ""},
		"none requested": {ledger.PhaseSettings(pb.Phase_OPEN), 0, 2, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			part := func(user string, first int64) *pb.Op {
				var units []int64
				for i := range test.units {
					units = append(units, first+int64(i))
				}
				op := ledger.ClaimOp(user, "k", units...)
				op.GetClaim().Requested = test.requested
				return op
			}
			s := ledger.BegunState(t)
			ledger.MustFold(t, s, ledger.By(ledger.GenerationOp(2, 0, test.settings)))
			_, err := ledger.FoldCommit(s, ledger.By(part("u", 1)))
			if test.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
			w := ledger.WorldOf(t, test.settings)
			w.Plant(0, part(w.Buyer(0), 1))
			a := mustAudit(t, w.Logs)
			if problems := strings.Join(a.Problems, "\n"); test.problem != "" && !strings.Contains(problems, test.problem) || test.problem == "" && strings.Contains(problems, partial) {
				t.Errorf("%q", a.Problems)
			}
		})
	}
}

// The requested quantity is in the export only for users who were given less; memory that a
// draft uses again has nothing of it.
func TestExportOfParts(t *testing.T) {
	w := ledger.WorldOf(t, ledger.SomeSettings())
	d := w.Draft(0)
	d.DecideClaim(ledger.Ruling{}, w.Buyer(0), "k", 5, ledger.Demand{Partial: true})
	w.Commit(0, d)
	d.Reset(w.TimeUs)
	d.Claim(w.Buyer(0), "k", 2)
	w.Commit(0, d)
	for i, want := range []int64{5, 0} {
		c := w.Shards[0].Claim(i)
		if line := claimLines(t, w)[i]; c.Requested != want || line.Requested != want {
			t.Errorf("claim %d requested %d, exported %d, want %d", i, c.Requested, line.Requested, want)
		}
	}
	w.End()
	file := mustExport(t, w)
	if n := strings.Count(string(file), `"requested":5`); n != 1 || strings.Count(string(file), `"requested"`) != 1 {
		t.Errorf("%d lines of the export have it", n)
	}
	if a := mustAudit(t, w.Logs); !a.OK {
		t.Error(a.Problems)
	}
}

// An expired part that is paid late is sold with as many units as it had, and its request
// still is one for the requested quantity.
func TestResaleOfAPart(t *testing.T) {
	settings := ledger.HeldSettings()
	settings = proto.CloneOf(settings)
	settings.Partial = true
	w := ledger.WorldOf(t, settings)
	d := w.Draft(0)
	user := w.Buyer(0)
	d.DecideClaim(ledger.Ruling{}, user, "k", 5, ledger.Demand{Partial: true})
	w.Commit(0, d)
	w.TimeUs += 1_001_000
	d = w.Draft(0)
	d.Expire(w.Shards[0].Claim(0))
	d.Claim(w.Buyer(0), "k", 1) // of its units
	if v := d.Late(w.Shards[0].Claim(0), "payment"); v.Kind != ledger.SettleDone || len(v.Claim.Units) != 3 || v.Claim.Requested != 5 {
		t.Errorf("%+v", v)
	}
	w.Commit(0, d)
	if v, ok := w.Shards[0].Recall(user, "k", 5, w.TimeUs, ledger.Demand{}); !ok || v.Kind != ledger.Replay || v.Claim.State != ledger.StateSold {
		t.Errorf("%+v, %v", v, ok)
	}
	if a := mustAudit(t, w.Logs); !a.OK {
		t.Error(a.Problems)
	}
}
