package access

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"salectl/executor/httpd/httpdtest"
	"salectl/internal/services/certs"
)

func serverFiles(t testing.TB, a *certs.Authority, dir, name string, l certs.Leaf) TLSFiles {
	cert, key := httpdtest.Issue(t, a, dir, name, l)
	return TLSFiles{Cert: cert, Key: key}
}

func certificates(t testing.TB, files TLSFiles) *Certificates {
	t.Helper()
	c, err := ReadCertificates(files)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestReadCertificates(t *testing.T) {
	ca, dir := httpdtest.Authority(t, "ca"), t.TempDir()
	good, other := serverFiles(t, ca, dir, "good", certs.Leaf{}), serverFiles(t, ca, dir, "other", certs.Leaf{})
	ofCA := filepath.Join(dir, "ca.pem")
	httpdtest.WriteFile(t, ofCA, string(ca.PEM))
	open := filepath.Join(dir, "open.key")
	httpdtest.WriteFile(t, open, "")
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	httpdtest.WriteFile(t, empty, "")
	long := filepath.Join(dir, "long")
	httpdtest.WriteFile(t, long, strings.Repeat("x", maxPEM+1))
	for name, c := range map[string]struct {
		files  TLSFiles
		remedy string // "": no error
	}{
		"all":                {TLSFiles{good.Cert, good.Key, ofCA, ofCA}, ""},
		"a client's":         {TLSFiles{CA: ofCA}, ""},
		"another key":        {TLSFiles{Cert: good.Cert, Key: other.Key}, "private key does not match public key"},
		"a key for all":      {TLSFiles{Cert: good.Cert, Key: open}, "chmod o-rwx " + open},
		"no certificate":     {TLSFiles{Cert: empty, Key: good.Key}, "not a certificate and its key"},
		"no authority":       {TLSFiles{CA: empty}, "has no certificate in PEM"},
		"no client's":        {TLSFiles{Cert: good.Cert, Key: good.Key, ClientCA: good.Key}, "has no certificate in PEM"},
		"something long":     {TLSFiles{CA: long}, "more than 4194304 bytes"},
		"a long certificate": {TLSFiles{Cert: long, Key: good.Key}, "more than 4194304 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadCertificates(c.files)
			switch {
			case c.remedy == "" && (err != nil || got.Client().RootCAs == nil || (got.Leaf() != nil) != (c.files.Cert != "")):
				t.Errorf("%+v, %v", got, err)
			case c.remedy != "" && (!errors.Is(err, ErrBadTLS) || !strings.Contains(err.Error(), c.remedy)):
				t.Errorf("got %v, want ErrBadTLS with %q", err, c.remedy)
			}
		})
	}
	for _, files := range []TLSFiles{{CA: "/none"}, {Cert: "/none", Key: good.Key}, {Cert: good.Cert, Key: "/none"}} {
		if _, err := ReadCertificates(files); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%+v: %v", files, err)
		}
	}
	if c, err := ReadCertificates(TLSFiles{}); c != nil || err != nil || c.Client() != nil || c.Leaf() != nil {
		t.Errorf("no files: %v, %v", c, err)
	}
}
