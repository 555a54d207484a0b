package api

import (
	"net/http"
	"net/url"
)

// Proxy is http.ProxyFromEnvironment, but sends no token to a proxy: a request without TLS that
// has one goes to its server directly. It is for an http.Transport.
func Proxy(r *http.Request) (*url.URL, error) { return proxyBy(r, http.ProxyFromEnvironment) }

func proxyBy(r *http.Request, environment func(*http.Request) (*url.URL, error)) (*url.URL, error) {
	if r.URL.Scheme == "http" && r.Header.Get("Authorization") != "" {
		return nil, nil
	}
	return environment(r)
}
