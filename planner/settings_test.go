package planner

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// The settings in force are what a plan compares with, not what was declared with
// them: a sale that has lost its end is given it again.
func TestSettingsInForce(t *testing.T) {
	for name, test := range map[string]struct {
		drift func(*pb.Settings)
		want  string
	}{
		"no end":         {func(s *pb.Settings) { s.ClosesAtUs = 0 }, "~sale/tickets closesAt >2026-11-11T13:00:00Z"},
		"another begin":  {func(s *pb.Settings) { s.OpensAtUs += 1e6 }, "~sale/tickets opensAt 2026-11-11T12:00:01Z>2026-11-11T12:00:00Z"},
		"another limit":  {func(s *pb.Settings) { s.PerUserLimit = 9 }, "~sale/tickets perUserLimit 9>2"},
		"as was decided": {func(*pb.Settings) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			sale := with(tickets(10), func(s *spec.Sale) { s.OpensAt, s.ClosesAt = epoch, epoch.Add(time.Hour) })
			w.mustApply(sale)
			w.drift(test.drift)
			plan := w.mustPlan(sale)
			if got := brief(plan); got != test.want {
				t.Fatalf("the plan is %q, want %q", got, test.want)
			}
			const reason = "the settings in force are not those that were declared"
			if !plan.Empty() && plan.Actions[0].Reason != reason {
				t.Errorf("the reason is %q", plan.Actions[0].Reason)
			}
			if err := w.run(plan); err != nil {
				t.Fatal(err)
			}
			s := w.actual().Sale.Newest().GetSettings()
			if s.GetClosesAtUs() != sale.ClosesAt.UnixMicro() || s.GetOpensAtUs() != sale.OpensAt.UnixMicro() || s.GetPerUserLimit() != 2 {
				t.Errorf("the settings are %v", s)
			}
			if plan := w.mustPlan(sale); !plan.Empty() {
				t.Errorf("then the plan is %q", brief(plan))
			}
			w.drift(test.drift)
			w.mustPhase(pb.Phase_CLOSED)
			if plan := w.mustPlan(sale); !plan.Empty() {
				t.Errorf("when the sale is closed, the plan is %q", brief(plan))
			}
		})
	}
}

// drift brings the sale to a generation whose settings are not those it declares.
func (w *world) drift(change func(*pb.Settings)) {
	w.Helper()
	actual := w.actual()
	settings := withPhase(actual.Sale.Newest().GetSettings(), pb.Phase_OPEN)
	change(settings)
	p := newPlan(KindPhase, actual)
	if err := p.carry(follow(actual.Sale, settings)); err != nil {
		w.Fatal(err)
	}
	if err := w.run(p); err != nil {
		w.Fatal(err)
	}
}

// What has no hours has none in its settings either.
func TestSettingsWithoutHours(t *testing.T) {
	if got, want := settingsOf(tickets(10), pb.Phase_PAUSED), (&pb.Settings{PerUserLimit: 2, Phase: pb.Phase_PAUSED}); !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Only what a sale has is among its attributes.
func TestAttributesOfNumbersAndUnits(t *testing.T) {
	sale := tickets(10)
	sale.Engine, sale.Ack = spec.EngineLedger, spec.AckLedger
	if a := saleAttributes(sale, 10, "open", 1); a.Engine != "" || a.Ack != "" || a.Backlog != 0 {
		t.Errorf("a sale without lists has %+v", a)
	}
	if a := saleAttributes(numbers(10), 10, "open", 1); a.Engine != "redis" || a.RedPacket != "" {
		t.Errorf("a sale of numbers has %+v", a)
	}
}
