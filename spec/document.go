package spec

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"
	"gopkg.in/yaml.v3"
)

// What every document says of itself.
const (
	APIVersion = "salectl/v1"
	Kind       = "Sale"
)

// saleDocument is the document, and each type with yaml tags a mapping in it,
// for the decoder and for the JSON Schema alike: the yaml tags are the keys that the
// decoder knows, and a key without omitempty is required. Nothing is ever unmarshalled
// into them, since that would lose the places of the values. A type whose name ends in Part
// is for documents alone; one with json tags too is in the ledger as well.
type saleDocument struct {
	APIVersion string       `yaml:"apiVersion" jsonschema_description:"Version of this format."`
	Kind       string       `yaml:"kind" jsonschema_description:"What the document declares."`
	Metadata   metadataPart `yaml:"metadata" jsonschema_description:"Which sale this is."`
	Spec       specPart     `yaml:"spec" jsonschema_description:"What is sold, by which rules, and where the sale is kept."`
}

func (saleDocument) JSONSchemaExtend(s *jsonschema.Schema) {
	property(s, "apiVersion").Const = APIVersion
	property(s, "kind").Const = Kind
}

// declared is what a document says, as far as it could be made out.
type declared struct {
	empty  bool // there is nothing
	sale   Sale
	name   string     // empty unless it is a valid one
	nameAt *yaml.Node // where it stands
}

// document reads one document of the file.
func (d *decoder) document(doc document) declared {
	root, err := parse(strings.Join(doc.lines, ""))
	switch {
	case err != nil:
		d.problems = append(d.problems, d.src.syntaxProblem(doc, err))
		return declared{}
	case root == nil, root.ShortTag() == "!!null" && root.Value == "":
		return declared{empty: true} // as a chart or a tool leaves them
	}
	shift(root, doc.first)
	if !d.lint(root) || d.foreign(root) {
		return declared{}
	}
	return d.saleDocument(value{at: root, node: root})
}

// foreign reports a document that is nothing of ours. Its keys would only make
// noise.
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

// document writes a declaration.
func (s Sale) document() saleDocument {
	return saleDocument{APIVersion: APIVersion, Kind: Kind, Metadata: s.metadataPart(), Spec: s.specPart()}
}
