package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckNames builds many patches together and names each that does not build or does
// not apply, and no other; and leaves the tree as it was.
func TestCheckNames(t *testing.T) {
	copied, dir := &tree{root: t.TempDir(), temp: t.TempDir()}, t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(copied.root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module copied\n\ngo 1.26\n")
	var mutants []mutant
	plant := func(n int, from, to string) {
		t.Helper()
		file := filepath.Join(dir, fmt.Sprintf("%d.patch", len(mutants)))
		patch := fmt.Sprintf("A bug.\n\n--- a/f%d.go\n+++ b/f%d.go\n@@ -1,3 +1,3 @@\n package sum\n \n-func f%d() int { return %s }\n+func f%d() int { return %s }\n", n, n, n, from, n, to)
		if err := os.WriteFile(file, []byte(patch), 0o644); err != nil {
			t.Fatal(err)
		}
		m, err := read(dir, file)
		if err != nil {
			t.Fatal(err)
		}
		mutants = append(mutants, m)
	}
	for n := range 6 {
		write(fmt.Sprintf("f%d.go", n), fmt.Sprintf("package sum\n\nfunc f%d() int { return %d }\n", n, n))
		plant(n, fmt.Sprint(n), fmt.Sprint(n+1))
	}
	plant(2, "2", "nothing") // does not build
	plant(3, "3", "33")      // nor apply on top of another
	plant(4, "5", "6")       // nor at all
	plant(5, "5", "missing") // nor build

	var out strings.Builder
	err := checkAll(t.Context(), copied, mutants, &out)
	if err == nil || !strings.HasPrefix(err.Error(), "3 of 10 planted bugs") {
		t.Errorf("got %v", err)
	}
	for i := range mutants {
		if got, want := strings.Contains("\n"+out.String(), fmt.Sprintf("\n%s: ", mutants[i].name)), i == 6 || i == 8 || i == 9; got != want {
			t.Errorf("patch %d is named: %v\n%s", i, got, out.String())
		}
	}
	for n := range 6 {
		text, err := os.ReadFile(filepath.Join(copied.root, fmt.Sprintf("f%d.go", n)))
		if want := fmt.Sprintf("return %d }", n); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("f%d.go is left as %q, %v", n, text, err)
		}
	}
}
