package httpd

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"salectl/api"
	"salectl/executor"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/httpdtest"
)

// A request whose header is too large is refused by itself, the same by HTTP/1.1 and HTTP/2:
// requests that are under way on its connection, or follow on it, are served.
func TestLargeHeader(t *testing.T) {
	for name, header := range map[string]http.Header{
		"one field":   {"Cookie": {strings.Repeat("c", access.MaxHeader)}},
		"many fields": {"X-Field": slices.Repeat([]string{"value"}, access.MaxHeader/32)},
	} {
		for _, two := range []bool{false, true} {
			v := serve(t, New(Config{Sales: []executor.Service{&httpdtest.Fake{
				Name: "movie", ClaimFunc: func(_ context.Context, r executor.Request) executor.Answer { return httpdtest.SoldTo(r.User) },
			}}}))
			client := v.client
			if two {
				transport := &http.Transport{Protocols: new(http.Protocols)}
				transport.Protocols.SetUnencryptedHTTP2(true)
				t.Cleanup(transport.CloseIdleConnections)
				client = &http.Client{Transport: transport}
			}
			var connections atomic.Int32
			ask := func(body io.Reader, header http.Header) (int, string) {
				t.Helper()
				trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
					if !c.Reused {
						connections.Add(1)
					}
				}}
				r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, v.url+claimsPath, body)
				if err != nil {
					t.Fatal(err)
				}
				for name, values := range header {
					r.Header[name] = values
				}
				r.Header.Set("Content-Type", api.TypeJSON)
				response, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				all, err := io.ReadAll(response.Body)
				if err != nil {
					t.Fatal(err)
				}
				return response.StatusCode, response.Header.Get("Content-Type") + " " + string(all)
			}
			if status, said := ask(strings.NewReader(`{"user":"a"}`), nil); status != 201 {
				t.Fatalf("%s, HTTP/2 %v: the first claim: %d %s", name, two, status, said)
			}
			ends := make(chan int, 1)
			body, more := io.Pipe()
			if two {
				go func() { status, _ := ask(body, nil); ends <- status }()
				if _, err := more.Write([]byte(`{"user":`)); err != nil {
					t.Fatal(err)
				}
			}
			const want = `application/problem+json {"type":"about:blank","title":"Request Header Fields Too Large","status":431,"detail":"The header of the request has more than 32 KiB.`
			if status, said := ask(strings.NewReader(`{"user":"b"}`), header); status != 431 || !strings.HasPrefix(said, want) {
				t.Errorf("%s, HTTP/2 %v: %d %s", name, two, status, said)
			}
			if two {
				more.Write([]byte(`"c"}`))
				more.Close()
				if status := <-ends; status != 201 {
					t.Errorf("%s: the claim that was under way: %d", name, status)
				}
			}
			if status, said := ask(strings.NewReader(`{"user":"d"}`), http.Header{"Cookie": {strings.Repeat("c", access.MaxHeader-1000)}}); status != 201 || connections.Load() != 1 {
				t.Errorf("%s, HTTP/2 %v: the next claim: %d %s, on connection %d", name, two, status, said, connections.Load())
			}
		}
	}
}
