package spec

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write sale.schema.json anew")

// The committed schema is what editors read by the comment at the head of the
// examples.
const schemaFile = "sale.schema.json"

func TestSchemaFile(t *testing.T) {
	got, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(schemaFile, got, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if want := readFile(t, schemaFile); string(got) != want {
		t.Errorf("%s is not of these types: go test ./spec -run TestSchemaFile -update", schemaFile)
	}
}

// An editor shows the description of each key; a key without one helps nobody.
func TestSchemaDescribesEveryKey(t *testing.T) {
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	type node struct {
		Schema      string `json:"$schema"`
		Type        string
		Description string
		Properties  map[string]json.RawMessage
		Additional  json.RawMessage `json:"additionalProperties"`
		Items       json.RawMessage
	}
	var walk func(path string, data []byte) int
	walk = func(path string, data []byte) int {
		var n node
		if err := json.Unmarshal(data, &n); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if path == "" && n.Schema != "https://json-schema.org/draft/2020-12/schema" {
			t.Errorf("it is of %s", n.Schema)
		}
		if path != "" && !strings.HasSuffix(path, "[]") && !strings.HasSuffix(n.Description, ".") {
			t.Errorf("%s is described by %q", path, n.Description)
		}
		if n.Type == "object" && (n.Additional == nil || string(n.Additional) == "true") {
			t.Errorf("%s takes unknown keys", path)
		}
		keys := 0
		for name, below := range n.Properties {
			keys += 1 + walk(join(path, name), below)
		}
		if n.Items != nil {
			keys += walk(path+"[]", n.Items)
		}
		return keys
	}
	want := 0
	for _, paths := range homes() {
		want += len(paths)
	}
	if got := walk("", text); got != want {
		t.Errorf("it has %d keys, and the decoder %d", got, want)
	}
}

// The comment at the head of the example must lead to the schema.
func TestExample(t *testing.T) {
	const path = "../examples/movie-tickets/sale.yaml"
	sales, _, err := Load([]string{path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := sales[0]
	if s.Stock != 100 || s.LockCount != 5 || s.PerUserLimit != 1 || s.Embedded == nil || s.Embedded.Dir != "../examples/movie-tickets/.salectl" {
		t.Errorf("it is not the bank's example: %+v", s)
	}
	for i, units := range Shares(s.Stock, s.LockCount) {
		if units != 20 {
			t.Errorf("shard %d has %d units", i, units)
		}
	}
	first, _, _ := strings.Cut(readFile(t, path), "\n")
	relative, ok := strings.CutPrefix(first, "# yaml-language-server: $schema=")
	if !ok {
		t.Fatalf("the first line is %q", first)
	}
	if got := readFile(t, "../examples/movie-tickets/"+relative); got != readFile(t, schemaFile) {
		t.Error("it leads to another file")
	}
	if verdict, err := judge(compileSchema(t), readFile(t, path)); verdict != "accepts" {
		t.Errorf("the schema %s it: %v", verdict, err)
	}
}
