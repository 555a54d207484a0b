package httpd

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor"
	"salectl/executor/httpd/httpdtest"
)

// lines sends lines and returns the objects that are answered, by id.
func lines(t *testing.T, v *serving, in ...string) map[float64][]map[string]any {
	t.Helper()
	said := raw(t, v, api.TypeLines, strings.NewReader(strings.Join(in, "\n")+"\n"))
	all := make(map[float64][]map[string]any)
	for line := range strings.Lines(said) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		id, _ := one["id"].(float64)
		delete(one, "id")
		all[id] = append(all[id], one)
	}
	return all
}

// everyAnswer returns every answer that an executor may give, by the user who gets it.
func everyAnswer() map[string]executor.Answer {
	sold := httpdtest.SoldTo("ada")
	held := sold
	held.Outcome, held.Claim.State, held.Claim.HeldUntil = api.Held, api.Held, benchTime.Add(time.Minute)
	few := sold
	few.Claim.Asked, few.Replayed = 3, true
	answers := map[string]executor.Answer{
		"sold": sold, "held": held, "few": few,
		"limit":    {Outcome: api.LimitReached, Claims: []executor.Claim{sold.Claim, held.Claim}},
		"expired":  {Outcome: api.Expired, Claim: held.Claim, Message: "it was not paid"},
		"ruled":    {Outcome: api.NotEligible, Rule: "members", Reason: "denied", Message: "Members only."},
		"not-open": {Outcome: api.NotOpen, OpensAt: benchTime, RetryAfter: 90 * time.Second},
		"unknown":  {Outcome: api.Unknown, RetryAfter: time.Second},
		"odd":      {Outcome: "odd"},
	}
	for _, row := range api.Outcomes() {
		if !row.Outcome.Accepted() {
			answers["plain-"+string(row.Outcome)] = executor.Answer{Outcome: row.Outcome}
		}
	}
	return answers
}

// A line says what the answer of HTTP does: the same document, its status, and what is in
// the headers.
func TestLinesSayWhatHTTPSays(t *testing.T) {
	answers := everyAnswer()
	place := executor.Place{Shard: 2, Shards: 5, Owner: "there:2"}
	sale := &httpdtest.Fake{Name: "movie", At: place, ClaimFunc: func(_ context.Context, r executor.Request) executor.Answer { return answers[r.User] }}
	at := clock.System()()
	s := New(Config{Sales: []executor.Service{sale}, Clock: func() clock.Now { n := clock.System()(); n.Wall = at.Wall; return n }})
	v := serve(t, s)
	for user := range answers {
		r := post(t, s, claimsPath, fmt.Sprintf(`{"user":%q}`, user), nil)
		var want map[string]any
		if err := json.Unmarshal([]byte(text(t, r)), &want); err != nil {
			t.Fatal(err)
		}
		want["status"] = float64(r.StatusCode)
		want["shard"], want["shards"], want["owner"] = 2.0, 5.0, "there:2"
		if h := r.Header; h.Get(api.ShardHeader) != "2/5" || h.Get(api.OwnerHeader) != "there:2" {
			t.Errorf("%s: the headers %v", user, h)
		}
		if after := r.Header.Get("Retry-After"); after != "" {
			var seconds float64
			fmt.Sscan(after, &seconds)
			want["retryAfter"] = seconds
		}
		got := lines(t, v, fmt.Sprintf(`{"id":9,"claim":{"user":%q}}`, user))[9]
		if len(got) != 1 || !reflect.DeepEqual(got[0], want) {
			t.Errorf("%s:\n got %v\nwant %v", user, got, want)
		}
	}
}

// Settlements and look-ups are answered as by HTTP, too.
func TestLinesSettleAndLook(t *testing.T) {
	held := httpdtest.SoldTo("ada").Claim
	held.State = api.Held
	sale := &httpdtest.Fake{Name: "movie",
		SettleFunc: func(_ context.Context, x executor.Settlement) executor.Answer {
			if x.Claim != held.ID {
				return executor.Answer{Outcome: api.NoSuchClaim}
			}
			if x.How == api.Cancel && x.Who == "me" && x.Reason == "no" {
				return executor.Answer{Outcome: api.Cancelled, Claim: held}
			}
			return executor.Answer{Outcome: api.NotHeld, Claim: held}
		},
		UserFunc: func(user string) ([]executor.Claim, api.Outcome) {
			if user == "eve" {
				return nil, api.NoQuorum
			}
			return []executor.Claim{held}, ""
		},
		FindFunc: func(id executor.ClaimID) (executor.Claim, api.Outcome) {
			if id != held.ID {
				return executor.Claim{}, api.NoSuchClaim
			}
			return held, ""
		},
	}
	v := serve(t, New(Config{Sales: []executor.Service{sale}}))
	for line, like := range map[string]struct{ method, path, body string }{
		`{"id":1,"settle":{"claim":"3-1234-56","how":"cancel","who":"me","reason":"no"}}`: {"POST", "/claims/3-1234-56/cancel", `{"who":"me","reason":"no"}`},
		`{"id":1,"settle":{"claim":"3-1234-56","how":"extend"}}`:                          {"POST", "/claims/3-1234-56/extend", `{}`},
		// Numbers of 32 bits and more are not those of their lowest bits.
		`{"id":1,"settle":{"claim":"4294967299-1234-56","how":"cancel","who":"me","reason":"no"}}`: {"POST", "/claims/4294967299-1234-56/cancel", `{"who":"me","reason":"no"}`},
		`{"id":1,"find":"3-1234-4294967352"}`:                                                      {"GET", "/claims/3-1234-4294967352", ""},
		`{"id":1,"user":"ada"}`:                                                                    {"GET", "/users/ada", ""},
		`{"id":1,"user":"eve"}`:                                                                    {"GET", "/users/eve", ""},
		`{"id":1,"find":"3-1234-56"}`:                                                              {"GET", "/claims/3-1234-56", ""},
		`{"id":1,"find":"3-1-1"}`:                                                                  {"GET", "/claims/3-1-1", ""},
		`{"id":1,"find":"nonsense"}`:                                                               {"GET", "/claims/nonsense", ""},
	} {
		r := do(v.Server, like.method, "/v1/sales/movie"+like.path, like.body, http.Header{"Content-Type": {"application/json"}})
		var want map[string]any
		if err := json.Unmarshal([]byte(text(t, r)), &want); err != nil {
			t.Fatal(err)
		}
		want["status"] = float64(r.StatusCode)
		got := lines(t, v, line)[1]
		if len(got) == 1 && r.Header.Get("Retry-After") == "1" {
			want["retryAfter"] = 1.0
		}
		if len(got) != 1 || !reflect.DeepEqual(got[0], want) {
			t.Errorf("%s:\n got %v\nwant %v", line, got, want)
		}
	}
}

// What is wrong with a line is told under its id, if it has one before, and the stream
// goes on; otherwise it ends.
func TestLinesAreRefused(t *testing.T) {
	sale := &httpdtest.Fake{Name: "movie", ClaimFunc: sells}
	v := serve(t, New(Config{Sales: []executor.Service{sale}}))
	const good = `{"id":2,"claim":{"user":"bob","key":"k","quantity":2},"timeoutMs":10}`
	for line, c := range map[string]struct {
		id     float64
		status float64
		detail string
	}{
		`{"id":1,"claim":{"user":"ada","colour":"red"}}`:                 {1, 400, "colour"},
		`{"id":1,"claim":{"user":"ada","quantity":0}}`:                   {1, 422, "quantity"},
		`{"id":1,"claim":{"user":"ada","quantity":1.5}}`:                 {1, 400, "integer"},
		`{"id":1,"claim":{}}`:                                            {1, 422, "user"},
		`{"id":1,"claim":"ada"}`:                                         {1, 400, "must be a JSON object"},
		`{"id":1,"claim":{"user":"ada"},"user":"bob"}`:                   {1, 400, "one kind of content"},
		`{"id":1,"id":1,"user":"bob"}`:                                   {1, 400, "given twice"},
		`{"id":1,"claim":{"user":"ada","user":"bob"}}`:                   {1, 400, "given twice"},
		`{"id":1,"claim":{"user":"ada","quantity":1,"quantity":1}}`:      {1, 400, "given twice"},
		`{"id":1,"settle":{"claim":"1-2-3","claim":"1-2-4"}}`:            {1, 400, "given twice"},
		`{"id":1,"timeoutMs":1,"timeoutMs":1,"user":"bob"}`:              {1, 400, "given twice"},
		`{"id":1,"claim":{"user":"ada","key":""}}`:                       {1, 400, "claim.key: empty"},
		`{"id":1,"claim":{"user":"ada","units":[]}}`:                     {1, 422, "1 to 100 names"},
		`{"id":1,"claim":{"user":"ada","units":["a","b"],"quantity":1}}`: {1, 422, "2 units are named"},
		`{"id":1,"claim":{"user":"ada","quantity":9223372036854775808}}`: {1, 422, "quantity"},
		`{"id":1,"timeoutMs":9223372036854775808,"user":"bob"}`:          {1, 400, "timeoutMs"},
		`{"id":9223372036854775808,"user":"bob"}`:                        {0, 400, "from 1 to"},
		`{"id":1,"timeoutMs":-1,"user":"bob"}`:                           {1, 400, "from 0"},
		`{"id":1,"user":"bob","limit":0}`:                                {1, 422, "limit: must be from 1 to 1000"},
		`{"id":1,"limit":1001,"find":"1-2-3"}`:                           {1, 422, "limit: must be from 1 to 1000"},
		`{"id":1,"user":"bob","before":7}`:                               {1, 400, "before"},
		`{"id":1,"before":"x","claim":{"user":"ada"}}`:                   {1, 400, "of user and find"},
		`{"id":1}`:                {1, 400, "no known content"},
		`{"id":1,"cancel":false}`: {1, 400, "cancel"},
		`{"id":1,"hello":{}}`:     {1, 400, "unknown field"},
		`{"id":1,"settle":{"claim":"1-2-3","how":"refund"}}`:              {1, 422, "admin address"},
		`{"id":1,"settle":{"claim":"1-2-3","how":"cancel","when":1}}`:     {1, 400, "when"},
		`{"claim":{"user":"ada"}}`:                                        {0, 400, "id: missing"},
		`{"id":0,"claim":{"user":"ada"}}`:                                 {0, 400, "from 1 to"},
		`hello`:                                                           {0, 400, "JSON object"},
		`{"id":1,"claim":{"user":"` + strings.Repeat("x", 70_000) + `"}}`: {0, 413, "too long"},
	} {
		got := lines(t, v, "", line, good)
		said := got[c.id]
		detail := ""
		if len(said) == 1 {
			detail, _ = said[0]["detail"].(string)
		}
		if len(said) != 1 || said[0]["status"] != c.status || !strings.Contains(detail, c.detail) {
			t.Errorf("%.80s: %v, want %v %s", line, got, c.status, c.detail)
		}
		if goesOn := len(got[2]) == 1; goesOn != (c.id != 0) {
			t.Errorf("%.80s: what follows is answered: %v", line, goesOn)
		}
	}
}
