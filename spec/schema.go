package spec

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/invopop/jsonschema"
)

// Schema returns the JSON Schema (draft 2020-12) of a sale document, indented and ended by a
// newline, for editors and their YAML servers. It is derived from the options. Load also rejects
// number forms that YAML takes for plain ones, conflicts between two values, and conflicts between
// documents.
func Schema() ([]byte, error) {
	s := root().schema()
	s.Version, s.Title = jsonschema.Version, "A sale for salectl"
	s.Definitions = jsonschema.Definitions{"reference": {Type: "string", Pattern: `\$\{[A-Z_][A-Z0-9_]*\}`}}
	text, err := json.MarshalIndent(s, "", "  ")
	return append(text, '\n'), err
}

// constrained is a struct of options with rules for several of its keys.
type constrained interface{ constrain(*jsonschema.Schema) }

// schema returns the schema of a mapping.
func (b *block) schema() *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema}
	for _, o := range b.options {
		s.Properties.Set(o.key, orReference(o.schema()))
		if o.required {
			s.Required = append(s.Required, o.key)
		}
	}
	b.relate(s)
	if of, ok := reflect.Zero(b.typ).Interface().(constrained); ok && b.root {
		of.constrain(s)
	}
	return s
}

// schema returns the schema of the option's value.
func (o *option) schema() *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	switch {
	case o.constant != "":
		s.Const = o.constant
	case o.inner != nil && (o.field == nil || o.typ.Kind() == reflect.Pointer):
		s = o.inner.schema()
	case o.inner != nil:
		s.Type, s.Items = "array", o.inner.schema()
	case o.typ.Kind() == reflect.Map || o.form == "attributes":
		s.Type, s.AdditionalProperties = "object", &jsonschema.Schema{Type: "string"}
	case o.typ.Kind() == reflect.Slice:
		s.Type, s.Items = "array", &jsonschema.Schema{Type: "string"}
	case o.typ.Kind() == reflect.Bool:
		s.Type, s.Default = "boolean", false
	case o.isDuration():
		s.Pattern = termForm
	case o.typ == reflect.TypeFor[time.Time]():
		s.Pattern = timeForm
	case o.form == "" && len(o.words) == 0:
		s.Type, s.Minimum, s.Maximum = "integer", json.Number(fmt.Sprint(o.least)), json.Number(fmt.Sprint(o.most))
	}
	if s.Type == "array" {
		s.MinItems, s.MaxItems = new(uint64(o.least)), new(uint64(o.most))
	}
	if o.form == "line" {
		s.MaxLength = new(uint64(o.most))
	}
	if o.form != "" {
		forms[o.form].schema(s)
	}
	for _, word := range o.words {
		s.Enum = append(s.Enum, word)
	}
	switch {
	case o.standard == "":
	case s.Type == "integer":
		s.Default = o.initial().Interface()
	default:
		s.Default = o.standard
	}
	switch {
	case o.example == "":
	case s.Type == "string":
		s.Examples = append([]any{o.example}, s.Examples...)
	case s.Type == "integer":
		s.Examples = []any{json.Number(o.example)}
	case o.inner == nil && s.Items != nil:
		s.Items.Examples = []any{o.example}
	}
	s.Description = o.meaning()
	return s
}

// orReference adds texts with ${NAME} to the schema of a value or a list. Names of secrets'
// variables have none.
func orReference(s *jsonschema.Schema) *jsonschema.Schema {
	for _, below := range []**jsonschema.Schema{&s.Items, &s.AdditionalProperties} {
		if *below != nil {
			*below = orReference(*below)
		}
	}
	if s.Type == "" || s.Type == "object" || s.Const != nil || s.Pattern == envForm || s.Type == "string" && s.Pattern == "" && s.Enum == nil || s.Type == "array" && s.Items.Type == "object" {
		return s
	}
	outer := &jsonschema.Schema{Description: s.Description, Default: s.Default, Examples: s.Examples, AnyOf: []*jsonschema.Schema{s, {Ref: "#/$defs/reference"}}}
	s.Description, s.Default, s.Examples = "", nil, nil
	return outer
}

func property(s *jsonschema.Schema, name string) *jsonschema.Schema {
	p, ok := s.Properties.Get(name)
	if !ok {
		panic("spec: the schema has no property " + name)
	}
	return p
}

// identifier requires a name that CEL accepts.
func identifier(s *jsonschema.Schema) {
	s.Pattern, s.MaxLength = identifierForm, new(uint64(MaxIdentifier))
	if s.Not == nil {
		s.Not = new(jsonschema.Schema)
	}
	for _, word := range reservedWords {
		s.Not.Enum = append(s.Not.Enum, word)
	}
}
