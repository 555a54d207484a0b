package docs

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"

	"salectl/spec"
)

//go:generate go test . -run "TestSaleFilePage|TestProtocolPage" -update

var update = flag.Bool("update", false, "write sale-file.md from the schema, and the rules of protocol.md from the models")

const saleFilePage = "sale-file.md"

const saleFileHead = `<!-- Made from the schema's descriptions, in package spec: go generate ./docs -->

# The sale file

For sellers and operators who write sale files. [Payments](payment.md), [rules](rules.md), [units](units.md), [draws](draw.md) and [red packets](red-packets.md) have pages of their own.

A sale file is YAML; start from [the example](../examples/movie-tickets/sale.yaml), whose first line gives editors the schema. ` + "`salectl validate`" + ` reports all mistakes with file, line, column and remedy. ` + "`salectl schema`" + ` prints the JSON Schema. ` + "`-f`" + ` takes files, folders or ` + "`-`" + `; a file may hold several sales. Files of other formats in a folder are ignored, and so are those that match a line of its ` + "`.salectlignore`" + `.

Durations have a unit: ` + "`h`, `m`, `s` or `ms`" + `. File names are relative to the sale file. Secrets stand in environment variables or key files.

Values, not keys, read environment variables of ` + "`metadata.env`" + ` as ` + "`${NAME}`" + `: as text, never YAML; a list takes commas. ` + "`$${`" + ` is the text ` + "`${`" + `. Names of secrets are refused.

field | value | meaning
---|---|---
`

const saleFileLabels = `
## Labels

All commands that read sale files, except ` + "`list`" + `, take ` + "`--sale NAME`" + `, which may be repeated, and ` + "`-l`" + ` (` + "`--selector`" + `), a label selector in the syntax of ` + "`kubectl`" + `: requirements separated by commas, all of which must hold. A selector without a match is an error, and so is an invalid file of another sale.

requirement | selects sales
---|---
` + "`team=films`, `team==films`" + ` | with label ` + "`team`" + ` equal to ` + "`films`" + `
` + "`team!=films`" + ` | with another or no label ` + "`team`" + `
` + "`stage in (soon,live)`" + ` | with one of these values
` + "`stage notin (soon,live)`" + ` | with another or no value
` + "`team`, `!team`" + ` | with, without the label

The JSON of ` + "`validate`, `plan` and `status`" + ` has the labels.
`

// The page says what the schema says, and so what the program takes.
func TestSaleFilePage(t *testing.T) {
	got := saleFile(t)
	if *update {
		if err := os.WriteFile(saleFilePage, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(saleFilePage)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("docs/%s is not what the schema says: go generate ./docs", saleFilePage)
	}
}

func saleFile(t *testing.T) string {
	t.Helper()
	text, err := spec.Schema()
	if err != nil {
		t.Fatal(err)
	}
	schema := new(jsonschema.Schema)
	if err := json.Unmarshal(text, schema); err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	page.WriteString(saleFileHead)
	fields(&page, "", schema)
	page.WriteString("\nA sale has one of these storages:\n\n")
	where, _ := schema.Properties.Get("spec")
	for _, home := range where.OneOf {
		needs, forbidden := slices.Clone(home.Required), []string(nil)
		if i := slices.Index(needs, "engine"); i >= 0 {
			engine, _ := home.Properties.Get("engine")
			needs[i] = fmt.Sprint("engine: ", engine.Const)
		}
		fmt.Fprintf(&page, "- %s: with %s", home.Title, code(needs...))
		for _, no := range home.Not.AnyOf {
			forbidden = append(forbidden, no.Required...)
		}
		fmt.Fprintf(&page, "; without %s.\n", code(forbidden...))
	}
	page.WriteString(saleFileLabels)
	return page.String()
}

// fields writes a line for each field below a mapping.
func fields(page *strings.Builder, path string, mapping *jsonschema.Schema) {
	for p := mapping.Properties.Oldest(); p != nil; p = p.Next() {
		name, s := path+p.Key, withoutReference(p.Value)
		fmt.Fprintf(page, "`%s` | %s | %s\n", name, value(s, slices.Contains(mapping.Required, p.Key)), s.Description)
		if s.Properties != nil {
			fields(page, name+".", s)
		} else if s.Items != nil && s.Items.Properties != nil {
			fields(page, name+"[].", s.Items)
		}
	}
}

// withoutReference is the schema of a field without the ${NAME} that every value may have.
func withoutReference(s *jsonschema.Schema) *jsonschema.Schema {
	if len(s.AnyOf) != 2 || s.AnyOf[1].Ref == "" {
		return s
	}
	plain := *s.AnyOf[0]
	plain.Description, plain.Default, plain.Examples = s.Description, s.Default, s.Examples
	return &plain
}

// value returns the values that a field takes, and its default.
func value(s *jsonschema.Schema, required bool) string {
	all := values(s)
	switch {
	case required:
		return strings.TrimSuffix("required; "+all, "; ")
	case s.Default == nil:
		return all
	case s.Type == "boolean", strings.HasPrefix(all, "like "):
		return "default " + code(fmt.Sprint(s.Default))
	}
	return fmt.Sprintf("%s; default %s", all, code(fmt.Sprint(s.Default)))
}

func values(s *jsonschema.Schema) string {
	switch {
	case s.Const != nil:
		return code(fmt.Sprint(s.Const))
	case len(s.Enum) > 0:
		var words []string
		for _, word := range s.Enum {
			words = append(words, fmt.Sprint(word))
		}
		return code(words...)
	case s.Properties != nil && s.Properties.Len() > 0:
		return "" // its fields follow
	case s.Type == "object":
		return "mapping"
	case s.Type == "array":
		return fmt.Sprintf("list of %d to %d", *s.MinItems, *s.MaxItems)
	case s.Type == "integer" && len(s.Maximum) < 19: // the largest that fits into 64 bits is no limit to tell
		return fmt.Sprintf("%s to %s", s.Minimum, s.Maximum)
	case s.Type == "integer":
		return fmt.Sprintf("at least %s", s.Minimum)
	case len(s.Examples) > 0:
		return "like " + code(fmt.Sprint(s.Examples[0]))
	}
	return "text"
}

// code sets words in code marks.
func code(words ...string) string { return "`" + strings.Join(words, "`, `") + "`" }
