package examples

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"salectl/api"
	"salectl/internal/services"
)

// The programs of docs/integrate.md buy one ticket, though the answer to each of their requests
// is lost once and unknown once. Run again for the same order, they report the same claim.
func TestIntegrate(t *testing.T) {
	s := &served{t: t, dir: t.TempDir()}
	sale, err := os.ReadFile("integrate/sale.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "sale.yaml"), sale, 0o600); err != nil {
		t.Fatal(err)
	}
	s.run("apply", "--yes")
	_, server := s.serve()
	client, err := api.NewClient(api.Config{Servers: []string{server}, Sale: "concert"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for program, runtime := range map[string]func() ([]string, error){
		"buy.py":  func() ([]string, error) { path, err := services.Python(); return []string{path}, err },
		"buy.mts": services.TypeScript,
	} {
		t.Run(program, func(t *testing.T) {
			command, err := runtime()
			services.Require(t, err)
			faulty := httptest.NewServer(failTwice(t, server))
			defer faulty.Close()
			command = append(command, filepath.Join("integrate", program), faulty.URL, program, "order-1")
			for range 2 {
				out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).Output()
				if err != nil || !strings.Contains(string(out), "paid by payment-of-order-1") {
					t.Fatalf("%v: %s", err, out)
				}
			}
			has, err := client.User(t.Context(), program, api.Page{})
			if err != nil || len(has.Claims) != 1 || has.Claims[0].Outcome != api.Sold || has.Claims[0].Payment != "payment-of-order-1" {
				t.Errorf("the ledger has %+v, %v", has, err)
			}
		})
	}
}

// failTwice forwards requests to a server. Of each path it drops the first answer, and replaces
// the second by unknown.
func failTwice(t *testing.T, server string) http.Handler {
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	requests := make(map[string]int)
	forward := httputil.NewSingleHostReverseProxy(target)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requests[r.URL.Path]++
		n := requests[r.URL.Path]
		mu.Unlock()
		switch n {
		case 1:
			forward.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"outcome":"unknown"}`))
		default:
			forward.ServeHTTP(w, r)
		}
	})
}
