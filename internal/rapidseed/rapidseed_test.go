package rapidseed

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each package with property tests imports rapidseed.
func TestImported(t *testing.T) {
	checks, seeded := map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && path != "../.." && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		dir := filepath.Dir(path)
		checks[dir] = checks[dir] || bytes.Contains(text, []byte("rapid.Check"+"("))
		seeded[dir] = seeded[dir] || bytes.Contains(text, []byte(`_ "salectl/internal/rapidseed"`))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, is := range checks {
		if is && !seeded[dir] {
			t.Errorf("%s has property tests and does not import rapidseed", dir)
		}
	}
}
