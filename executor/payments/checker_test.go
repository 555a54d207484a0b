package payments

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/executor"
	"salectl/executor/saletest"
	"salectl/internal/wait"
	"salectl/spec"
)

// A claim that the service reports paid is sold, under the payment's reference; one that it
// reports failed is cancelled, and the books have the check as the cause.
func TestCheckSettles(t *testing.T) {
	s := newShop(t, time.Minute, 0)
	headers := make(chan http.Header, 100)
	s.service.answers(func(w http.ResponseWriter, r *http.Request, user, claim string, queries int) {
		headers <- r.Header
		switch {
		case queries < 3:
			w.WriteHeader(http.StatusNotFound) // the payment has not begun
		case user == "ada":
			reply(w, "paid", claim)
		default:
			reply(w, "failed", claim)
		}
	})
	p := s.serve()
	ada, bob := p.claim("ada"), p.claim("bob")
	p.become("ada", api.Sold)
	p.become("bob", api.Cancelled)
	if c := s.books(ada.ID); c.Payment != "pay-"+ada.ID.String() || len(c.RefundsDue) != 0 {
		t.Errorf("ada's claim: %+v", c)
	}
	if c := s.books(bob.ID); c.Who != "payment check" || c.Reason != `failure is true: response.status == 200 && response.body.state == "failed"` {
		t.Errorf("bob's claim: %+v", c)
	}
	h := <-headers
	if h.Get("Authorization") != "Bearer s3cret" || h.Get("Idempotency-Key") != ada.ID.String() && h.Get("Idempotency-Key") != bob.ID.String() {
		t.Errorf("queried with %v", h)
	}
	wait.Until(t, "nothing is watched", func() bool { return p.checker.Health().Watched == 0 })
	if n := s.service.count("ada") + s.service.count("bob"); n != 6 {
		t.Errorf("queried %d times, want 6", n)
	}
	for _, r := range []result{success, failure} {
		if n := testutil.ToFloat64(p.checker.machine.metrics.checks.WithLabelValues(string(r))); n != 1 {
			t.Errorf("%s: counted %v", r, n)
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(p.checker.Collectors()...)
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Error(err, problems)
	}
}

// A service that fails, hangs or lies delays a payment and does no harm.
func TestServiceIsBad(t *testing.T) {
	s := newShop(t, time.Minute, 0)
	s.payment.Check.Timeout = spec.Duration(300 * time.Millisecond)
	s.replan()
	strange := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("another host receives the token")
		}
		reply(w, "paid", strings.Split(r.URL.Path, "/")[2])
	}))
	defer strange.Close()
	over := make(chan struct{})
	defer close(over)
	bad := map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request, claim string)
		want   result
	}{
		"fails": {func(w http.ResponseWriter, _ *http.Request, claim string) {
			w.WriteHeader(500)
			reply(w, "paid", claim)
		}, serverError},
		"is busy": {func(w http.ResponseWriter, _ *http.Request, claim string) {
			w.WriteHeader(429)
			reply(w, "failed", claim)
		}, serverError},
		"hangs up":    {func(http.ResponseWriter, *http.Request, string) { panic(http.ErrAbortHandler) }, unreachable},
		"talks on":    {func(w http.ResponseWriter, _ *http.Request, _ string) { fmt.Fprint(w, strings.Repeat("[", maxBody+1)) }, tooLarge},
		"is no JSON":  {func(w http.ResponseWriter, _ *http.Request, _ string) { fmt.Fprint(w, `{"state":"paid"`) }, unreadable},
		"is empty":    {func(http.ResponseWriter, *http.Request, string) {}, unreadable},
		"has no keys": {func(w http.ResponseWriter, _ *http.Request, _ string) { fmt.Fprint(w, `{}`) }, unreadable},
		"is a list":   {func(w http.ResponseWriter, _ *http.Request, _ string) { fmt.Fprint(w, `["paid"]`) }, unreadable},
		"no reference": {func(w http.ResponseWriter, _ *http.Request, claim string) {
			fmt.Fprintf(w, `{"state":"paid","claim":%q}`, claim)
		}, unreadable},
		"another claim": {func(w http.ResponseWriter, _ *http.Request, _ string) { reply(w, "paid", "0-99-0") }, pending},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request, _ string) {
			http.Redirect(w, r, strange.URL+r.URL.Path, http.StatusFound)
		}, redirected},
		"round and round": {func(w http.ResponseWriter, r *http.Request, _ string) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}, unreachable},
		"hangs": {func(_ http.ResponseWriter, r *http.Request, _ string) {
			select {
			case <-r.Context().Done():
			case <-over:
			}
		}, timedOut},
		"drips": {func(w http.ResponseWriter, r *http.Request, _ string) {
			for { // that it takes its time is the fault
				fmt.Fprint(w, " ")
				w.(http.Flusher).Flush()
				select {
				case <-r.Context().Done():
					return
				case <-over:
					return
				case <-time.After(10 * time.Millisecond):
				}
			}
		}, timedOut},
	}
	var good atomic.Bool
	s.service.answers(func(w http.ResponseWriter, r *http.Request, user, claim string, _ int) {
		if good.Load() {
			reply(w, "paid", claim)
			return
		}
		bad[user].answer(w, r, claim)
	})
	p := s.serve()
	for user := range bad {
		p.claim(user)
	}
	counted := func(want result) float64 {
		return testutil.ToFloat64(p.checker.machine.metrics.checks.WithLabelValues(string(want)))
	}
	for user, c := range bad {
		wait.Until(t, user+" is counted", func() bool { return s.service.count(user) > 1 && counted(c.want) > 0 })
		if claims, _, _ := lookupUser(t.Context(), p, user, api.Page{}); claims[0].State != api.Held {
			t.Errorf("%s: the claim is %s", user, claims[0].State)
		}
	}
	if n := counted(success) + counted(failure); n != 0 {
		t.Errorf("%v answers are taken for good", n)
	}
	if h := p.checker.Health(); h.Watched != len(bad) {
		t.Errorf("watched: %+v", h)
	}
	good.Store(true)
	for user := range bad {
		p.become(user, api.Sold)
	}
	wait.Until(t, "all is well", func() bool { return p.checker.Health() == api.PaymentCheck{} })
}

// A service that calls a claim paid and not paid at once is not believed.
func TestServiceContradictsItself(t *testing.T) {
	s := newShop(t, time.Minute, 0)
	s.payment.Check.Failure = `response.body.state != "pending"`
	s.replan()
	s.service.answers(func(w http.ResponseWriter, _ *http.Request, _, claim string, _ int) { reply(w, "paid", claim) })
	p := s.serve()
	p.claim("ada")
	wait.Until(t, "it was queried", func() bool { return strings.Contains(p.checker.Health().Error, errBoth.Error()) })
	if claims, _, _ := lookupUser(t.Context(), p, "ada", api.Page{}); claims[0].State != api.Held {
		t.Errorf("the claim is %s", claims[0].State)
	}
}

// replan declares the shop's payment as it is now.
func (s *shop) replan() {
	s.t.Helper()
	saletest.Replan(s.t, s.logs, "paid", func(p *pb.Planned) {
		declared, err := spec.FromJSON(p.Spec)
		if err != nil {
			s.t.Fatal(err)
		}
		payment := s.payment
		declared.Payment = &payment
		if p.Spec, err = declared.JSON(); err != nil {
			s.t.Fatal(err)
		}
	})
}

// Once a service has called a claim paid it is not queried again: its later answers about that
// claim comes too late.
func TestServiceTakesItBack(t *testing.T) {
	s := newShop(t, time.Minute, 0)
	s.service.answers(func(w http.ResponseWriter, _ *http.Request, _, claim string, queries int) {
		if queries == 1 {
			reply(w, "paid", claim)
		} else {
			reply(w, "failed", claim)
		}
	})
	p := s.serve()
	c := p.claim("ada")
	p.become("ada", api.Sold)
	a := settle(t.Context(), p, executor.Settlement{Claim: c.ID, How: api.Confirm, Settlement: api.Settlement{Payment: "pay-" + c.ID.String()}})
	if a.Outcome != api.Sold || !a.Replayed {
		t.Errorf("the same payment from elsewhere: %+v", a)
	}
	if n := s.service.count("ada"); n != 1 {
		t.Errorf("queried %d times", n)
	}
}

// The last query finds a payment that came between the deadline and the release.
func TestCheckLooksOnceMore(t *testing.T) {
	s := newShop(t, time.Second, 10*time.Second) // the last query is at most 1.5 s behind the deadline: see schedule.hold
	s.payment.Check.Interval = spec.Duration(10 * time.Minute)
	s.replan()
	var deadline atomic.Int64
	s.service.answers(func(w http.ResponseWriter, _ *http.Request, _, claim string, _ int) {
		if at := deadline.Load(); at != 0 && time.Now().UnixMicro() >= at {
			reply(w, "paid", claim)
		} else {
			reply(w, "pending", claim)
		}
	})
	p := s.serve()
	c := p.claim("ada")
	deadline.Store(c.HeldUntil.UnixMicro())
	p.become("ada", api.Sold)
	if n := s.service.count("ada"); n < 1 || n > 2 {
		t.Errorf("queried %d times, want once or twice", n)
	}
	// And one that came behind the release stands in the ledger.
	deadline.Store(0)
	late := p.claim("bob")
	deadline.Store(late.HeldUntil.Add(time.Duration(s.payment.Grace)).UnixMicro())
	p.become("bob", api.Expired)
	wait.Until(t, "nothing is watched", func() bool { return p.checker.Health().Watched == 0 })
	if c := s.books(late.ID); len(c.RefundsDue) != 1 || c.RefundsDue[0] != "pay-"+late.ID.String() {
		t.Errorf("a payment that came too late: %+v", c)
	}
}

// A payment of a claim that its buyer or an operator has cancelled is found, whether it comes
// soon or later; until then nothing is sold for it, and a service that reports that no payment
// will come is queried no more.
func TestPaymentOfACancelledClaim(t *testing.T) {
	s := newShop(t, 10*time.Second, 0)
	s.payment.Check.Interval = spec.Duration(200 * time.Millisecond)
	s.replan()
	var releases sync.Map // by user: when the payment succeeds
	s.service.answers(func(w http.ResponseWriter, _ *http.Request, user, claim string, _ int) {
		at, cancelled := releases.Load(user)
		switch {
		case !cancelled || user == "late" && time.Now().Before(at.(time.Time)):
			reply(w, "pending", claim)
		case user == "never":
			reply(w, "failed", claim)
		default:
			reply(w, "paid", claim)
		}
	})
	p := s.serve()
	claims := map[string]executor.Claim{"soon": p.claim("soon"), "late": p.claim("late"), "never": p.claim("never")}
	for user, c := range claims {
		wait.Until(t, user+" was queried", func() bool { return s.service.count(user) > 0 })
		a := settle(t.Context(), p, executor.Settlement{Claim: c.ID, How: api.Cancel, Settlement: api.Settlement{Who: user}})
		if a.Outcome != api.Cancelled {
			t.Fatalf("%s: %+v", user, a)
		}
		releases.Store(user, c.HeldUntil)
	}
	wait.Until(t, "nothing is watched", func() bool { return p.checker.Health().Watched == 0 })
	for user, c := range claims {
		var want []string
		if user != "never" {
			want = []string{"pay-" + c.ID.String()}
		}
		if b := s.books(c.ID); b.State != ledger.StateCancelled || b.Who != user || !slices.Equal(b.RefundsDue, want) {
			t.Errorf("%s: %+v, want owed back %v", user, b, want)
		}
	}
	if log := p.log.String(); strings.Count(log, "a payment bought nothing and is owed back") != 2 {
		t.Errorf("the log has\n%s", log)
	}
}

// pending has the service report payments as pending, and paid once that is set.
func (s *shop) pending() (paid *atomic.Bool) {
	paid = new(atomic.Bool)
	s.service.answers(func(w http.ResponseWriter, _ *http.Request, _, claim string, _ int) {
		if paid.Load() {
			reply(w, "paid", claim)
		} else {
			reply(w, "pending", claim)
		}
	})
	return paid
}

// A successor queries what was cancelled before.
func TestCancelledBeforeATakeover(t *testing.T) {
	s := newShop(t, time.Minute, 0)
	s.payment.Check.Interval = spec.Duration(200 * time.Millisecond)
	s.replan()
	paid := s.pending()
	first := s.serve()
	c := first.claim("early")
	if a := settle(t.Context(), first, executor.Settlement{Claim: c.ID, How: api.Cancel}); a.Outcome != api.Cancelled {
		t.Fatalf("%+v", a)
	}
	first.stop()
	paid.Store(true)
	s.serve()
	wait.Until(t, "the payment is owed back", func() bool { return len(s.books(c.ID).RefundsDue) == 1 })
}

// A service that hangs keeps a bounded number of connections, and no buyer waiting.
func TestServiceHangsAndBuyersDoNot(t *testing.T) {
	s := newShop(t, time.Minute, 0)
	s.payment.Check.Timeout = spec.Duration(30 * time.Second)
	s.replan()
	over := make(chan struct{})
	s.service.answers(func(w http.ResponseWriter, r *http.Request, _, claim string, _ int) {
		select {
		case <-over:
			reply(w, "paid", claim)
		case <-r.Context().Done():
		}
	})
	p := s.serve()
	for i := range 3 * maxAttempts {
		p.claim(fmt.Sprint("user-", i))
	}
	wait.Until(t, "as many requests hang as may", func() bool {
		s.service.mu.Lock()
		defer s.service.mu.Unlock()
		return s.service.under == maxAttempts
	})
	for i := range 10 {
		p.claim(fmt.Sprint("late-", i))
	}
	close(over)
	for i := range 3 * maxAttempts {
		p.become(fmt.Sprint("user-", i), api.Sold)
	}
	if s.service.most != maxAttempts {
		t.Errorf("%d requests at a time, want %d", s.service.most, maxAttempts)
	}
}

// Whoever takes over finds the holds of before, and forgets nothing that the service has
// answered.
func TestCheckSurvivesItsProcess(t *testing.T) {
	s := newShop(t, time.Minute, 0)
	paid := s.pending()
	first := s.serve()
	var ids []executor.ClaimID
	for i := range 20 {
		ids = append(ids, first.claim(fmt.Sprint("user-", i)).ID)
	}
	wait.Until(t, "the service was queried", func() bool { return s.service.count("user-19") > 0 })
	first.stop()
	paid.Store(true)
	second := s.serve()
	for i := range 20 {
		second.become(fmt.Sprint("user-", i), api.Sold)
	}
	for _, id := range ids {
		if c := s.books(id); c.Payment != "pay-"+id.String() || len(c.RefundsDue) != 0 {
			t.Errorf("%+v", c)
		}
	}
}

// What another generation declares is queried from then on; one that this process cannot
// carry out is reported, and queries nobody.
func TestCheckChangesLive(t *testing.T) {
	s := newShop(t, time.Minute, 0)
	s.service.answers(func(w http.ResponseWriter, _ *http.Request, _, claim string, _ int) { reply(w, "pending", claim) })
	p := s.serve()
	p.claim("ada")
	wait.Until(t, "the first service is queried", func() bool { return s.service.count("ada") > 0 })

	s.payment.Check.TokenEnv = "ELSEWHERE"
	s.replan()
	const why = "sale paid: the environment variable ELSEWHERE is not set; payment.check.tokenEnv names it for the payment service's bearer token. Set it and start serve again"
	wait.Until(t, "it is reported", func() bool { return p.checker.Health().Error == why })
	if log := p.log.String(); strings.Count(log, "payments are not checked") != 1 || p.checker.Health().Watched != 0 {
		t.Errorf("%+v; the log has\n%s", p.checker.Health(), log)
	}

	other := newService(t)
	other.answers(func(w http.ResponseWriter, _ *http.Request, _, claim string, _ int) { reply(w, "paid", claim) })
	s.payment.Check.TokenEnv, s.payment.Check.URL = "", other.URL+"/{user}/{claim}"
	s.replan()
	p.become("ada", api.Sold)
	if h := p.checker.Health(); h.Error != "" {
		t.Errorf("%+v", h)
	}

	check := *s.payment.Check
	s.payment.Check = nil
	s.replan()
	wait.Until(t, "no check is declared", func() bool {
		declared, _ := p.Declared()
		return declared.Payment.Check == nil
	})
	p.claim("bob")
	last := newService(t)
	last.answers(func(w http.ResponseWriter, _ *http.Request, _, claim string, _ int) { reply(w, "paid", claim) })
	check.URL = last.URL + "/{user}/{claim}"
	s.payment.Check = &check
	s.replan()
	p.become("bob", api.Sold)
	if n := other.count("bob"); n > 0 {
		t.Error("queried without a check")
	}
}

// lying is a sale whose ledger answers as a test wants.
type lying struct {
	onlyDeclared
	holds   []executor.Hold
	answers []executor.Answer
	settled []executor.Settlement
	done    chan struct{} // closed after the last answer
}

func (s *lying) NewHolds(*executor.HoldsSeen, time.Time) ([]executor.Hold, bool, bool) {
	holds := s.holds
	s.holds = nil
	return holds, false, false
}

func (s *lying) Unpaid(id executor.ClaimID) (executor.Hold, bool) {
	return executor.Hold{Claim: executor.Claim{ID: id, State: api.Held, HeldUntil: time.Now().Add(time.Minute)}, Release: time.Now().Add(time.Minute)}, true
}

func (s *lying) Do(_ context.Context, r executor.Request) executor.Answer {
	x := *r.Settle
	s.settled = append(s.settled, x)
	a := s.answers[0]
	if s.answers = s.answers[1:]; len(s.answers) == 0 {
		close(s.done)
	}
	return a
}

// A settlement without an answer is repeated until it has one, and the service is not
// queried again meanwhile.
func TestSettlementIsRepeated(t *testing.T) {
	service := newService(t)
	service.answers(func(w http.ResponseWriter, _ *http.Request, _, claim string, _ int) { reply(w, "paid", claim) })
	sale := spec.Sale{Name: "movie", Payment: &spec.Payment{Check: &spec.PaymentCheck{
		URL: service.URL + "/ada/{claim}", Interval: spec.Duration(4 * time.Millisecond), Timeout: spec.Duration(time.Minute), Success: `response.body.state == "paid"`,
	}}}
	id := executor.ClaimID{Shard: 1, Slot: 2}
	s := &lying{
		onlyDeclared: onlyDeclared{&declaredSale{Sale: sale}}, done: make(chan struct{}),
		holds:   []executor.Hold{{Claim: executor.Claim{ID: id, At: time.Now(), HeldUntil: time.Now().Add(time.Minute)}, Release: time.Now().Add(time.Minute)}},
		answers: []executor.Answer{{Outcome: api.Unknown}, {Outcome: api.Overloaded}, {Outcome: api.NoQuorum}, {Outcome: api.Expired, RefundDue: true}},
	}
	log := new(lines)
	c := NewChecker(s, environment(nil), newLogger(log))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { c.Run(ctx); close(ended) }()
	<-s.done
	wait.Until(t, "it is over", func() bool { return c.Health().Watched == 0 })
	cancel()
	<-ended
	want := executor.Settlement{Claim: id, How: api.Confirm, Settlement: api.Settlement{Payment: "1-2-0"}}
	if len(s.settled) != 4 || slices.ContainsFunc(s.settled, func(x executor.Settlement) bool { return x != want }) {
		t.Errorf("the sale settled %+v", s.settled)
	}
	if n := service.count("ada"); n != 1 {
		t.Errorf("the service was queried %d times", n)
	}
	if text := log.String(); !strings.Contains(text, "a payment bought nothing and is owed back") {
		t.Errorf("the log has\n%s", text)
	}
}

// A service that fails for long is reported, once a minute, and when it is back.
func TestLongTroubleIsTold(t *testing.T) {
	log := new(lines)
	c := NewMachine(onlyDeclared{&declaredSale{Sale: spec.Sale{Name: "movie"}}}, environment(nil), newLogger(log), rand.Float64)
	c.check = &check{PaymentCheck: spec.PaymentCheck{URL: "https://pay.example/v1/{claim}"}}
	c.noteHealth(at(0), errBoth)
	for second := range 150 {
		c.logFailures(at(time.Duration(second) * time.Second))
	}
	c.noteHealth(at(150*time.Second), nil)
	c.noteHealth(at(151*time.Second), nil)
	text := log.String()
	if strings.Count(text, "returns no usable answer") != 2 || strings.Count(text, "answers again") != 1 ||
		!strings.Contains(text, `host=pay.example since=1970-01-12T13:46:40Z why="success and failure are both true"`) {
		t.Errorf("the log has\n%s", text)
	}
	c.noteHealth(at(0), errBoth)
	c.noteHealth(at(time.Second), nil)
	if log.String() != text {
		t.Errorf("a short trouble is reported:\n%s", log)
	}
}
