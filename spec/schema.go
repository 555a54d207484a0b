package spec

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/invopop/jsonschema"
)

// Schema returns a JSON Schema (draft 2020-12) of a sale document, indented
// and ended by a newline, for editors and their YAML servers. It is made from
// the types in document.go and the limits of the decoder. Load refuses more
// than it does: numbers in forms that YAML takes for plain ones, comparisons
// of two values, and all that spans documents.
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

// bound sets the range of a number, and its default unless that is 0.
func bound(s *jsonschema.Schema, name string, most, ifAbsent int64) {
	p := property(s, name)
	p.Minimum, p.Maximum = "1", json.Number(strconv.FormatInt(most, 10))
	if ifAbsent != 0 {
		p.Default = ifAbsent
	}
}

func (saleDocument) JSONSchemaExtend(s *jsonschema.Schema) {
	property(s, "apiVersion").Const = APIVersion
	property(s, "kind").Const = Kind
}

func (metadataPart) JSONSchemaExtend(s *jsonschema.Schema) {
	property(s, "name").Pattern = nameForm
	bound(s, "run", math.MaxInt64, DefaultRun)
}

func (specPart) JSONSchemaExtend(s *jsonschema.Schema) {
	bound(s, "stock", math.MaxInt64, 0)
	bound(s, "lockCount", MaxLockCount, 0)
	bound(s, "perUserLimit", math.MaxInt64, DefaultPerUserLimit)
	property(s, "opensAt").Pattern = timeForm
	property(s, "closesAt").Pattern = timeForm
	has := func(name string) *jsonschema.Schema { return &jsonschema.Schema{Required: []string{name}} }
	s.OneOf = []*jsonschema.Schema{
		{
			Title: "in local files", Required: []string{"embedded"},
			Not: &jsonschema.Schema{AnyOf: []*jsonschema.Schema{has("redis"), has("hbase")}},
		},
		{
			Title: "on servers", Required: []string{"redis", "hbase"},
			Not: has("embedded"),
		},
	}
}

func (lockPart) JSONSchemaExtend(s *jsonschema.Schema) {
	ttl := property(s, "ttl")
	ttl.Pattern, ttl.Default = ttlForm, DefaultLockTTL.String()
}

func (redisPart) JSONSchemaExtend(s *jsonschema.Schema) {
	addressList(property(s, "nodes"))
	property(s, "usernameEnv").Pattern = envForm
	property(s, "passwordEnv").Pattern = envForm
	property(s, "tls").Default = false
	s.DependentRequired = map[string][]string{"usernameEnv": {"passwordEnv"}}
}

func (hbasePart) JSONSchemaExtend(s *jsonschema.Schema) {
	addressList(property(s, "zookeeper"))
	root := property(s, "zookeeperRoot")
	root.Pattern, root.Default = znodeForm, DefaultZookeeperRoot
	property(s, "table").Pattern = tableForm
}

func (embeddedPart) JSONSchemaExtend(s *jsonschema.Schema) {
	dir, one := property(s, "dir"), uint64(1)
	dir.Default, dir.MinLength = DefaultEmbeddedDir, &one
}

func addressList(s *jsonschema.Schema) {
	one := uint64(1)
	s.MinItems, s.UniqueItems, s.Items.Pattern = &one, true, addressForm
}
