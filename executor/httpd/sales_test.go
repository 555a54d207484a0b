package httpd

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/executor"
	"salectl/executor/httpd/httpdtest"
	"salectl/executor/shard"
)

// TestGetSales lists the sales, at both addresses, in the words of each sale alone.
func TestGetSales(t *testing.T) {
	open := &httpdtest.Fake{Name: "b-movie", StatusFunc: func() executor.Status {
		return executor.Status{SaleSummary: api.SaleSummary{UID: "u-1", Phase: "open", Generation: 3, OpensAt: noon, ClosesAt: noon.Add(time.Hour)}, Sells: true, Shards: []executor.ShardStatus{
			{Report: shard.Report{Totals: ledger.Totals{Limit: 5, Sold: 3, Available: 2}}}, {Report: shard.Report{Totals: ledger.Totals{Limit: 4, Sold: 1, Held: 1, Available: 2}}}}}
	}}
	away := &httpdtest.Fake{Name: "a-play", StatusFunc: func() executor.Status { return executor.Status{SaleSummary: api.SaleSummary{Outcome: api.Standby}} }}
	s := New(Config{Sales: []executor.Service{open, away}, Clock: atNoon, Tokens: tokensOf(t, "s3cret")})
	authorized := http.Header{"Authorization": {"Bearer s3cret"}}
	for _, r := range []*http.Response{do(s, "GET", "/v1/sales", "", authorized), do(s.Admin(), "GET", "/v1/sales", "", nil)} {
		var got api.Sales
		if err := json.Unmarshal([]byte(text(t, r)), &got); err != nil || r.StatusCode != 200 || len(got.Sales) != 2 || !got.ServerTime.Equal(noon) {
			t.Fatalf("status %d, %+v, %v", r.StatusCode, got, err)
		}
		if want := (api.SaleSummary{Sale: "a-play", Phase: "unknown", Outcome: api.Standby}); got.Sales[0] != want {
			t.Errorf("the sale of others is %+v", got.Sales[0])
		}
		var whole api.Sale
		if err := json.Unmarshal([]byte(text(t, do(s, "GET", "/v1/sales/b-movie", "", authorized))), &whole); err != nil {
			t.Fatal(err)
		}
		want := whole.SaleSummary
		if got.Sales[1] != want || want.Stock != 9 || want.Sold != 4 || want.Phase != "open" {
			t.Errorf("the sale is %+v, alone %+v", got.Sales[1], whole)
		}
	}
	if r := do(s, "GET", "/v1/sales", "", nil); r.StatusCode != 401 {
		t.Errorf("without a token: status %d", r.StatusCode)
	}
	if r := do(s, "DELETE", "/v1/sales", "", authorized); r.StatusCode != 405 || r.Header.Get("Allow") != "GET" {
		t.Errorf("DELETE: status %d", r.StatusCode)
	}
	if r := do(New(Config{}), "GET", "/v1/sales", "", nil); text(t, r) == "" || r.StatusCode != 200 {
		t.Errorf("no sales: status %d", r.StatusCode)
	}
}

// TestGetOpenAPI: both addresses have the document, for everybody.
func TestGetOpenAPI(t *testing.T) {
	s := New(Config{Tokens: tokensOf(t, "s3cret")})
	for _, h := range []http.Handler{s, s.Admin()} {
		r := do(h, "GET", "/openapi.json", "", nil)
		var document struct {
			OpenAPI string         `json:"openapi"`
			Paths   map[string]any `json:"paths"`
		}
		if err := json.Unmarshal([]byte(text(t, r)), &document); err != nil || r.StatusCode != 200 || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("status %d, %v", r.StatusCode, err)
		}
		if document.OpenAPI != "3.1.0" || document.Paths["/v1/sales/{sale}/claims"] == nil {
			t.Errorf("the document is %+v", document)
		}
		if r := do(h, "POST", "/openapi.json", "", nil); r.StatusCode != 405 || r.Header.Get("Allow") != "GET" {
			t.Errorf("POST: status %d", r.StatusCode)
		}
	}
}

// TestAdminRefuses: what is wrong at the admin address is a problem document, too.
func TestAdminRefuses(t *testing.T) {
	admin := New(Config{}).Admin()
	for _, of := range []struct {
		method, path, allow string
		status              int
	}{
		{"GET", "/none", "", 404}, {"GET", "/v1/sales//drain", "", 404}, {"GET", "/v1/sales/../drain", "", 404}, {"GET", "/dashboard/../none", "", 404}, {"GET", "/healthz/", "", 404},
		{"POST", "/healthz", "GET", 405}, {"PUT", "/v1/sales", "GET", 405},
	} {
		r := do(admin, of.method, of.path, "", nil)
		if body := text(t, r); r.StatusCode != of.status || r.Header.Get("Allow") != of.allow || r.Header.Get("Location") != "" || !strings.Contains(body, `"type":"`) {
			t.Errorf("%s %s: status %d, Allow %q, %s", of.method, of.path, r.StatusCode, r.Header.Get("Allow"), body)
		}
	}
}
