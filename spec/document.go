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
	d.environment(root)
	return d.saleDocument(value{at: root, node: root})
}

// foreign reports whether the file has documents, and all are of other formats.
func (src *source) foreign() bool {
	some := false
	for _, doc := range src.documents() {
		root, err := parse(strings.Join(doc.lines, ""))
		if err == nil && (root == nil || root.ShortTag() == "!!null") {
			continue
		}
		version, kind, ours := header(root)
		if err != nil || ours && !isOther(version, kind) {
			return false
		}
		some = true
	}
	return some
}

// header returns the values of apiVersion and kind of a document; nil: it has none. ours reports whether the
// document has a key of a sale's.
func header(root *yaml.Node) (version, kind *yaml.Node, ours bool) {
	for i := 0; root != nil && root.Kind == yaml.MappingNode && i+1 < len(root.Content); i += 2 {
		switch key, value := root.Content[i].Value, root.Content[i+1]; key {
		case "apiVersion":
			version, ours = value, true
		case "kind":
			kind, ours = value, true
		case "metadata", "spec", "<<":
			ours = true
		}
	}
	return version, kind, ours
}

// isOther reports whether apiVersion and kind are those of another format.
func isOther(version, kind *yaml.Node) bool {
	if version == nil || kind == nil {
		return false
	}
	version, kind = target(version), target(kind)
	return version.Kind == yaml.ScalarNode && kind.Kind == yaml.ScalarNode && kind.Value != Kind && !strings.HasPrefix(version.Value, "salectl/")
}

// foreign refuses a document of another format, whose keys would only cause more problems.
func (d *decoder) foreign(root *yaml.Node) bool {
	version, kind, _ := header(root)
	if !isOther(version, kind) {
		return false
	}
	d.refuse(kind, "Name only files with sales, or keep other documents in another folder.",
		"the document is a %s of %s, not a %s of %s", target(kind).Value, target(version).Value, Kind, APIVersion)
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
