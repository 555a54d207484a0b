package spec

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// goodSales are the sales of all good specs and examples.
func goodSales(t *testing.T) (all []Sale) {
	t.Helper()
	paths := specFiles(t, goodSpecs)
	examples, err := filepath.Glob("../examples/*/*.yaml")
	if err != nil || len(examples) == 0 {
		t.Fatal(err)
	}
	for _, path := range append(paths, examples...) {
		if strings.Contains(path, "monitoring") {
			continue
		}
		sales, _, err := Load([]string{path}, nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, sales...)
	}
	return all
}

// What YAML writes is read as the same declaration, with the same files.
func TestYAMLIsReadAsTheSame(t *testing.T) {
	for _, sale := range goodSales(t) {
		stored := mustJSON(t, sale)
		kept, err := FromJSON(stored)
		if err != nil {
			t.Fatal(err)
		}
		for what, s := range map[string]Sale{"as it was read": sale, "as the ledger has it, with its files": kept.WithFiles(sale)} {
			text, err := s.YAML()
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "sale.yaml")
			// Paths are relative to the working directory, and so is the document's folder.
			if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte("../"), []byte(abs(t, "..")+"/")), 0o600); err != nil {
				t.Fatal(err)
			}
			again, _, err := Load([]string{path}, nil)
			if err != nil {
				t.Errorf("%s, %s: %v\n%s", sale.File, what, err, text)
				continue
			}
			if got := mustJSON(t, again[0]); !bytes.Equal(got, stored) {
				t.Errorf("%s, %s: it is read as\n%s, want\n%s\n%s", sale.File, what, got, stored, text)
			}
			if sale.Users != nil && abs(t, again[0].Users.File) != abs(t, sale.Users.File) ||
				sale.Units != nil && (abs(t, again[0].Units.File) != abs(t, sale.Units.File) || abs(t, again[0].Units.KeyFile) != abs(t, sale.Units.KeyFile)) ||
				sale.Draw != nil && abs(t, again[0].Draw.KeyFile) != abs(t, sale.Draw.KeyFile) ||
				sale.History != nil && len(again[0].History.Files) != len(sale.History.Files) {
				t.Errorf("%s, %s: its files are others\n%s", sale.File, what, text)
			}
		}
	}
}

// A declaration without its files has names in their place, and a comment on them.
func TestYAMLWithoutFiles(t *testing.T) {
	missing := map[string]bool{}
	for _, sale := range goodSales(t) {
		kept, err := FromJSON(mustJSON(t, sale))
		if err != nil {
			t.Fatal(err)
		}
		text, err := kept.YAML()
		if err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(string(text), "\n")
		for _, name := range []string{"USERS.csv", "EXPORTS/*.ndjson", "UNITS.csv", "UNITS.key", "DRAW.key"} {
			if in := strings.Contains(string(text), ": "+name) || strings.Contains(string(text), "- "+name); in {
				missing[name] = true
				if !strings.HasPrefix(head, "# The ledger does not have the paths of files") || !strings.Contains(head, name) {
					t.Errorf("%s: the document begins with %s and has %s", sale.File, head, name)
				}
			}
		}
	}
	if want := 5; len(missing) != want {
		t.Errorf("only %v were missing", missing)
	}
}

// Every part of a document that a sale can have is written by YAML for some sale.
func TestYAMLWritesEveryKey(t *testing.T) {
	var all bytes.Buffer
	for _, sale := range goodSales(t) {
		text, err := sale.YAML()
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	root().walk("", func(path string, o *option) {
		if o.form != "environment" && !strings.Contains(all.String(), o.key+":") { // values stand in place of references
			t.Errorf("no document has the key %s of %s", o.key, path)
		}
	})
}

func TestYAMLOfAHomeWithoutAKey(t *testing.T) {
	sale := goodSales(t)[0]
	sale.Homes = &Homes{Ledger: Home{Kind: "memory", Place: "a memory"}}
	if _, err := sale.YAML(); err == nil || !strings.Contains(err.Error(), "a memory") {
		t.Errorf("%v", err)
	}
}

func abs(t *testing.T, path string) string {
	t.Helper()
	if path == "" {
		return ""
	}
	full, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return full
}

func mustJSON(t *testing.T, s Sale) []byte {
	t.Helper()
	stored, err := s.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return stored
}
