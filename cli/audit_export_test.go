package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"salectl/internal/files"
)

// TestAuditOfTamperedManifest alters an export or its manifest, alone, and removes either's end.
func TestAuditOfTamperedManifest(t *testing.T) {
	export, err := os.ReadFile("testdata/export.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(export)
	digest := hex.EncodeToString(sum[:])
	other := func(at int) string { // the digest with another digit at one place
		b := []byte(digest)
		if b[at]++; b[at] > '9' {
			b[at] = '0'
		}
		return string(b)
	}
	const (
		altered = `export.ndjson.sha256 has the SHA-256 `
		none    = `export.ndjson.sha256 exists, and is not a manifest of `
		beside  = `; its manifest was compared with it`
	)
	for name, c := range map[string]struct {
		export, manifest string
		code             int
		want             string
	}{
		"as they were written":  {string(export), digest + "  export.ndjson\n", exitOK, beside},
		"no manifest":           {string(export), "-", exitOK, `; it has no manifest`},
		"the first digit":       {string(export), other(0) + "  export.ndjson\n", exitRefused, altered + other(0)},
		"the last digit":        {string(export), other(63) + "  export.ndjson\n", exitRefused, altered + other(63)},
		"the name":              {string(export), digest + "  exporT.ndjson\n", exitRefused, none},
		"the end of the line":   {string(export), digest + "  export.ndjson", exitRefused, none},
		"another line":          {string(export), digest + "  export.ndjson\n\n", exitRefused, none},
		"nothing in it":         {string(export), "", exitRefused, none},
		"the export's last end": {strings.TrimSuffix(string(export), "\n"), digest + "  export.ndjson\n", exitRefused, altered + digest},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "export.ndjson")
			if err := os.WriteFile(path, []byte(c.export), 0o600); err != nil {
				t.Fatal(err)
			}
			if c.manifest != "-" {
				if err := os.WriteFile(files.ManifestPath(path), []byte(c.manifest), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p := newCapture()
			code := p.run([]string{"salectl", "audit", "--export", path}, nil)
			if said := p.out.String() + p.err.String(); code != c.code || !strings.Contains(said, c.want) {
				t.Errorf("exit code %d\n%s\nwant %d and %s", code, said, c.code, c.want)
			}
		})
	}
}
