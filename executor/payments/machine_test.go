package payments

import (
	"log/slog"
	"testing"
	"time"

	"salectl/api"
	"salectl/executor"
	"salectl/spec"
)

// newTestMachine returns a machine and its sale, which declares a check.
func newTestMachine() (*Machine, *lying) {
	sale := &lying{onlyDeclared: onlyDeclared{&declaredSale{Sale: spec.Sale{Name: "movie", Payment: &spec.Payment{Check: &spec.PaymentCheck{
		URL: "https://pay.example/{claim}", Interval: spec.Duration(time.Second), Timeout: spec.Duration(time.Minute), Success: `response.status == 200`,
	}}}}}}
	m := NewMachine(sale, environment(nil), slog.New(slog.DiscardHandler), func() float64 { return 0 })
	return m, sale
}

// Attempts of before a process served anew leave room for others once they have ended.
func TestAttemptsOfAnEarlierEra(t *testing.T) {
	m, sale := newTestMachine()
	for era := range time.Duration(2) {
		sale.away = false
		for i := range maxAttempts {
			sale.holds = append(sale.holds, held(i, time.Hour, time.Hour))
		}
		made := m.Step(at(era * time.Minute))
		if len(made) != maxAttempts {
			t.Fatalf("era %d: %d attempts are made, want %d", era, len(made), maxAttempts)
		}
		sale.away = true
		m.Step(at(era*time.Minute + 2*time.Second))
		for _, a := range made {
			m.Took(at(era*time.Minute+3*time.Second), a)
		}
	}
}

// A claim is watched until its settlement has a final outcome, and is settled again until then
// by the answer of the service.
func TestWatchedUntilSettled(t *testing.T) {
	m, sale := newTestMachine()
	sale.holds = []executor.Hold{held(1, time.Hour, time.Hour)}
	for i, outcome := range []api.Outcome{api.Unknown, api.Overloaded, api.NoQuorum, api.Sold} {
		made := m.Step(at(time.Duration(i) * time.Minute))
		if len(made) != 1 || made[0].NeedsQuery() != (i == 0) {
			t.Fatalf("before the outcome %s: %d attempts are made", outcome, len(made))
		}
		made[0].verdict = Event{How: api.Confirm}
		made[0].settled = executor.Answer{Outcome: outcome}
		m.Took(at(time.Duration(i)*time.Minute+time.Second), made[0])
	}
	if n := len(m.schedule.watches); n != 0 {
		t.Errorf("%d claims are watched after the last outcome", n)
	}
}
