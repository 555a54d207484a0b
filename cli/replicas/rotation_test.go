package replicas

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"salectl/internal/services/certs"
)

// Tokens and certificates are rotated in two processes, which forward to each other over TLS
// and ask each other and their clients for certificates, and no claim fails. A new token is
// appended to both files, then moved to the front, so that the processes show it to each other,
// and then the old one is removed. A new authority is believed before it has issued anything,
// and the old one until nothing of it is used.
func TestRotation(t *testing.T) {
	t.Parallel()
	const rate = 40
	s := apply(t, embedded, terms{stock: 1_000_000, shards: 6, ttl: calmTTL})
	old, fresh := "old", "fresh"
	first, second := authority(s, "first"), authority(s, "second")
	s.token.Store(&old)
	s.believes(first, second)
	for i := range 2 {
		s.tokens(i, "old")
		s.certificate(i, first)
		s.write(fmt.Sprint("ca-", i), first.PEM)
		s.add("--token-file", fmt.Sprint("tokens-", i), "--tls-cert", fmt.Sprint("own-", i, ".pem"), "--tls-key", fmt.Sprint("own-", i, ".key"),
			"--tls-ca", fmt.Sprint("ca-", i), "--tls-client-ca", fmt.Sprint("ca-", i))
	}
	for _, r := range s.all {
		r.called = "https://" + r.listen
	}
	s.settled()
	for _, r := range s.all {
		r.ready()
	}
	crowds := []*crowd{s.come("http", rate), s.come("stream", rate)}
	some := func() {
		t.Helper()
		for _, c := range crowds {
			c.some(rate / 4)
		}
	}
	some()
	// The last of the tokens is new each time, so that it tells when the file was read.
	step := func(does string, certificates func(i int), lines ...string) {
		t.Helper()
		for i, r := range s.all {
			certificates(i) // both are read at once
			s.tokens(i, lines...)
			s.eventually(func() error { return r.read(lines...) })
			s.note("%s: %s", r.name, does)
			some()
		}
	}
	both := slices.Concat(first.PEM, second.PEM)
	step("the new ones are added", func(i int) { s.write(fmt.Sprint("ca-", i), both) }, "old", "fresh", "mark-1 claim")
	s.token.Store(&fresh)
	step("they are used", func(i int) { s.certificate(i, second) }, "fresh", "old", "mark-2 claim")
	step("the old ones are removed", func(i int) { s.write(fmt.Sprint("ca-", i), second.PEM) }, "fresh", "mark-3 claim")
	for _, c := range crowds {
		c.leave()
		c.wellTold()
	}
	for _, r := range s.all {
		if response, err := s.get(r.listen, "", old); err != nil || response.StatusCode != 401 {
			t.Errorf("%s takes the old token: %v, %v", r.name, response, err)
		}
	}
	s.settled()
	s.books(crowds...)
}

func authority(s *sale, name string) *certs.Authority {
	s.Helper()
	a, err := certs.New(name)
	if err != nil {
		s.Fatal(err)
	}
	return a
}

// believes has all that asks the processes do so over TLS: it believes them by any of the
// authorities, and proves itself by the one that they ask for.
func (s *sale) believes(all ...*certs.Authority) {
	s.Helper()
	cfg := &tls.Config{RootCAs: x509.NewCertPool()}
	for _, a := range all {
		cfg.RootCAs.AppendCertsFromPEM(a.PEM)
		cert, key, err := a.Issue(certs.Leaf{Client: true})
		if err != nil {
			s.Fatal(err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			s.Fatal(err)
		}
		cfg.Certificates = append(cfg.Certificates, pair)
	}
	s.secure, s.transport.TLSClientConfig, s.transport.ForceAttemptHTTP2 = true, cfg, true
}

// certificate has an authority issue the certificate of a process.
func (s *sale) certificate(i int, a *certs.Authority) {
	s.Helper()
	if err := a.Write(s.dir, fmt.Sprint("own-", i), certs.Leaf{Hosts: []string{"127.0.0.1"}, Client: true}); err != nil {
		s.Fatal(err)
	}
}

func (s *sale) write(name string, content []byte) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), content, 0o600); err != nil {
		s.Fatal(err)
	}
}

// tokens writes the file of tokens of a process.
func (s *sale) tokens(i int, lines ...string) {
	s.Helper()
	s.write(fmt.Sprint("tokens-", i), []byte(strings.Join(lines, "\n")))
}

// read reports whether a process has read the file of tokens whose last line has that token,
// which no file had before.
func (r *replica) read(lines ...string) error {
	var token string
	if _, err := fmt.Sscan(lines[len(lines)-1], &token); err != nil {
		return err
	}
	response, err := r.sale.get(r.listen, "", token)
	if err == nil && response.StatusCode != 200 {
		err = fmt.Errorf("%s has not read its tokens: %s", r.name, response.Status)
	}
	return err
}
