package httpd

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"salectl/api"
	"salectl/executor"
	"salectl/executor/httpd/httpdtest"
)

// settling returns a server whose sale answers settlements with f.
func settling(f func(executor.Settlement) executor.Answer) *Server {
	return New(Config{Clock: atNoon, Sales: []executor.Service{&httpdtest.Fake{
		Name:       "movie",
		SettleFunc: func(_ context.Context, x executor.Settlement) executor.Answer { return f(x) },
	}}})
}

// Each way to settle a claim reaches the sale as what was asked, at its address alone.
func TestSettlements(t *testing.T) {
	id := executor.ClaimID{Shard: 3, Slot: 17, Index: 2}
	for name, c := range map[string]struct {
		path, body string
		admin      bool
		want       executor.Settlement
	}{
		"confirm": {"3-17-2/confirm", `{"payment":"p\u00e9-1"}`, false,
			executor.Settlement{Claim: id, How: api.Confirm, Settlement: api.Settlement{Payment: "pé-1"}}},
		"extend": {"3-17-2/extend", `{}`, false, executor.Settlement{Claim: id, How: api.Extend}},
		"cancel": {"3-17-2/cancel", ` {"who" : "ann", "reason":""} `, false,
			executor.Settlement{Claim: id, How: api.Cancel, Settlement: api.Settlement{Who: "ann"}}},
		"refund": {"3-u17/refund", `{"retire": true,"who":"ops@host","reason":"sent back"}`, true,
			executor.Settlement{Claim: executor.ClaimID{Shard: 3, Unit: 17}, How: api.Refund, Settlement: api.Settlement{Who: "ops@host", Reason: "sent back", Retire: true}}},
		"refund, for sale again": {"3-17-2/refund", `{"retire":false}`, true,
			executor.Settlement{Claim: id, How: api.Refund}},
		"return": {"3-17-2/return", `{"payment":"p-1","who":"ops@host"}`, true,
			executor.Settlement{Claim: id, How: api.Return, Settlement: api.Settlement{Payment: "p-1", Who: "ops@host"}}},
	} {
		var got []executor.Settlement
		state := c.want.How.Done()
		s := settling(func(x executor.Settlement) executor.Answer {
			got = append(got, x)
			return executor.Answer{Outcome: state, Claim: heldClaim(state)}
		})
		for admin, h := range map[bool]http.Handler{false: s, true: s.Admin()} {
			got = nil
			r := do(h, "POST", claimsPath+"/"+c.path, c.body, nil)
			switch {
			case admin != c.admin && c.want.How != api.Return: // which both addresses take
				if r.StatusCode != 404 || got != nil {
					t.Errorf("%s at the other address: status %d, %+v", name, r.StatusCode, got)
				}
				continue
			case r.StatusCode != 200 || r.Header.Get("Content-Type") != "application/json" || len(got) != 1 || got[0] != c.want:
				t.Errorf("%s: status %d, the sale was asked %+v, want %+v", name, r.StatusCode, got, c.want)
			}
			if body := text(t, r); body != heldClaimBody(string(state)) {
				t.Errorf("%s: the answer %s", name, body)
			}
			if r := do(h, "GET", claimsPath+"/"+c.path, "", nil); r.StatusCode != 405 || r.Header.Get("Allow") != "POST" {
				t.Errorf("%s by GET: status %d", name, r.StatusCode)
			}
			if r := do(h, "POST", strings.Replace(claimsPath, "movie", "film", 1)+"/"+c.path, c.body, nil); !strings.Contains(text(t, r), "no_such_sale") {
				t.Errorf("%s in another sale: status %d", name, r.StatusCode)
			}
		}
	}
}

// Whatever a sale answers to a settlement, the document is that of the outcome, unless
// it is what was asked for. None speaks of a key.
func TestSettlementsRefused(t *testing.T) {
	for _, row := range api.Outcomes() {
		for _, how := range []api.How{api.Confirm, api.Extend, api.Cancel} {
			if row.Outcome.Accepted() && row.Outcome != how.Done() {
				continue // no sale says so
			}
			s := settling(func(executor.Settlement) executor.Answer { return executor.Answer{Outcome: row.Outcome} })
			body := map[api.How]string{api.Confirm: `{"payment":"p"}`}[how]
			if body == "" {
				body = "{}"
			}
			r := post(t, s, claimsPath+"/1-2-3/"+string(how), body, nil)
			want, said := row.Status, text(t, r)
			if row.Outcome == how.Done() {
				want = 200
			}
			if r.StatusCode != want || !strings.Contains(said, `"outcome":"`+string(row.Outcome)+`"`) {
				t.Errorf("%s, %s: status %d, want %d: %s", how, row.Outcome, r.StatusCode, want, said)
			}
			if row.Outcome != api.KeyReused && strings.Contains(said, api.KeyHeader) {
				t.Errorf("%s, %s: it speaks of a key: %s", how, row.Outcome, said)
			}
			if asks := r.Header.Get("Retry-After") != ""; asks != (row.RetryAfter > 0) {
				t.Errorf("%s, %s: Retry-After %q", how, row.Outcome, r.Header.Get("Retry-After"))
			}
		}
	}
	s := settling(func(executor.Settlement) executor.Answer {
		return executor.Answer{Outcome: api.Expired, Claim: heldClaim(api.Expired), RefundDue: true}
	})
	said := text(t, post(t, s, claimsPath+"/1-2-3/confirm", `{"payment":"p"}`, nil))
	if want := `"outcome":"expired","claims":[` + heldClaimBody("expired") + `],"refundDue":true}`; !strings.HasSuffix(said, want) {
		t.Errorf("a payment that bought nothing: %s\nwant %s", said, want)
	}
}

// What is no settlement does not reach the sale.
func TestBadSettlements(t *testing.T) {
	s := settling(func(x executor.Settlement) executor.Answer {
		t.Errorf("the sale was asked for %+v", x)
		return executor.Answer{}
	})
	long := strings.Repeat("x", 1024)
	for name, c := range map[string]struct {
		path, body string
		header     http.Header
		status     int
		detail     string
	}{
		"no claim":          {"seven/cancel", `{}`, nil, 404, "No accepted claim has this id"},
		"an empty claim":    {"/cancel", `{}`, nil, 404, "No accepted claim has this id"},
		"a claim too many":  {"1-2-3-4/cancel", `{}`, nil, 404, "No accepted claim has this id"},
		"more than a way":   {"1-2-3/cancel/now", `{}`, nil, 404, "nothing at this path"},
		"another way":       {"1-2-3/steal", `{}`, nil, 404, "nothing at this path"},
		"no way":            {"1-2-3", `{}`, nil, 405, "This path takes GET"},
		"no body":           {"1-2-3/extend", ``, nil, 400, "must be a JSON object"},
		"two bodies":        {"1-2-3/extend", `{}{}`, nil, 400, "something follows"},
		"no payment":        {"1-2-3/confirm", `{}`, nil, 422, "payment: missing"},
		"an empty payment":  {"1-2-3/confirm", `{"payment":""}`, nil, 422, "payment: missing"},
		"a long payment":    {"1-2-3/confirm", `{"payment":"` + long[:256] + `"}`, nil, 422, "payment: 256 bytes are too many, at most 255"},
		"a long name":       {"1-2-3/cancel", `{"who":"` + long[:256] + `"}`, nil, 422, "who: 256 bytes are too many, at most 255"},
		"a long reason":     {"1-2-3/cancel", `{"reason":"` + long + `"}`, nil, 422, "reason: 1024 bytes are too many, at most 1023"},
		"a line break":      {"1-2-3/cancel", `{"reason":"a\nb"}`, nil, 422, "reason: must not contain control"},
		"a number":          {"1-2-3/confirm", `{"payment":7}`, nil, 400, "payment: must be a string"},
		"a word as a truth": {"1-2-3/cancel", `{"retire":"true"}`, nil, 400, "retire: must be true or false"},
		"twice":             {"1-2-3/confirm", `{"payment":"a","payment":"b"}`, nil, 400, "payment: given twice"},
		"twice true":        {"1-2-3/cancel", `{"retire":true,"retire":true}`, nil, 400, "retire: given twice"},
		"of another way":    {"1-2-3/extend", `{"payment":"p"}`, nil, 422, "payment: only a confirm"},
		"of a refund":       {"1-2-3/cancel", `{"retire":true}`, nil, 422, "retire: only a refund"},
		"an unknown field":  {"1-2-3/confirm", `{"Payment":"p"}`, nil, 400, `\"Payment\": unknown field`},
		"plain text":        {"1-2-3/extend", `{}`, http.Header{"Content-Type": {"text/plain"}}, 415, "application/json"},
		"a large body":      {"1-2-3/extend", `{` + strings.Repeat(" ", 8191) + `}`, nil, 413, "at most 8 KiB"},
	} {
		r := post(t, s, claimsPath+"/"+c.path, c.body, c.header)
		if said := text(t, r); r.StatusCode != c.status || !strings.Contains(said, c.detail) {
			t.Errorf("%s: status %d, %s; want %d, %q", name, r.StatusCode, said, c.status, c.detail)
		}
	}
	r := do(s.Admin(), "POST", claimsPath+"/seven/refund", `{}`, nil)
	if said := text(t, r); r.StatusCode != 404 || !strings.Contains(said, "no_such_claim") {
		t.Errorf("a refund of no claim: status %d, %s", r.StatusCode, said)
	}
	s.draining.Store(true)
	if r := post(t, s, claimsPath+"/1-2-3/cancel", `{}`, nil); r.StatusCode != 503 || !strings.Contains(text(t, r), "draining") {
		t.Errorf("while it goes down: status %d", r.StatusCode)
	}
}

// The longest texts fit into a body, however they are written.
func TestLongSettlement(t *testing.T) {
	s := settling(func(x executor.Settlement) executor.Answer {
		if len(x.Who) != api.MaxWho || len(x.Reason) != api.MaxReason {
			t.Errorf("the sale was asked for %+v", x)
		}
		return executor.Answer{Outcome: api.Refunded, Claim: firstClaim}
	})
	body := `{"who":"` + strings.Repeat(`\u0078`, api.MaxWho) + `","reason":"` + strings.Repeat(`\u0078`, api.MaxReason) + `","retire":false}`
	if r := do(s.Admin(), "POST", claimsPath+"/1-2-3/refund", body, nil); r.StatusCode != 200 {
		t.Errorf("status %d: %s", r.StatusCode, text(t, r))
	}
}

// Whoever may not claim may not settle; a refund needs the token, too, and no page of
// another site gets one.
func TestSettlementsAreGuarded(t *testing.T) {
	service := &httpdtest.Fake{Name: "movie", SettleFunc: func(_ context.Context, x executor.Settlement) executor.Answer {
		return executor.Answer{Outcome: x.How.Done(), Claim: firstClaim}
	}}
	guarded, open := New(Config{Sales: []executor.Service{service}, Tokens: tokensOf(t, "s3cret")}), New(Config{Sales: []executor.Service{service}})
	for how, address := range map[string]func(*Server) http.Handler{
		"cancel": func(s *Server) http.Handler { return s },
		"refund": (*Server).Admin,
	} {
		path := claimsPath + "/1-2-3/" + how
		for name, c := range map[string]struct {
			server *Server
			header http.Header
			want   int
		}{
			"no token":       {guarded, nil, 401},
			"a wrong token":  {guarded, http.Header{"Authorization": {"Bearer secret"}}, 401},
			"the token":      {guarded, http.Header{"Authorization": {"Bearer s3cret"}}, 200},
			"none is needed": {open, nil, 200},
			"another site":   {open, http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		} {
			if r := do(address(c.server), "POST", path, "{}", c.header); r.StatusCode != c.want {
				t.Errorf("%s, %s: status %d, want %d", how, name, r.StatusCode, c.want)
			}
		}
	}
}

// A settlement that takes too long ends with what the sale says then.
func TestSettlementTimesOut(t *testing.T) {
	s := New(Config{ClaimTimeout: time.Nanosecond, Sales: []executor.Service{&httpdtest.Fake{
		Name: "movie",
		SettleFunc: func(ctx context.Context, _ executor.Settlement) executor.Answer {
			<-ctx.Done()
			return executor.Answer{Outcome: api.Unknown}
		},
	}}})
	r := post(t, s, claimsPath+"/1-2-3/extend", "{}", nil)
	if said := text(t, r); r.StatusCode != 503 || !strings.Contains(said, "Repeat the request: it takes effect once.") {
		t.Errorf("status %d, %s", r.StatusCode, said)
	}
}

func TestSettlementsAreCounted(t *testing.T) {
	next := make(chan executor.Answer, 10)
	s := settling(func(executor.Settlement) executor.Answer { return <-next })
	for _, a := range []executor.Answer{
		{Outcome: api.Cancelled}, {Outcome: api.Cancelled, Replayed: true}, {Outcome: api.NotHeld}, {Outcome: "lost_in_space"},
	} {
		next <- a
		post(t, s, claimsPath+"/1-2-3/cancel", "{}", nil)
	}
	post(t, s, claimsPath+"/1-2-3/cancel", "", nil)
	post(t, s, claimsPath+"/1/cancel", "{}", nil)
	for _, o := range []api.Outcome{api.Cancelled, api.Replayed, api.NotHeld, other, api.BadRequest, api.NoSuchClaim} {
		if got := testutil.ToFloat64(s.metrics.settlements.WithLabelValues("movie", "cancel", string(o))); got != 1 {
			t.Errorf("%s: counted %v, want 1", o, got)
		}
	}
	for _, c := range s.Collectors() {
		problems, err := testutil.CollectAndLint(c)
		if err != nil || len(problems) > 0 {
			t.Error(err, problems)
		}
	}
}
