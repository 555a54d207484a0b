package kubernetes

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{cert: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "cluster"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}}
	a.pem, _, a.key = a.sign(t, a.cert)
	return a
}

// issue returns the certificate that is declared, and its key, in PEM.
func (a *authority) issue(t *testing.T, declared certificate) (cert, key string) {
	t.Helper()
	of := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: declared.Spec.CommonName},
		DNSNames: declared.Spec.DNSNames, NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter,
	}
	usages := map[string]x509.ExtKeyUsage{"server auth": x509.ExtKeyUsageServerAuth, "client auth": x509.ExtKeyUsageClientAuth}
	for _, name := range declared.Spec.Usages {
		of.ExtKeyUsage = append(of.ExtKeyUsage, usages[name])
	}
	cert, key, _ = a.sign(t, of)
	return cert, key
}

func (a *authority) sign(t *testing.T, of *x509.Certificate) (cert, key string, private *ecdsa.PrivateKey) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	by := a.key
	if by == nil {
		by = private
	}
	der, err := x509.CreateCertificate(rand.Reader, of, a.cert, private.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})), private
}
