package process_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/api"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/executor/saletest"
)

// The terms of the sales here.
const (
	holdFor = time.Minute
	grace   = 10 * time.Second
)

// paidWorld is a world whose claims are held until they are paid.
type paidWorld struct {
	*steppedWorld
	s *steppedProcess
}

func newPaidWorld(t *testing.T, terms *pb.Payment, shares ...int64) *paidWorld {
	w := newSteppedWorld(t, 1, shares...)
	if terms.Late == 0 {
		terms.Late = pb.Payment_REFUSE
	}
	terms.HoldForUs, terms.GraceUs = holdFor.Microseconds(), grace.Microseconds()
	w.process("first")
	saletest.Replan(t, w.logs, "stepped", func(p *pb.Planned) { p.Settings.Payment = terms })
	p := &paidWorld{w, w.serving()}
	w.pass(3 * time.Second) // the generation comes to the shards
	return p
}

// answer waits for what the process in service says.
func (w *paidWorld) answer(ask func(s *steppedProcess, answered func(Answer))) (a Answer) {
	w.t.Helper()
	there := false
	w.s.input(func() { ask(w.s, func(got Answer) { a, there = got, true }) })
	w.runUntil("there is an answer", func() bool { return there })
	return a
}

func (w *paidWorld) claim(user, key string) Answer {
	w.t.Helper()
	return w.answer(func(s *steppedProcess, answered func(Answer)) {
		s.p.Begin(s.now(), Request{User: user, Key: key, Quantity: 1}, answered)
	})
}

func (w *paidWorld) settle(how api.How, a Answer, payment string) Answer {
	w.t.Helper()
	x := Settlement{Claim: a.Claim.ID, How: how, Settlement: api.Settlement{Payment: payment, Who: "ann@shop", Reason: "she asked for it"}}
	return w.answer(func(s *steppedProcess, answered func(Answer)) { s.p.Begin(s.now(), Request{Settle: &x}, answered) })
}

// want holds an answer against how it reads, such as "sold again, refund due".
func (w *paidWorld) want(a Answer, want string) {
	w.t.Helper()
	got := string(a.Outcome)
	if a.Replayed {
		got += " again"
	}
	if a.RefundDue {
		got += ", refund due"
	}
	if got != want {
		w.t.Errorf("at %v: %s, want %s (%+v)", w.at, got, want, a)
	}
}

// until is how long a claim is held from now on.
func (w *paidWorld) until(a Answer) time.Duration { return a.Claim.HeldUntil.Sub(w.s.now().Wall) }

// A hold is paid once, and tells its deadline to whoever asks again.
func TestHoldIsPaid(t *testing.T) {
	w := newPaidWorld(t, new(pb.Payment), 1)
	a := w.claim("ann", "1")
	w.want(a, "held")
	if d := a.Claim.HeldUntil.Sub(a.Claim.At); d != holdFor {
		t.Errorf("it is held for %v, want %v", d, holdFor)
	}
	again := w.claim("ann", "1")
	w.want(again, "held again")
	if !again.Claim.HeldUntil.Equal(a.Claim.HeldUntil) {
		t.Errorf("asked again it is held until %v, first %v", again.Claim.HeldUntil, a.Claim.HeldUntil)
	}
	other := w.claim("ann", "2")
	w.want(other, "limit_reached")
	if len(other.Claims) != 1 || other.Claims[0].State != api.Held || other.Claims[0].HeldUntil.IsZero() {
		t.Errorf("whoever is blocked by her own hold is told of %+v", other.Claims)
	}
	w.want(w.settle(api.Confirm, a, "p1"), "sold")
	w.want(w.settle(api.Confirm, a, "p1"), "sold again")
	w.want(w.settle(api.Confirm, a, "p2"), "not_held, refund due")
	w.want(w.settle(api.Confirm, a, "p2"), "not_held, refund due")
	w.want(w.settle(api.Cancel, a, ""), "not_held")
	w.want(w.settle(api.Extend, a, ""), "not_held")
	w.want(w.claim("ann", "1"), "sold again")
	w.want(w.claim("bob", "1"), "sold_out")
	w.pass(holdFor + 2*grace)
	w.want(w.claim("ann", "1"), "sold again")
}

// A sold claim that is refunded is for sale again, and its user may buy again.
func TestRefund(t *testing.T) {
	w := newPaidWorld(t, new(pb.Payment), 1)
	a := w.claim("ann", "1")
	w.want(w.settle(api.Refund, a, ""), "not_sold")
	w.want(w.settle(api.Confirm, a, "p1"), "sold")
	w.want(w.settle(api.Refund, a, ""), "refunded")
	w.want(w.settle(api.Refund, a, ""), "refunded again")
	w.want(w.settle(api.Confirm, a, "p3"), "refunded, refund due")
	w.want(w.claim("ann", "1"), "refunded again")
	w.want(w.claim("ann", "2"), "held")
	w.want(w.answer(func(s *steppedProcess, answered func(Answer)) {
		s.p.Begin(s.now(), Request{Settle: &Settlement{Claim: ClaimID{Slot: 999}, How: api.Refund}}, answered)
	}), "no_such_claim")
	w.want(w.answer(func(s *steppedProcess, answered func(Answer)) {
		s.p.Begin(s.now(), Request{Settle: &Settlement{Claim: ClaimID{Shard: 7}, How: api.Refund}}, answered)
	}), "no_such_claim")
}

// What nobody pays is for sale again when its grace is over, not before, and without
// anybody asking.
func TestHoldExpires(t *testing.T) {
	w := newPaidWorld(t, new(pb.Payment), 1, 1)
	a, b := w.claim("ann", "1"), w.claim("bob", "1")
	w.want(a, "held")
	w.want(b, "held")
	first := min(w.until(a), w.until(b))
	none := w.claim("eve", "1")
	w.want(none, "none_now")
	if off := none.RetryAfter - first - grace; off.Abs() > time.Second {
		t.Errorf("it is worth asking again in %v, units come in %v", none.RetryAfter, first+grace)
	}
	w.pass(first + grace - time.Second)
	w.want(w.claim("ann", "1"), "held again")
	w.want(w.claim("eve", "1"), "none_now")
	w.pass(2 * time.Second)
	w.want(w.claim("ann", "1"), "expired again")
	w.want(w.settle(api.Extend, a, ""), "expired")
	w.want(w.settle(api.Cancel, a, ""), "expired")
	w.want(w.settle(api.Confirm, a, "p1"), "expired, refund due")
	w.want(w.claim("eve", "1"), "held")
	audited := saletest.Audited(t, w.logs, "stepped")
	if audited.Held != 1 || audited.Available != 1 {
		t.Errorf("%d units are held and %d available, want 1 and 1", audited.Held, audited.Available)
	}
}

// A payment within the grace is in time.
func TestGrace(t *testing.T) {
	w := newPaidWorld(t, new(pb.Payment), 1)
	a := w.claim("ann", "1")
	w.pass(w.until(a) + grace/2)
	w.want(w.settle(api.Confirm, a, "p1"), "sold")
}

// A hold gets a later deadline once, where the sale says so.
func TestHoldIsExtended(t *testing.T) {
	w := newPaidWorld(t, &pb.Payment{ExtendByUs: time.Minute.Microseconds()}, 1)
	a := w.claim("ann", "1")
	later := w.settle(api.Extend, a, "")
	w.want(later, "held")
	if d := later.Claim.HeldUntil.Sub(a.Claim.HeldUntil); d != time.Minute {
		t.Errorf("the deadline is %v later, want a minute", d)
	}
	w.want(w.settle(api.Extend, a, ""), "held again")
	w.pass(w.until(a) + grace + 30*time.Second)
	w.want(w.claim("ann", "1"), "held again")
	w.pass(time.Minute)
	w.want(w.claim("ann", "1"), "expired again")
	w = newPaidWorld(t, new(pb.Payment), 1)
	w.want(w.settle(api.Extend, w.claim("ann", "1"), ""), "no_extension")
}

// Who gives a hold up makes room for others at once.
func TestHoldIsCancelled(t *testing.T) {
	w := newPaidWorld(t, new(pb.Payment), 1)
	a := w.claim("ann", "1")
	w.want(w.claim("bob", "1"), "none_now")
	w.want(w.settle(api.Cancel, a, ""), "cancelled")
	w.want(w.settle(api.Cancel, a, ""), "cancelled again")
	w.want(w.claim("ann", "1"), "cancelled again")
	w.want(w.claim("bob", "1"), "held")
	w.want(w.settle(api.Confirm, a, "p1"), "cancelled, refund due")
}

// TestUnpaidPerUser cancels claims of a user until the sale takes no more of them.
func TestUnpaidPerUser(t *testing.T) {
	w := newPaidWorld(t, &pb.Payment{Late: pb.Payment_RESELL, UnpaidPerUser: 2}, 5)
	for _, key := range []string{"1", "2"} {
		w.want(w.settle(api.Cancel, w.claim("ann", key), ""), "cancelled")
	}
	a := w.claim("ann", "3")
	w.want(a, "limit_reached")
	if !strings.Contains(a.Message, "spec.payment.unpaidPerUser") || a.Count != 2 {
		t.Errorf("the refusal is %q, of %d claims", a.Message, a.Count)
	}
	w.want(w.claim("ann", "2"), "cancelled again")
	w.want(w.claim("bob", "1"), "held")
}

// A late payment buys the same unit where that is free, else another, else nothing.
func TestLatePaymentIsResold(t *testing.T) {
	w := newPaidWorld(t, &pb.Payment{Late: pb.Payment_RESELL}, 2)
	a, b := w.claim("ann", "1"), w.claim("bob", "1")
	w.pass(max(w.until(a), w.until(b)) + grace + time.Second)
	w.want(w.claim("ann", "1"), "expired again")
	paid := w.settle(api.Confirm, a, "p1")
	w.want(paid, "sold")
	if paid.Claim.Units[0] != a.Claim.Units[0] {
		t.Errorf("the unit %d was free and %d is sold", a.Claim.Units[0], paid.Claim.Units[0])
	}
	c := w.claim("eve", "1")
	w.want(c, "held")
	w.want(w.settle(api.Confirm, b, "p2"), "expired, refund due")
	w.want(w.settle(api.Cancel, c, ""), "cancelled")
	w.want(w.settle(api.Confirm, b, "p2"), "expired, refund due") // it may have been paid back by now
	w.want(w.settle(api.Confirm, b, "p3"), "sold")
}

// Whoever takes over a sale ends the holds that are due by then, and knows those that
// are not.
func TestHoldsSurviveTheirOwner(t *testing.T) {
	w := newPaidWorld(t, new(pb.Payment), 1, 1)
	a := w.claim("ann", "1")
	w.pass(holdFor / 2)
	b := w.claim("bob", "1")
	w.process("second")
	w.s.die()
	w.pass(w.until(a) + grace + time.Second)
	w.s = w.serving()
	w.want(w.claim("ann", "1"), "expired again")
	w.want(w.claim("bob", "1"), "held again")
	w.want(w.settle(api.Confirm, b, "p1"), "sold")
	w.want(w.claim("ann", "2"), "held")
}

// A payment and the end of its hold at the same moment have one winner, and the ledger
// says which.
func TestPaymentRacesExpiry(t *testing.T) {
	outcomes := make(map[api.Outcome]int)
	for _, off := range []int{-20, -10, -4, -3, -2, -1, 0, 1, 2, 3, 4, 10, 20} {
		t.Run(fmt.Sprint(off), func(t *testing.T) {
			w := newPaidWorld(t, new(pb.Payment), 1)
			a := w.claim("ann", "1")
			w.pass(w.until(a) + grace + time.Duration(off)*time.Millisecond)
			paid := w.settle(api.Confirm, a, "p1")
			outcomes[paid.Outcome]++
			w.pass(time.Second)
			audited := saletest.Audited(t, w.logs, "stepped")
			if sold := paid.Outcome == api.Sold; audited.Sold == 1 != sold || audited.Available == 1 != !sold || paid.RefundDue == sold {
				t.Errorf("the buyer is told %+v, the ledger has %d sold and %d available", paid, audited.Sold, audited.Available)
			}
		})
	}
	if outcomes[api.Sold] == 0 || outcomes[api.Expired] == 0 || len(outcomes) != 2 {
		t.Errorf("outcomes: %v", outcomes)
	}
}

// A claim is looked up by its id, with what became of it and of its payments; so are those
// of its user. Whoever has something done to it is told the same.
func TestLookUp(t *testing.T) {
	w := newPaidWorld(t, &pb.Payment{ExtendByUs: holdFor.Microseconds()}, 2)
	a, b := w.claim("ann", "1"), w.claim("bob", "1")
	w.settle(api.Extend, a, "")
	w.settle(api.Confirm, a, "p1")
	w.settle(api.Confirm, a, "p2")
	refunded := w.settle(api.Refund, a, "")
	find := func(id ClaimID, want api.Outcome) Claim {
		t.Helper()
		c, no := findClaim(w.s.p, w.s.now(), id)
		if no != want {
			t.Errorf("%v: %q, want %q", id, no, want)
		}
		return c
	}
	got := find(a.Claim.ID, "")
	if !reflect.DeepEqual(refunded.Claim, got) {
		t.Errorf("who refunds a claim is told %+v, %+v, and it is %+v, %+v", refunded.Claim, refunded.Claim.Books, got, got.Books)
	}
	has, _ := userClaims(w.s.p, w.s.now(), "ann")
	if len(has) != 1 || !reflect.DeepEqual(has[0], got) {
		t.Errorf("ann has %+v, and her claim is %+v", has, got)
	}
	books := got.Books
	if got.State != api.Refunded || got.HeldUntil.Sub(got.At) != 2*holdFor || books == nil || books.Payment != "p1" || !books.Extended || books.Retired ||
		!slices.Equal(books.RefundDue, []string{"p2", "p1"}) || books.Who != "ann@shop" || books.Why != "she asked for it" || books.SettledAt.Before(got.At) {
		t.Errorf("%+v, %+v", got, books)
	}
	if got := find(b.Claim.ID, ""); got.State != api.Held || got.Books == nil || !got.Books.SettledAt.IsZero() {
		t.Errorf("%+v", got)
	}
	find(ClaimID{Slot: 999}, api.NoSuchClaim)
	find(ClaimID{Shard: 7, Slot: 2}, api.NoSuchClaim)
	find(ClaimID{Unit: 1}, api.NoSuchClaim)
	w.s.input(func() { w.s.p.Drain(w.s.now()) })
	w.pass(5 * time.Second)
	if _, no := findClaim(w.s.p, w.s.now(), b.Claim.ID); no == "" {
		t.Error("a process that does not serve any more finds a claim")
	}
}
