package spec

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"
	"gopkg.in/yaml.v3"
)

// Values that every document has.
const (
	APIVersion = "salectl/v1"
	Kind       = "Sale"
)

// saleDocument is the document, and each type with yaml tags a mapping in it, for both the
// decoder and the JSON Schema. The yaml tags are the known keys; a key without omitempty is
// required. Documents are never unmarshalled into these types, which would lose the places of
// values. A type named Part is only for documents; one with json tags is also stored in the
// ledger.
type saleDocument struct {
	APIVersion string       `yaml:"apiVersion" jsonschema_description:"Version of this format."`
	Kind       string       `yaml:"kind" jsonschema_description:"Kind of the document."`
	Metadata   metadataPart `yaml:"metadata" jsonschema_description:"Identity of the sale."`
	Spec       specPart     `yaml:"spec" jsonschema_description:"Stock, terms and storage of the sale."`
}

func (saleDocument) JSONSchemaExtend(s *jsonschema.Schema) {
	property(s, "apiVersion").Const = APIVersion
	property(s, "kind").Const = Kind
}

// declared is the decoded part of a document.
type declared struct {
	empty  bool // the document is empty
	sale   Sale
	name   string     // "" unless it is valid
	nameAt *yaml.Node // its node
}

// document decodes one document of the file.
func (d *decoder) document(doc document) declared {
	root, err := parse(strings.Join(doc.lines, ""))
	switch {
	case err != nil:
		d.problems = append(d.problems, d.src.syntaxProblem(doc, err))
		return declared{}
	case root == nil, root.ShortTag() == "!!null" && root.Value == "":
		return declared{empty: true} // left by charts and tools
	}
	shift(root, doc.first)
	if !d.lint(root) || d.foreign(root) {
		return declared{}
	}
	return d.saleDocument(value{at: root, node: root})
}

// foreign reports a document of another format, whose keys would only cause more problems.
func (d *decoder) foreign(root *yaml.Node) bool {
	var version, kind *yaml.Node
	for i := 0; root.Kind == yaml.MappingNode && i+1 < len(root.Content); i += 2 {
		switch root.Content[i].Value {
		case "apiVersion":
			version = target(root.Content[i+1])
		case "kind":
			kind = root.Content[i+1]
		}
	}
	if version == nil || kind == nil || target(kind).Value == Kind || strings.HasPrefix(version.Value, "salectl/") ||
		version.Kind != yaml.ScalarNode || target(kind).Kind != yaml.ScalarNode {
		return false
	}
	d.refuse(kind, "Name only files with sales, or keep other documents in another folder.",
		"the document is a %s of %s, not a %s of %s", target(kind).Value, version.Value, Kind, APIVersion)
	return true
}

func (d *decoder) saleDocument(root value) declared {
	got := declared{sale: Sale{File: fmt.Sprintf("%s:%d", d.src.name, root.node.Line)}}
	o, ok := d.object(root, reflect.TypeFor[saleDocument]())
	if !ok {
		return got
	}
	d.constant(o, "apiVersion", APIVersion)
	d.constant(o, "kind", Kind)
	d.metadata(o, &got)
	if v, ok := d.value(o, "spec"); ok {
		d.expressions = nil
		d.spec(v, &got.sale)
		got.sale.expressions = d.expressions
	}
	return got
}

func (d *decoder) constant(o object, key, want string) {
	if v, ok := d.value(o, key); ok {
		if text, ok := d.text(v, want); ok && text != want {
			d.refuse(v.at, fmt.Sprintf("Write %s: %s.", key, want), "%s is %q, and should be %s", v.path, text, want)
		}
	}
}

// document converts a declaration to a document.
func (s Sale) document() saleDocument {
	return saleDocument{APIVersion: APIVersion, Kind: Kind, Metadata: s.metadataPart(), Spec: s.specPart()}
}
