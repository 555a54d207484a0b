package apply

import (
	"encoding/json"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/planner"
	"salectl/spec"
)

// The settings in force are what a plan compares with, not what was declared with
// them: a sale that has lost its end is given it again.
func TestSettingsInForce(t *testing.T) {
	for name, test := range map[string]struct {
		drift func(*pb.Settings)
		want  string
	}{
		"no end":        {func(s *pb.Settings) { s.ClosesAtUs = 0 }, "~sale/tickets closesAt >2026-11-11T13:00:00Z"},
		"another begin": {func(s *pb.Settings) { s.OpensAtUs += 1e6 }, "~sale/tickets opensAt 2026-11-11T12:00:01Z>2026-11-11T12:00:00Z"},
		"another limit": {func(s *pb.Settings) { s.PerUserLimit = 9 }, "~sale/tickets perUserLimit 9>2"},
		"a part":        {func(s *pb.Settings) { s.Partial = true }, "~sale/tickets partial true>"},
		"no payment": {func(s *pb.Settings) { s.Payment = nil },
			"~sale/tickets payment.holdFor >10m payment.grace >30s payment.extendBy >5m payment.late >resell payment.unpaidPerUser >20"},
		"another payment": {func(s *pb.Settings) { s.Payment.HoldForUs, s.Payment.Late = 1_500_000, pb.Payment_REFUSE },
			"~sale/tickets payment.holdFor 1500ms>10m payment.late refuse>resell"},
		"as was decided": {func(*pb.Settings) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			sale := with(tickets(10), func(s *spec.Sale) {
				s.OpensAt, s.ClosesAt, s.Payment = epoch, epoch.Add(time.Hour), paid()
			})
			w.mustApply(sale)
			w.drift(test.drift)
			plan := w.mustPlan(sale)
			if got := brief(plan); got != test.want {
				t.Fatalf("the plan is %q, want %q", got, test.want)
			}
			const reason = "the settings in force differ from the declared ones"
			if !plan.Empty() && plan.Actions[0].Reason != reason {
				t.Errorf("the reason is %q", plan.Actions[0].Reason)
			}
			if err := w.run(plan); err != nil {
				t.Fatal(err)
			}
			s := w.actual().Sale.Newest().GetSettings()
			want := &pb.Settings{
				PerUserLimit: 2, OpensAtUs: sale.OpensAt.UnixMicro(), ClosesAtUs: sale.ClosesAt.UnixMicro(), Phase: pb.Phase_OPEN,
				Payment: &pb.Payment{HoldForUs: 600_000_000, GraceUs: 30_000_000, ExtendByUs: 300_000_000, Late: pb.Payment_RESELL, UnpaidPerUser: 20},
			}
			if !proto.Equal(s, want) {
				t.Errorf("the settings are %v, want %v", s, want)
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
	planned := next(actual.Sale, pb.Phase_OPEN)
	change(planned.Settings)
	p := planOf(w, planner.KindPhase, actual, planned)
	if err := w.run(p); err != nil {
		w.Fatal(err)
	}
}

// How claims are paid may change while the sale is live. Plans show it, shards and
// status have it, and what is applied is no change any more.
func TestPaymentOfALiveSale(t *testing.T) {
	payment := func(p *spec.Payment) spec.Sale {
		return with(tickets(10), func(s *spec.Sale) { s.Payment = p })
	}
	w := newWorld(t)
	w.mustApply(payment(nil))
	if p := w.status().Payment; p != nil {
		t.Errorf("a sale that sells at once has the status %v", p)
	}
	for _, step := range []struct {
		payment            *spec.Payment
		plan, status, json string
	}{
		{&spec.Payment{HoldFor: spec.Duration(90 * time.Second), Late: spec.LateRefuse},
			"~sale/tickets payment.holdFor >90s payment.grace >0s payment.late >refuse",
			"holdFor 90s, grace 0s, late refuse", `{"holdForMs":90000,"graceMs":0,"late":"refuse"}`},
		{paid(),
			"~sale/tickets payment.holdFor 90s>10m payment.grace 0s>30s payment.extendBy >5m payment.late refuse>resell payment.unpaidPerUser >20",
			"holdFor 10m, grace 30s, extendBy 5m, late resell, unpaidPerUser 20", `{"holdForMs":600000,"graceMs":30000,"extendByMs":300000,"late":"resell","unpaidPerUser":20}`},
		{nil,
			"~sale/tickets payment.holdFor 10m> payment.grace 30s> payment.extendBy 5m> payment.late resell> payment.unpaidPerUser 20>", "", ""},
	} {
		sale := payment(step.payment)
		p := w.mustPlan(sale)
		if got := brief(p); got != step.plan {
			t.Errorf("the plan is %q, want %q", got, step.plan)
		}
		if err := w.run(w.mustCheck(p, sale)); err != nil {
			t.Fatal(err)
		}
		want := settings(t, p)
		for i := range 3 {
			if got := w.owner(i).state.Settings(); !proto.Equal(got, want) {
				t.Errorf("shard %d has %v, want %v", i, got, want)
			}
		}
		if p := w.mustPlan(sale); !p.Empty() {
			t.Errorf("then the plan is %q", brief(p))
		}
		now := w.status().Payment
		if (now == nil) != (step.status == "") {
			t.Errorf("the status has payment %v, want %q", now, step.status)
		}
		if now == nil {
			continue
		}
		if got := now.String(); got != step.status {
			t.Errorf("the status is %q, want %q", got, step.status)
		}
		if got, err := json.Marshal(now); err != nil || string(got) != step.json {
			t.Errorf("as JSON it is %s, %v; want %s", got, err, step.json)
		}
	}
}

// A change of phase of a live sale keeps the settings.
func TestPhasesKeepTheSettingsInForce(t *testing.T) {
	w := newWorld(t)
	w.mustApply(with(tickets(10), func(s *spec.Sale) { s.Payment, s.ClosesAt = paid(), epoch.Add(time.Hour) }))
	want := proto.CloneOf(w.actual().Sale.Newest().GetSettings())
	for _, phase := range []pb.Phase{pb.Phase_PAUSED, pb.Phase_OPEN, pb.Phase_CLOSED} {
		w.mustPhase(phase)
		want.Phase = phase
		for i := range 3 {
			if got := w.owner(i).state.Settings(); !proto.Equal(got, want) {
				t.Errorf("%v: shard %d has %v, want %v", phase, i, got, want)
			}
		}
	}
}
