package httpd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor"
	"salectl/executor/httpd/httpdtest"
)

// noon is when all requests of these tests arrive, in a zone that answers must
// not show.
var noon = time.Date(2026, 11, 11, 20, 0, 0, 0, time.FixedZone("", 8*3600))

func atNoon() clock.Now { return clock.Now{Wall: noon} }

// post sends one claim to a server that sells as claim says, and returns what
// came back.
func post(t *testing.T, s *Server, path, body string, header http.Header) *http.Response {
	t.Helper()
	return do(s, http.MethodPost, path, body, header)
}

func do(h http.Handler, method, path, body string, header http.Header) *http.Response {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	maps.Copy(r.Header, header)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(b) {
		t.Errorf("not JSON: %s", b)
	}
	return string(b)
}

const claimsPath = "/v1/sales/movie/claims"

var (
	firstClaim = executor.Claim{
		ID: executor.ClaimID{Shard: 3, Slot: 17, Index: 2}, User: `"u"`, Units: []int64{5, 7}, State: api.Sold,
		At: noon.Add(123456789),
	}
	firstClaimBody = `{"outcome":"sold","claim":"3-17-2","sale":"movie","user":"\"u\"","units":[5,7],"at":"2026-11-11T12:00:00.123456789Z"}`
)

// heldClaim is firstClaim as it is if it was held.
func heldClaim(state api.Outcome) executor.Claim {
	c := firstClaim
	c.State, c.HeldUntil = state, noon.Add(10*time.Minute)
	return c
}

// partClaim is firstClaim as it is if more was asked for.
func partClaim() executor.Claim {
	c := firstClaim
	c.Requested = 4
	return c
}

func heldClaimBody(state string) string {
	return strings.NewReplacer("sold", state, "}", `,"heldUntil":"2026-11-11T12:10:00Z"}`).Replace(firstClaimBody)
}

var answers = map[string]struct {
	answer     executor.Answer
	status     int
	retryAfter string
	body       string
}{
	"sold": {executor.Answer{Outcome: api.Sold, Claim: firstClaim}, 201, "", firstClaimBody},
	"sold, asked again": {
		executor.Answer{Outcome: api.Sold, Claim: firstClaim, Replayed: true}, 200, "", firstClaimBody},
	"sold in part": {executor.Answer{Outcome: api.Sold, Claim: partClaim()}, 201, "",
		strings.Replace(firstClaimBody, `[5,7]`, `[5,7],"requested":4`, 1)},
	"held until": {executor.Answer{Outcome: api.Held, Claim: heldClaim(api.Held)}, 201, "", heldClaimBody("held")},
	"held": {executor.Answer{Outcome: api.Held, Claim: firstClaim}, 201, "",
		strings.Replace(firstClaimBody, "sold", "held", 1)},
	"held, asked again": {executor.Answer{Outcome: api.Held, Claim: firstClaim, Replayed: true}, 200, "",
		strings.Replace(firstClaimBody, "sold", "held", 1)},

	"sold out": {executor.Answer{Outcome: api.SoldOut}, 409, "",
		`{"type":"urn:salectl:outcome:sold_out","title":"Sold out","status":409,"detail":"Every unit of the sale is sold.","outcome":"sold_out"}`},
	"units taken": {executor.Answer{Outcome: api.UnitsTaken, RetryAfter: time.Second}, 409, "1",
		`{"type":"urn:salectl:outcome:units_taken","title":"Units taken","status":409,"detail":"Some of the named units are not available now: they are sold, held or in transfer between shards. They may return; other units may be available.","outcome":"units_taken"}`},
	"not adjacent": {executor.Answer{Outcome: api.NotAdjacent, RetryAfter: time.Second}, 409, "1",
		`{"type":"urn:salectl:outcome:not_adjacent","title":"Not adjacent","status":409,"detail":"No row has that many available units side by side now; fewer units, or units that are not adjacent, may be available.","outcome":"not_adjacent"}`},
	"none now": {executor.Answer{Outcome: api.NoneNow}, 409, "1",
		`{"type":"urn:salectl:outcome:none_now","title":"None available now","status":409,"detail":"Fewer units are available now than the claim requests; some may return.","outcome":"none_now"}`},
	"none before the next hold ends": {
		executor.Answer{Outcome: api.NoneNow, RetryAfter: 61*time.Second + time.Millisecond}, 409, "62", `"outcome":"none_now"}`},
	"limit reached": {executor.Answer{Outcome: api.LimitReached, Claims: []executor.Claim{firstClaim}, Count: 40_000}, 409, "",
		`"outcome":"limit_reached","claims":[` + firstClaimBody + `],"count":40000}`},
	"limit reached by the first claim": {executor.Answer{Outcome: api.LimitReached}, 409, "",
		`"outcome":"limit_reached","claims":[]}`},

	"not open": {executor.Answer{Outcome: api.NotOpen, OpensAt: noon.Add(90 * time.Second), RetryAfter: 90 * time.Second}, 403, "90",
		`{"type":"urn:salectl:outcome:not_open","title":"Not open yet","status":403,"detail":"The sale has not opened yet.","outcome":"not_open","serverTime":"2026-11-11T12:00:00Z","opensAt":"2026-11-11T12:01:30Z"}`},
	"not open, by a clock that is ahead": {executor.Answer{Outcome: api.NotOpen, OpensAt: noon.Add(90 * time.Second), RetryAfter: 1500 * time.Millisecond}, 403, "2",
		`"serverTime":"2026-11-11T12:00:00Z","opensAt":"2026-11-11T12:01:30Z"}`},
	"paused": {executor.Answer{Outcome: api.Paused}, 403, "1", `"outcome":"paused","serverTime":"2026-11-11T12:00:00Z"}`},
	"closed": {executor.Answer{Outcome: api.Closed}, 403, "", `"outcome":"closed","serverTime":"2026-11-11T12:00:00Z"}`},
	"refused by a rule": {
		executor.Answer{Outcome: api.NotEligible, Message: "no", Rule: "gold", Reason: "denied"}, 403, "",
		`"detail":"no","outcome":"not_eligible","rule":"gold","reason":"denied"}`},
	"not checked": {executor.Answer{Outcome: api.NotChecked, RetryAfter: time.Second}, 503, "1", `"outcome":"not_checked"}`},
	"not eligible": {executor.Answer{Outcome: api.NotEligible, Message: `members "only"`}, 403, "",
		`"detail":"members \"only\"","outcome":"not_eligible"}`},

	"bad request": {executor.Answer{Outcome: api.BadRequest, Message: "no"}, 422, "", `"detail":"no","outcome":"bad_request"}`},
	"key reused":  {executor.Answer{Outcome: api.KeyReused}, 422, "", `"outcome":"key_reused"}`},
	"no such sale": {executor.Answer{Outcome: api.NoSuchSale}, 404, "",
		`{"type":"urn:salectl:outcome:no_such_sale","title":"No such sale","status":404,"detail":"This server serves no sale of this name.","outcome":"no_such_sale"}`},

	"expired": {executor.Answer{Outcome: api.Expired}, 409, "",
		`{"type":"urn:salectl:outcome:expired","title":"Expired","status":409,"detail":"The claim was not paid in time; its units are for sale again.","outcome":"expired"}`},
	"expired, and which": {executor.Answer{Outcome: api.Expired, Claim: heldClaim(api.Expired), Replayed: true}, 409, "",
		`"outcome":"expired","claims":[` + heldClaimBody("expired") + `]}`},
	"paid for nothing": {executor.Answer{Outcome: api.Expired, Claim: heldClaim(api.Expired), RefundDue: true}, 409, "",
		`"claims":[` + heldClaimBody("expired") + `],"refundDue":true}`},
	"paid for no known content": {executor.Answer{Outcome: api.Expired, RefundDue: true}, 409, "", `"outcome":"expired","refundDue":true}`},
	"cancelled":                 {executor.Answer{Outcome: api.Cancelled}, 409, "", `"outcome":"cancelled"}`},
	"refunded":                  {executor.Answer{Outcome: api.Refunded}, 409, "", `"outcome":"refunded"}`},
	"entered": {executor.Answer{Outcome: api.Entered, Claim: executor.Claim{ID: executor.ClaimID{Shard: 1, Slot: 2}, User: "u", State: api.Entered, At: noon}}, 201, "",
		`"outcome":"entered","claim":"1-2-0","sale":"movie","user":"u","units":[],"at":"2026-11-11T12:00:00Z"}`},
	"not drawn": {executor.Answer{Outcome: api.NotDrawn, Claim: executor.Claim{ID: executor.ClaimID{Shard: 1, Slot: 2}, User: "u", State: api.NotDrawn, At: noon}}, 409, "",
		`"outcome":"not_drawn","claims":[{"outcome":"not_drawn","claim":"1-2-0","sale":"movie","user":"u","units":[],"at":"2026-11-11T12:00:00Z"}]}`},
	"not held":      {executor.Answer{Outcome: api.NotHeld}, 409, "", `"outcome":"not_held"}`},
	"not due":       {executor.Answer{Outcome: api.NotDue}, 409, "", `"outcome":"not_due"}`},
	"not sold":      {executor.Answer{Outcome: api.NotSold}, 409, "", `"outcome":"not_sold"}`},
	"no extension":  {executor.Answer{Outcome: api.NoExtension}, 409, "", `"outcome":"no_extension"}`},
	"no such claim": {executor.Answer{Outcome: api.NoSuchClaim}, 404, "", `"outcome":"no_such_claim"}`},

	"overloaded": {executor.Answer{Outcome: api.Overloaded}, 429, "1", `"outcome":"overloaded"}`},
	"no quorum":  {executor.Answer{Outcome: api.NoQuorum, RetryAfter: time.Millisecond}, 503, "1", `"outcome":"no_quorum"}`},
	"unknown":    {executor.Answer{Outcome: api.Unknown, RetryAfter: 3 * time.Second}, 503, "3", `"outcome":"unknown"}`},
	"standby":    {executor.Answer{Outcome: api.Standby}, 503, "1", `"outcome":"standby"}`},
	"draining":   {executor.Answer{Outcome: api.Draining}, 503, "1", `"outcome":"draining"}`},

	"an outcome of a later version": {executor.Answer{Outcome: "lost_in_space"}, 500, "", `"outcome":"lost_in_space"}`},
}

func TestAnswers(t *testing.T) {
	covered := map[api.Outcome]bool{}
	for name, c := range answers {
		covered[c.answer.Outcome] = true
		t.Run(name, func(t *testing.T) {
			var got executor.Request
			s := New(Config{Clock: atNoon, Sales: []executor.Service{&httpdtest.Fake{
				Name: "movie",
				ClaimFunc: func(_ context.Context, r executor.Request) executor.Answer {
					got = r
					return c.answer
				},
				StatusFunc: func() executor.Status { t.Error("the sale was looked at once more"); return executor.Status{} },
			}}})
			r := post(t, s, claimsPath, `{"user":"\"u\"","quantity":2}`, http.Header{"Idempotency-Key": {"k-1"}})

			if want := (executor.Request{User: `"u"`, Key: "k-1", Quantity: 2}); !reflect.DeepEqual(got, want) {
				t.Errorf("the executor was asked for %+v, want %+v", got, want)
			}
			if r.StatusCode != c.status {
				t.Errorf("status %d, want %d", r.StatusCode, c.status)
			}
			if got := r.Header.Get("Retry-After"); got != c.retryAfter {
				t.Errorf("Retry-After %q, want %q", got, c.retryAfter)
			}
			wantType := "application/problem+json"
			if c.status < 300 {
				wantType = "application/json"
			}
			if got := r.Header.Get("Content-Type"); got != wantType {
				t.Errorf("Content-Type %q, want %q", got, wantType)
			}
			body := text(t, r)
			if whole := strings.HasPrefix(c.body, "{"); whole && body != c.body || !strings.HasSuffix(body, c.body) {
				t.Errorf("body\n%s\nwant, or at its end,\n%s", body, c.body)
			}
		})
	}
	for _, row := range api.Outcomes() {
		if !covered[row.Outcome] && row.Outcome != api.Returned {
			t.Errorf("no case for outcome %q", row.Outcome)
		}
	}
}

// TestAnswersAreOfTheAPI holds what is put together by hand to the types of the API:
// each answer is what encoding/json makes of it, with nothing lost.
func TestAnswersAreOfTheAPI(t *testing.T) {
	for name, c := range answers {
		s := New(Config{Clock: atNoon, Sales: []executor.Service{&httpdtest.Fake{
			Name: "movie", ClaimFunc: func(context.Context, executor.Request) executor.Answer { return c.answer },
		}}})
		body := text(t, post(t, s, claimsPath, `{"user":"u"}`, nil))
		into := any(new(api.Problem))
		if c.status < 300 {
			into = new(api.Claim)
		}
		strict := json.NewDecoder(strings.NewReader(body))
		strict.DisallowUnknownFields()
		err := strict.Decode(into)
		again, _ := json.Marshal(into)
		if want := strings.Replace(body, `,"claims":[]`, "", 1); err != nil || string(again) != want {
			t.Errorf("%s: %v\n%s\nwant %s", name, err, again, want)
		}
	}
}

// A claim may name as many units as there may be, also by long names.
func TestClaimOfLongNames(t *testing.T) {
	var got executor.Request
	s := New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie", ClaimFunc: func(_ context.Context, r executor.Request) executor.Answer {
		got = r
		return executor.Answer{Outcome: api.UnitsTaken}
	}}}})
	long := strings.Repeat("x", api.MaxName-1)
	for _, want := range [][]string{
		{"A" + long, "B" + long},
		slices.Collect(func(yield func(string) bool) {
			for i := 0; i < api.MaxNames && yield(fmt.Sprint(i, long[:500])); i++ {
			}
		}),
	} {
		body, err := json.Marshal(map[string]any{"user": "u", "units": want})
		if err != nil {
			t.Fatal(err)
		}
		if r := post(t, s, claimsPath, string(body), nil); r.StatusCode != http.StatusConflict || !slices.Equal(got.Names, want) {
			t.Errorf("%d names in %d bytes: status %d, asked for %d", len(want), len(body), r.StatusCode, len(got.Names))
		}
	}
}

var badRequests = map[string]struct {
	body   string
	header http.Header
	status int
	detail string
}{
	"body":              {`{"user":7}`, nil, 400, "user: must be a string"},
	"value":             {`{"user":""}`, nil, 422, "user: must not be empty"},
	"4095 bytes":        {`{"user":"u"` + strings.Repeat(" ", 4095-11), nil, 400, "a comma or the end"},
	"4096 bytes":        {`{"user":"u"` + strings.Repeat(" ", 4096-11), nil, 400, "a comma or the end"},
	"64 KiB":            {`{"user":"u"` + strings.Repeat(" ", 64<<10-11), nil, 400, "a comma or the end"},
	"64 KiB and a byte": {`{"user":"u"` + strings.Repeat(" ", 64<<10-10), nil, 413, "at most 64 KiB"},
	"form":              {`{"user":"u"}`, http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, 415, "application/json"},
	"plain text":        {`{"user":"u"}`, http.Header{"Content-Type": {"text/plain"}}, 415, "application/json"},
	"no type":           {`{"user":"u"}`, http.Header{"Content-Type": nil}, 415, "application/json"},
	"JSON, then text":   {`{"user":"u"}`, http.Header{"Content-Type": {"application/json", "text/plain"}}, 415, "given once"},
	"JSON twice":        {`{"user":"u"}`, http.Header{"Content-Type": {"application/json", "application/json"}}, 415, "given once"},
	"two in one":        {`{"user":"u"}`, http.Header{"Content-Type": {"application/json, text/plain"}}, 415, "application/json"},
	"nonsense type":     {`{"user":"u"}`, http.Header{"Content-Type": {"application/json;;"}}, 415, "application/json"},
	"empty key":         {`{"user":"u"}`, http.Header{"Idempotency-Key": {""}}, 400, "Idempotency-Key: empty"},
	"two keys":          {`{"user":"u"}`, http.Header{"Idempotency-Key": {"a", "a"}}, 400, "Idempotency-Key: given 2 times"},
	"long key":          {`{"user":"u"}`, http.Header{"Idempotency-Key": {strings.Repeat("k", 256)}}, 400, "Idempotency-Key: 256 bytes"},
	"key with a space":  {`{"user":"u"}`, http.Header{"Idempotency-Key": {"a b"}}, 400, "Idempotency-Key: only visible ASCII"},
	"key beyond ASCII":  {`{"user":"u"}`, http.Header{"Idempotency-Key": {"é"}}, 400, "Idempotency-Key: only visible ASCII"},
	"open quote":        {`{"user":"u"}`, http.Header{"Idempotency-Key": {`"k-1`}}, 400, "Idempotency-Key: the value begins with a quote"},
	"more than quotes":  {`{"user":"u"}`, http.Header{"Idempotency-Key": {`"k-1";a=b`}}, 400, "Idempotency-Key: the value begins with a quote"},
	"other escape":      {`{"user":"u"}`, http.Header{"Idempotency-Key": {`"\x41"`}}, 400, "Idempotency-Key: the value begins with a quote"},
	"escaped end":       {`{"user":"u"}`, http.Header{"Idempotency-Key": {`"a\"`}}, 400, "Idempotency-Key: the value begins with a quote"},
	"empty quotes":      {`{"user":"u"}`, http.Header{"Idempotency-Key": {`""`}}, 400, "Idempotency-Key: empty"},
	"quoted blank":      {`{"user":"u"}`, http.Header{"Idempotency-Key": {`"a b"`}}, 400, "Idempotency-Key: only visible ASCII"},
	"long quoted key":   {`{"user":"u"}`, http.Header{"Idempotency-Key": {`"` + strings.Repeat("k", 256) + `"`}}, 400, "Idempotency-Key: 256 bytes"},
	"gzip":              {"\x1f\x8b", http.Header{"Content-Encoding": {"gzip"}}, 415, "Content-Encoding: send the body without"},
	"key with a delete": {`{"user":"u"}`, http.Header{"Idempotency-Key": {"a\x7f"}}, 400, "Idempotency-Key: only visible ASCII"},
}

func TestBadRequests(t *testing.T) {
	s := New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie", ClaimFunc: func(_ context.Context, r executor.Request) executor.Answer {
		t.Errorf("the executor was asked for %+v", r)
		return executor.Answer{}
	}}}})
	for name, c := range badRequests {
		t.Run(name, func(t *testing.T) {
			r := post(t, s, claimsPath, c.body, c.header)
			var got struct {
				Status          int
				Outcome, Detail string
			}
			if err := json.Unmarshal([]byte(text(t, r)), &got); err != nil {
				t.Fatal(err)
			}
			if r.StatusCode != c.status || got.Status != c.status || got.Outcome != "bad_request" || !strings.Contains(got.Detail, c.detail) {
				t.Errorf("status %d, body %+v; want %d, bad_request, %q", r.StatusCode, got, c.status, c.detail)
			}
		})
	}
}

// TestChunkedBody sends bodies whose length nobody has announced.
func TestChunkedBody(t *testing.T) {
	s := New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie", ClaimFunc: func(_ context.Context, r executor.Request) executor.Answer {
		return httpdtest.SoldTo(r.User)
	}}}})
	for body, want := range map[string]int{
		`{"user":"u"}`: 201,
		`{"user":"u"` + strings.Repeat(" ", maxClaimBody): 413,
	} {
		r := httptest.NewRequest(http.MethodPost, claimsPath, struct{ io.Reader }{strings.NewReader(body)})
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%d bytes: status %d, want %d", len(body), w.Code, want)
		}
	}
}

func TestContentTypesAccepted(t *testing.T) {
	s := New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie", ClaimFunc: func(_ context.Context, r executor.Request) executor.Answer {
		return httpdtest.SoldTo(r.User)
	}}}})
	for _, header := range []http.Header{
		{"Content-Type": {"application/json"}},
		{"Content-Type": {"Application/JSON; charset=utf-8"}},
	} {
		if r := post(t, s, claimsPath, `{"user":"u"}`, header); r.StatusCode != 201 {
			t.Errorf("%v: status %d", header, r.StatusCode)
		}
	}
}

// TestQuotedKeys claims with a key in quotes, the form of the draft of the header, and without.
func TestQuotedKeys(t *testing.T) {
	var keys []string
	s := New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie", ClaimFunc: func(_ context.Context, r executor.Request) executor.Answer {
		keys = append(keys, r.Key)
		return httpdtest.SoldTo(r.User)
	}}}})
	for value, want := range map[string]string{
		`k-1`: "k-1", `"k-1"`: "k-1", `k"1"`: `k"1"`, `"k\"1\\"`: `k"1\`,
		`"` + strings.Repeat("k", 255) + `"`: strings.Repeat("k", 255),
	} {
		keys = nil
		if r := post(t, s, claimsPath, `{"user":"u"}`, http.Header{"Idempotency-Key": {value}}); r.StatusCode != 201 || keys[0] != want {
			t.Errorf("%s: status %d for the keys %q, want %s", value, r.StatusCode, keys, want)
		}
	}
}

func TestClaimsAreCounted(t *testing.T) {
	next := make(chan executor.Answer, 10)
	s := New(Config{Sales: []executor.Service{&httpdtest.Fake{Name: "movie", ClaimFunc: func(context.Context, executor.Request) executor.Answer {
		return <-next
	}}}})
	for _, a := range []executor.Answer{
		{Outcome: api.Sold}, {Outcome: api.Sold, Replayed: true}, {Outcome: api.Sold, Replayed: true},
		{Outcome: api.SoldOut}, {Outcome: "lost_in_space"},
	} {
		next <- a
		post(t, s, claimsPath, `{"user":"u"}`, nil)
	}
	post(t, s, claimsPath, `{}`, nil)

	want := map[api.Outcome]float64{api.Sold: 1, api.Replayed: 2, api.SoldOut: 1, other: 1, api.BadRequest: 1}
	labels := []api.Outcome{api.Replayed, other}
	for _, row := range api.Outcomes() {
		labels = append(labels, row.Outcome)
	}
	for _, o := range labels {
		if got := testutil.ToFloat64(s.metrics.claims.WithLabelValues("movie", string(o))); got != want[o] {
			t.Errorf("%s: counted %v, want %v", o, got, want[o])
		}
	}
	for _, c := range s.Collectors() {
		problems, err := testutil.CollectAndLint(c)
		if err != nil || len(problems) > 0 {
			t.Error(err, problems)
		}
	}
}
