package check

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
	"salectl/units"
)

// nameUnits stores what the units of a plan are from the first on, if its declaration names
// them, and has the plan say so.
func (w *world) nameUnits(p *pb.Planned, first int64) {
	w.t.Helper()
	names := declaredNames(p.GetSpec())
	if names == nil {
		return
	}
	plan := sha256.Sum256(fmt.Append(p.GetSpec(), p.GetGeneration()))
	all := sha256.Sum256(p.GetSpec())
	p.PlanDigest, p.Units = plan[:], all[:]
	if p.GetNextUnit() > first {
		w.storeNames(p.GetPlanDigest(), first, names[first-1:min(p.GetNextUnit()-1, int64(len(names)))]...)
	}
}

// storeNames appends to the log of units.
func (w *world) storeNames(plan []byte, first int64, names ...string) {
	w.t.Helper()
	var all []units.Unit
	for _, name := range names {
		all = append(all, units.Unit{Name: name})
	}
	e, err := w.payloadLogs.Entry(planner, w.at.Microseconds(), &pb.Payload{
		Plan: plan, First: first, Count: int64(len(names)), Columns: []string{"name"}, Units: units.Pack(nil, all),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.stored(payloadLog(w.uid), w.payloadLogs.Next(), e.Bytes, e.Head)
	if err := w.payloadLogs.Apply(e.Commit, e.Hash); err != nil {
		w.t.Fatal(err)
	}
}

// named is a sale of the units A1 to A6.
func named(t testing.TB) *world { return namedAs(t, "A1-A6") }

// namedAs is a sale of six units that declares a range.
func namedAs(t testing.TB, declared string) *world {
	w := emptyWorld(t)
	w.names(declared)
	w.serve()
	return w
}

// names has the next generations declare ranges of units, also such as no sale file may.
func (w *world) names(ranges ...string) {
	declared := spec.Sale{
		Name: "tickets", Run: 1, Stock: 6, LockCount: shards, PerUserLimit: 2, LockTTL: spec.Duration(time.Second), Embedded: &spec.Embedded{},
		Units: &spec.Units{Ranges: []string{"A1-A6"}},
	}
	said, err := declared.JSON()
	if err != nil {
		w.t.Fatal(err)
	}
	w.said = strings.Replace(string(said), "A1-A6", strings.Join(ranges, `","`), 1)
}

// plantNames adds ops to the first commit in the log of units: payloads of unit 1 by the first
// plan, with these bytes.
func (w *world) plantNames(packed ...[]byte) {
	w.t.Helper()
	w.rewrite(payloadLog(w.uid), func(slot int, c *pb.Commit) {
		if slot > 0 {
			return
		}
		plan := c.GetOps()[0].GetPayload().GetPlan()
		for _, b := range packed {
			c.Ops = append(c.Ops, &pb.Op{Op: &pb.Op_Payload{Payload: &pb.Payload{Plan: plan, First: 1, Count: 1, Columns: []string{"name"}, Units: b}}})
		}
	})
}

func packedName(name string) []byte { return units.Pack(nil, []units.Unit{{Name: name}}) }

func isPlanned(op *pb.Op) bool { return op.GetPlanned() != nil }

func TestToleratedNames(t *testing.T) {
	w := named(t)
	w.buy(w.user(0), "k", 2)
	w.names("A1-A8")
	w.planBy(1, pb.Phase_OPEN)
	w.plantNames(packedName("A1")) // once more by another apply of the same plan
	for _, p := range Check(w.h) {
		t.Error(p)
	}
}

// namedFaults are what is found where units have names.
var namedFaults = map[string]planted{
	"names without a digest": {named, func(w *world) {
		w.change(isPlanned, func(_ *pb.Commit, op *pb.Op) { op.GetPlanned().Units = nil })
	}, "payloads"},
	"a unit without a name": {func(t testing.TB) *world { return namedAs(t, "A1-A5") }, nothingTo, "payloads"},
	"two units of one name": {named, func(w *world) { w.names("A1-A6", "A5-A6"); w.planBy(1, pb.Phase_OPEN) }, "payloads"},
	"a name without a unit": {named, func(w *world) { w.names("A1-A7"); w.planBy(0, pb.Phase_OPEN) }, "payloads"},
	"an op that names nothing": {named, func(w *world) {
		w.rewrite(payloadLog(w.uid), func(_ int, c *pb.Commit) { c.Ops = append(c.Ops, noOp()) })
	}, "payloads"},
	"names that cannot be read": {named, func(w *world) { w.plantNames([]byte{9}) }, "payloads"},
	"an export without what units were": {named, func(w *world) {
		w.close()
		x := &w.h.Exports[0]
		x.Bytes = x.Bytes[:bytes.Index(x.Bytes, []byte(`{"log":"units"`))]
	}, "ending exports"},
	"an export with what no plan has said of units": {named, func(w *world) {
		never := sha256.Sum256(nil)
		w.storeNames(never[:], 1, "never")
		w.close()
		x := &w.h.Exports[0]
		l := w.h.Logs[payloadLog(w.uid)]
		x.Bytes = fmt.Appendf(x.Bytes, `{"log":"units","slot":1,"commit":%q}`+"\n", base64.StdEncoding.EncodeToString(l[1].Bytes))
	}, "ending exports"},
	"a secret unit in an error": {newWorld, func(w *world) {
		w.h.UnitFiles = &UnitFiles{Secret: []byte{1}, Mark: "c0de"}
		w.h.LiveExports = append(w.h.LiveExports, LiveExport{How: NotRead, Err: "a unit c0de-1 twice"})
	}, "secrets"},
	"a unit named anew": {named, func(w *world) { w.plantNames(packedName("B1"), packedName("A1")) }, "payloads"},
}

func nothingTo(*world) {}
