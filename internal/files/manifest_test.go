package files

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A manifest replaces an older one of the same file, and no other file.
func TestWriteManifest(t *testing.T) {
	export := filepath.Join(t.TempDir(), "export.ndjson")
	path := ManifestPath(export)
	line := func(digit byte) string { return strings.Repeat(string(digit), 64) + "  export.ndjson\n" }
	for name, c := range map[string]struct {
		there string // "": nothing
		fine  bool
	}{
		"nothing":           {"", true},
		"an older one":      {line('2'), true},
		"no digest":         {line('x'), false},
		"cut short":         {line('2')[:40], false},
		"without its name":  {strings.Replace(line('2'), "export.ndjson", "", 1), false},
		"with one space":    {strings.Replace(line('2'), "  ", " ", 1), false},
		"with an odd digit": {"g" + line('2')[1:], false},
		"without its end":   {strings.TrimSuffix(line('2'), "\n"), false},
		"of two files":      {line('2') + line('3'), false},
		"of another file":   {strings.Replace(line('2'), "export", "exportt", 1), false},
		"of one as long":    {strings.Replace(line('2'), "export", "exporT", 1), false},
		"of a shorter one":  {strings.Replace(line('2'), "export", "expor", 1), false},
	} {
		_ = os.Remove(path)
		if c.there != "" {
			if err := os.WriteFile(path, []byte(c.there), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := Saving{}.WriteManifest(export, bytes.Repeat([]byte{0x11}, 32))
		got, _ := os.ReadFile(path)
		if want := line('1'); c.fine && (err != nil || string(got) != want) {
			t.Errorf("%s: %v, %q", name, err, got)
		}
		if !c.fine && (!errors.Is(err, ErrExists) || string(got) != c.there) {
			t.Errorf("%s: %v, and now there is %q", name, err, got)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
