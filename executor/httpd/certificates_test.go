package httpd

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"salectl/api"
	"salectl/executor"
	"salectl/executor/httpd/access"
	"salectl/executor/httpd/httpdtest"
	"salectl/internal/services/certs"
)

// serverFiles issues a certificate for loopback.
func serverFiles(t testing.TB, a *certs.Authority, dir, name string, l certs.Leaf) access.TLSFiles {
	cert, key := httpdtest.Issue(t, a, dir, name, l)
	return access.TLSFiles{Cert: cert, Key: key}
}

func certificates(t testing.TB, files access.TLSFiles) *access.Certificates {
	t.Helper()
	c, err := access.ReadCertificates(files)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// overTLS is a client that believes an authority.
func overTLS(t testing.TB, a *certs.Authority, own ...tls.Certificate) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.Pool, Certificates: own}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func ask(t testing.TB, c *http.Client, method, url string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(`{"user":"u"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := c.Do(r)
	if err == nil {
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	return response, err
}

// Both listeners speak TLS, by HTTP/1.1 and HTTP/2, streams as well; a certificate that is
// renewed is shown to new connections, and those that are open go on.
func TestServeTLS(t *testing.T) {
	ca, dir := httpdtest.Authority(t, "ca"), t.TempDir()
	files := serverFiles(t, ca, dir, "server", certs.Leaf{})
	c := certificates(t, files)
	s := New(Config{Sales: []executor.Service{guardedSale()}, Certificates: c, Log: slog.New(slog.DiscardHandler)})
	buyers, admin := serve(t, s), serveWith(t, s, s.ServeAdmin)
	for _, v := range []*serving{buyers, admin} {
		v.url = strings.Replace(v.url, "http://", "https://", 1)
	}

	client := overTLS(t, ca)
	claim := func(c *http.Client) (*http.Response, error) { return ask(t, c, "POST", buyers.url+claimsPath) }
	r, err := claim(client)
	if err != nil || r.StatusCode != 201 || r.ProtoMajor != 2 {
		t.Fatalf("a claim over HTTP/2: %v, %v", r, err)
	}
	first := r.TLS.PeerCertificates[0].SerialNumber
	old := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool}}}
	defer old.CloseIdleConnections()
	if r, err := claim(old); err != nil || r.StatusCode != 201 || r.ProtoMajor != 1 {
		t.Errorf("a claim over HTTP/1.1: %v, %v", r, err)
	}
	if r, err := ask(t, client, "GET", admin.url+"/healthz"); err != nil || r.StatusCode != 200 {
		t.Errorf("the admin address: %v, %v", r, err)
	}
	if _, err := claim(overTLS(t, httpdtest.Authority(t, "another"))); !errors.As(err, new(*tls.CertificateVerificationError)) {
		t.Errorf("a client that does not believe the server: %v", err)
	}
	for _, stream := range []bool{true, false} {
		b, err := api.NewClient(api.Config{Servers: []string{buyers.url}, Sale: "movie", Stream: stream, TLS: &tls.Config{RootCAs: ca.Pool}})
		if err != nil {
			t.Fatal(err)
		}
		if a, err := b.Claim(t.Context(), api.Request{User: "ada", Quantity: 1}); err != nil || a.Outcome != api.Sold {
			t.Errorf("stream %v: %+v, %v", stream, a, err)
		}
		b.Close()
	}
	plain, err := api.NewClient(api.Config{Servers: []string{strings.Replace(buyers.url, "https", "http", 1)}, Sale: "movie"})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if _, err := plain.Claim(t.Context(), api.Request{User: "ada", Quantity: 1}); err == nil || !strings.HasSuffix(err.Error(), "begin its URL with https://") {
		t.Errorf("without TLS: %v", err)
	}

	// The key first: until the certificate is there, too, the old ones remain.
	fresh := serverFiles(t, ca, t.TempDir(), "server", certs.Leaf{})
	moveFile(t, fresh.Key, files.Key)
	if changed, err := c.Reload(); changed || !errors.Is(err, access.ErrBadTLS) {
		t.Errorf("a key without its certificate: %v, %v", changed, err)
	}
	if r, err := claim(overTLS(t, ca)); err != nil || r.TLS.PeerCertificates[0].SerialNumber.Cmp(first) != 0 {
		t.Errorf("a key without its certificate: %v, %v", r, err)
	}
	moveFile(t, fresh.Cert, files.Cert)
	if changed, err := c.Reload(); !changed || err != nil {
		t.Errorf("renewed: %v, %v", changed, err)
	}
	if changed, err := c.Reload(); changed || err != nil {
		t.Errorf("read again: %v, %v", changed, err)
	}
	if r, err := claim(overTLS(t, ca)); err != nil || r.TLS.PeerCertificates[0].SerialNumber.Cmp(first) == 0 {
		t.Errorf("a new connection is shown the old certificate: %v, %v", r, err)
	}
	if r, err := claim(client); err != nil || r.StatusCode != 201 || r.TLS.PeerCertificates[0].SerialNumber.Cmp(first) != 0 {
		t.Errorf("the connection of before was not kept: %v, %v", r, err)
	}
}

func moveFile(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// Where clients are to prove who they are, those alone need not who can have no certificate;
// whom the server believes may change.
func TestClientCertificates(t *testing.T) {
	ca, clients, strangers, dir := httpdtest.Authority(t, "ca"), httpdtest.Authority(t, "clients"), httpdtest.Authority(t, "strangers"), t.TempDir()
	files := serverFiles(t, ca, dir, "server", certs.Leaf{})
	files.ClientCA = filepath.Join(dir, "clients.pem")
	httpdtest.WriteFile(t, files.ClientCA, string(clients.PEM))
	pair := func(a *certs.Authority, l certs.Leaf) tls.Certificate {
		cert, key, err := a.Issue(l)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	c := certificates(t, files)
	s := New(Config{Sales: []executor.Service{guardedSale()}, Certificates: c, Log: slog.New(slog.DiscardHandler)})
	buyers, admin := serve(t, s), serveWith(t, s, s.ServeAdmin)
	urls := map[string]string{}
	for _, path := range []string{claimsPath, "/v1/sales/movie/webhooks/payment", "/v1/sales/movie/claims/webhooks/payment", "/v1/sales/movie"} {
		urls[path] = strings.Replace(buyers.url, "http://", "https://", 1) + path
	}
	for _, path := range []string{"/healthz", "/readyz", "/v1/sales/movie/drain"} {
		urls[path] = strings.Replace(admin.url, "http://", "https://", 1) + path
	}
	for _, c := range []struct {
		method, path string
		without      int // a certificate
		with         int
	}{
		{"POST", claimsPath, 403, 201},
		{"GET", "/v1/sales/movie", 403, 200},
		{"POST", "/v1/sales/movie/webhooks/payment", 404, 404},
		{"POST", "/v1/sales/movie/claims/webhooks/payment", 403, 404},
		{"GET", "/healthz", 200, 200},
		{"GET", "/readyz", 200, 200},
		{"GET", "/v1/sales/movie/drain", 403, 200},
	} {
		if r, err := ask(t, overTLS(t, ca), c.method, urls[c.path]); err != nil || r.StatusCode != c.without {
			t.Errorf("%s %s without a certificate: %v, %v", c.method, c.path, r, err)
		}
		if r, err := ask(t, overTLS(t, ca, pair(clients, certs.Leaf{Client: true})), c.method, urls[c.path]); err != nil || r.StatusCode != c.with {
			t.Errorf("%s %s with a certificate: %v, %v", c.method, c.path, r, err)
		}
	}
	refused := func(what string, own tls.Certificate) {
		t.Helper()
		forced := overTLS(t, ca)
		forced.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
		if r, err := ask(t, forced, "GET", urls["/v1/sales/movie"]); err == nil {
			t.Errorf("%s is let in: %s", what, r.Status)
		}
	}
	refused("another authority's", pair(strangers, certs.Leaf{Client: true}))
	refused("a server's", pair(clients, certs.Leaf{}))
	refused("an expired one", pair(clients, certs.Leaf{Client: true, Until: time.Now().Add(-time.Minute)}))

	old := pair(clients, certs.Leaf{Client: true})
	client := overTLS(t, ca, old)
	client.Transport.(*http.Transport).TLSClientConfig.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	if r, err := ask(t, client, "GET", urls["/v1/sales/movie"]); err != nil || r.StatusCode != 200 {
		t.Errorf("%v, %v", r, err)
	}
	httpdtest.WriteFile(t, files.ClientCA, string(strangers.PEM))
	if changed, err := c.Reload(); !changed || err != nil {
		t.Fatal(changed, err)
	}
	client.CloseIdleConnections() // the next one could go on with what this one has proved
	if r, err := ask(t, client, "GET", urls["/v1/sales/movie"]); err == nil && r.StatusCode == 200 {
		t.Error("an authority is believed that was taken away")
	}
	if r, err := ask(t, overTLS(t, ca, pair(strangers, certs.Leaf{Client: true})), "GET", urls["/v1/sales/movie"]); err != nil || r.StatusCode != 200 {
		t.Errorf("the new authority: %v, %v", r, err)
	}
}

// A connection that says nothing is none to warn of, one that cannot agree is.
// A scrape tells when the certificate begins and ends, by the files as they were read last.
func TestCertificateMetrics(t *testing.T) {
	value := func(c *access.Certificates) (values []float64) {
		r := prometheus.NewRegistry()
		r.MustRegister(states{New(Config{Certificates: c})})
		families, err := r.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			values = append(values, f.GetMetric()[0].GetGauge().GetValue())
		}
		return values
	}
	ca, dir := httpdtest.Authority(t, "ca"), t.TempDir()
	until := time.Now().Add(99 * time.Hour)
	c := certificates(t, serverFiles(t, ca, dir, "server", certs.Leaf{Until: until}))
	if got := value(c); len(got) != 2 || got[0] > float64(time.Now().Unix()) || got[1] != float64(until.Unix()) {
		t.Errorf("%f, until %d", got, until.Unix())
	}
	until = until.Add(time.Hour)
	serverFiles(t, ca, dir, "server", certs.Leaf{Until: until})
	if _, err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := value(c); len(got) != 2 || got[1] != float64(until.Unix()) {
		t.Errorf("renewed: %f, until %d", got, until.Unix())
	}
	if got := value(nil); got != nil {
		t.Errorf("without TLS: %f", got)
	}
}

func TestHandshakesAreLogged(t *testing.T) {
	var out bytes.Buffer
	l := connectionLog{slog.New(slog.NewTextHandler(&out, nil))}
	l.Write([]byte("http: TLS handshake error from 10.0.0.1:1: EOF\n"))
	if out.Len() > 0 {
		t.Errorf("logged is %s", &out)
	}
	l.Write([]byte("http: TLS handshake error from 10.0.0.1:1: remote error: tls: bad certificate\n"))
	if !strings.Contains(out.String(), "level=WARN") || !strings.Contains(out.String(), "bad certificate") {
		t.Errorf("logged is %s", &out)
	}
}

// A client that follows owners speaks TLS to those that do, by what it was told of TLS.
func TestClientFollowsOwnersOverTLS(t *testing.T) {
	ca := httpdtest.Authority(t, "ca")
	c := certificates(t, serverFiles(t, ca, t.TempDir(), "server", certs.Leaf{}))
	var owner string
	var came atomic.Int64
	start := func(claim func(context.Context, executor.Request) executor.Answer) string {
		sale := &placed{Fake: httpdtest.Fake{Name: "movie", ClaimFunc: claim}, shards: 1, ownerOf: func(int) string { return owner }}
		v := serve(t, New(Config{Sales: []executor.Service{sale}, Certificates: c}))
		return strings.Replace(v.url, "http://", "https://", 1)
	}
	sells := func(_ context.Context, r executor.Request) executor.Answer { return httpdtest.SoldTo(r.User) }
	first := start(sells)
	owner = start(func(ctx context.Context, r executor.Request) executor.Answer { came.Add(1); return sells(ctx, r) })
	for _, stream := range []bool{true, false} {
		came.Store(0)
		b, err := api.NewClient(api.Config{Servers: []string{first}, Sale: "movie", Stream: stream, FollowOwners: true, TLS: &tls.Config{RootCAs: ca.Pool}})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if a, err := b.Claim(t.Context(), api.Request{User: "ada", Quantity: 1}); err != nil || a.Outcome != api.Sold {
				t.Errorf("stream %v: %+v, %v", stream, a, err)
			}
		}
		b.Close()
		if came.Load() != 2 {
			t.Errorf("stream %v: %d of 3 claims came to the owner, want 2", stream, came.Load())
		}
	}
}
