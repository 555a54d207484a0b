package httpd

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"salectl/api"
	"salectl/executor"
	"salectl/executor/httpd/httpdtest"
)

// tellsPages has look-ups return the page that they ask for, as the payment of a claim.
func tellsPages(next string) *httpdtest.Fake {
	return &httpdtest.Fake{Name: "movie", QueryFunc: func(q executor.Query) executor.Answer {
		if q.Page.Before == "none" {
			return executor.Answer{Outcome: api.BadRequest, Message: "before: not a cursor of this list; use another"}
		}
		c := httpdtest.SoldTo("ada").Claim
		c.Books = &api.Books{Payment: fmt.Sprintf("%s %d", q.Page.Before, q.Page.Limit), RefundDue: []string{"p1"}, RefundsDue: 3, RefundDueNext: next}
		if q.User == "" {
			return executor.Answer{Claim: c}
		}
		return executor.Answer{Claims: []executor.Claim{c}, Next: next}
	}}
}

// TestPagesOverHTTP asks for pages by queries.
func TestPagesOverHTTP(t *testing.T) {
	s := New(Config{Sales: []executor.Service{tellsPages("3-1-2")}})
	for _, path := range []string{"/v1/sales/movie/users/ada", "/v1/sales/movie/claims/3-1234-56"} {
		for query, c := range map[string]struct {
			status int
			body   string
		}{
			"":                           {200, `"payment":" 0"`},
			"?before=3-2-1":              {200, `"payment":"3-2-1 0"`},
			"?limit=1":                   {200, `"payment":" 1"`},
			"?limit=1000&before=%22a%22": {200, `"payment":"\"a\" 1000"`},
			"?before=none":               {422, `"detail":"before: not a cursor of this list; `},
			"?limit=0":                   {422, `"detail":"limit: must be from 1 to 1000"`},
			"?limit=-1":                  {422, `"detail":"limit: must be from 1 to 1000"`},
			"?limit=01":                  {422, `"detail":"limit: must be from 1 to 1000"`},
			"?limit=%2B1":                {422, `"detail":"limit: must be from 1 to 1000"`},
			"?limit=":                    {422, `"detail":"limit: must be from 1 to 1000"`},
			"?limit=1001":                {422, `"detail":"limit: must be from 1 to 1000"`},
			"?limit=1&limit=2":           {400, `"detail":"limit: given twice"`},
			"?after=1":                   {400, `"detail":"after: unknown parameter; `},
			"?limit=%zz":                 {400, `"detail":"the query: `},
		} {
			r := do(s, http.MethodGet, path+query, "", nil)
			if body := text(t, r); r.StatusCode != c.status || !strings.Contains(body, c.body) {
				t.Errorf("%s%s: %d %s, want %d %s", path, query, r.StatusCode, body, c.status, c.body)
			}
		}
	}
	for path, next := range map[string]string{
		"users/ada":        `"refundDue":["p1"],"refundsDue":3,"refundDueNext":"3-1-2"}],"next":"3-1-2"}`,
		"claims/3-1234-56": `"refundDue":["p1"],"refundsDue":3,"refundDueNext":"3-1-2"}`,
	} {
		if body := text(t, do(s, http.MethodGet, "/v1/sales/movie/"+path, "", nil)); !strings.HasSuffix(body, next) {
			t.Errorf("%s: %s", path, body)
		}
		last := New(Config{Sales: []executor.Service{tellsPages("")}})
		if body := text(t, do(last, http.MethodGet, "/v1/sales/movie/"+path, "", nil)); strings.Contains(strings.ToLower(body), "next") {
			t.Errorf("the last page: %s", body)
		}
	}
}

// TestPagesOverStreams has the client query the same pages over streams and over HTTP.
func TestPagesOverStreams(t *testing.T) {
	v := serve(t, New(Config{Sales: []executor.Service{tellsPages("3-1-2")}}))
	plain := buyer(t, func(c *api.Config) { c.Stream = false }, v.url)
	streamed := buyer(t, nil, v.url)
	for _, p := range []api.Page{{}, {Before: `"é"`}, {Limit: 1000}, {Before: "3-2-1", Limit: 5}, {Limit: 1001}} {
		a, errA := plain.User(t.Context(), "ada", p)
		b, errB := streamed.User(t.Context(), "ada", p)
		if !reflect.DeepEqual(a, b) || fmt.Sprint(errA) != fmt.Sprint(errB) || (errA == nil) != (p.Check() == nil) {
			t.Errorf("%+v of a user: %+v %v, by HTTP/1.1 %+v %v", p, b, errB, a, errA)
		}
		if errA == nil && (a.Next != "3-1-2" || a.Claims[0].Payment != fmt.Sprintf("%s %d", p.Before, p.Limit)) {
			t.Errorf("%+v of a user: %+v", p, a)
		}
		c, errC := plain.LookUp(t.Context(), "3-1234-56", p)
		d, errD := streamed.LookUp(t.Context(), "3-1234-56", p)
		if !reflect.DeepEqual(c, d) || fmt.Sprint(errC) != fmt.Sprint(errD) || errC == nil && c.RefundDueNext != "3-1-2" {
			t.Errorf("%+v of a claim: %+v %v, by HTTP/1.1 %+v %v", p, d, errD, c, errC)
		}
	}
	for _, client := range []*api.Client{plain, streamed} {
		if _, err := client.User(t.Context(), "ada", api.Page{Before: "none"}); err == nil || !strings.HasPrefix(err.Error(), "bad_request: ") {
			t.Errorf("a cursor that is none: %v", err)
		}
	}
}
