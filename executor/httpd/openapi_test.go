package httpd

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"gopkg.in/yaml.v3"

	"salectl/api"
	"salectl/backends/ledger"
	"salectl/executor"
)

// operation is one of the OpenAPI document.
type operation struct {
	method, path string
	buyers       bool   // the buyers' address has it
	admin        bool   // the admin address has it
	needs        string // the right that a token needs; "": no token is asked for
}

// operations are those of the document, by name.
func operations(t *testing.T) map[string]operation {
	t.Helper()
	var document struct {
		Security []map[string][]string
		Paths    map[string]map[string]yaml.Node
	}
	if err := yaml.Unmarshal([]byte(api.OpenAPI), &document); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]operation)
	for path, item := range document.Paths {
		at := item["x-salectl-address"].Value
		o := operation{path: strings.NewReplacer("{sale}", "movie", "{claim}", "1-2-3", "{user}", "u", "{shard}", "1").Replace(path)}
		o.buyers, o.admin = at != "admin", at != ""
		for method, node := range item {
			o.method = strings.ToUpper(method)
			if !slices.Contains([]string{"GET", "POST"}, o.method) {
				continue
			}
			one := struct {
				OperationID string `yaml:"operationId"`
				Security    []map[string][]string
			}{Security: document.Security}
			if err := node.Decode(&one); err != nil {
				t.Fatal(err)
			}
			switch said := fmt.Sprint(one.Security); said {
			case "[map[]]":
				o.needs = ""
			case "[map[token:[claim]] map[]]":
				o.needs = "claim"
			case "[map[token:[confirm]] map[]]":
				o.needs = "confirm"
			case "[map[token:[operate]] map[]]":
				o.needs = "operate"
			case "[map[token:[follow]] map[]]":
				o.needs = "follow"
			default:
				t.Fatalf("%s needs %s", one.OperationID, said)
			}
			all[one.OperationID] = o
		}
	}
	return all
}

// shut is a sale that can be followed, if its store lets anybody read.
type shut struct{ *operated }

func (shut) Logs() ledger.Logs { return unreadable{} }

// unreadable is a store that lets nobody read.
type unreadable struct{ ledger.Logs }

func (unreadable) Read(context.Context, string, uint64, int) ([]byte, [][]byte, error) {
	return nil, nil, fs.ErrPermission
}

// The document says which right a token needs for an operation, and which address has it.
func TestOpenAPIHasTheRights(t *testing.T) {
	sale := shut{guardedSale()}
	s := New(Config{Sales: []executor.Service{sale}, Tokens: tokensOf(t, "shop claim\npays confirm\nbooks follow\nops operate\n"), Metrics: prometheus.NewRegistry()})
	for name, o := range operations(t) {
		for _, admin := range []bool{false, true} {
			at, has, needs := http.Handler(s), o.buyers, o.needs
			if admin {
				at, has = s.Admin(), o.admin
			}
			if admin && o.buyers && o.method == http.MethodGet { // what both addresses have, this one reports to everybody
				needs = ""
			}
			for _, token := range []string{"", "shop", "pays", "books", "ops"} {
				r := httptest.NewRequest(o.method, o.path, strings.NewReader("{}"))
				r.ProtoMajor, r.ProtoMinor, r.Proto = 2, 0, "HTTP/2.0" // which a stream needs
				r.Header.Set("Authorization", "Bearer "+token)
				w := httptest.NewRecorder()
				at.ServeHTTP(w, r)
				got := fmt.Sprint(w.Code, " ", w.Header().Get("WWW-Authenticate"))
				lacks := strings.Contains(w.Body.String(), "There is nothing at this path.")
				if lacks == has && token == "ops" {
					t.Errorf("%s, admin=%t: %s, and the document has it there: %t", name, admin, got, has)
				}
				want := ""
				switch {
				case !has:
					continue
				case needs != "" && token == "":
					want = `401 Bearer error="invalid_token"`
				case needs != "" && token != "ops" && needs != map[string]string{"shop": "claim", "pays": "confirm", "books": "follow"}[token]:
					want = `403 Bearer error="insufficient_scope", scope="` + needs + `"`
				}
				if refused := strings.Contains(got, "Bearer"); refused != (want != "") || refused && got != want {
					t.Errorf("%s, admin=%t, token %q: %s, want %q, since the document says that it needs %q", name, admin, token, got, want, needs)
				}
			}
		}
	}
}
