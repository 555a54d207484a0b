package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestPatchesApply fails when the code has changed under a planted bug, or when a patch names
// a test that does not exist. 'make mutants' shows that each bug builds, and that a seed or
// its test finds it: that takes longer.
func TestPatchesApply(t *testing.T) {
	root, err := repository(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mutants, err := load(filepath.Join(root, "testdata", "mutants"), nil)
	if err != nil {
		t.Fatal(err)
	}
	copied, err := copyTree(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	defer copied.remove()
	for _, m := range mutants {
		if err := copied.apply(t.Context(), m, "--check"); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if m.test != nil && !hasTest(t, filepath.Join(root, m.test[2]), m.test[1]) {
			t.Errorf("%s: %v: %s", m.name, errNoSuchTest, m.test)
		}
	}
}

// hasTest reports whether a package has a test that the pattern of go test -run matches.
func hasTest(t *testing.T, dir, pattern string) bool {
	t.Helper()
	top, _, _ := strings.Cut(pattern, "/")
	name, err := regexp.Compile(`(?m)^func ` + strings.TrimPrefix(strings.TrimSuffix(top, "$"), "^") + `\(`)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && name.Match(text)
	})
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
			m, err := read(filepath.Dir(file), file)
			if err == nil {
				copied := &tree{root: t.TempDir(), temp: t.TempDir()}
				if err := os.WriteFile(filepath.Join(copied.root, "go.mod"), []byte("module copied\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				err = copied.with(t.Context(), m, func() error { return copied.build(t.Context(), []mutant{m}) })
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
			finding{},
		},
		"one fails": {
			"\r17 of 40, 9 a second, 0 failed \rFAILED go run ./sim/soak -seed 24: units: unit 7 is in two places\n\rFAILED go run ./sim/soak -seed 9: late\n",
			finding{found: true, seed: 24, problem: "units: unit 7 is in two places"},
		},
		"a smaller world": {
			"FAILED go run ./sim/soak -seed 3 -until 5s: units: gone\n",
			finding{found: true, seed: 3, problem: "units: gone"},
		},
		"nothing": {"", finding{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := follow(strings.NewReader(c.said)); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	writeTable(&out, []row{
		{mutant: mutant{name: "in-twice"}, finding: finding{found: true, seed: 7, problem: "units: unit 3 is in two places", took: 1234 * time.Millisecond}},
		{mutant: mutant{name: "no-drift"}, finding: finding{found: true, seed: 1200, problem: "no rest 4m0s after the faults"}},
		{mutant: mutant{name: "locks/vote"}, finding: finding{found: true, test: "^TestVote$", problem: "vote_test.go:3: two owners"}},
		{mutant: mutant{name: "never"}, finding: finding{took: time.Minute}},
		{mutant: mutant{name: "odd"}, err: errors.New("a | b\nc")},
	})
	const want = `
| planted bug | seed       | found by   | time |
|---          |---:        |---         |---:  |
| in-twice    | 7          | units      | 1.2s |
| no-drift    | 1200       | rest       | 0s   |
| locks/vote  | -          | ^TestVote$ | 0s   |
| never       | NO         |            | 1m0s |
| odd         | NO: a \| b |            | 0s   |
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

// A bug is found by the test that its patch names: one that passes without it.
func TestFoundByATest(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds programs")
	}
	const module, code = "module copied\n\ngo 1.26\n", "package sum\n\nfunc sum(a, b int) int { return a + b }\n"
	const tests = "package sum\n\nimport \"testing\"\n\n" +
		"func TestSum(t *testing.T) {\n\tif got := sum(2, 3); got != 5 {\n\t\tt.Errorf(\"got %d\", got)\n\t}\n}\n\n" +
		"func TestNothing(*testing.T) {}\n\nfunc TestRed(t *testing.T) { t.Error(\"always\") }\n"
	for name, c := range map[string]struct {
		test, planted string
		found         bool
		problem, err  string
	}{
		"found":           {"Test: ./sum -run '^TestSum$'\n", "return a - b", true, "sum_test.go:7: got -1", ""},
		"not found":       {"Test: ./sum -run '^TestNothing$'\n", "return a - b", false, "", ""},
		"fails anyway":    {"Test: ./sum -run '^TestRed$'\n", "return a - b", false, "", "without a planted bug"},
		"no such test":    {"Test: ./sum -run '^TestSmu$'\n", "return a - b", false, "", errNoSuchTest.Error()},
		"does not build":  {"Test: ./sum -run '^TestSum$'\n", "return c", false, "", "go build"},
		"without a test":  {"", "return a - b", false, "", errNoTest.Error()},
		"another command": {"Test: rm -run x\n", "return a - b", false, "", errNoTest.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			dir, copied := t.TempDir(), &tree{root: t.TempDir(), temp: t.TempDir()}
			patch := "Sums are wrong.\n" + c.test + "\n--- a/sum/sum.go\n+++ b/sum/sum.go\n@@ -1,3 +1,3 @@\n package sum\n \n" +
				"-func sum(a, b int) int { return a + b }\n+func sum(a, b int) int { " + c.planted + " }\n"
			for file, text := range map[string]string{
				filepath.Join(copied.root, "go.mod"): module, filepath.Join(copied.root, "sum", "sum.go"): code,
				filepath.Join(copied.root, "sum", "sum_test.go"): tests, filepath.Join(dir, locks, "sum.patch"): patch,
			} {
				if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			o := options{limit: time.Minute}
			var f finding
			all, err := load(dir, []string{"locks/sum"})
			if err == nil {
				if err = copied.healthy(t.Context(), all, o); err != nil {
					err = fmt.Errorf("without a planted bug: %w", err)
				}
			}
			if err == nil {
				err = copied.with(t.Context(), all[0], func() (err error) {
					f, err = copied.find(t.Context(), all[0], o)
					return err
				})
			}
			if f.found != c.found || f.problem != c.problem {
				t.Errorf("got %+v, want found %v, %q", f, c.found, c.problem)
			}
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want an error that says %q", err, c.err)
			}
		})
	}
}
