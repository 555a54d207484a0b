package api

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// One TLS configuration serves many connections at a time, so none of them changes it, as a
// transport of net/http does with what it is given.
func TestTLSIsLeftAsItIs(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	given := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	given.NextProtos = nil
	ask := map[string]func(){
		"a client": func() {
			c, err := NewClient(Config{Servers: []string{server.URL}, TLS: given})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.SalesAt(t.Context()); err == nil {
				t.Error("the server has sales")
			}
		},
		"a stream": func() {
			if _, err := DialStream(t.Context(), StreamConfig{Server: server.URL, Sale: "tickets", TLS: given}); err == nil {
				t.Error("the server has streams")
			}
		},
	}
	for name, do := range ask {
		if do(); given.NextProtos != nil {
			t.Errorf("%s has made the protocols %q", name, given.NextProtos)
		}
		given.NextProtos = nil
	}
}
