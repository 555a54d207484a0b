package planner

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/backends/backendtest"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/spec"
)

// actionsOn names a plan's actions on lists, with what they say of them.
func actionsOn(p *Plan) (texts []string) {
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

func wantListed(t *testing.T, p *Plan, want ...string) {
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
	again, err := MakePhase(w.actual(), pb.Phase_OPEN)
	if err != nil {
		t.Fatal(err)
	}
	wantListed(t, again, "update list/1 list off>on")
	w.mustApply(numbers(30))
	w.wantOn()

	fails := func(backendtest.Call) backendtest.Fault { return backendtest.Fault{Kind: backendtest.ErrorBefore} }
	w.keepers[1].SetFaults(fails)
	wantListed(t, w.mustPlan(numbers(30)), "update list/1 list unknown>on")
	w.keepers[1].SetFaults(nil)

	pause, err := MakePhase(w.actual(), pb.Phase_PAUSED)
	if err != nil {
		t.Fatal(err)
	}
	wantListed(t, pause, "update list/0 list on>off", "update list/1 list on>off", "update list/2 list on>off")
	w.mustPhase(pb.Phase_PAUSED)
	wantListed(t, w.mustPlan(numbers(30)))
	wantListed(t, w.planDestroy(), "delete list/0 list off> node redis-0:6379>",
		"delete list/1 list off> node redis-1:6379>", "delete list/2 list off> node redis-0:6379>")
	resume, err := MakePhase(w.actual(), pb.Phase_OPEN)
	if err != nil {
		t.Fatal(err)
	}
	wantListed(t, resume, "update list/0 list off>on", "update list/1 list off>on", "update list/2 list off>on")
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
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "node redis-1:6379 does not belong to the sale any more") ||
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
}

// TestListNodesWrongClock has one of three nodes an hour ahead: of a sale whose units
// lie there it is refused, by plan, by an apply whose plan is older, and for as long as
// it is so.
func TestListNodesWrongClock(t *testing.T) {
	w := newListWorld(t)
	const want = "node-1: its clock is 1h0m0s ahead of the median of the nodes' clocks. Set it right."
	refused := func(what string, err error) {
		t.Helper()
		if r := new(Refusal); !errors.As(err, &r) || r.Remedy != want {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	before := w.mustPlan(numbers(30))
	w.nodes[1].Advance(time.Hour)
	_, err := Make(numbers(30), w.actual())
	refused("plan", err)
	refused("apply", w.run(before))
	w.nodes[1].Advance(-time.Hour)
	w.mustApply(numbers(30))
	w.nodes[1].Advance(time.Hour)
	_, err = Make(numbers(40), w.actual())
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
		"always":            {lists.Settings{AOF: true, Fsync: "always"}, ""},
		"every second":      {lists.Settings{AOF: true, Fsync: "everysec", Snapshots: true}, "may lose the grabs of the last second, or two, when it dies" + remedy},
		"when the host may": {lists.Settings{AOF: true, Fsync: "no"}, "may lose some thirty seconds of them when that dies" + remedy},
		"it does not tell":  {lists.Settings{AOF: true}, "whether node redis-0:6379 syncs each grant could not be checked"},
		"snapshots":         {lists.Settings{Fsync: "everysec", Snapshots: true}, "only saves snapshots, and loses every grant since the last one when it dies" + remedy},
		"nothing":           {lists.Settings{Fsync: "everysec"}, "keeps nothing on a disk, and loses every grant that the ledger does not have when it dies" + remedy},
		"nothing it tells":  {lists.Settings{}, "keeps nothing on a disk but perhaps snapshots, which it does not tell"},
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
		})
	}
	w := newListWorld(t)
	w.keepers[0].SetFaults(backendtest.On(backendtest.OpSettings, always(backendtest.ErrorBefore)))
	sale := numbers(30)
	sale.Ack = spec.AckRedis
	if p := w.mustPlan(sale); len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "whether node redis-0:6379 keeps what it has granted could not be checked") {
		t.Errorf("it warns of %q", p.Warnings)
	}
}

func TestStatusOfLists(t *testing.T) {
	w := newListWorld(t)
	w.mustApply(numbers(30))
	w.grab(1, 3)
	w.keepers[0].SetFaults(always(backendtest.ErrorBefore))
	s, err := NewStatus(w.actual())
	if err != nil {
		t.Fatal(err)
	}
	if l := s.Shards[1].List; l == nil || *l != (ListStatus{Node: "redis-1:6379", State: "on", Left: 7, Entries: 1, Fill: 1, Token: 1}) {
		t.Errorf("the list of shard 1 is %+v", l)
	}
	if l := s.Shards[2].List; l == nil || l.State != "unknown" || l.Error == "" || l.Node != "redis-0:6379" {
		t.Errorf("the list of shard 2 is %+v", l)
	}
	if !slices.ContainsFunc(s.Warnings, func(warning string) bool {
		return strings.HasPrefix(warning, "2 of 3 lists are off or cannot be asked for (0, 2)")
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
			w.nodes[node].SetFaults(always(backendtest.ErrorBefore))
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
