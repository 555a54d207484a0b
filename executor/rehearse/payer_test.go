package rehearse

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/spec"
)

// shortSleep waits no longer than the holds of a test last.
func shortSleep(ctx context.Context, d time.Duration) error {
	return api.Sleep(ctx, min(d, 20*time.Millisecond))
}

// TestStories has each of them as often as it should be.
func TestStories(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	const n = 20_000
	for extendBy, without := range map[time.Duration]story{0: extends, time.Second: onlyClaims} {
		c := Config{Sale: spec.Sale{Payment: &spec.Payment{HoldFor: spec.Duration(time.Second), ExtendBy: spec.Duration(extendBy)}}}
		count := map[story]float64{}
		for range n {
			count[drawStory(c, random)]++
		}
		for _, s := range stories {
			want := float64(s.share) / 1000
			if s.story == without {
				want = 0
			}
			if got := count[s.story] / n; math.Abs(got-want) > .005 {
				t.Errorf("extendBy %v: story %d is played by a share of %.3f, want %.3f", extendBy, s.story, got, want)
			}
		}
		if count[pays] < n/2 {
			t.Errorf("extendBy %v: only %v of %d buyers pay at once", extendBy, count[pays], n)
		}
	}
	if got := drawStory(Config{}, random); got != onlyClaims {
		t.Errorf("in a sale without payment a buyer plays story %d", got)
	}
}

func TestShortened(t *testing.T) {
	for name, c := range map[string]struct{ declared, want spec.Payment }{
		"long": {spec.Payment{HoldFor: spec.Duration(10 * time.Minute), Grace: spec.Duration(30 * time.Second), ExtendBy: spec.Duration(time.Minute), Late: spec.LateResell},
			spec.Payment{HoldFor: spec.Duration(2 * time.Second), Grace: spec.Duration(500 * time.Millisecond), ExtendBy: spec.Duration(2 * time.Second), Late: spec.LateResell}},
		"short":        {spec.Payment{HoldFor: spec.Duration(time.Second)}, spec.Payment{HoldFor: spec.Duration(time.Second)}},
		"no extension": {spec.Payment{HoldFor: spec.Duration(time.Hour), Grace: spec.Duration(time.Second)}, spec.Payment{HoldFor: spec.Duration(2 * time.Second), Grace: spec.Duration(500 * time.Millisecond)}},
	} {
		if got := Shortened(c.declared); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestHonestPaidShop(t *testing.T) {
	for name, s := range map[string]*paidShop{
		"one each":       {stock: 100, limit: 1},
		"up to five":     {stock: 200, limit: 5},
		"more than come": {stock: 3_000, limit: 2},
		"late payments refused": {stock: 100, limit: 1, terms: spec.Payment{
			HoldFor: spec.Duration(100 * time.Millisecond), Grace: spec.Duration(10 * time.Millisecond), ExtendBy: spec.Duration(100 * time.Millisecond), Late: spec.LateRefuse,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := mustDrive(t, s.open(t))
			r.Compare(s.books())
			if err := r.Verdict(); err != nil {
				t.Error(err, strings.Join(r.Violations, "\n"))
			}
			p := r.Payment
			if sold := len(s.in(api.Sold)); p.Held != len(s.claims) || p.Paid+p.LateSold-p.Refunded != sold {
				t.Errorf("reported %+v, the shop held %d claims and sold %d", p, len(s.claims), sold)
			}
			// Who pays twice, both times too late, is owed both.
			if p.Paid == 0 || p.Abandoned == 0 || p.Cancelled == 0 || p.PaidLate == 0 || p.Extended == 0 || p.Disputed == 0 || p.Refunded == 0 ||
				p.RefundsDue < p.LateRefundDue+p.Disputed || p.Released == 0 {
				t.Errorf("some story was not played: %+v", p)
			}
			// One that comes as the hold ends may still be in time.
			if s.terms.Late == spec.LateRefuse && p.LateRefundDue == 0 {
				t.Errorf("late payments were to be refused: %+v", p)
			}
			if s.stock <= 200 && r.UnitsSold != s.stock {
				t.Errorf("%d units of %d are sold in the end", r.UnitsSold, s.stock)
			}
		})
	}
}

// once makes a shop lie once, to the first request that it suits.
func once(how api.How, suits func(s *paidShop, c *paidClaim, status int) bool, lie func(s *paidShop, c *paidClaim, status *int, said *api.Problem)) func(*paidShop, api.How, *paidClaim, *int, *api.Problem) {
	return func(s *paidShop, asked api.How, c *paidClaim, status *int, said *api.Problem) {
		if !s.lied && asked == how && c != nil && suits(s, c, *status) {
			s.lied = true
			lie(s, c, status, said)
		}
	}
}

func done(_ *paidShop, _ *paidClaim, status int) bool { return status == http.StatusOK }
func isNew(s *paidShop, _ *paidClaim, status int) bool {
	return status == http.StatusCreated && len(s.claims) > 20
}
func refused(_ *paidShop, _ *paidClaim, status int) bool { return status == http.StatusConflict }

// TestBrokenPaidShops breaks one promise at a time and wants to read of it.
func TestBrokenPaidShops(t *testing.T) {
	says := func(o api.Outcome) func(*paidShop, *paidClaim, *int, *api.Problem) {
		return func(_ *paidShop, _ *paidClaim, status *int, said *api.Problem) {
			*status, said.Outcome = http.StatusConflict, o
		}
	}
	long := spec.Payment{HoldFor: spec.Duration(2 * time.Second), Grace: spec.Duration(20 * time.Millisecond), ExtendBy: spec.Duration(2 * time.Second), Late: spec.LateResell}
	for name, c := range map[string]struct {
		shop *paidShop
		want string // a part of one violation
	}{
		"ends a hold early": {&paidShop{terms: long, lie: once(api.Extend, done, says(api.Expired))}, "and was to be held until"},
		"gives away what is held": {&paidShop{terms: long, lie: once("", isNew, func(s *paidShop, c *paidClaim, _ *int, _ *api.Problem) {
			c.Units = slices.Clone(s.in(api.Held)[0].Units)
		})}, "and was given to"},
		"sells at once":           {&paidShop{lie: once("", isNew, func(_ *paidShop, c *paidClaim, _ *int, _ *api.Problem) { c.Outcome = api.Sold })}, "claims are held until they are paid"},
		"forgets whom it owes":    {&paidShop{lie: once(api.Confirm, refused, func(_ *paidShop, _ *paidClaim, _ *int, said *api.Problem) { said.RefundDue = false })}, "no answer reports it as owed back"},
		"does not know a payment": {&paidShop{terms: long, lie: once(api.Confirm, done, says(api.Cancelled))}, "and to confirm"},
		"keeps what is cancelled": {&paidShop{lie: once(api.Cancel, done, says(api.NotHeld))}, "and to cancel"},
		"does not refund":         {&paidShop{lie: once(api.Refund, done, says(api.NotSold))}, "and to refund"},
		"extends by nothing": {&paidShop{lie: once(api.Extend, done, func(s *paidShop, c *paidClaim, _ *int, _ *api.Problem) {
			c.HeldUntil = c.HeldUntil.Add(time.Duration(-s.terms.ExtendBy))
		})}, "is extended until"},
		"swaps units when it is paid": {&paidShop{terms: long, lie: once(api.Confirm, done, func(s *paidShop, c *paidClaim, _ *int, _ *api.Problem) { c.Units = []int64{99} })}, "when it is paid"},
		"is sold out while units lie": {&paidShop{terms: long, lie: once("", isNew, func(s *paidShop, c *paidClaim, status *int, said *api.Problem) {
			s.claims = s.claims[:len(s.claims)-1]
			says(api.SoldOut)(s, c, status, said)
		})}, "can have been sold by then"},
		"never releases": {&paidShop{lie: func(s *paidShop, _ api.How, _ *paidClaim, _ *int, _ *api.Problem) { s.leaks = true }}, "held although every hold is over"},
		// Its holds outlast the crowd: what they leave is for nobody else.
		"does not sell what came back": {&paidShop{stock: 3_000, terms: spec.Payment{HoldFor: spec.Duration(3 * time.Second), Late: spec.LateResell}, lie: func(s *paidShop, how api.How, c *paidClaim, status *int, said *api.Problem) {
			if how == "" && c != nil && strings.HasPrefix(c.User, "late-buyer") && *status == http.StatusCreated {
				s.claims = s.claims[:len(s.claims)-1]
				clear(s.byKey)
				*status, said.Outcome = http.StatusConflict, api.NoneNow
			}
		}}, "claimed a returned unit"},
		"sells what is over": {&paidShop{
			terms: spec.Payment{HoldFor: spec.Duration(100 * time.Millisecond), Late: spec.LateRefuse},
			lie: func(s *paidShop, how api.How, c *paidClaim, status *int, _ *api.Problem) {
				if how == api.Confirm && *status == http.StatusConflict && time.Since(c.HeldUntil) > slack {
					c.Outcome, *status = api.Sold, http.StatusOK
				}
			}}, "was to be released at"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.shop.stock, c.shop.limit = cmp.Or(c.shop.stock, 100), 1
			config := c.shop.open(t)
			if c.shop.leaks || name == "never releases" || name == "does not sell what came back" {
				config.Patience = 500 * time.Millisecond
			}
			r := mustDrive(t, config)
			if !slices.ContainsFunc(r.Violations, func(v string) bool { return strings.Contains(v, c.want) }) {
				t.Errorf("want %q among %d violations, such as\n%s", c.want, len(r.Violations), strings.Join(r.Violations, "\n"))
			}
			if err := r.Verdict(); !errors.Is(err, ErrViolated) {
				t.Errorf("verdict %v", err)
			}
		})
	}
}

// TestFalseBooks alters what the ledger of an honest shop has, one thing at a time.
func TestFalseBooks(t *testing.T) {
	s := &paidShop{stock: 100, limit: 1}
	r := mustDrive(t, s.open(t))
	before := slices.Clone(r.found.violations)
	in := func(state api.Outcome, owed bool) func(api.Claim) bool {
		return func(b api.Claim) bool { return b.Outcome == state && (len(b.RefundDue) > 0) == owed }
	}
	each := func(api.Claim) bool { return true }
	for name, c := range map[string]struct {
		suits func(api.Claim) bool
		alter func(*api.Claim)
		want  string
	}{
		"nothing":                   {each, func(*api.Claim) {}, ""},
		"a claim is another's":      {each, func(b *api.Claim) { b.User = "somebody" }, "in the ledger it is somebody's"},
		"a claim has another name":  {each, func(b *api.Claim) { b.ID = "9-9-9" }, "no answer reported it"},
		"a claim is missing":        {each, func(b *api.Claim) { b.ID = "9-9-9" }, "the ledger does not have it"},
		"other units":               {in(api.Sold, false), func(b *api.Claim) { b.Units = []int64{4711} }, "in the ledger it is"},
		"what is sold is held":      {in(api.Sold, false), func(b *api.Claim) { b.Outcome = api.Held }, "is sold, and in the ledger it is held"},
		"what nobody paid is held":  {in(api.Expired, false), func(b *api.Claim) { b.Outcome = api.Held }, "is expired, and in the ledger it is held"},
		"what is cancelled is sold": {in(api.Cancelled, false), func(b *api.Claim) { b.Outcome = api.Sold }, "is cancelled, and in the ledger it is sold"},
		"a payment is lost":         {in(api.Sold, false), func(b *api.Claim) { b.Payment = "" }, "has bought nothing, and is not owed back"},
		"a debt is lost":            {in(api.Sold, true), func(b *api.Claim) { b.RefundDue = nil }, "has bought nothing, and is not owed back"},
		"a refund is not owed":      {in(api.Refunded, true), func(b *api.Claim) { b.RefundDue = nil }, "is refunded, but its payment"},
		"a payment counts twice":    {in(api.Sold, false), func(b *api.Claim) { b.RefundDue = []string{b.Payment} }, "is owed back all the same"},
		"another payment has bought": {in(api.Sold, true), func(b *api.Claim) { b.Payment, b.RefundDue = b.RefundDue[0], []string{b.Payment} },
			"had another answer"},
	} {
		t.Run(name, func(t *testing.T) {
			books := s.books()
			i := slices.IndexFunc(books, c.suits)
			if i < 0 {
				t.Fatal("no claim suits")
			}
			c.alter(&books[i])
			r.found.violations = slices.Clone(before)
			r.Compare(books)
			switch found := slices.ContainsFunc(r.Violations, func(v string) bool { return strings.Contains(v, c.want) }); {
			case c.want == "" && len(r.Violations) > 0:
				t.Errorf("unfair: %q", r.Violations)
			case c.want != "" && !found:
				t.Errorf("want %q, got %q", c.want, r.Violations)
			}
		})
	}
}
