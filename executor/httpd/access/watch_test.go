package access

import (
	"bytes"
	"crypto/x509"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"salectl/executor/httpd/httpdtest"
	"salectl/internal/services/certs"
)

// A fault of a file is logged once, and so is a change.
func TestReloadLogs(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	tokens := tokensOf(t, "old\n")
	said := ""
	for _, c := range []struct{ content, want string }{
		{"old\n", ""},
		{"", "level=ERROR msg=\"a file is unusable; its earlier content stays in use\" file=\"token file "},
		{"", ""},
		{"a b", "level=ERROR"},
		{"old\n", ""},
		{"a b", "level=ERROR"},
		{"new\n", "level=INFO msg=\"a file has changed and was read again\" file=\"token file "},
		{"new\n", ""},
	} {
		httpdtest.WriteFile(t, tokens.path, c.content)
		out.Reset()
		said = reload(log, tokens, said)
		if got := out.String(); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%q: logged is %q, want %q", c.content, got, c.want)
		}
		if strings.Contains(out.String(), "old") || strings.Contains(out.String(), "new") {
			t.Errorf("a token is logged: %s", &out)
		}
	}
}

func TestCertificateWarnings(t *testing.T) {
	ca := httpdtest.Authority(t, "ca")
	until := time.Now().Add(99 * time.Hour).UTC().Truncate(time.Second) // it began an hour ago
	c := certificates(t, serverFiles(t, ca, t.TempDir(), "server", certs.Leaf{Until: until}))
	var out bytes.Buffer
	log, said := slog.New(slog.NewTextHandler(&out, nil)), ""
	for _, step := range []struct {
		left time.Duration
		want string
	}{
		{99 * time.Hour, ""},
		{11 * time.Hour, ""},
		{9 * time.Hour, "level=WARN msg=\"the certificate expires at " + until.Format(time.RFC3339)},
		{8 * time.Hour, ""},
		{-time.Second, "level=WARN msg=\"the certificate has expired at " + until.Format(time.RFC3339)},
		{-time.Hour, ""},
	} {
		out.Reset()
		said = warn(log, c, until.Add(-step.left), said)
		if got := out.String(); !strings.Contains(got, step.want) || step.want == "" && got != "" {
			t.Errorf("%v before its end: logged is %q, want %q", step.left, got, step.want)
		}
	}
	if err := c.Leaf().VerifyHostname("localhost"); err != nil {
		t.Error(err)
	}
	if err := c.Leaf().VerifyHostname("elsewhere.test"); !errors.As(err, new(x509.HostnameError)) {
		t.Errorf("another host: %v", err)
	}
	files := filepath.Join(t.TempDir(), "ca.pem")
	httpdtest.WriteFile(t, files, string(ca.PEM))
	if got := certificates(t, TLSFiles{CA: files}).Warning(until.AddDate(9, 0, 0)); got != "" {
		t.Errorf("without a certificate of its own: %s", got)
	}
}
