package apply

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/memory"
	"salectl/planner"
	"salectl/planner/current"
	"salectl/spec"
)

// What was granted and what is given back are all there was, to the cent, however
// often destroy was killed.
func TestRefund(t *testing.T) {
	for kill := 1; ; kill++ {
		w := newListWorld(t)
		w.mustApply(packets(30))
		seed := w.actual().Sale.Newest().GetSeed()
		w.grabAll()
		var taken int64
		amounts := packets(30).RedPacket.Deal(30, [32]byte(seed))
		for _, unit := range w.told {
			taken += amounts.Amount(unit)
		}
		r := packets(30).RedPacket
		want := planner.Refund{Packets: 24, Amount: r.Format(3000 - taken), Currency: "CNY", Granted: 6, GrantedAmount: r.Format(taken), Total: "30.00"}
		exported := new(sink)
		killed := w.killCommand(exported.job(), kill, served)
		c := w.command(exported.job())
		if err := c.finish(); err != nil || c.result.Refund == nil || *c.result.Refund != want {
			t.Fatalf("kill at call %d: %v, %+v, want %+v", kill, err, c.result.Refund, want)
		}
		if s, err := current.NewStatus(w.actual()); err != nil || s.Refund == nil || *s.Refund != want {
			t.Fatalf("the status has %+v, %v", s, err)
		}
		if !killed {
			break
		}
	}
}

// Nothing is given back of a sale that goes on, and nothing at all where the packets
// do not add up.
func TestRefundOfWhatIsNotOver(t *testing.T) {
	w := newListWorld(t)
	w.mustApply(packets(30))
	w.grabAll()
	w.mustPhase(pb.Phase_PAUSED)
	sale, shards := w.actual().Sale, w.ledgers()
	if r := planner.RefundOf(sale); r != nil {
		t.Errorf("of a live sale: %+v", r)
	}
	left, err := planner.Untaken(sale, shards)
	if err != nil || left <= 0 || left >= 3000 {
		t.Errorf("%d are left, %v", left, err)
	}
	if _, err := planner.Untaken(sale, shards[:2]); !errors.Is(err, ledger.ErrCorrupt) || !strings.Contains(err.Error(), " are left, of 30.00") {
		t.Errorf("where a shard is missing: %v", err)
	}
	w = newListWorld(t)
	w.mustApply(numbers(30))
	if left, err := planner.Untaken(w.actual().Sale, w.ledgers()); left != 0 || err != nil {
		t.Errorf("of numbers: %d, %v", left, err)
	}
	w.seal()
	if r := planner.RefundOf(w.actual().Sale); r != nil {
		t.Errorf("of numbers: %+v", r)
	}
}

// The plan of a destroy tells what a red packet comes to by its ledger, and the destroy
// then gives back just that.
func TestDestroyPlansTheRefund(t *testing.T) {
	w := newListWorld(t)
	const ahead = "the ledger may lack packets that lists have given: these will reduce the refund"
	plan := func(ctx context.Context) (*planner.Ends, *planner.Plan) {
		t.Helper()
		actual := w.actual()
		actual.Ledger = current.ReadLedger(ctx, w.logs(nil), actual)
		p, err := planner.MakeDestroy(actual)
		if err != nil {
			t.Fatal(err)
		}
		return p.Actions[len(p.Actions)-1].Before.Ends, p
	}
	untouched := planner.Ends{Available: 30, Refund: &planner.Refund{Packets: 30, Amount: "30.00", Currency: "CNY", GrantedAmount: "0.00", Total: "30.00"}}
	want := func(what string, want planner.Ends, warns ...string) {
		t.Helper()
		if ends, p := plan(t.Context()); !reflect.DeepEqual(*ends, want) || !slices.Equal(p.Warnings, warns) {
			t.Errorf("%s the plan says %+v, %+v, %q, want %+v, %+v, %q", what, ends, ends.Refund, p.Warnings, want, want.Refund, warns)
		}
	}
	w.runUntil(w.mustPlan(packets(30)), 1)
	if w.actual().Sale.Applied() != 0 {
		t.Fatal("the sale is on every shard")
	}
	want("of a sale that is not on every shard", untouched)
	w.mustApply(packets(30))
	want("before anybody came", untouched)
	w.grabAll()
	want("before the ledger has any", untouched, ahead)
	actual := w.actual()
	for i := range actual.Lists { // as they are once the ledger has the batches that the streams have still
		actual.Lists[i].State.Units = actual.Shards[i].Head.Available
	}
	actual.Ledger = current.ReadLedger(t.Context(), w.logs(nil), actual)
	if p, err := planner.MakeDestroy(actual); err != nil || len(p.Warnings) > 0 {
		t.Errorf("where the ledger has all that was given: %q, %v", p.Warnings, err)
	}

	w.mustPhase(pb.Phase_PAUSED)
	var taken int64
	r := packets(30).RedPacket
	first := w.actual().Sale.Planned(1)
	dealt := r.Deal(30, [32]byte(first.GetSeed()))
	for _, unit := range w.told {
		taken += dealt.Amount(unit)
	}
	refund := &planner.Refund{Packets: 24, Amount: r.Format(3000 - taken), Currency: "CNY", Granted: 6, GrantedAmount: r.Format(taken), Total: "30.00"}
	want("paused", planner.Ends{Sold: 6, Available: 24, Refund: refund, Claims: 6})
	sender := w.owner(0)
	if err := sender.append(func(d *ledger.Draft) { d.Out(1, 4) }); err != nil {
		t.Fatal(err)
	}
	moving := planner.Ends{Sold: 6, Available: 20, InFlight: 4, Refund: refund, Claims: 6}
	want("while packets are on their way", moving)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ends, p := plan(ctx)
	if ends.Refund != nil || ends.Sold != 6 || ends.Available != 20 || len(p.Warnings) != 1 ||
		!strings.HasPrefix(p.Warnings[0], "the rest of the red packet is unknown: ") {
		t.Errorf("where the logs cannot be read the plan says %+v, %q", ends, p.Warnings)
	}
	receiver := w.owner(1)
	if err := receiver.append(func(d *ledger.Draft) { _ = d.In(0, 1, sender.state.Open()[0].Units) }); err != nil {
		t.Fatal(err)
	}
	want("once they were received", planner.Ends{Sold: 6, Available: 24, Refund: refund, Claims: 6})

	actual = w.actual()
	actual.Lists[1].Err = memory.ErrInjected
	actual.Shards[2] = planner.ShardActual{Err: memory.ErrInjected}
	actual.Ledger = current.ReadLedger(t.Context(), w.logs(nil), actual)
	if p, err := planner.MakeDestroy(actual); err != nil || len(p.Warnings) != 3 ||
		!strings.HasPrefix(p.Warnings[0], "the rest of the red packet is unknown: shard/2: ") ||
		!strings.HasPrefix(p.Warnings[1], "list/1 cannot be read (node redis-1:6379: ") || !strings.HasPrefix(p.Warnings[2], "shard/2 cannot be read: ") {
		t.Errorf("where a shard and a list are away: %q, %v", p.Warnings, err)
	}

	exported := new(sink)
	c := w.command(exported.job())
	if err := c.finish(); err != nil || c.result.Refund == nil || *c.result.Refund != *refund {
		t.Errorf("the destroy gives back %+v, %v, and its plan said %+v", c.result.Refund, err, refund)
	}
	if is := current.ReadLedger(t.Context(), w.logs(nil), w.actual()); is != nil {
		t.Errorf("of a sale that is over: %+v", is)
	}
	w = newListWorld(t)
	w.mustApply(numbers(30))
	if is := current.ReadLedger(t.Context(), w.logs(nil), w.actual()); is != nil {
		t.Errorf("of numbers: %+v", is)
	}
}

// Each sale's packets are dealt by a seed of its own, which its log has and no plan.
func TestSeed(t *testing.T) {
	seeds := make(map[string]bool)
	for i := range 2 {
		w := newListWorld(t)
		for range i { // another source of chance
			_, _ = w.Read(make([]byte, 8))
		}
		planned, err := w.mustPlan(packets(30)).Intent()
		if err != nil || planned.GetSeed() != nil {
			t.Fatalf("a plan that may be saved has seed %x, %v", planned.GetSeed(), err)
		}
		w.mustApply(packets(30))
		seed := w.actual().Sale.Newest().GetSeed()
		if len(seed) != 32 {
			t.Fatalf("the seed is %x", seed)
		}
		seeds[string(seed)] = true
	}
	w := newListWorld(t)
	w.mustApply(numbers(30))
	if seed := w.actual().Sale.Newest().GetSeed(); seed != nil || len(seeds) != 2 {
		t.Errorf("%d seeds of two; numbers have %x", len(seeds), seed)
	}
}

func TestListsRefusals(t *testing.T) {
	other := func(change func(*spec.Sale)) spec.Sale {
		s := packets(30)
		red := *s.RedPacket
		s.RedPacket = &red
		change(&s)
		return s
	}
	for name, test := range map[string]struct {
		want           spec.Sale
		reason, remedy string
		paused         bool // then it is allowed
	}{
		"engine": {other(func(s *spec.Sale) { s.Engine, s.Ack, s.Backlog, s.RedPacket = "", "", 0, nil }), "engine cannot change from redis to ledger", "destroy", false},
		"total":  {other(func(s *spec.Sale) { s.RedPacket.Total++ }), "30.00 CNY, split random, min 0.01 to 30.01 CNY", "destroy", false},
		"split":  {other(func(s *spec.Sale) { s.RedPacket.Split = spec.SplitEven }), "split even", "destroy", false},
		"units":  {other(func(s *spec.Sale) { s.RedPacket = nil }), "to numbers", "destroy", false},
		"stock":  {other(func(s *spec.Sale) { s.Stock = 31 }), "stock cannot change from 30 to 31", "write metadata.run: 2, or declare", false},
		"ack":    {other(func(s *spec.Sale) { s.Ack = spec.AckRedis }), "ack cannot change from ledger to redis", "salectl pause", true},
		"order": {other(func(s *spec.Sale) { s.Redis = &spec.Redis{Nodes: []string{"redis-1:6379", "redis-0:6379"}} }),
			"their order cannot change", "salectl pause", true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newListWorld(t)
			w.mustApply(packets(30))
			wantRefused := func() {
				t.Helper()
				var refusal *planner.Refusal
				if _, err := planner.Make(test.want, w.actual()); !errors.As(err, &refusal) ||
					!strings.Contains(refusal.Reason, test.reason) || !strings.Contains(refusal.Remedy, test.remedy) {
					t.Errorf("got %v", err)
				}
			}
			wantRefused()
			w.mustPhase(pb.Phase_PAUSED)
			if !test.paused {
				wantRefused()
				return
			}
			if name == "order" {
				slices.Reverse(w.keepers)
			}
			w.mustApply(test.want)
			w.mustPhase(pb.Phase_OPEN)
			w.wantOn()
			uid := w.actual().Sale.UID()
			w.mustDestroy()
			w.wantForgotten(uid) // on every node, whichever had it when
		})
	}
}

// A pause that has not reached every shard yet has not stopped every list.
func TestListsWhoseShardsAreNotAllPaused(t *testing.T) {
	w := newListWorld(t)
	w.mustApply(numbers(30))
	pause, err := planner.MakePhase(w.actual(), pb.Phase_PAUSED)
	if err != nil {
		t.Fatal(err)
	}
	w.runUntil(pause, 1)
	sale := numbers(30)
	sale.Ack = spec.AckRedis
	if _, err := planner.Make(sale, w.actual()); !errors.Is(err, planner.ErrRefused) {
		t.Errorf("got %v", err)
	}
	w.mustPhase(pb.Phase_PAUSED)
	actual := w.actual()
	actual.Shards[1] = planner.ShardActual{Err: memory.ErrInjected}
	if _, err := planner.Make(sale, actual); !errors.Is(err, planner.ErrRefused) {
		t.Errorf("where a shard cannot be read: %v", err)
	}
}

// Nobody stops lists on other nodes than they are on: what they have given would
// be missed.
func TestListsOnTheWrongNodes(t *testing.T) {
	w := newListWorld(t)
	w.mustApply(numbers(30))
	w.grabAll()
	pause, err := planner.MakePhase(w.actual(), pb.Phase_PAUSED)
	if err != nil {
		t.Fatal(err)
	}
	right := w.keepers
	w.keepers = []*memory.Lists{right[0]}
	if err := w.run(pause); !errors.Is(err, planner.ErrRefused) {
		t.Errorf("a saved plan: %v", err)
	}
	if g := w.actual().Sale.Generation(); g != 1 {
		t.Errorf("generation %d was planned on the wrong nodes", g)
	}
	w.keepers = right
	if err := w.begin(pause).killAfterPlanned(); err != nil {
		t.Fatal(err)
	}
	w.keepers = []*memory.Lists{right[0]}
	if err := w.run(pause); !errors.Is(err, planner.ErrRefused) {
		t.Errorf("a saved plan that has begun: %v", err)
	}
	w.keepers = right
	w.mustPhase(pb.Phase_OPEN)
	w.keepers = []*memory.Lists{right[1], right[0]}
	if _, err := planner.MakePhase(w.actual(), pb.Phase_PAUSED); !errors.Is(err, planner.ErrRefused) {
		t.Errorf("pause: %v", err)
	}
	if _, err := planner.MakeDestroy(w.actual()); !errors.Is(err, planner.ErrRefused) {
		t.Errorf("destroy: %v", err)
	}
	s, err := current.NewStatus(w.actual())
	if err != nil || !slices.ContainsFunc(s.Warnings, func(text string) bool {
		return strings.HasPrefix(text, "the lists of sale tickets are on redis-0:6379, redis-1:6379, and its file names redis-1:6379, redis-0:6379")
	}) {
		t.Errorf("status: %v, %q", err, s.Warnings)
	}
	w.keepers = right
	w.seal()
	w.keepers = []*memory.Lists{right[1], right[0]}
	if _, err := planner.MakeDestroy(w.actual()); err != nil {
		t.Errorf("destroy, of what is sealed: %v", err)
	}
}

// killAfterPlanned carries a plan out until the sale's log has it, and no further.
func (p *process) killAfterPlanned() error {
	for !p.x.planned.isKnown() && !p.done {
		p.step(inOrder)
	}
	return p.err
}
