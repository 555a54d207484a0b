package api

import (
	"net/http"
	"net/url"
)

// Proxy is http.ProxyFromEnvironment for an http.Transport, but sends no token to a proxy: a
// request with a token and without TLS goes to its server directly.
func Proxy(r *http.Request) (*url.URL, error) { return proxyBy(r, http.ProxyFromEnvironment) }

func proxyBy(r *http.Request, environment func(*http.Request) (*url.URL, error)) (*url.URL, error) {
	if r.URL.Scheme == "http" && r.Header.Get("Authorization") != "" {
		return nil, nil
	}
	return environment(r)
}
