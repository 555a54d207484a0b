package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"
)

// The files of testdata/specs/bad begin with what is expected of them:
//
//	# want: line:column: begin of the message     one for each problem, in order
//	# schema: refuses                             the verdict of the JSON Schema
//
// A schema refuses a file if it refuses one of its documents, and accepts it
// if it accepts them all, in that it cannot see what is wrong. A file is
// unreadable if it does not get as far as a schema.
const (
	goodSpecs = "../testdata/specs/good"
	badSpecs  = "../testdata/specs/bad"
)

func specFiles(t testing.TB, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no specs in %s: %v", dir, err)
	}
	return files
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var wantLine = regexp.MustCompile(`(?m)^# want: (\d+:\d+): (.+)$`)

func TestBadSpecs(t *testing.T) {
	for _, path := range specFiles(t, badSpecs) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text := readFile(t, path)
			wants := wantLine.FindAllStringSubmatch(text, -1)
			if len(wants) == 0 {
				t.Fatal("the file has no line with what it wants")
			}
			_, _, err := Load([]string{path}, nil)
			problems := Problems(err)
			for i, p := range problems {
				got := fmt.Sprintf("%d:%d", p.Line, p.Column)
				if i < len(wants) && (got != wants[i][1] || !strings.HasPrefix(p.Message, wants[i][2])) {
					t.Errorf("got  %s: %s\nwant %s: %s", got, p.Message, wants[i][1], wants[i][2])
				}
				if p.File != path || !strings.HasSuffix(p.Remedy, ".") && !strings.HasSuffix(p.Remedy, "?") || strings.HasSuffix(p.Message, ".") {
					t.Errorf("not in order: %+v", p)
				}
				if strings.Contains(p.Text(), "hunter2") || strings.Contains(p.Text(), "12345678") {
					t.Errorf("this shows the password:\n%s", p.Text())
				}
			}
			if len(problems) != len(wants) {
				t.Errorf("%d problems, want %d:\n%v", len(problems), len(wants), err)
			}
		})
	}
}

func TestGoodSpecs(t *testing.T) {
	for _, path := range specFiles(t, goodSpecs) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			sales, _, err := Load([]string{path}, nil)
			if err != nil || len(sales) == 0 {
				t.Fatalf("%d sales, %v", len(sales), err)
			}
		})
	}
}

// toJSON turns each document of a YAML text into what a schema judges. Unlike
// the YAML reader, JSON knows no dates.
func toJSON(text string) (documents []any, err error) {
	dec := yaml.NewDecoder(strings.NewReader(text))
	for {
		var node yaml.Node
		if err := dec.Decode(&node); errors.Is(err, io.EOF) {
			return documents, nil
		} else if err != nil {
			return nil, err
		}
		datesToText(&node)
		var value any
		if err := node.Decode(&value); err != nil {
			return nil, err
		}
		data, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
		if err != nil {
			return nil, err
		}
		documents = append(documents, document)
	}
}

func datesToText(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!timestamp" {
		n.Tag = "!!str"
	}
	for _, below := range n.Content {
		datesToText(below)
	}
}

func compileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("sale.json", document); err != nil {
		t.Fatal(err)
	}
	return c.MustCompile("sale.json")
}

// judge is the verdict of the schema on a text.
func judge(schema *jsonschema.Schema, text string) (verdict string, err error) {
	documents, err := toJSON(text)
	if err != nil {
		return "unreadable", err
	}
	for _, document := range documents {
		if err := schema.Validate(document); err != nil {
			return "refuses", err
		}
	}
	return "accepts", nil
}

func TestSchemaAgreesWithLoad(t *testing.T) {
	schema := compileSchema(t)
	for _, path := range specFiles(t, goodSpecs) {
		t.Run("good/"+filepath.Base(path), func(t *testing.T) {
			if got, err := judge(schema, readFile(t, path)); got != "accepts" {
				t.Errorf("the schema %s it: %v", got, err)
			}
		})
	}
	verdict := regexp.MustCompile(`(?m)^# schema: (refuses|accepts|unreadable)$`)
	for _, path := range specFiles(t, badSpecs) {
		t.Run("bad/"+filepath.Base(path), func(t *testing.T) {
			text := readFile(t, path)
			want := verdict.FindStringSubmatch(text)
			if want == nil {
				t.Fatal("the file has no line with the verdict of the schema")
			}
			if got, err := judge(schema, text); got != want[1] {
				t.Errorf("got %s, want %s: %v", got, want[1], err)
			}
		})
	}
}
