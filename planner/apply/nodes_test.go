package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/memory"
	"salectl/backends/quorum"
	"salectl/planner"
	"salectl/planner/current"
	"salectl/planner/machine"
	"salectl/spec"
)

// apply carries out a plan for real, with the clock of the world.
func (w *world) apply(plan *planner.Plan) (*Result, error) {
	w.Helper()
	cfg := w.config()
	cfg.Clock, cfg.Patience = clockOf(w), 200*time.Millisecond
	return Run(w.Context(), cfg, plan)
}

func up(n *memory.Node) { n.SetFaults(nil) }

// A node that is away leaves the first apply undone in part; the next one with
// the node there completes it, and until then the plan is not empty.
func TestApplyWithoutANode(t *testing.T) {
	w := newWorld(t)
	down(w.nodes[1])
	plan := w.mustPlan(tickets(10))
	if !slices.Contains(plan.Warnings, "lock node node-1 cannot be used: injected fault: not done") {
		t.Errorf("warnings: %q", plan.Warnings)
	}
	result, err := w.apply(plan)
	if !errors.Is(err, planner.ErrPartly) || !strings.Contains(err.Error(), "lock node node-1 could not be marked: injected fault") {
		t.Fatalf("apply: %v", err)
	}
	if fmt.Sprint(result.Unmarked) != "[node-1]" || result.Generation != 1 || result.Summary.Create != 6 {
		t.Errorf("result: %+v", result)
	}
	if s := w.actual().Sale; s.Applied() != 1 {
		t.Error("a majority is enough to sell, and the sale is not applied")
	}
	for range 2 { // as long as it takes
		again := w.mustPlan(tickets(10))
		if brief(again) != "~node/node-1 marker unknown>good" || !slices.Contains(again.Warnings, "lock nodes that vote: 2 of 3; none may fail") {
			t.Errorf("meanwhile: %s, %q", brief(again), again.Warnings)
		}
		if result, err := w.apply(again); !errors.Is(err, planner.ErrPartly) || result.Changed {
			t.Errorf("meanwhile: %+v, %v", result, err)
		}
	}
	up(w.nodes[1])
	mending := w.mustPlan(tickets(10))
	if brief(mending) != "~node/node-1 marker missing>abstaining" {
		t.Errorf("the plan to complete it: %s", brief(mending))
	}
	if result, err := w.apply(mending); err != nil || !result.Changed || result.Unmarked != nil {
		t.Fatalf("completing: %+v, %v", result, err)
	}
	rest := w.mustPlan(tickets(10))
	if !rest.Empty() || len(rest.Warnings) != 2 || !strings.Contains(rest.Warnings[0], "lock node node-1 abstains until 2026-") {
		t.Errorf("afterwards: %s, %q", brief(rest), rest.Warnings)
	}
	w.pass(10 * time.Second)
	if rest := w.mustPlan(tickets(10)); !rest.Empty() || len(rest.Warnings) != 0 {
		t.Errorf("when it votes again: %s, %q", brief(rest), rest.Warnings)
	}
}

// A node that had its marker and is away later mends itself: nothing is to be
// done, then or after, and nobody's pipeline fails for it.
func TestANodeThatWasMarkedIsAway(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	down(w.nodes[1])
	if plan := w.mustPlan(tickets(10)); !plan.Empty() || len(plan.Warnings) != 2 {
		t.Errorf("the plan: %s, %q", brief(plan), plan.Warnings)
	}
	for _, phase := range []pb.Phase{pb.Phase_OPEN, pb.Phase_PAUSED} {
		if plan, err := planner.MakePhase(w.actual(), phase); err != nil || len(plan.Warnings) != 2 {
			t.Errorf("the plan to %v: %v, %v", phase, plan, err)
		}
	}
	result, err := w.apply(w.mustPlan(tickets(13)))
	if err != nil || result.Unmarked != nil || len(result.Warnings) != 1 {
		t.Errorf("apply: %+v, %v", result, err)
	}
	if plan := w.mustPlan(tickets(13)); !plan.Empty() {
		t.Errorf("afterwards: %s", brief(plan))
	}
}

// What is left to mark stays known through changes that mark nobody.
func TestUnmarkedIsCarriedOver(t *testing.T) {
	w := newWorld(t)
	down(w.nodes[1])
	if _, err := w.apply(w.mustPlan(tickets(10))); !errors.Is(err, planner.ErrPartly) {
		t.Fatalf("apply: %v", err)
	}
	w.mustPhase(pb.Phase_PAUSED)
	if plan := w.mustPlan(tickets(10)); brief(plan) != "~node/node-1 marker unknown>good" {
		t.Errorf("the plan: %s", brief(plan))
	}
	up(w.nodes[1])
	w.mustApply(tickets(10))
	if left := w.actual().Sale.Unmarked(); len(left) != 0 {
		t.Errorf("still unmarked: %q", left)
	}
}

// Without a majority there is no new sale, and nothing is written. What is live
// is changed all the same.
func TestApplyWithoutAMajority(t *testing.T) {
	w := newWorld(t)
	down(w.nodes[0])
	down(w.nodes[2])
	plan := w.mustPlan(tickets(10))
	if last := plan.Warnings[len(plan.Warnings)-1]; last != "1 of 3 lock nodes can be used, and a new sale needs 2" {
		t.Errorf("warnings: %q", plan.Warnings)
	}
	_, err := w.apply(plan)
	if !errors.Is(err, planner.ErrTimeout) || !strings.Contains(err.Error(), "node-0: injected fault") {
		t.Errorf("apply: %v", err)
	}
	if next := w.actual().Sale.Next(); next != 0 {
		t.Errorf("%d slots were written", next)
	}
	up(w.nodes[0])
	up(w.nodes[2])
	w.mustApply(tickets(10))
	down(w.nodes[0])
	down(w.nodes[2])
	more := w.mustPlan(tickets(13))
	if last := more.Warnings[len(more.Warnings)-1]; last != "lock nodes that vote: 1 of 3; no process can sell with fewer than 2" {
		t.Errorf("warnings: %q", more.Warnings)
	}
	if result, err := w.apply(more); err != nil || len(result.Unmarked) != 0 || len(result.Warnings) != 2 {
		t.Errorf("apply: %+v, %v", result, err)
	}
	w.wantStock(13)
	w.mustPhase(pb.Phase_PAUSED) // which no node is needed for
}

// Whoever stops waiting for lock nodes says how many answer.
func TestStoppedWhileItWaitsForNodes(t *testing.T) {
	w := newWorld(t)
	down(w.nodes[0])
	down(w.nodes[2])
	p := w.begin(w.mustPlan(tickets(10)))
	for p.x.waits == "" {
		p.step(inOrder)
	}
	m := machine.New(p.x.core, p.x)
	m.Stop(w.now, context.DeadlineExceeded)
	_, _, _, err := m.Next(w.now)
	const want = "reading the lock nodes, waiting for a majority of the lock nodes, 1 of 3 can be used: node-0: injected fault"
	if !errors.Is(err, planner.ErrTimeout) || !strings.Contains(err.Error(), want) {
		t.Errorf("it ends with %v, want %q in it", err, want)
	}
}

// Half of the nodes are no majority: not to begin a sale, and not to have its marker.
func TestHalfOfTheNodes(t *testing.T) {
	w := newWorld(t)
	w.nodes = w.nodes[:2]
	plan := w.mustPlan(tickets(10))
	down(w.nodes[1])
	if err := w.run(plan); !errors.Is(err, planner.ErrTimeout) ||
		!strings.Contains(err.Error(), "1 of 2 lock nodes can be used, and a new sale needs 2: node-1: injected fault") {
		t.Errorf("when apply begins: %v", err)
	}
	up(w.nodes[1])
	p := w.begin(plan)
	for !p.x.planned.isKnown() {
		p.step(inOrder)
	}
	down(w.nodes[1])
	for !p.done {
		p.step(inOrder)
	}
	const want = "1 of 2 lock nodes have a marker, and a new sale needs 2: lock node node-1 could not be marked: injected fault"
	if !errors.Is(p.err, planner.ErrPartly) || !strings.Contains(p.err.Error(), want) {
		t.Errorf("when markers are written: %v", p.err)
	}
	up(w.nodes[1])
	w.mustApply(tickets(10))
}

// What does not answer is asked again after pauses that grow, as long as patience
// lastsinstead of.
func TestPatienceWithNodes(t *testing.T) {
	const patience = 60 * time.Millisecond // which ends with the second pause
	want := []time.Duration{0, 20 * time.Millisecond, 60 * time.Millisecond, 140 * time.Millisecond}
	for name, test := range map[string]struct {
		op   memory.Op
		want error
	}{
		"before anything is written": {memory.OpInfo, planner.ErrTimeout},
		"when markers are written":   {memory.OpMark, planner.ErrPartly},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			plan := w.mustPlan(tickets(10))
			var asked []time.Duration
			for i, n := range w.nodes[:2] {
				n.SetFaults(memory.On(test.op, func(memory.Call) memory.Fault {
					if i == 0 {
						asked = append(asked, w.now.Mono)
					}
					return memory.Fault{Kind: memory.ErrorBefore}
				}))
			}
			if err := w.runWith(plan, patience); !errors.Is(err, test.want) {
				t.Errorf("apply: %v, want %v", err, test.want)
			}
			if !slices.Equal(asked, want) {
				t.Errorf("asked after %v, want %v", asked, want)
			}
		})
	}
}

// runWith carries out a plan with less patience.
func (w *world) runWith(plan *planner.Plan, patience time.Duration) error {
	w.Helper()
	p := w.begin(plan)
	p.x.core.Patience = patience
	for !p.done {
		p.step(inOrder)
	}
	return p.err
}

// A majority of the nodes may come back while their markers are written.
func TestMarkersInTheEnd(t *testing.T) {
	w := newWorld(t)
	p := w.begin(w.mustPlan(tickets(10)))
	for !p.x.planned.isKnown() {
		p.step(inOrder)
	}
	down(w.nodes[0])
	down(w.nodes[2])
	for began := w.now.Mono; !p.done; p.step(inOrder) {
		if w.now.Mono-began > time.Second {
			up(w.nodes[2])
		}
	}
	if p.err != nil || fmt.Sprint(p.x.result.Unmarked) != "[node-0]" {
		t.Errorf("apply: %v, unmarked %v", p.err, p.x.result.Unmarked)
	}
}

// A marker that could not be written is no change.
func TestMarkerThatIsNotMended(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	w.nodes[1].RestartEmpty()
	plan := w.mustPlan(tickets(10))
	w.nodes[1].SetFaults(memory.On(memory.OpMark, always(memory.ErrorBefore)))
	if result, err := w.apply(plan); err != nil || result.Changed || len(result.Warnings) != 1 {
		t.Errorf("apply: %+v, %v", result, err)
	}
	up(w.nodes[1])
	if result, err := w.apply(plan); err != nil || !result.Changed {
		t.Errorf("apply: %+v, %v", result, err)
	}
}

// A clock is ahead by what it shows more than the node's, which is read half-way
// through the call.
func TestClockOff(t *testing.T) {
	sent := clock.Now{Mono: 10 * time.Second}
	got := clock.Now{Mono: 12 * time.Second, Wall: epoch}
	for off, at := range map[time.Duration]time.Time{
		0: epoch.Add(-time.Second), 2 * time.Second: epoch.Add(-3 * time.Second), -time.Second: epoch,
	} {
		if got := quorum.ClockOff(sent, got, quorum.Info{Time: at}); got != off {
			t.Errorf("the clock is ahead by %v, want %v", got, off)
		}
	}
}

// Whether a process serves a sale is asked of all nodes: those that are silent may
// have promised it what others have.
func TestFindOwner(t *testing.T) {
	for name, test := range map[string]struct {
		promised, silent []int // nodes
		want             bool
	}{
		"nobody":                     {nil, nil, false},
		"all":                        {[]int{0, 1, 2}, nil, true},
		"a majority":                 {[]int{0, 2}, nil, true},
		"one":                        {[]int{1}, nil, false},
		"one, and one is silent":     {[]int{1}, []int{2}, true},
		"one is silent":              {nil, []int{2}, false},
		"two are silent":             {nil, []int{0, 2}, true},
		"one, and that is silent":    {[]int{1}, []int{1}, false},
		"two, and one that has none": {[]int{0, 1}, []int{2}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mustApply(tickets(10))
			uid := w.actual().Sale.UID()
			for i, n := range w.nodes {
				key := spec.LeaseKey(uid, 1) // that of another shard does not count
				if slices.Contains(test.promised, i) {
					key = spec.LeaseKey(uid, 0)
				}
				b := quorum.Ballot{Marker: spec.Marker(uid), TTL: quorum.MaxTTL, Requests: []quorum.LeaseRequest{{Key: key, Token: "owner"}}}
				if c, err := n.Vote(t.Context(), b); err != nil || !c.Yes[0] {
					t.Fatalf("no lease: %+v, %v", c, err)
				}
				if slices.Contains(test.silent, i) {
					down(n)
				}
			}
			p := w.begin(w.mustPlan(tickets(20)))
			var got, heard bool
			p.Drop()
			p.x.core = machine.NewCore(0)
			p.x.sale = w.actual().Sale
			p.Machine, p.queue, p.done = machine.New(p.x.core, ownerSearch{p.x, func(alive bool) { got, heard = alive, true }}), nil, false
			w.Cleanup(p.Drop)
			p.take()
			for !heard {
				p.step(inOrder)
			}
			if got != test.want {
				t.Errorf("served: %v", got)
			}
		})
	}
}

// ownerSearch is an execution that only searches the owner.
type ownerSearch struct {
	*execution
	found func(alive bool)
}

func (s ownerSearch) Run() { s.found(s.findOwner()) }

// A planner may be without any node, as one that only reads a log is.
func TestWithoutAnyNode(t *testing.T) {
	w := newWorld(t)
	w.nodes = nil
	p := w.begin(w.mustPlan(tickets(10)))
	for !p.done {
		p.step(inOrder)
	}
	if p.err != nil || len(p.x.result.Warnings) > 0 {
		t.Errorf("apply: %v, %q", p.err, p.x.result.Warnings)
	}
	w.mustApply(tickets(12))
	if err := w.command(phaseJob{pb.Phase_PAUSED}).finish(); err != nil {
		t.Error(err)
	}
	w.mustDestroy()
}

// Where no node answers, this host's clock may be wrong: what is appended has the
// time of its log.
func TestTimeWithoutNodes(t *testing.T) {
	for name, test := range map[string]struct {
		silent int
		want   time.Time
	}{
		"one answers":  {2, epoch.Add(time.Hour)},
		"none answers": {3, epoch},
	} {
		w := newWorld(t)
		w.mustApply(tickets(10))
		w.pass(time.Hour)
		for _, n := range w.nodes[:test.silent] {
			down(n)
		}
		p := w.begin(pauses(w))
		commits := 0
		for !p.done {
			for _, k := range p.queue {
				if c := commitOf(k); c != nil {
					if commits++; c.GetTimeUs() != test.want.UnixMicro() {
						t.Errorf("%s: log %s gets the time %v", name, requestOf(k).Log, time.UnixMicro(c.GetTimeUs()).UTC())
					}
				}
			}
			p.step(inOrder)
		}
		if p.err != nil || commits < 5 {
			t.Errorf("%s: %v, after %d commits", name, p.err, commits)
		}
		if warned := len(p.x.result.Warnings) > 0; warned != (test.silent == 3) {
			t.Errorf("%s: warnings %q", name, p.x.result.Warnings)
		}
	}
}

// Whoever serves a sale that is destroyed has a ttl to give its leases back; then
// they are taken from it, so that no renewal comes after the marker is gone.
func TestDestroyLetsLeasesGo(t *testing.T) {
	for name, test := range map[string]struct {
		gives, want time.Duration
	}{
		"the server gives them back": {time.Second, time.Second},
		"it is gone":                 {time.Hour, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mustApply(tickets(10))
			w.serve()
			uid := w.actual().Sale.UID()
			p := w.begin(w.planDestroy())
			for w.actual().Sale.Sealed() == nil {
				p.step(inOrder)
			}
			sealed := w.now.Mono
			for !p.done {
				if w.now.Mono-sealed >= test.gives {
					for _, n := range w.nodes {
						if _, err := n.Release(t.Context(), []quorum.LeaseRequest{{Key: spec.LeaseKey(uid, 0), Token: "owner"}}); err != nil {
							t.Fatal(err)
						}
					}
				}
				p.step(inOrder)
			}
			if took := w.now.Mono - sealed; p.err != nil || took != test.want {
				t.Errorf("%v; it took %v from the seal on, want %v", p.err, took, test.want)
			}
			w.wantNothingLeft(uid)
		})
	}
}

// A node that does not answer when it is swept is asked again a few times, and then
// left alone.
func TestSweepTries(t *testing.T) {
	for name, op := range map[string]memory.Op{"list": memory.OpList, "release": memory.OpRelease, "forget": memory.OpForget} {
		for fails := 1; fails <= sweepTries; fails++ {
			w := newWorld(t)
			w.mustApply(tickets(10))
			p := w.begin(w.planDestroy())
			for w.actual().Sale.Sealed() == nil {
				p.step(inOrder)
			}
			var asked []time.Duration
			began := w.now.Mono
			w.nodes[1].SetFaults(memory.On(op, func(memory.Call) memory.Fault {
				if asked = append(asked, w.now.Mono-began); len(asked) <= fails {
					return memory.Fault{Kind: memory.ErrorBefore}
				}
				return memory.Fault{}
			}))
			for !p.done {
				p.step(inOrder)
			}
			const ms = time.Millisecond
			want := []time.Duration{0, 40 * ms, 120 * ms, 280 * ms}
			want = want[:min(fails+1, sweepTries)]
			if op == memory.OpForget && fails < sweepTries { // the marker of the sale's name
				want = append(want, want[fails])
			}
			if !slices.Equal(asked, want) {
				t.Errorf("%s: asked after %v, want %v", name, asked, want)
			}
			wantLeft := "[]"
			if fails == sweepTries {
				wantLeft = "[lock node node-1 was not cleaned: injected fault: not done. Its leases expire within 3s, and its marker is no longer used;" +
					" run destroy again when the node is up to remove it]"
			}
			if got := fmt.Sprint(p.x.result.Warnings); p.err != nil || got != wantLeft {
				t.Errorf("%s: %v, warnings %s, want %s", name, p.err, got, wantLeft)
			}
		}
	}
}

// A majority that comes while apply waits is in time.
func TestApplyWaitsForAMajority(t *testing.T) {
	w := newWorld(t)
	plan := w.mustPlan(tickets(10))
	down(w.nodes[0])
	down(w.nodes[2])
	p := w.begin(plan)
	for began := w.now.Mono; !p.done; p.step(inOrder) {
		if w.now.Mono-began > time.Second {
			up(w.nodes[0])
		}
	}
	if p.err != nil || p.log[0].Action != "wait" || p.log[1].Action != planner.Create {
		t.Fatalf("apply: %v, %+v", p.err, p.log)
	}
	if fmt.Sprint(p.x.result.Unmarked) != "[node-2]" {
		t.Errorf("unmarked: %v", p.x.result.Unmarked)
	}
	if got := w.status().Voting; got != 2 {
		t.Errorf("%d nodes vote at once, want 2", got)
	}
}

// A node that says that it forgets is refused by what builds on it, and is no
// obstacle for what ends the sale.
func TestUnfitNodes(t *testing.T) {
	const why = "It evicts keys. Set maxmemory-policy noeviction."
	w := newWorld(t)
	saved := w.mustPlan(tickets(10))
	w.unfit = map[string]string{"node-0": why, "node-2": why}
	want := &planner.Refusal{Reason: "lock nodes are not set up as they must be", Remedy: "node-0: " + why + "\nnode-2: " + why}
	refused := func(err error) {
		t.Helper()
		var got *planner.Refusal
		if !errors.As(err, &got) || *got != *want {
			t.Errorf("error %v, want %v", err, want)
		}
	}
	_, err := planner.Make(tickets(10), w.actual())
	refused(err)
	_, err = w.apply(saved)
	refused(err)
	if next := w.actual().Sale.Next(); next != 0 {
		t.Errorf("%d slots were written", next)
	}
	w.unfit = map[string]string{"node-2": why}
	down(w.nodes[0]) // which says nothing of the others
	want.Remedy = "node-2: " + why
	_, err = planner.Make(tickets(10), w.actual())
	refused(err)
	want.Remedy = "node-0: " + why + "\nnode-2: " + why
	up(w.nodes[0])
	w.unfit = nil
	w.mustApply(tickets(10))
	w.unfit = map[string]string{"node-0": why, "node-2": why}
	for _, desired := range []int64{10, 11} {
		_, err := planner.Make(tickets(desired), w.actual())
		refused(err)
	}
	if s := w.status(); s.Nodes[0].Unfit != why || s.Voting != 3 {
		t.Errorf("status: %+v", s.Nodes)
	}
	w.mustPhase(pb.Phase_PAUSED)
	plan := w.planDestroy()
	if len(plan.Warnings) != 2 || !strings.HasSuffix(plan.Warnings[1], "node-2 is misconfigured: "+why) {
		t.Errorf("warnings: %q", plan.Warnings)
	}
	w.mustDestroy()
}

// A node that lost its memory does not vote until it cannot break a promise, and
// one that begins to abstain by itself needs no apply.
func TestNodesThatAbstain(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	w.nodes[1].RestartEmpty()
	if s := w.status(); !s.Nodes[1].Unmarked || !s.Nodes[1].VotesFrom.IsZero() || s.Voting != 2 || s.Majority != 2 {
		t.Errorf("restarted: %+v", s)
	}
	if got := brief(w.mustPlan(tickets(10))); got != "~node/node-1 marker missing>abstaining" {
		t.Errorf("the plan is %s", got)
	}
	w.mustApply(tickets(10))
	s := w.status()
	if n := s.Nodes[1]; n.VotesFrom.Format(time.RFC3339) != "2026-11-11T12:00:10Z" || n.Unmarked || s.Voting != 2 {
		t.Errorf("mended: %+v", n)
	}
	if fmt.Sprint(s.Warnings) != "[lock nodes that vote: 2 of 3; none may fail]" {
		t.Errorf("warnings: %q", s.Warnings)
	}
	w.pass(10 * time.Second)
	if s := w.status(); !s.Nodes[1].VotesFrom.IsZero() || s.Voting != 3 || len(s.Warnings) != 0 {
		t.Errorf("later: %+v", s)
	}
}

// What a plan warns of where nodes are away depends on how far the sale has come.
func TestNodeWarnings(t *testing.T) {
	applied := func(w *world) { w.mustApply(tickets(10)) }
	halfWay := func(w *world) { w.runUntil(w.mustPlan(tickets(10)), 1) }
	apply, destroy := applies(tickets(10)), (*world).planDestroy
	const without = "the sale can be sold without these lock nodes; run apply again when they answer, to complete it"
	for name, test := range map[string]struct {
		before func(*world)
		away   int
		plan   func(*world) *planner.Plan
		want   []string // besides one for each that is away
	}{
		"new":                     {func(*world) {}, 0, apply, nil},
		"new, one is away":        {func(*world) {}, 1, apply, []string{without}},
		"new, two are":            {func(*world) {}, 2, apply, []string{"1 of 3 lock nodes can be used, and a new sale needs 2"}},
		"being made":              {halfWay, 1, apply, []string{without}},
		"live":                    {applied, 0, apply, nil},
		"live, one is away":       {applied, 1, apply, []string{"lock nodes that vote: 2 of 3; none may fail"}},
		"live, two are":           {applied, 2, apply, []string{"lock nodes that vote: 1 of 3; no process can sell with fewer than 2"}},
		"destroy":                 {applied, 2, destroy, nil},
		"destroy while made":      {halfWay, 2, destroy, nil},
		"the next run, one away":  {func(w *world) { applied(w); w.mustDestroy() }, 1, applies(run(tickets(10), 2)), []string{without}},
		"the next run, all there": {func(w *world) { applied(w); w.mustDestroy() }, 0, applies(run(tickets(10), 2)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			test.before(w)
			var want []string
			for _, n := range w.nodes[:test.away] {
				down(n)
				want = append(want, "lock node "+n.Name()+" cannot be used: injected fault: not done")
			}
			if got := test.plan(w).Warnings; !slices.Equal(got, append(want, test.want...)) {
				t.Errorf("it warns of %q, want %q", got, append(want, test.want...))
			}
		})
	}
	w := newListWorld(t)
	down(w.nodes[0])
	if got := w.mustPlan(numbers(30)).Warnings; len(got) != 2 || got[1] != "each shard's list is on one node: apply ends with an error while one of them cannot be used" {
		t.Errorf("with lists it warns of %q", got)
	}
	x := newWorld(t)
	x.mustApply(tickets(10))
	x.nodes[1].RestartEmpty()
	x.mustApply(tickets(10))
	const abstains = "lock node node-1 abstains until 2026-11-11T12:00:10Z: it was restarted, or lost its memory"
	if got := x.mustPlan(tickets(10)).Warnings; len(got) != 2 || got[0] != abstains {
		t.Errorf("of a node that abstains: %q", got)
	}
	if got := x.planDestroy().Warnings; len(got) != 0 {
		t.Errorf("of a node that abstains, at the end: %q", got)
	}
}

// A node that hangs costs the time that a node has, and no more.
func TestStatusWithANodeThatHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustApply(tickets(10))
	w.nodes[2].Hang()
	defer w.nodes[2].Resume()
	s := w.status()
	if n := s.Nodes[2]; n.Up || n.Error != "no answer in time" || !s.Nodes[0].Up || s.Stock != 10 {
		t.Errorf("status: %+v", s)
	}
}

// Whether a sale is served cannot be known from a minority.
func TestStatusFromAMinority(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	w.serve()
	down(w.nodes[0])
	if s := w.status(); s.Owner != "127.0.0.1:1" {
		t.Errorf("two of three are enough: %+v", s)
	}
	down(w.nodes[1])
	s := w.status()
	want := []string{
		"lock nodes that vote: 1 of 3; no process can sell with fewer than 2",
		"it is unknown whether a process serves it: too few lock nodes answer",
	}
	if s.Owner != "" || !slices.Equal(s.Warnings, want) {
		t.Errorf("owner %q, warnings %q", s.Owner, s.Warnings)
	}
}

// An end that has passed is no change, and whoever plans should know.
func TestClosesAtHasPassed(t *testing.T) {
	w := newWorld(t)
	over := tickets(10)
	over.ClosesAt = epoch.Add(time.Minute)
	w.mustApply(over)
	if p := w.mustPlan(over); len(p.Warnings) != 0 {
		t.Errorf("before: %q", p.Warnings)
	}
	w.pass(time.Minute)
	const want = "closesAt 2026-11-11T12:01:00Z has passed: no claim is accepted"
	if p := w.mustPlan(over); !p.Empty() || fmt.Sprint(p.Warnings) != "["+want+"]" {
		t.Errorf("after: %s, %q", brief(p), p.Warnings)
	}
	if s := w.status(); s.ClosesAt.Format(time.RFC3339) != "2026-11-11T12:01:00Z" || !s.OpensAt.IsZero() || s.Phase != ledger.PhaseEnded || len(s.Warnings) != 0 {
		t.Errorf("status: %+v", s)
	}
	if p := w.mustPlan(tickets(10)); len(p.Warnings) != 0 {
		t.Errorf("a plan that takes the end away: %q", p.Warnings)
	}
	w.mustPhase(pb.Phase_CLOSED)
	if p := w.mustPlan(over); len(p.Warnings) != 0 {
		t.Errorf("closed by hand: %q", p.Warnings)
	}
}

// What a node could not be made to forget is forgotten by a destroy later, even
// where no plan can show it.
func TestDestroyAgainSweepsNodes(t *testing.T) {
	for name, test := range map[string]struct {
		away func(*memory.Node)
		plan string
	}{
		"it still knows its marker": {func(*memory.Node) {}, "-node/node-1 marker good>"},
		"it is another by now":      {func(n *memory.Node) { n.RestartFrom(n.Promises()) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			sold(w)
			down(w.nodes[1])
			p := w.begin(w.planDestroy())
			for !p.done {
				p.step(inOrder)
			}
			if p.err != nil || len(p.x.result.Warnings) != 1 || !strings.HasPrefix(p.x.result.Warnings[0], "lock node node-1 was not cleaned") {
				t.Fatalf("destroy: %v, %q", p.err, p.x.result.Warnings)
			}
			up(w.nodes[1])
			test.away(w.nodes[1])
			again := w.planDestroy()
			if brief(again) != test.plan {
				t.Errorf("the plan is %q", brief(again))
			}
			forgets := 0
			w.nodes[1].SetFaults(memory.On(memory.OpForget, func(memory.Call) memory.Fault {
				forgets++
				return memory.Fault{}
			}))
			cfg := w.config()
			cfg.Clock = clockOf(w)
			if result, err := Destroy(t.Context(), cfg, again, ""); err != nil || result.Changed || forgets != 2 { // the run's, and that of the sale's name
				t.Errorf("again: %+v, %v; %d markers were forgotten", result, err, forgets)
			}
		})
	}
}

// Wherever a destroy stands when another comes past it and deletes, it ends well:
// there is only that left to do.
func TestDestroyOvertakenAtEveryCall(t *testing.T) {
	if testing.Short() {
		t.Skip("it tries many orders of calls")
	}
	for name, killed := range map[string]func(*process) bool{
		"by one that ends":               func(*process) bool { return false },
		"by one that dies at its delete": func(p *process) bool { return p.x.sale.Sealed() != nil && p.asked%3 == 0 },
	} {
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				w := newWorld(t)
				sold(w)
				plan := w.planDestroy()
				slow := w.begin(plan)
				for range n {
					if !slow.done {
						slow.step(inOrder)
					}
				}
				if slow.done {
					break
				}
				runDestroyUntil(w, plan, killed)
				sweeps, choose := 0, seeded(uint64(n))
				for !slow.done {
					forgets := func(k calls.Call) bool { return k.What == "sweep marker" }
					if i := slices.IndexFunc(slow.queue, forgets); i >= 0 {
						sweeps++
						k := slow.next(i)
						slow.reply(k, slow.perform(k))
						continue
					}
					slow.step(choose)
				}
				if sweeps > len(w.nodes) {
					t.Errorf("overtaken at call %d: nodes were swept %d times", n, sweeps)
				}
				if slow.err != nil {
					t.Fatalf("overtaken at call %d: %v", n, slow.err)
				}
				w.wantNothingLeft(plan.UID)
				w.wantExport(15)
			}
		})
	}
}

// An old plan that is found carried out makes no progress.
func TestNoProgressOfWhatWasDone(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	for _, make := range []func(*world) *planner.Plan{applies(tickets(13)), (*world).planDestroy} {
		plan := make(w)
		for i := range 2 {
			p := w.begin(plan)
			for !p.done {
				p.step(inOrder)
			}
			if p.err != nil || len(p.log) > 0 != (i == 0) {
				t.Errorf("%s, time %d: %v, %+v", plan.Kind, i+1, p.err, p.log)
			}
		}
	}
}

// Of a store that fails, the error says so, and which log it was.
func TestStoreErrors(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	plan := w.mustPlan(tickets(20))
	w.faults = func(c memory.Call) memory.Fault {
		if c.Op == memory.OpRead && strings.HasPrefix(c.Log, "sale/") {
			return memory.Fault{Kind: memory.ErrorBefore}
		}
		return memory.Fault{}
	}
	if _, err := current.ReadSale(t.Context(), w.running().Backends, "tickets"); !errors.Is(err, planner.ErrStore) || errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("reading: %v", err)
	}
	w.faults = memory.On(memory.OpHeads, always(memory.ErrorBefore))
	if err := w.run(plan); !errors.Is(err, planner.ErrStore) || !errors.Is(err, planner.ErrPartly) || !strings.Contains(err.Error(), "the heads of the shards") {
		t.Errorf("apply: %v", err)
	}
	w = newWorld(t)
	w.table = &fakeTable{}
	w.faults = memory.On(memory.OpAppend, always(memory.ErrorBefore))
	if err := w.run(w.mustPlan(tickets(10))); !errors.Is(err, planner.ErrStore) || !errors.Is(err, planner.ErrPartly) {
		t.Errorf("apply that has made the table and no more: %v", err)
	}
}

// Two names of one server make a majority that is none.
func TestOneServerUnderTwoNames(t *testing.T) {
	w := newWorld(t)
	w.nodes[2] = w.nodes[1]
	_, err := planner.Make(tickets(10), w.actual())
	if refusal := (*planner.Refusal)(nil); !errors.As(err, &refusal) || !strings.Contains(refusal.Remedy, "It is the same server as node-1. Name each server once.") {
		t.Errorf("plan: %v", err)
	}
}

// A node whose marker cannot be read is one that cannot be used.
func TestMarkerThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	p := w.begin(w.mustPlan(tickets(20)))
	w.nodes[1].SetFaults(memory.On(memory.OpReadMarker, always(memory.ErrorBefore)))
	if err := p.finish(); err != nil || len(p.x.result.Warnings) != 1 || !strings.HasPrefix(p.x.result.Warnings[0], "lock node node-1 cannot be used") {
		t.Errorf("%v, warnings %q", err, p.x.result.Warnings)
	}
}
