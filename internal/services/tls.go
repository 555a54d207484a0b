package services

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"

	"salectl/internal/services/certs"
)

// certificate is a server's certificate and who signed it: three PEM files.
type certificate struct {
	authority, server, key string
	pool                   *x509.CertPool // the authority alone
}

// makeCertificate writes a new authority and a certificate for this machine's
// loopback addresses into dir. The authority's key is kept nowhere.
func makeCertificate(dir string) (*certificate, error) {
	ca, err := certs.New("salectl local authority")
	if err != nil {
		return nil, err
	}
	c := &certificate{
		authority: filepath.Join(dir, "ca.pem"), server: filepath.Join(dir, "server.pem"), key: filepath.Join(dir, "server.key"),
		pool: ca.Pool,
	}
	return c, errors.Join(os.WriteFile(c.authority, ca.PEM, 0o600), ca.Write(dir, "server", certs.Leaf{Hosts: []string{"localhost", loopback}}))
}
