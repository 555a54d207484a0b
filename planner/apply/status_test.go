package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/memory"
	"salectl/planner"
	"salectl/planner/current"
	"salectl/spec"
)

func (w *world) status() *current.Status {
	w.Helper()
	s, err := current.ReadStatus(w.Context(), w.config().Backends, "tickets")
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func TestStatus(t *testing.T) {
	w := newWorld(t)
	if _, err := current.ReadStatus(t.Context(), w.config().Backends, "tickets"); !errors.Is(err, ledger.ErrGone) {
		t.Errorf("status of no sale: %v", err)
	}
	sold(w)
	w.serve()
	s := w.status()
	if s.Phase != ledger.PhaseOpen || s.Stock != 30 || s.Sold != 15 || s.Available != 11 || s.InFlight != 4 || s.Generation != 1 {
		t.Errorf("status: %+v", s)
	}
	if s.Owner != "127.0.0.1:1" || s.Shards[0].LeaseLeftSeconds != 10 || s.Shards[1].LeaseLeftSeconds != 0 || s.Shards[1].Owner != "127.0.0.1:1" {
		t.Errorf("owner %q, shards %+v", s.Owner, s.Shards)
	}
	if len(s.Nodes) != 3 || !s.Nodes[0].Up || s.Nodes[0].Leases != 1 {
		t.Errorf("nodes: %+v", s.Nodes)
	}
	w.mustDestroy()
	if s := w.status(); s.Phase != ledger.PhaseDestroyed || s.Sold != 15 || s.Stock != 30 || len(s.Shards) != 0 {
		t.Errorf("status after destroy: %+v", s)
	}
}

// Of a shard the status has what its head has, and whose lease it is.
func TestStatusOfAShard(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(30))
	o := w.owner(0)
	o.claim(3)
	if err := o.claimHeld(2, w.now.Wall.Add(time.Minute).UnixMicro()); err != nil {
		t.Fatal(err)
	}
	if err := o.append(func(d *ledger.Draft) { d.Own("127.0.0.1:9") }); err != nil {
		t.Fatal(err)
	}
	o.append(func(d *ledger.Draft) { d.Out(1, 1) })
	want := current.ShardStatus{Shard: 0, Owner: "127.0.0.1:9", Slot: 7, Totals: ledger.Totals{
		Epoch: 2, Generation: 2, Owner: "127.0.0.1:9", Phase: ledger.PhaseOpen, Limit: 10, Available: 4, Held: 2, Sold: 3, InFlight: 1,
		Outcomes: ledger.Outcomes{OpenHolds: 1},
	}}
	s := w.status()
	if s.Shards[0] != want {
		t.Errorf("the shard is %+v, want %+v", s.Shards[0], want)
	}
	if s.Stock != 30 || s.Sold != 3 || s.Held != 2 || s.Available != 24 || s.InFlight != 1 {
		t.Errorf("the sale is %+v", s)
	}
	w.serve()
	want.Owner, want.LeaseLeftSeconds = "127.0.0.1:1", 10
	if s := w.status(); s.Shards[0] != want {
		t.Errorf("the shard is %+v, want %+v", s.Shards[0], want)
	}
}

// A shard without a log is no loss before a sale is on every shard, and a phase that
// a shard may not have come to does not hold yet.
func TestStatusOfShardsWithoutAHead(t *testing.T) {
	w := newWorld(t)
	w.runUntil(w.mustPlan(tickets(10)), 1)
	if s := w.status(); s.Shards[1].Error != "it has no log" || len(s.Warnings) != 1 || s.Warnings[0] != "lock nodes that vote: 0 of 3; no process can sell with fewer than 2" {
		t.Errorf("being made: %+v", s)
	}
	w.mustApply(tickets(10))
	w.runUntil(pauses(w), 2)
	actual := w.actual()
	for name, shard := range map[string]planner.ShardActual{"has no log": {}, "cannot be read": {Err: memory.ErrInjected}} {
		actual.Shards[2] = shard
		s, err := current.NewStatus(actual)
		if err != nil || s.Phase != ledger.PhaseStalled || len(s.Warnings) == 0 || // open, and no node votes yet
			s.Warnings[0] != "1 of 3 shards cannot be read (2): their users cannot buy, and the totals exclude them" {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

// A sale that is sealed needs no votes, and warns of nothing.
func TestStatusOfASealedSale(t *testing.T) {
	w := newWorld(t)
	sold(w)
	w.seal()
	w.nodes[0].RestartEmpty()
	actual := w.actual()
	actual.Shards[0] = planner.ShardActual{}
	s, err := current.NewStatus(actual)
	if err != nil || s.Phase != ledger.PhaseSealed || s.Voting != 0 || s.Majority != 0 || len(s.Warnings) != 0 || s.Nodes[0].Unmarked {
		t.Errorf("%+v, %v", s, err)
	}
}

// The names are a contract with whoever reads them in a script.
func TestStatusJSON(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(3))
	b, err := json.Marshal(w.status())
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Shards []map[string]any
		Nodes  []map[string]any
	}
	var top map[string]any
	if json.Unmarshal(b, &got) != nil || json.Unmarshal(b, &top) != nil {
		t.Fatalf("%s", b)
	}
	for _, name := range []string{"sale", "uid", "generation", "phase", "stock", "sold", "held", "available", "inFlight", "shards", "nodes"} {
		if _, ok := top[name]; !ok {
			t.Errorf("no %s in %s", name, b)
		}
	}
	for _, name := range []string{"shard", "owner", "leaseLeftSeconds", "slot", "generation", "available", "held", "sold"} {
		if _, ok := got.Shards[0][name]; !ok {
			t.Errorf("no shards[].%s in %s", name, b)
		}
	}
	if _, ok := got.Nodes[0]["up"]; !ok {
		t.Errorf("no nodes[].up in %s", b)
	}
}

// What cannot be read is said, and hides nothing else.
func TestStatusOfWhatCanBeRead(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	down(w.nodes[1])
	cfg := w.config()
	cfg.Logs = oneLost{cfg.Logs, w.actual().Sale.ShardLogs()[1]}
	s, err := current.ReadStatus(t.Context(), cfg.Backends, "tickets")
	if err != nil {
		t.Fatal(err)
	}
	if s.Nodes[1].Up || s.Nodes[1].Error == "" || !s.Nodes[0].Up {
		t.Errorf("nodes: %+v", s.Nodes)
	}
	if s.Shards[1].Error != "injected fault" || s.Shards[0].Available != 4 || s.Shards[2].Available != 3 || s.Stock != 7 {
		t.Errorf("shards: %+v", s.Shards)
	}
	want := []string{
		"1 of 3 shards cannot be read (1): their users cannot buy, and the totals exclude them",
		"lock nodes that vote: 2 of 3; none may fail",
	}
	if !slices.Equal(s.Warnings, want) {
		t.Errorf("warnings: %q", s.Warnings)
	}
}

// oneLost are logs of which one cannot be read.
type oneLost struct {
	ledger.Logs
	lost string
}

func (l oneLost) Heads(ctx context.Context, logs []string) ([][]byte, error) {
	if slices.Contains(logs, l.lost) {
		return nil, memory.ErrInjected
	}
	return l.Logs.Heads(ctx, logs)
}

// A change of phase holds when every shard has it.
func TestStatusWhileThePhaseChanges(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	plan, err := planner.MakePhase(w.actual(), pb.Phase_CLOSED)
	if err != nil {
		t.Fatal(err)
	}
	p := w.begin(plan)
	for range 100 {
		closed := 0
		for _, shard := range w.actual().Shards {
			if shard.Head.Phase == ledger.PhaseClosed {
				closed++
			}
		}
		if got := w.status().Phase; got != map[bool]string{true: ledger.PhaseClosed, false: ledger.PhaseOpen}[closed == 3] {
			t.Fatalf("the phase is %s with %d of 3 shards closed", got, closed)
		}
		if p.done {
			break
		}
		p.step(inOrder)
	}
	if !p.done || p.err != nil {
		t.Fatalf("close: %v", p.err)
	}
	w = newWorld(t)
	w.runUntil(w.mustPlan(tickets(10)), 2)
	if got := w.status().Phase; got != ledger.PhasePlanned {
		t.Errorf("before the first Applied the phase is %s", got)
	}
}

// Of a sale that is served and whose nodes answer, nothing is unknown.
func TestStatusOfAServedSale(t *testing.T) {
	w := newWorld(t)
	w.mustApply(tickets(10))
	w.serve()
	s, err := current.NewStatus(w.actual())
	if err != nil || s.Owner == "" || len(s.Warnings) > 0 {
		t.Errorf("owner %q, warnings %q, %v", s.Owner, s.Warnings, err)
	}
	w.faults = memory.On(memory.OpRead, always(memory.ErrorBefore))
	if s, err := current.ReadStatus(t.Context(), w.running().Backends, "tickets"); s != nil || !errors.Is(err, planner.ErrStore) {
		t.Errorf("what cannot be read stands as %+v, %v", s, err)
	}
}

// Of a shard that cannot be read nobody knows whether its list should give.
func TestStatusOfTheListOfAnUnreadableShard(t *testing.T) {
	w := newListWorld(t)
	w.mustApply(numbers(30))
	w.keepers[1].Restart()
	actual := w.actual()
	actual.Shards[1] = planner.ShardActual{Err: errDisk}
	s, err := current.NewStatus(actual)
	if err != nil || len(s.Warnings) != 1 || !strings.HasPrefix(s.Warnings[0], "1 of 3 shards cannot be read (1)") {
		t.Errorf("%v, warnings %q", err, s.Warnings)
	}
}

// An error for which there is a word is told by that.
func TestInShort(t *testing.T) {
	for want, err := range map[string]error{
		"no answer in time":  fmt.Errorf("reading x: %w", context.DeadlineExceeded),
		"connection refused": fmt.Errorf("dial: %w", syscall.ECONNREFUSED),
		"two lines":          errors.New("two\n lines"),
	} {
		if got := planner.ShortError(err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A long reason is whole: it names what fails at its end.
func TestOutageTellsTheReason(t *testing.T) {
	cause := errors.New("read sale/tickets: " + strings.Repeat("HBase table sales: ", 20) + "zk: could not\n connect to a server")
	o, err := current.ReadOutage(t.Context(), newWorld(t).running().Backends, "tickets", fmt.Errorf("sale tickets: %w", &planner.StoreError{Err: cause}))
	if err != nil {
		t.Fatal(err)
	}
	got := o.Status("").LedgerError
	if !strings.HasPrefix(got, "read sale/tickets: HBase") || !strings.HasSuffix(got, "table sales: zk: could not connect to a server") {
		t.Errorf("%q", got)
	}
}

func TestBrief(t *testing.T) {
	w := newWorld(t)
	logs := w.store.Handle(nil)
	if names, err := current.ListSales(t.Context(), logs); err != nil || len(names) != 0 {
		t.Errorf("an empty store has the sales %q, %v", names, err)
	}
	if _, err := current.Summarize(t.Context(), logs, "tickets"); !errors.Is(err, ledger.ErrGone) {
		t.Errorf("of a sale that never was: %v", err)
	}
	w.mustApply(tickets(10))
	want := func(want current.Brief) {
		t.Helper()
		got, err := current.Summarize(t.Context(), logs, "tickets")
		if err != nil {
			t.Fatal(err)
		}
		want.Run, want.Sale, want.UID = 1, "tickets", w.actual().Sale.UID()
		if *got != want {
			t.Errorf("%+v, want %+v", *got, want)
		}
	}
	want(current.Brief{SaleSummary: api.SaleSummary{Phase: "open", Generation: 1, Stock: 10, Available: 10}})
	w.mustPhase(pb.Phase_PAUSED)
	want(current.Brief{SaleSummary: api.SaleSummary{Phase: "paused", Generation: 2, Stock: 10, Available: 10}})
	w.mustDestroy()
	want(current.Brief{SaleSummary: api.SaleSummary{Phase: "destroyed", Generation: 3, Stock: 10}})
	if names, err := current.ListSales(t.Context(), logs); err != nil || !slices.Equal(names, []string{"tickets"}) {
		t.Errorf("the sales are %q, %v", names, err)
	}
	if _, err := current.ListSales(t.Context(), struct{ ledger.Logs }{logs}); err == nil {
		t.Error("a store that cannot name its logs has listed its sales")
	}
}

// An unreadable declaration is an error of a brief, and a status has the rest.
func TestBriefOfUnreadableDeclaration(t *testing.T) {
	w := newWorld(t)
	logs, log, op := w.store.Handle(nil), spec.SaleLog("tickets"), plannedOp(workUID, 1, 1)
	op.GetPlanned().Spec = []byte("{")
	entry, err := ledger.NewSale(log).Entry([]byte("another version"), 1, op)
	if err != nil {
		t.Fatal(err)
	}
	if err := logs.Append(t.Context(), log, 0, nil, entry.Head, entry.Bytes); err != nil {
		t.Fatal(err)
	}
	if b, err := current.Summarize(t.Context(), logs, "tickets"); err == nil || !strings.HasPrefix(err.Error(), "sale tickets: generation 1: ") {
		t.Errorf("%+v, %v", b, err)
	}
	if s, err := current.NewStatus(w.actual()); err != nil || s.Generation != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestHistory(t *testing.T) {
	w := newWorld(t)
	if _, err := current.ReadHistory(t.Context(), w.store.Handle(nil), "tickets"); !errors.Is(err, ledger.ErrGone) {
		t.Errorf("of a sale that never was: %v", err)
	}
	w.mustApply(tickets(10))
	w.mustPhase(pb.Phase_PAUSED)
	w.runUntil(w.mustPlan(tickets(13)), 1)
	read := func() *current.SaleHistory {
		t.Helper()
		h, err := current.ReadHistory(t.Context(), w.store.Handle(nil), "tickets")
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	h := read()
	if len(h.Runs) != 1 || len(h.Runs[0].Generations) != 3 {
		t.Fatalf("%+v", h)
	}
	g := h.Runs[0].Generations
	for i, want := range []string{"", "[{phase open paused}]", "[{stock 10 13}]"} {
		if got := fmt.Sprint(g[i].Changes); want != "" && got != want {
			t.Errorf("generation %d: %s, want %s", i+1, got, want)
		}
		if g[i].Generation != uint64(i)+1 || (g[i].AppliedAt == "") != (i == 2) || len(g[i].PlanDigest) != 64 || g[i].Who == "" {
			t.Errorf("%+v", g[i])
		}
	}
	w.mustApply(tickets(13))
	w.mustDestroy()
	w.mustApply(run(tickets(3), 2))
	h = read()
	if len(h.Runs) != 2 || h.Runs[0].DestroyedAt == "" || h.Runs[0].SealedAt == "" || len(h.Runs[0].ExportDigest) != 64 || h.Runs[0].Generations[2].AppliedAt == "" {
		t.Fatalf("%+v", h)
	}
	if second := h.Runs[1]; second.Run != 2 || len(second.Generations) != 1 || second.SealedAt != "" || second.Generations[0].Changes[0] != (planner.Field{Name: "run", After: "2"}) {
		t.Errorf("%+v", second)
	}
}

// The lock nodes know of a sale whose ledger was deleted: nothing advises to apply it, and a plan
// that would sell its units again warns. After a destroy no node knows anything.
func TestLedgerDeleted(t *testing.T) {
	const says = "3 of 3 lock nodes have a marker of sale tickets, but the ledger has no run of it"
	w := newWorld(t)
	sold(w)
	cfg := w.config()
	for _, log := range append(w.actual().Sale.ShardLogs(), spec.SaleLog("tickets")) {
		if err := cfg.Logs.Delete(t.Context(), log, 1000); err != nil {
			t.Fatal(err)
		}
	}
	if plan := w.mustPlan(tickets(30)); !slices.ContainsFunc(plan.Warnings, func(s string) bool { return strings.Contains(s, says) }) {
		t.Errorf("plan warns of %q", plan.Warnings)
	}
	for what, err := range map[string]error{
		"status": func() error { _, err := current.NewStatus(w.actual()); return err }(),
		"pause":  func() error { _, err := planner.MakePhase(w.actual(), pb.Phase_PAUSED); return err }(),
	} {
		if !errors.Is(err, planner.ErrRefused) || !strings.Contains(err.Error(), says) || strings.Contains(fmt.Sprint(err), "salectl apply") {
			t.Errorf("%s: %v", what, err)
		}
	}
	w = newWorld(t)
	sold(w)
	w.mustDestroy()
	if err := w.config().Logs.Delete(t.Context(), spec.SaleLog("tickets"), 1000); err != nil {
		t.Fatal(err)
	}
	if lost := w.actual().Lost(); lost != "" {
		t.Errorf("after a destroy %s", lost)
	}
}
