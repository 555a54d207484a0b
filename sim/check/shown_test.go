package check

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
)

// shownSale is a sale of 6 units that an apply makes, and another one raises to 8. A last plan,
// of the same file, is empty.
func shownSale(t testing.TB) *world {
	w := emptyWorld(t)
	w.applies(3)
	for i := range shards {
		w.append(i, func(d *ledger.Draft) { d.Own("executor-0") })
	}
	w.applies(1)
	w.shows("plan", shownPlan{Kind: "apply", UID: w.uid, Generation: 2}, w.file())
	return w
}

// file is what the sale's file declares.
func (w *world) file() *File { return &File{Stock: w.next - 1, PerUserLimit: 2} }

// shows adds a plan of a command, at the slot that comes next.
func (w *world) shows(command string, p shownPlan, file *File) {
	op := w.begin(command)
	p.Slot = w.sale.Next()
	w.h.Planned(w.pass(), op, w.encode(p), file)
	w.end(op)
}

func (w *world) encode(p shownPlan) []byte {
	w.t.Helper()
	b, err := json.Marshal(p)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// applies has an apply add units to each shard, and take its plan down.
func (w *world) applies(add int64) { w.appliesOn(add, w.complete) }

// appliesOn is applies, where take has shards take the generation.
func (w *world) appliesOn(add int64, take func()) {
	w.t.Helper()
	p := shownPlan{Kind: "apply", UID: w.uid, Slot: w.sale.Next(), Generation: w.sale.Generation() + 1}
	op := w.begin("apply")
	w.h.Events[len(w.h.Events)-1].Stock = w.next - 1 + shards*add
	n := len(w.h.Plans)
	w.h.Planned(w.pass(), op, nil, nil)
	attributes := func() *shownAttributes {
		return &shownAttributes{Phase: "open", Generation: w.sale.Generation(), Sale: shownDeclaration{Stock: w.next - 1, PerUserLimit: 2, LockCount: shards}}
	}
	sale := shownAction{Address: "sale/tickets", Action: "create", ActionReason: "new"}
	if n > 0 {
		sale.Action, sale.ActionReason, sale.Before = "update", "declaration_changed", attributes()
	}
	w.said = fmt.Sprintf(`{"stock":%d,"lockCount":%d,"perUserLimit":2}`, w.next-1+shards*add, shards)
	w.digest = []byte{byte(n)}
	limit := (w.next - 1) / shards
	w.declare(add, 0, pb.Phase_OPEN)
	take()
	planned := w.sale.Planned(w.sale.Generation())
	sale.After = attributes()
	p.Actions = append(p.Actions, sale)
	p.Summary.Create = 1 + shards
	for i, c := range planned.GetShards() {
		after := limit + add
		a := shownAction{Address: fmt.Sprint("shard/", i), Action: sale.Action, ActionReason: sale.ActionReason, After: &shownAttributes{Limit: &after, Units: unitsText(c.GetAdd())}}
		if n > 0 {
			a.Before = &shownAttributes{Limit: &limit}
			p.Summary.Create, p.Summary.Update = 0, 1+shards
		}
		p.Actions = append(p.Actions, a)
	}
	p.Digest, p.Payload = fmt.Sprintf("%x", planned.GetPlanDigest()), w.encodeProto(asShown(planned))
	w.h.Plans[n].JSON, w.h.Plans[n].File = w.encode(p), w.file()
	w.end(op)
}

func (w *world) encodeProto(p *pb.Planned) []byte {
	w.t.Helper()
	b, err := proto.Marshal(p)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// shownAs changes the second plan.
func (w *world) shownAs(change func(p *shownPlan)) {
	w.t.Helper()
	var p shownPlan
	if err := json.Unmarshal(w.h.Plans[1].JSON, &p); err != nil {
		w.t.Fatal(err)
	}
	change(&p)
	w.h.Plans[1].JSON = w.encode(p)
}

// shownAsWrong is a fault of what the second plan shows.
func shownAsWrong(change func(p *shownPlan)) planted {
	return planted{shownSale, func(w *world) { w.shownAs(change) }, "shown"}
}

func TestShownPlans(t *testing.T) {
	for _, p := range Check(shownLate(t, lag-1).h) {
		t.Error(p)
	}
	unread := shownSale(t)
	unread.h.Plans[2].JSON = unread.encode(shownPlan{Kind: "apply", UID: unread.uid, Slot: unread.sale.Next(), Generation: 2, Warnings: []string{"shard/1 cannot be read: no answer"}})
	for _, p := range Check(unread.h) {
		t.Error(p)
	}
	for _, p := range Check(shownSale(t).h) {
		t.Error(p)
	}
}

// shownLate is a sale of which a third generation adds a unit to each shard and is on none but
// the first, which has changed some more times. Long after, a plan shows that the first shard has
// yet to take it: what the plan read was as old as that generation.
func shownLate(t testing.TB, changes int) *world {
	w := shownSale(t)
	before := w.shards[0].Limit
	w.appliesOn(1, func() { w.take(0) })
	for range changes {
		w.append(0, func(d *ledger.Draft) { d.Own("executor-0") })
	}
	w.at += time.Hour
	newest := w.sale.Planned(3)
	attributes := &shownAttributes{Phase: "open", Generation: 3, Sale: shownDeclaration{Stock: w.next - 1, PerUserLimit: 2, LockCount: shards}}
	p := shownPlan{Kind: "apply", UID: w.uid, Generation: 3}
	p.Summary.Update = 1 + shards
	p.Actions = append(p.Actions, shownAction{Address: "sale/tickets", Action: "update", ActionReason: "generation_pending", Before: attributes, After: attributes})
	for i, c := range newest.GetShards() {
		after := before + 1
		p.Actions = append(p.Actions, shownAction{
			Address: fmt.Sprint("shard/", i), Action: "update", ActionReason: "generation_pending",
			Before: &shownAttributes{Limit: &before}, After: &shownAttributes{Limit: &after, Units: unitsText(c.GetAdd())},
		})
	}
	w.shows("plan", p, w.file())
	return w
}

// shownMarker returns a sale whose plan, when nothing is to be done, shows that the marker of
// node-1 is missing. A node was restarted before that plan, or so long after it.
func shownMarker(node string, after time.Duration) func(t testing.TB) *world {
	return func(t testing.TB) *world {
		w := shownSale(t)
		if after == 0 {
			w.h.RestartNode(w.pass(), node)
		}
		p := shownPlan{Kind: "apply", UID: w.uid, Generation: 2, Actions: []shownAction{{Address: "node/node-1", Action: "update", ActionReason: "marker_missing"}}}
		p.Summary.Update = 1
		w.shows("plan", p, w.file())
		if after != 0 {
			w.at += after
			w.h.RestartNode(w.pass(), node)
		}
		return w
	}
}

// TestMissingMarker has a plan show that a node's marker is missing after the node was restarted.
func TestMissingMarker(t *testing.T) {
	for _, p := range Check(shownMarker("node-1", 0)(t).h) {
		t.Error(p)
	}
}

// shownFaults are found in what plans show, and in what a sale comes to.
var shownFaults = map[string]planted{
	"a plan that cannot be read":         {shownSale, func(w *world) { w.h.Planned(w.pass(), 0, []byte("{"), nil) }, "shown"},
	"a generation of no plan":            {shownSale, func(w *world) { w.h.Plans = append(w.h.Plans[:1:1], w.h.Plans[2]) }, "shown"},
	"a generation that was not so shown": shownAsWrong(func(p *shownPlan) { p.Payload = append(p.Payload, 0x30, 10) }),
	"a change of the sale is not shown":  shownAsWrong(func(p *shownPlan) { p.Actions, p.Summary.Update = p.Actions[1:], shards }),
	"a change of a shard is not shown":   shownAsWrong(func(p *shownPlan) { p.Actions, p.Summary.Update = p.Actions[:2], 2 }),
	"a change is counted that is not":    shownAsWrong(func(p *shownPlan) { p.Summary.Delete++ }),
	"a change is shown twice":            shownAsWrong(func(p *shownPlan) { p.Actions, p.Summary.Update = append(p.Actions, p.Actions[2]), 2+shards }),
	"another reason is shown":            shownAsWrong(func(p *shownPlan) { p.Actions[0].ActionReason = "phase_set_by_hand" }),
	"another reason of a shard is shown": shownAsWrong(func(p *shownPlan) { p.Actions[1].ActionReason = "generation_pending" }),
	"another limit is shown":             shownAsWrong(func(p *shownPlan) { *p.Actions[1].After.Limit++ }),
	"other new units are shown":          shownAsWrong(func(p *shownPlan) { p.Actions[1].After.Units = "9" }),
	"another stock is shown":             shownAsWrong(func(p *shownPlan) { p.Actions[0].Before.Sale.Stock = 7 }),
	"another limit of users is shown":    shownAsWrong(func(p *shownPlan) { p.Actions[0].Before.Sale.PerUserLimit = 3 }),
	"other hours are shown":              shownAsWrong(func(p *shownPlan) { p.Actions[0].After.Sale.ClosesAt = "2026-11-11T12:00:00Z" }),
	"what was before is not shown":       shownAsWrong(func(p *shownPlan) { p.Actions[0].Before = nil }),
	"what a shard was too long ago":      {func(t testing.TB) *world { return shownLate(t, lag) }, func(*world) {}, "shown"},
	"a plan of another file":             {shownSale, func(w *world) { w.h.Plans[2].File.Partial = true }, "shown"},
	"a plan of what is done": {shownSale, func(w *world) {
		w.h.Plans[2].JSON = w.encode(shownPlan{Kind: "apply", UID: w.uid, Slot: w.sale.Next(), Generation: 2, Actions: []shownAction{{Address: "node/0", Action: "update"}}, Summary: struct{ Create, Update, Delete int }{0, 1, 0}})
	}, "shown"},
	"a marker that is missing without a crash":             {shownMarker("node-0", 0), func(*world) {}, "shown"},
	"a marker that is missing before its node has crashed": {shownMarker("node-1", time.Hour), func(*world) {}, "shown"},
	"fewer units than declared":                            {newWorld, func(w *world) { w.ends(`{"stock":7,"perUserLimit":2}`) }, "converged progress"},
	"more units than declared":                             {newWorld, func(w *world) { w.ends(`{"stock":5,"perUserLimit":2}`) }, "converged progress"},
	"more units than declared and sold before they were removed": {soldOut, func(w *world) {
		w.plan(0, 1, pb.Phase_OPEN)
		w.ends(`{"stock":3,"perUserLimit":2}`)
	}, "converged"},
	"a unit in the end that is no more so": {named, func(w *world) { w.names("A1-A5"); w.ends(w.said) }, "converged progress"},
}

// soldOut is a sale whose 6 units are sold.
func soldOut(t testing.TB) *world {
	w := newWorld(t)
	for shard := range shards {
		w.buy(w.user(shard), "k", 2)
		w.buy(w.user(shard), "k", 1)
	}
	return w
}

// TestSoldBeforeRemoved has a generation remove units that are sold: they stay.
func TestSoldBeforeRemoved(t *testing.T) {
	w := soldOut(t)
	w.plan(0, 1, pb.Phase_OPEN)
	w.ends(`{"stock":4,"perUserLimit":2}`)
	for _, p := range Check(w.h) {
		t.Error(p)
	}
}

// ends ends a sale that was declared otherwise last, without a change of its units.
func (w *world) ends(said string) {
	w.said = said
	w.plan(0, 0, pb.Phase_OPEN)
	w.h.Final.Rested, w.h.Final.Demanded = true, true
}
