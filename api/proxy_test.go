package api

import (
	"net/http"
	"net/url"
	"testing"
)

// A proxy of the environment would read the token of a request without TLS.
func TestProxy(t *testing.T) {
	proxy := &url.URL{Host: "proxy:3128"}
	for _, c := range []struct {
		url, token string
		want       *url.URL
	}{
		{"http://shop/", "", proxy}, {"http://shop/", "Bearer t", nil}, {"https://shop/", "Bearer t", proxy},
	} {
		r, err := http.NewRequest(http.MethodGet, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", c.token)
		if got, err := proxyBy(r, func(*http.Request) (*url.URL, error) { return proxy, nil }); got != c.want || err != nil {
			t.Errorf("%s with %q: %v, %v", c.url, c.token, got, err)
		}
	}
	client, err := NewClient(Config{Servers: []string{"http://127.0.0.1:1"}, Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	if transport, is := client.http.Transport.(*http.Transport); !is || transport.Proxy == nil {
		t.Fatalf("a client with a token has the transport %v", client.http.Transport)
	} else if r, _ := http.NewRequest(http.MethodGet, "http://shop/", nil); r != nil {
		r.Header.Set("Authorization", "Bearer t")
		if got, err := transport.Proxy(r); got != nil || err != nil {
			t.Errorf("it asks %v, %v", got, err)
		}
	}
}
