package units

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"salectl/spec"
)

// secret is what the tests' keys are made of.
var secret = []byte(strings.Repeat("0123456789abcdef", 2))

// env is an environment with a key in KEY.
func env(name string) (string, bool) {
	if name == "KEY" {
		return base64.StdEncoding.EncodeToString(secret), true
	}
	return "", false
}

func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "codes.csv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func saleOf(stock int64, u spec.Units) spec.Sale {
	return spec.Sale{Name: "coupons", Stock: stock, Units: &u, File: "sale.yaml:1"}
}

func mustSource(t testing.TB, stock int64, u spec.Units) *Source {
	t.Helper()
	s, err := ForSale(saleOf(stock, u), env)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// secretFile is a source of a file with a key.
func secretFile(t testing.TB, stock int64, text string) *Source {
	t.Helper()
	return mustSource(t, stock, spec.Units{FromFile: true, File: write(t, text), KeyEnv: "KEY", Secret: true})
}

// publicFile is a source of a file without one.
func publicFile(t testing.TB, stock int64, text string) *Source {
	t.Helper()
	return mustSource(t, stock, spec.Units{FromFile: true, File: write(t, text)})
}

func all(t testing.TB, s *Source) []Unit {
	t.Helper()
	var us []Unit
	if err := s.Read(t.Context(), nil, func(u Unit, _ bool) error { us = append(us, u); return nil }); err != nil {
		t.Fatal(err)
	}
	return us
}

// printed is the printed text of an error, the folder of the file left out.
func printed(t testing.TB, s *Source, err error) string {
	t.Helper()
	var b strings.Builder
	for _, p := range spec.Problems(err) {
		b.WriteString(p.Text())
	}
	if err != nil && b.Len() == 0 {
		t.Errorf("no problems are in %v", err)
	}
	if s.units.File == "" {
		return b.String()
	}
	return strings.ReplaceAll(b.String(), s.units.File, "codes.csv")
}
