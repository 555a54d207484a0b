package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPatchesApplyAndBuild fails when the code has changed under a planted bug.
// That a seed finds each of them is for 'make mutants' to show: it takes longer.
func TestPatchesApplyAndBuild(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), []string{"-check"}, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
}

func TestPatchThatDoesNotFit(t *testing.T) {
	for name, c := range map[string]struct{ patch, want string }{
		"of other code":    {"Something.\n--- a/go.mod\n+++ b/go.mod\n@@ -1,1 +1,1 @@\n-module nothing\n+module something\n", "does not apply"},
		"does not build":   {"Something.\n--- /dev/null\n+++ b/main/main.go\n@@ -0,0 +1,1 @@\n+package main; nonsense\n", "go build"},
		"without a title":  {"--- a/go.mod\n+++ b/go.mod\n", errNoTitle.Error()},
		"changes no files": {"Something.\n", "changes no file"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "it.patch")
			if err := os.WriteFile(file, []byte(c.patch), 0o644); err != nil {
				t.Fatal(err)
			}
			m, err := read(file)
			if err == nil {
				copied := &tree{root: t.TempDir(), temp: t.TempDir()}
				if err := os.WriteFile(filepath.Join(copied.root, "go.mod"), []byte("module copied\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				err = copied.with(t.Context(), m, func() error { return copied.build(t.Context(), m.packages()...) })
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error that says %q", err, c.want)
			}
		})
	}
}

func TestFollow(t *testing.T) {
	for name, c := range map[string]struct {
		said string
		want finding
	}{
		"all pass": {
			"\r17 of 40, 9 a second, 0 failed \r40 worlds from seed 1, 9 a second, 0 failed\n| failpoint | met |\n",
			finding{worlds: 40},
		},
		"one fails": {
			"\r17 of 40, 9 a second, 0 failed \rFAILED go run ./sim/soak -seed 24: units: unit 7 is in two places\n\rFAILED go run ./sim/soak -seed 9: late\n",
			finding{found: true, seed: 24, worlds: 24, problem: "units: unit 7 is in two places"},
		},
		"a smaller world": {
			"FAILED go run ./sim/soak -seed 3 -until 5s: units: gone\n",
			finding{found: true, seed: 3, worlds: 3, problem: "units: gone"},
		},
		"nothing": {"", finding{worlds: 40}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := follow(strings.NewReader(c.said), 1, 40); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
