package spec

import (
	"fmt"
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"
)

// Values that every document has.
const (
	APIVersion = "salectl/v1"
	Kind       = "Sale"
)

// declared is the decoded part of a document.
type declared struct {
	empty  bool // the document is empty
	sale   Sale
	nameAt *yaml.Node // of the name; nil unless it is valid
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

func (d *decoder) saleDocument(v value) declared {
	got := declared{sale: Sale{File: fmt.Sprintf("%s:%d", d.src.name, v.node.Line)}}
	o, ok := d.object(v, root())
	if !ok {
		return got
	}
	d.objects, d.places = map[string]object{}, nil
	d.fill(o, root(), reflect.ValueOf(&got.sale).Elem())
	got.sale.places = d.places
	if v, ok := d.value(d.objects["metadata"], "name"); ok && got.sale.Name != "" {
		got.nameAt = v.at
	}
	if o, ok := d.objects["spec"]; ok {
		d.spec(o, &got.sale)
	}
	return got
}

func (d *decoder) constant(v value, want string) {
	if text, ok := d.text(v, want); ok && text != want {
		d.refuse(v.at, fmt.Sprintf("Write %s: %s.", v.key, want), "%s is %q, and should be %s", v.path, text, want)
	}
}
