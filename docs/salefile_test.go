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

A sale file is YAML. ` + "`salectl schema`" + ` prints its JSON Schema, from which this page is made; the first line of [the example](../examples/movie-tickets/sale.yaml) shows how an editor finds it. ` + "`-f`" + ` takes files, folders or ` + "`-`" + `, and a file may hold several sales; of these ` + "`-l`" + ` takes those with the [labels](#labels) that it selects. ` + "`salectl validate`" + ` reports every mistake at once, with file, line, column and remedy. [Payments](payment.md), [rules](rules.md) and [red packets](red-packets.md) have pages of their own.

| field | value | default | meaning |
|---|---|---|---|
`

const saleFileLabels = `
## Labels

Every command that reads sale files, but for ` + "`list`" + `, which lists whole places, takes ` + "`-l`" + ` (` + "`--selector`" + `), a label selector as ` + "`kubectl`" + ` has it: requirements with commas between them, all of which must hold. A selector that no sale matches is an error; files of sales that are not selected must be valid all the same. ` + "`--sale NAME`" + ` takes the one of that name, and may be repeated.

| requirement | holds for a sale whose |
|---|---|
| ` + "`team=films`, `team==films`" + ` | label ` + "`team`" + ` is ` + "`films`" + ` |
| ` + "`team!=films`" + ` | label ` + "`team`" + ` is another, or missing |
| ` + "`stage in (soon,live)`" + ` | label ` + "`stage`" + ` is one of these |
| ` + "`stage notin (soon,live)`" + ` | label ` + "`stage`" + ` is none of these, or missing |
| ` + "`team`" + ` | label ` + "`team`" + ` is there |
| ` + "`!team`" + ` | label ` + "`team`" + ` is missing |

` + "`validate`, `plan` and `status`" + ` have the labels of the file in their JSON, ` + "`validate`" + ` its annotations too.
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
	page.WriteString("\nA sale is kept in one of these ways:\n\n")
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
		name, s := path+p.Key, p.Value
		if s.Properties != nil && s.Properties.Len() > 0 {
			fmt.Fprintf(page, "| `%s` | | | %s |\n", name, s.Description)
			fields(page, name+".", s)
			continue
		}
		if s.Items != nil && s.Items.Properties != nil {
			fmt.Fprintf(page, "| `%s` | %s | | %s |\n", name, value(s), s.Description)
			fields(page, name+"[].", s.Items)
			continue
		}
		standard := ""
		if s.Default != nil {
			standard = code(fmt.Sprint(s.Default))
		}
		if slices.Contains(mapping.Required, p.Key) {
			standard = "required"
		}
		fmt.Fprintf(page, "| `%s` | %s | %s | %s |\n", name, value(s), standard, s.Description)
	}
}

// value says what a field takes.
func value(s *jsonschema.Schema) string {
	switch {
	case s.Const != nil:
		return code(fmt.Sprint(s.Const))
	case len(s.Enum) > 0:
		var words []string
		for _, word := range s.Enum {
			words = append(words, fmt.Sprint(word))
		}
		return code(words...)
	case s.Type == "object":
		return "mapping"
	case s.Type == "array":
		return fmt.Sprintf("list of %d to %d", *s.MinItems, *s.MaxItems)
	case s.Type == "integer" && len(s.Maximum) < 19: // the largest that fits into 64 bits is no limit to tell
		return fmt.Sprintf("%s to %s", s.Minimum, s.Maximum)
	case s.Type == "integer":
		return fmt.Sprintf("at least %s", s.Minimum)
	case s.Type == "boolean":
		return code("true", "false")
	case len(s.Examples) > 0:
		return "like " + code(fmt.Sprint(s.Examples[0]))
	}
	return "text"
}

// code sets words in code marks.
func code(words ...string) string { return "`" + strings.Join(words, "`, `") + "`" }
