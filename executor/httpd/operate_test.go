package httpd

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"salectl/api"
	"salectl/executor"
	"salectl/executor/httpd/httpdtest"
)

// operated is a sale that an operator may move; it notes what it was asked.
type operated struct {
	httpdtest.Fake
	asked []string
	err   error
}

func (o *operated) note(format string, args ...any) error {
	o.asked = append(o.asked, fmt.Sprintf(format, args...))
	return o.err
}

func (o *operated) StandBy(_ context.Context, undo bool) (api.Share, error) {
	return api.Share{Sale: o.Name, State: "standby", Shards: 2, HasTakers: true}, o.note("standby undo=%t", undo)
}

func (o *operated) Share(context.Context) (api.Share, error) {
	return api.Share{Sale: o.Name, State: "serving", Shards: 2, Assigned: 3}, o.note("share")
}

// What operators ask for reaches the sale, at the admin address alone.
func TestOperators(t *testing.T) {
	for _, c := range []struct {
		method, path, body string
		asked              string
		status             int
		answer             string
	}{
		{"POST", "drain", `{}`, "standby undo=false", 200, `{"sale":"movie","state":"standby","shards":2,"assigned":0,"takers":true}`},
		{"POST", "drain", `{"undo":true}`, "standby undo=true", 200, ""},
		{"GET", "drain", "", "share", 200, `{"sale":"movie","state":"serving","shards":2,"assigned":3,"takers":false}`},
		{"POST", "drain", `{`, "", 400, ""},
		{"POST", "drain", ``, "", 400, ""},
		{"POST", "drain", `null`, "", 400, ""},
		{"POST", "drain", `{"undo": null}`, "", 400, ""},
		{"POST", "drain", `{"undoo": true}`, "", 400, ""},
		{"POST", "drain", `{"undo": true, "undo": false}`, "", 400, ""},
		{"PUT", "drain", `{}`, "", 405, ""},
	} {
		sale := &operated{Fake: httpdtest.Fake{Name: "movie"}}
		s := New(Config{Sales: []executor.Service{sale}})
		r := do(s.Admin(), c.method, api.SalesPath+"movie/"+c.path, c.body, nil)
		if got := text(t, r); r.StatusCode != c.status || strings.Join(sale.asked, "; ") != c.asked || c.answer != "" && got != c.answer {
			t.Errorf("%s %s %s: %d %s, the sale was asked %q", c.method, c.path, c.body, r.StatusCode, got, sale.asked)
		}
		sale.asked = nil
		if r := do(s, c.method, api.SalesPath+"movie/"+c.path, c.body, nil); r.StatusCode != 404 || sale.asked != nil {
			t.Errorf("%s %s at the claims address: %d, the sale was asked %q", c.method, c.path, r.StatusCode, sale.asked)
		}
	}
}

// Nobody without the token, no page of another site, and nobody at all while the process
// goes down has it do anything.
func TestOperatorsAreGuarded(t *testing.T) {
	for name, c := range map[string]struct {
		token   string
		header  http.Header
		leaving bool
		want    int
	}{
		"no token":       {"s3cret", nil, false, 401},
		"a wrong token":  {"s3cret", http.Header{"Authorization": {"Bearer secret"}}, false, 401},
		"the token":      {"s3cret", http.Header{"Authorization": {"Bearer s3cret"}}, false, 200},
		"none is needed": {"", nil, false, 200},
		"another site":   {"", http.Header{"Sec-Fetch-Site": {"cross-site"}}, false, 403},
		"going down":     {"", nil, true, 503},
	} {
		sale := &operated{Fake: httpdtest.Fake{Name: "movie"}}
		s := New(Config{Sales: []executor.Service{sale}, Tokens: tokensOf(t, c.token)})
		if c.leaving {
			s.Retire()
		}
		for _, path := range []string{"drain"} {
			r := do(s.Admin(), "POST", api.SalesPath+"movie/"+path, "{}", c.header)
			if r.StatusCode != c.want || (len(sale.asked) > 0) != (c.want == 200) {
				t.Errorf("%s, %s: %d, want %d; the sale was asked %q", name, path, r.StatusCode, c.want, sale.asked)
			}
			sale.asked = nil
		}
	}
}

// Each reason not to do it has its status.
func TestOperatorsAreRefused(t *testing.T) {
	for err, want := range map[error]int{
		executor.ErrNotServing: 503,
	} {
		s := New(Config{Sales: []executor.Service{&operated{Fake: httpdtest.Fake{Name: "movie"}, err: err}, &httpdtest.Fake{Name: "opera"}}})
		for _, path := range []string{"drain"} {
			r := do(s.Admin(), "POST", api.SalesPath+"movie/"+path, "{}", nil)
			if said := text(t, r); r.StatusCode != want || !strings.Contains(said, err.Error()) {
				t.Errorf("%v: %d %s", err, r.StatusCode, said)
			}
			if r := do(s.Admin(), "POST", api.SalesPath+"opera/"+path, "{}", nil); r.StatusCode != 404 {
				t.Errorf("a sale that is not moved: %d", r.StatusCode)
			}
			if said := text(t, do(s.Admin(), "POST", api.SalesPath+"circus/"+path, "{}", nil)); !strings.Contains(said, "no_such_sale") {
				t.Errorf("no such sale: %s", said)
			}
		}
	}
}
