package rehearse

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/draw"
)

func TestHonestDraw(t *testing.T) {
	for name, c := range map[string]struct {
		shop  *drawShop
		alter func(*Config)
	}{
		"sold at once":                 {&drawShop{paidShop: paidShop{stock: 40}, substitutes: 20}, nil},
		"paid":                         {&drawShop{paidShop: paidShop{stock: 40}, substitutes: 60, paid: true}, nil},
		"no substitutes":               {&drawShop{paidShop: paidShop{stock: 40}, paid: true}, nil},
		"few substitutes":              {&drawShop{paidShop: paidShop{stock: 40}, substitutes: 3, paid: true}, nil},
		"fewer than units":             {&drawShop{paidShop: paidShop{stock: 40}, substitutes: 10, paid: true}, func(c *Config) { c.Users = 20 }},
		"names are shared":             {&drawShop{paidShop: paidShop{stock: 5}, substitutes: 5}, func(c *Config) { c.Names = []string{"ada", "bob", "cy", "dee", "eve", "fay", "gus"} }},
		"some are refused":             {&drawShop{paidShop: paidShop{stock: 5}, substitutes: 5}, func(c *Config) { c.Refused = func(string, int64, string, time.Time) string { return "" } }},
		"nobody knows who has entered": {&drawShop{paidShop: paidShop{stock: 40}, substitutes: 60, paid: true, lie: losesEntries}, func(c *Config) { c.Users = 100 }},
		"answers were lost":            {&drawShop{paidShop: paidShop{stock: 40}, substitutes: 60, paid: true, lie: losesSome}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := c.shop.open(t)
			config.Patience = DefaultPatience
			if c.alter != nil {
				c.alter(&config)
			}
			r := mustDrive(t, config)
			r.CompareDraw(c.shop.books(), c.shop.found())
			if err := r.Verdict(); err != nil {
				t.Error(err, strings.Join(r.Violations, "\n"))
			}
			s, d := c.shop, r.Draw
			if d.Entries != len(s.claims) || d.Users != d.Entries || d.Ranks != len(s.order) || int64(d.Winners+d.Substitutes) != s.awarded ||
				int64(d.Winners) != min(s.stock, int64(len(s.order))) || int64(d.Lapsed) != s.lapsed() || r.UnitsSold != int64(len(s.in(api.Sold))) {
				t.Errorf("reported %+v and %d units sold; the shop has %d entries, %d ranks, %d awards, %d lapsed, %d sold",
					d, r.UnitsSold, len(s.claims), len(s.order), s.awarded, s.lapsed(), len(s.in(api.Sold)))
			}
			if d.Told[string(api.Sold)] != len(s.in(api.Sold)) || d.Told[string(api.NotDrawn)] != len(s.claims)-len(s.order) {
				t.Errorf("told %v", d.Told)
			}
			// Seven users may all be answered within half a millisecond, which is reported as 0 s.
			told := d.WinnersToldSeconds > 0 && (d.Substitutes == 0 || d.SubstitutesToldSeconds > 0)
			if config.Users == 400 && !told || d.Substitutes == 0 && d.SubstitutesToldSeconds > 0 || d.EnterSeconds != r.Timing.DurationSeconds {
				t.Errorf("times %+v", d)
			}
			// Of seven users it may be that none asks again.
			if config.Users == 400 && (d.SecondEntries == 0 || d.SameAnswer == 0 && config.Names == nil) {
				t.Errorf("nobody wanted to enter twice, or asked again: %+v", d)
			}
		})
	}
}

// losesEntries has no answer before the draw tell some users that they have entered.
func losesEntries(s *drawShop, q api.Request, c *paidClaim, a *drawAnswer) {
	if !s.revealed && c != nil && strings.HasSuffix(c.ID, "3") {
		a.status, a.said.Outcome = http.StatusServiceUnavailable, api.Unknown
	}
}

// losesSome has the first answer after the draw tell nothing, for some claims.
func losesSome(s *drawShop, q api.Request, c *paidClaim, a *drawAnswer) {
	if s.revealed && c != nil && strings.HasSuffix(c.ID, "3") && !s.lost[c] {
		s.lost[c] = true
		a.status, a.said.Outcome = http.StatusServiceUnavailable, api.Unknown
	}
}

// onceDrawn makes a shop lie once, after the draw, to the first request that it suits.
func onceDrawn(suits func(*drawShop, *paidClaim) bool, lie func(*drawShop, *paidClaim, *drawAnswer)) func(*drawShop, api.Request, *paidClaim, *drawAnswer) {
	return func(s *drawShop, _ api.Request, c *paidClaim, a *drawAnswer) {
		if !s.lied && s.revealed && suits(s, c) {
			s.lied = true
			lie(s, c, a)
		}
	}
}

// onceOpen does so to the 50th new entry.
func onceOpen(lie func(*drawShop, *paidClaim, *drawAnswer)) func(*drawShop, api.Request, *paidClaim, *drawAnswer) {
	return func(s *drawShop, _ api.Request, c *paidClaim, a *drawAnswer) {
		if !s.lied && a.status == http.StatusCreated && len(s.claims) == 50 {
			s.lied = true
			lie(s, c, a)
		}
	}
}

// secondTime makes a shop lie to whoever asks for the second time after the draw.
func secondTime(suits func(*drawShop, *paidClaim) bool, lie func(*drawShop, *paidClaim, *drawAnswer)) func(*drawShop, api.Request, *paidClaim, *drawAnswer) {
	asked := map[*paidClaim]int{}
	return func(s *drawShop, _ api.Request, c *paidClaim, a *drawAnswer) {
		if s.revealed && c != nil && suits(s, c) {
			if asked[c]++; asked[c] > 1 && !s.lied {
				s.lied = true
				lie(s, c, a)
			}
		}
	}
}

// TestBrokenDraws breaks one promise at a time and wants to read of it.
func TestBrokenDraws(t *testing.T) {
	is := func(o api.Outcome) func(*drawShop, *paidClaim) bool {
		return func(_ *drawShop, c *paidClaim) bool { return c != nil && c.Outcome == o }
	}
	isLoser := func(s *drawShop, c *paidClaim) bool { return c != nil && !s.isRanked(c) }
	isNobody := func(_ *drawShop, c *paidClaim) bool { return c == nil }
	says := func(o api.Outcome) func(*drawShop, *paidClaim, *drawAnswer) {
		return func(_ *drawShop, _ *paidClaim, a *drawAnswer) { a.refuse(o) }
	}
	gives := func(o api.Outcome, unit int64) func(*drawShop, *paidClaim, *drawAnswer) {
		return func(s *drawShop, c *paidClaim, a *drawAnswer) {
			a.status, a.claim = http.StatusOK, api.Claim{ID: "9-9-9", Sale: "movie", User: "somebody"}
			if c != nil {
				a.claim = c.Claim
			}
			a.claim.Outcome, a.claim.Units = o, []int64{unit}
		}
	}
	for name, c := range map[string]struct {
		paid bool
		lie  func(*drawShop, api.Request, *paidClaim, *drawAnswer)
		want string // a part of one violation
	}{
		"sells before the draw": {false, onceOpen(func(_ *drawShop, _ *paidClaim, a *drawAnswer) {
			a.claim.Outcome, a.claim.Units = api.Sold, []int64{1}
		}), "requested 1 unit and received 201 sold"},
		"gives units to an entry": {false, onceOpen(func(_ *drawShop, _ *paidClaim, a *drawAnswer) { a.claim.Units = []int64{1} }),
			"requested 1 unit and received 201 entered"},
		"answers another buyer": {false, onceOpen(func(_ *drawShop, _ *paidClaim, a *drawAnswer) { a.claim.User = "somebody" }), `of user "somebody"`},
		"lets a user enter twice": {false, func(s *drawShop, q api.Request, _ *paidClaim, a *drawAnswer) {
			if !s.lied && a.said.Outcome == api.LimitReached && q.Quantity == 1 {
				s.lied, *a = true, s.accept(q)
			}
		}, "has two entries: claim 0-1-"},
		"is closed while it is open": {false, onceOpen(says(api.Closed)), "while the draw took entries, and received 409 closed"},
		"is sold out while it is open": {false, onceOpen(func(s *drawShop, c *paidClaim, a *drawAnswer) {
			a.refuse(api.SoldOut)
		}), "while the draw took entries, and received 409 sold_out"},
		"refuses a first entry": {false, func(s *drawShop, q api.Request, c *paidClaim, a *drawAnswer) {
			if a.status == http.StatusCreated && len(s.claims) > 50 {
				s.claims = s.claims[:len(s.claims)-1]
				delete(s.byKey, q.Key)
				a.refuse(api.LimitReached)
			}
		}, "received limit_reached"},
		"gives two claims for one key": {false, func(s *drawShop, _ api.Request, c *paidClaim, a *drawAnswer) {
			if !s.lied && a.status == http.StatusOK {
				s.lied, a.claim.ID = true, "7-7-7"
			}
		}, "had two answers"},
		"gives one claim to two": {false, onceOpen(func(s *drawShop, c *paidClaim, a *drawAnswer) { a.claim.ID = s.claims[0].ID }), "claim 0-1-0 was given to"},
		"forgets an entry":       {false, onceDrawn(isLoser, says(api.Closed)), "received entered, and then 409 closed"},
		"sells to who has not entered": {false, onceDrawn(isNobody, gives(api.Sold, 3)),
			"received sold after the draw, and never entered"},
		"lets somebody enter after the draw": {false, onceDrawn(isNobody, gives(api.Entered, 3)),
			"received entered after the draw, and never entered"},
		"tells of another's claim": {false, onceDrawn(is(api.Sold), func(s *drawShop, c *paidClaim, a *drawAnswer) { a.claim.ID = "7-7-7" }),
			"and received after the draw claim 7-7-7"},
		"takes back what was won":   {false, secondTime(is(api.Sold), says(api.NotDrawn)), "], and then 409 not_drawn"},
		"sells after not_drawn":     {false, secondTime(isLoser, gives(api.Sold, 3)), "received not_drawn, and then 200 sold with units [3]"},
		"changes what was won":      {false, secondTime(is(api.Sold), gives(api.Sold, 99)), "], and then 200 sold with units [99]"},
		"sells a unit twice":        {false, onceDrawn(func(s *drawShop, c *paidClaim) bool { return c == s.order[3] }, func(s *drawShop, c *paidClaim, a *drawAnswer) { c.Units = s.order[1].Units; a.claim.Units = c.Units }), "was sold twice"},
		"gives two units":           {false, onceDrawn(is(api.Sold), func(_ *drawShop, _ *paidClaim, a *drawAnswer) { a.claim.Units = []int64{77, 78} }), "received entered, and then 200 sold with units [77 78]"},
		"holds where nobody pays":   {false, onceDrawn(is(api.Sold), gives(api.Held, 3)), "received entered, and then 200 held"},
		"sells more than there are": {false, func(s *drawShop, _ api.Request, c *paidClaim, a *drawAnswer) { s.stock = 41 }, "41 units sold of a stock of 40"},
		"sells before it is paid":   {true, onceDrawn(is(api.Held), gives(api.Sold, 3)), "received entered, and then 200 sold"},
		"gives away what is held": {true, func(s *drawShop, _ api.Request, c *paidClaim, a *drawAnswer) {
			if s.revealed && is(api.Held)(s, c) && c != s.order[0] {
				c.Units = s.order[0].Units
				a.claim.Units = c.Units
			}
		}, "and was given to"},
		"says too early that it has expired": {true, onceDrawn(is(api.Held), func(s *drawShop, c *paidClaim, a *drawAnswer) {
			a.refuse(api.Expired)
			a.said.Claims = []api.Claim{c.Claim}
		}),
			"received entered, and then 409 expired"},
		"forgets who has paid": {true, onceDrawn(is(api.Sold), says(api.Expired)), "], and then 409 expired"},
		"never awards":         {false, func(s *drawShop, _ api.Request, _ *paidClaim, _ *drawAnswer) { s.stuck = true }, "0 buyers were notified of an award, and nothing more happened"},
		"never releases":       {true, func(s *drawShop, _ api.Request, _ *paidClaim, _ *drawAnswer) { s.leaks = true }, "notified of an award, and nothing more happened"},
		"lets losers hope": {false, func(s *drawShop, _ api.Request, c *paidClaim, a *drawAnswer) {
			if s.revealed && isLoser(s, c) {
				a.status, a.claim = http.StatusOK, c.Claim
			}
		}, "still waiting for an award, and the ranks left are 60"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &drawShop{paidShop: paidShop{stock: 40}, substitutes: 60, paid: c.paid, lie: c.lie}
			if name == "never releases" { // somebody who has won has to abandon the claim
				s.stock = 150
			}
			config := s.open(t)
			r := mustDrive(t, config)
			if !slices.ContainsFunc(r.found.violations, func(v string) bool { return strings.Contains(v, c.want) }) {
				t.Errorf("want %q among %d violations, such as\n%s", c.want, len(r.Violations), strings.Join(r.Violations, "\n"))
			}
			if err := r.Verdict(); !errors.Is(err, ErrViolated) {
				t.Errorf("verdict %v", err)
			}
		})
	}
}

// TestFalseDrawBooks alters what the ledger of an honest draw has, or what the verifier
// finds, one thing at a time.
func TestFalseDrawBooks(t *testing.T) {
	for _, paid := range []bool{false, true} {
		s := &drawShop{paidShop: paidShop{stock: 40}, substitutes: 60, paid: paid}
		r := mustDrive(t, s.open(t))
		before := slices.Clone(r.found.violations)
		none := func(*api.Claim) {}
		right := func(*draw.Report) {}
		for name, c := range map[string]struct {
			of    api.Outcome // "": of any
			alter func(*api.Claim)
			finds func(*draw.Report)
			want  string
		}{
			"nothing":                     {"", none, right, ""},
			"an entry is missing":         {api.Entered, func(b *api.Claim) { b.ID = "9-9-9" }, right, "the ledger does not have it"},
			"an entry nobody knows":       {api.Entered, func(b *api.Claim) { b.ID = "9-9-9" }, right, "no answer reported its entry"},
			"an entry is another's":       {api.Entered, func(b *api.Claim) { b.User = "somebody" }, right, "in the ledger it is of somebody"},
			"a user has two":              {api.Entered, func(b *api.Claim) { b.User = s.order[0].User }, right, "the ledger has two entries of"},
			"an award nobody knows":       {api.Entered, func(b *api.Claim) { b.Outcome, b.Units = api.Sold, []int64{77} }, right, ", and in the ledger it is sold"},
			"an award that is none":       {api.Sold, func(b *api.Claim) { b.Outcome, b.Units = api.Entered, nil }, right, "received sold, and in the ledger it is entered"},
			"other units":                 {api.Sold, func(b *api.Claim) { b.Units = []int64{4711} }, right, "4711]"},
			"another order":               {"", none, func(v *draw.Report) { v.OK, v.Problems = false, []string{"claim 1-2-3: it is out of order"} }, "the draw: claim 1-2-3"},
			"not right, and nobody knows": {"", none, func(v *draw.Report) { v.OK = false }, "the draw: it is not as it was published"},
			"not revealed":                {"", none, func(v *draw.Report) { v.Revealed = false }, "the draw: it is not revealed"},
			"somebody waits":              {"", none, func(v *draw.Report) { v.Waiting = 1 }, "the draw: 1 unit is still to be awarded"},
			"others are awarded":          {"", none, func(v *draw.Report) { v.Awarded++ }, "entries are awarded a unit, and in the ledger"},
		} {
			t.Run(name, func(t *testing.T) {
				books, found := s.books(), s.found()
				i := slices.IndexFunc(books, func(b api.Claim) bool { return c.of == "" || b.Outcome == c.of })
				if i < 0 {
					t.Fatal("no claim suits")
				}
				c.alter(&books[i])
				c.finds(found)
				r.found.violations = slices.Clone(before)
				r.CompareDraw(books, found)
				switch found := slices.ContainsFunc(r.Violations, func(v string) bool { return strings.Contains(v, c.want) }); {
				case c.want == "" && len(r.Violations) > 0:
					t.Errorf("unfair: %q", r.Violations)
				case c.want != "" && !found:
					t.Errorf("want %q, got %q", c.want, r.Violations)
				}
			})
		}
	}
}

// TestDrawFails has the operator fail.
func TestDrawFails(t *testing.T) {
	fails := errors.New("the store is away")
	for name, spoil := range map[string]func(*Drawing){
		"close":  func(w *Drawing) { w.Close = func(context.Context) error { return fails } },
		"reveal": func(w *Drawing) { w.Reveal = func(context.Context) ([]string, error) { return nil, fails } },
	} {
		c := (&drawShop{paidShop: paidShop{stock: 5}}).open(t)
		spoil(c.Draw)
		if _, err := Drive(t.Context(), c); !errors.Is(err, fails) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestDrawInterrupted ends a rehearsal while it waits for holds.
func TestDrawInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("enough")
	s := &drawShop{paidShop: paidShop{stock: 40}, substitutes: 60, paid: true}
	s.lie = func(s *drawShop, _ api.Request, _ *paidClaim, _ *drawAnswer) {
		if s.lapsed() > 0 {
			cancel(stop)
		}
	}
	if _, err := Drive(ctx, s.open(t)); !errors.Is(err, stop) {
		t.Errorf("got %v, want the cause", err)
	}
}
