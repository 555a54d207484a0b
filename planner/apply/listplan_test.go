package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/backends/memory"
	"salectl/planner"
	"salectl/planner/current"
	"salectl/spec"
)

// actionsOn names a plan's actions on lists, with what they say of them.
func actionsOn(p *planner.Plan) (texts []string) {
	for _, a := range p.Actions {
		if !strings.HasPrefix(a.Address, "list/") {
			continue
		}
		text := a.Action + " " + a.Address
		for _, f := range a.Fields() {
			text += " " + f.Name + " " + f.Before + ">" + f.After
		}
		texts = append(texts, text)
	}
	return texts
}

func wantListed(t *testing.T, p *planner.Plan, want ...string) {
	t.Helper()
	if got := actionsOn(p); !slices.Equal(got, want) {
		t.Errorf("the plan has on lists\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestPlanOfLists(t *testing.T) {
	w := newListWorld(t)
	wantListed(t, w.mustPlan(numbers(30)), "create list/0 list >on node >redis-0:6379",
		"create list/1 list >on node >redis-1:6379", "create list/2 list >on node >redis-0:6379")
	w.mustApply(numbers(30))
	wantListed(t, w.mustPlan(numbers(40)))

	w.keepers[1].Restart()
	p := w.mustPlan(numbers(30))
	wantListed(t, p, "update list/1 list off>on")
	if len(p.Actions) != 1 || p.Actions[0].Reason != "it is off on node redis-1:6379; it is filled from the ledger" {
		t.Errorf("the plan is %+v", p.Actions)
	}
	wantListed(t, w.mustPlan(numbers(40)), "update list/1 list off>on")
	again, err := planner.MakePhase(w.actual(), pb.Phase_OPEN)
	if err != nil {
		t.Fatal(err)
	}
	wantListed(t, again, "update list/1 list off>on")
	w.mustApply(numbers(30))
	w.wantOn()

	fails := func(memory.Call) memory.Fault { return memory.Fault{Kind: memory.ErrorBefore} }
	w.keepers[1].SetFaults(fails)
	wantListed(t, w.mustPlan(numbers(30)), "update list/1 list unknown>on")
	w.keepers[1].SetFaults(nil)

	pause, err := planner.MakePhase(w.actual(), pb.Phase_PAUSED)
	if err != nil {
		t.Fatal(err)
	}
	wantListed(t, pause, "update list/0 list on>off", "update list/1 list on>off", "update list/2 list on>off")
	w.mustPhase(pb.Phase_PAUSED)
	wantListed(t, w.mustPlan(numbers(30)))
	wantListed(t, w.planDestroy(), "delete list/0 list off> node redis-0:6379>",
		"delete list/1 list off> node redis-1:6379>", "delete list/2 list off> node redis-0:6379>")
	resume, err := planner.MakePhase(w.actual(), pb.Phase_OPEN)
	if err != nil {
		t.Fatal(err)
	}
	wantListed(t, resume, "update list/0 list off>on", "update list/1 list off>on", "update list/2 list off>on")
}

// What is to be done with a list, and why, follows from how it stands and from the
// phase to come.
func TestReasonsOfLists(t *testing.T) {
	applied := func(w *listWorld) { w.mustApply(numbers(30)) }
	paused := func(w *listWorld) { applied(w); w.mustPhase(pb.Phase_PAUSED) }
	apply, destroy := applies(numbers(30)), (*world).planDestroy
	resume := func(w *world) *planner.Plan {
		p, err := planner.MakePhase(w.actual(), pb.Phase_OPEN)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	away := func(n *memory.Lists) { n.SetFaults(always(memory.ErrorBefore)) }
	const created = "create list/1: it is filled with the shard's units"
	for name, test := range map[string]struct {
		before func(*listWorld)
		befall func(*listWorld)
		plan   func(*world) *planner.Plan
		want   string // of the list of shard 1, "" for nothing
		warns  string
	}{
		"new":            {func(*listWorld) {}, func(*listWorld) {}, apply, created + " (new)", ""},
		"new, away":      {func(*listWorld) {}, func(w *listWorld) { away(w.keepers[1]) }, apply, created + "; its node cannot be used now (new)", ""},
		"new, one other": {func(*listWorld) {}, func(w *listWorld) { away(w.keepers[0]) }, apply, created + " (new)", ""},
		"being made":     {func(w *listWorld) { w.runUntil(w.mustPlan(numbers(30)), 2) }, func(*listWorld) {}, apply, created + " (new)", ""},
		"on":             {applied, func(*listWorld) {}, apply, "", ""},
		"off":            {applied, func(w *listWorld) { w.keepers[1].Restart() }, apply, "update list/1: it is off on node redis-1:6379; it is filled from the ledger (list_off)", ""},
		"gone":           {applied, func(w *listWorld) { w.keepers[1].RestartEmpty() }, apply, "update list/1: it is missing on node redis-1:6379; it is filled from the ledger (list_missing)", ""},
		"away": {applied, func(w *listWorld) { away(w.keepers[1]) }, apply,
			"update list/1: it is unknown (node redis-1:6379: redis-1:6379: injected fault: not done); it is filled from the ledger (list_unknown)", ""},
		"off, and served": {applied, func(w *listWorld) { w.serve(); w.keepers[1].Restart() }, apply, "",
			"list/1 is off on node redis-1:6379: the serving process fills it from the ledger"},
		"a pause":                  {applied, func(*listWorld) {}, pauses, "update list/1: it is stopped, and its grabs are drained into the ledger (phase_changes)", ""},
		"a pause, and served":      {applied, func(w *listWorld) { w.serve() }, pauses, "update list/1: it is stopped, and its grabs are drained into the ledger (phase_changes)", ""},
		"a pause, off":             {applied, func(w *listWorld) { w.keepers[1].Restart() }, pauses, "", ""},
		"paused":                   {paused, func(*listWorld) {}, apply, "", ""},
		"paused, away":             {paused, func(w *listWorld) { away(w.keepers[1]) }, apply, "", ""},
		"paused, away, and served": {func(w *listWorld) { paused(w); w.serve() }, func(w *listWorld) { away(w.keepers[1]) }, apply, "", ""},
		"being made, and closed": {func(w *listWorld) {
			w.runUntil(w.mustPlan(numbers(30)), 2)
			runDestroyUntil(w.world, w.planDestroy(), func(*process) bool { return w.actual().Sale.Generation() == 2 })
		}, func(*listWorld) {}, apply, "", ""},
		"a resume":         {paused, func(*listWorld) {}, resume, "update list/1: it is filled from the ledger (phase_changes)", ""},
		"a resume, served": {paused, func(w *listWorld) { w.serve() }, resume, "update list/1: it is filled from the ledger (phase_changes)", ""},
		"destroy":          {applied, func(*listWorld) {}, destroy, "delete list/1: it is stopped, drained into the ledger and deleted (requested)", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newListWorld(t)
			test.before(w)
			test.befall(w)
			p := test.plan(w.world)
			got := ""
			for _, a := range p.Actions {
				if a.Address == "list/1" {
					got = fmt.Sprintf("%s list/1: %s (%s)", a.Action, a.Reason, a.ActionReason)
				}
			}
			if got != test.want {
				t.Errorf("the plan is to %q, want %q", got, test.want)
			}
			about := slices.DeleteFunc(slices.Clone(p.Warnings), func(text string) bool { return !strings.HasPrefix(text, "list/") })
			if strings.Join(about, "; ") != test.warns {
				t.Errorf("it warns of %q, want %q", about, test.warns)
			}
		})
	}
	w := newListWorld(t)
	applied(w)
	actual := w.actual()
	actual.Shards[0] = planner.ShardActual{Err: memory.ErrInjected}
	if p, err := planner.Make(numbers(30), actual); err != nil || !p.Empty() {
		t.Errorf("of a shard that cannot be read: %+v, %v", p, err)
	}
	pause, err := planner.MakePhase(actual, pb.Phase_PAUSED)
	if err != nil {
		t.Fatal(err)
	}
	wantListed(t, pause, "update list/0 list unknown>off", "update list/1 list on>off", "update list/2 list on>off")
	away(w.keepers[1])
	wantListed(t, w.planDestroy(), "delete list/0 list on> node redis-0:6379>",
		"delete list/1 list unknown> node redis-1:6379>", "delete list/2 list on> node redis-0:6379>")
}

// What a status warns of where lists are off depends on who is to fill them.
func TestStatusOfListsThatAreOff(t *testing.T) {
	for name, test := range map[string]struct {
		before func(*listWorld)
		want   string
	}{
		"on":         {func(w *listWorld) { w.mustApply(numbers(30)) }, ""},
		"being made": {func(w *listWorld) { w.runUntil(w.mustPlan(numbers(30)), 3) }, ""},
		"paused":     {func(w *listWorld) { w.mustApply(numbers(30)); w.mustPhase(pb.Phase_PAUSED) }, ""},
		"off": {func(w *listWorld) { w.mustApply(numbers(30)); w.keepers[1].Restart() },
			"1 of 3 lists are off or unreachable (1): their users get nothing; apply fills them from the ledger"},
		"off, and served": {func(w *listWorld) { w.mustApply(numbers(30)); w.serve(); w.keepers[0].RestartEmpty() },
			"2 of 3 lists are off or unreachable (0, 2): their users get nothing; " +
				"the serving process fills them from the ledger as soon as their nodes answer"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newListWorld(t)
			test.before(w)
			got := ""
			for _, warning := range w.status().Warnings {
				if strings.Contains(warning, "lists") {
					got = warning
				}
			}
			if got != test.want {
				t.Errorf("it warns of %q, want %q", got, test.want)
			}
		})
	}
}

// A node that leaves a sale while it is paused keeps what it has, and the plan
// says so.
func TestPlanOfOtherNodes(t *testing.T) {
	w := newListWorld(t)
	w.mustApply(numbers(30))
	w.grabAll()
	w.mustPhase(pb.Phase_PAUSED)
	less := numbers(30)
	less.Redis = &spec.Redis{Nodes: []string{"redis-0:6379"}}
	uid, all := w.actual().Sale.UID(), w.keepers
	w.keepers = all[:1]
	p := w.mustPlan(less)
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "node redis-1:6379 no longer belongs to the sale") ||
		!strings.Contains(p.Warnings[0], "salectl:"+uid+":*") {
		t.Errorf("warnings: %q", p.Warnings)
	}
	w.mustApply(less)
	w.mustPhase(pb.Phase_OPEN)
	w.wantOn()
	w.wantTold(w.ledgers())
	if s, err := all[1].Inspect(context.Background(), lists.List{UID: uid, Shard: 1}); s.On || err != nil {
		t.Errorf("the node that has left has %+v, %v", s, err)
	}
	x := newWorld(t) // a node that has locks only leaves nothing behind
	x.mustApply(with(tickets(10), onServers("sales", "a:1", "b:1", "c:1")))
	x.mustPhase(pb.Phase_PAUSED)
	if p := x.mustPlan(with(tickets(10), onServers("sales", "a:1", "b:1", "d:1"))); len(p.Warnings) != 0 {
		t.Errorf("warnings: %q", p.Warnings)
	}
}

// TestListNodesWrongClock has one of three nodes an hour ahead: of a sale whose units
// lie there it is refused, by plan, by an apply whose plan is older, and for as long as
// it is so.
func TestListNodesWrongClock(t *testing.T) {
	w := newListWorld(t)
	const want = "node-1: Its clock is 1h0m0s ahead of the median of the nodes' clocks. Set it right."
	refused := func(what string, err error) {
		t.Helper()
		if r := new(planner.Refusal); !errors.As(err, &r) || r.Remedy != want {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	before := w.mustPlan(numbers(30))
	w.nodes[1].Advance(time.Hour)
	_, err := planner.Make(numbers(30), w.actual())
	refused("plan", err)
	refused("apply", w.run(before))
	w.nodes[1].Advance(-time.Hour)
	w.mustApply(numbers(30))
	w.nodes[1].Advance(time.Hour)
	_, err = planner.Make(numbers(40), w.actual())
	refused("a change", err)
	w.mustPhase(pb.Phase_PAUSED) // a sale can be paused and closed all the same
	w.mustPhase(pb.Phase_CLOSED)
}

func TestWarningsOfSettings(t *testing.T) {
	const remedy = ": set appendonly yes and appendfsync always, or write ack: ledger"
	for name, test := range map[string]struct {
		settings lists.Settings
		want     string // "" for none
	}{
		"always":                {lists.Settings{AOF: true, Fsync: "always"}, ""},
		"every second":          {lists.Settings{AOF: true, Fsync: "everysec", Snapshots: true}, "may lose the grabs of the last one or two seconds when its host dies" + remedy},
		"when the host may":     {lists.Settings{AOF: true, Fsync: "no"}, "may lose the grabs of the last 30 seconds when that dies" + remedy},
		"it refuses CONFIG GET": {lists.Settings{AOF: true}, "the sync policy of node redis-0:6379 could not be checked"},
		"snapshots":             {lists.Settings{Fsync: "everysec", Snapshots: true}, "only saves snapshots, and loses all grabs since the last one when it dies" + remedy},
		"always, if it did":     {lists.Settings{Fsync: "always"}, "keeps nothing on disk, and loses all grabs"},
		"no, if it did":         {lists.Settings{Fsync: "no"}, "keeps nothing on disk, and loses all grabs"},
		"nothing":               {lists.Settings{Fsync: "everysec"}, "keeps nothing on disk, and loses all grabs that the ledger lacks when it dies" + remedy},
		"nothing it tells":      {lists.Settings{}, "keeps nothing on disk except perhaps snapshots, which it does not report"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newListWorld(t)
			w.keepers[0].SetSettings(test.settings)
			sale := numbers(30)
			if p := w.mustPlan(sale); len(p.Warnings) > 0 {
				t.Errorf("with ack: ledger it warns of %q", p.Warnings)
			}
			sale.Ack = spec.AckRedis
			for range 2 { // before the sale is there, and after
				p := w.mustPlan(sale)
				if test.want == "" && len(p.Warnings) > 0 || test.want != "" && (len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], test.want)) {
					t.Errorf("it warns of %q, want %q", p.Warnings, test.want)
				}
				w.mustApply(sale)
			}
			status, err := current.NewStatus(w.actual())
			if warned := strings.Join(status.Warnings, "\n"); err != nil || strings.Contains(warned, "node redis-0:6379") != (test.want != "") || !strings.Contains(warned, test.want) {
				t.Errorf("status warns of %q, %v; want %q", warned, err, test.want)
			}
		})
	}
	w := newListWorld(t)
	w.keepers[0].SetFaults(memory.On(memory.OpSettings, always(memory.ErrorBefore)))
	sale := numbers(30)
	sale.Ack = spec.AckRedis
	if p := w.mustPlan(sale); len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "the persistence of node redis-0:6379 could not be checked") {
		t.Errorf("it warns of %q", p.Warnings)
	}
}

func TestStatusOfLists(t *testing.T) {
	w := newListWorld(t)
	w.mustApply(numbers(30))
	w.grab(1, 3)
	w.keepers[0].SetFaults(always(memory.ErrorBefore))
	s, err := current.NewStatus(w.actual())
	if err != nil {
		t.Fatal(err)
	}
	if l := s.Shards[1].List; l == nil || *l != (current.ListStatus{Node: "redis-1:6379", State: "on", Left: 7, Entries: 1, Fill: 1, Token: 1}) {
		t.Errorf("the list of shard 1 is %+v", l)
	}
	if l := s.Shards[2].List; l == nil || l.State != "unknown" || l.Error == "" || l.Node != "redis-0:6379" {
		t.Errorf("the list of shard 2 is %+v", l)
	}
	if !slices.ContainsFunc(s.Warnings, func(warning string) bool {
		return strings.HasPrefix(warning, "2 of 3 lists are off or unreachable (0, 2)")
	}) {
		t.Errorf("warnings: %q", s.Warnings)
	}
}

// A node that is away may have the vote that makes a majority of those that are
// seen: then nobody knows whether the sale is served.
func TestUnserved(t *testing.T) {
	w := newListWorld(t)
	w.mustApply(numbers(30))
	away := func(node int, is bool) {
		w.nodes[node].SetFaults(nil)
		if is {
			w.nodes[node].SetFaults(always(memory.ErrorBefore))
		}
	}
	want := func(when string, want bool) {
		t.Helper()
		if got := w.actual().Unserved(); got != want {
			t.Errorf("%s: Unserved is %v", when, got)
		}
	}
	want("at first", true)
	away(2, true)
	want("one of three is away", true)
	away(2, false)
	all := w.nodes
	w.nodes = all[1:]
	w.serve()
	w.nodes = all
	want("two have promised", false)
	away(2, true)
	want("one of the two is away", false)
	away(1, true)
	want("both are away", false)
	away(1, false)
	w.nodes = all[:2]
	want("of two, one has promised", true)
}
