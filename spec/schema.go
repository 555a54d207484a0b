package spec

import (
	"encoding/json"
	"strconv"

	"github.com/invopop/jsonschema"
)

// Schema returns the JSON Schema (draft 2020-12) of a sale document, indented and ended by a
// newline, for editors and their YAML servers. It is derived from the types with yaml tags and
// the limits of the decoder. Load also rejects number forms that YAML takes for plain ones,
// conflicts between two values, and conflicts between documents.
func Schema() ([]byte, error) {
	r := jsonschema.Reflector{FieldNameTag: "yaml", Anonymous: true, DoNotReference: true}
	s := r.Reflect(saleDocument{})
	s.Title = "A sale for salectl"
	text, err := json.MarshalIndent(s, "", "  ")
	return append(text, '\n'), err
}

func property(s *jsonschema.Schema, name string) *jsonschema.Schema {
	p, ok := s.Properties.Get(name)
	if !ok {
		panic("spec: the schema has no property " + name)
	}
	return p
}

// bound sets the range of a number, and its default unless ifAbsent is 0.
func bound(s *jsonschema.Schema, name string, most, ifAbsent int64) {
	p := property(s, name)
	p.Minimum, p.Maximum = "1", json.Number(strconv.FormatInt(most, 10))
	if ifAbsent != 0 {
		p.Default = ifAbsent
	}
}

// choices sets the words of a key; the first is its default.
func choices[Word ~string](s *jsonschema.Schema, name string, words ...Word) {
	p := property(s, name)
	p.Default = words[0]
	for _, word := range words {
		p.Enum = append(p.Enum, word)
	}
}

// list bounds the length of a list.
func list(s *jsonschema.Schema, most int) {
	least, longest := uint64(1), uint64(most)
	s.MinItems, s.MaxItems = &least, &longest
}

// notBlank requires text that is not blank.
func notBlank(s *jsonschema.Schema, names ...string) {
	for _, name := range names {
		property(s, name).Pattern = `[^ \t\r\n]`
	}
}

// identifier requires a name that CEL accepts.
func identifier(s *jsonschema.Schema) {
	longest := uint64(MaxIdentifier)
	s.Pattern, s.MaxLength = identifierForm, &longest
	if s.Not == nil {
		s.Not = new(jsonschema.Schema)
	}
	for _, word := range reservedWords {
		s.Not.Enum = append(s.Not.Enum, word)
	}
}
