package spec

import (
	"math"
	"reflect"

	"github.com/invopop/jsonschema"
)

// DefaultRun is the default run of a document.
const DefaultRun = 1

type metadataPart struct {
	Name string `yaml:"name" jsonschema:"example=movie-tickets" jsonschema_description:"Name of the sale everywhere, a DNS label: lower-case letters, digits and hyphens, at most 63. No two sales share one."`
	Run  int64  `yaml:"run,omitempty" jsonschema_description:"Begins the name of a destroyed sale again: the next number, since a destroyed run stays destroyed."`

	Protect bool `yaml:"protect,omitempty" jsonschema_description:"Refuses destroy, close, and a closesAt in the past, until an apply without it. Of a live sale it may change."`

	Labels      map[string]string `yaml:"labels,omitempty" jsonschema_description:"Labels for people and pipelines, with the keys and values of Kubernetes labels: a key is a name, or a DNS subdomain, a slash and a name; a name or value has at most 63 letters, digits, -, _ and dots, with a letter or digit at either end, and a value may be empty. -l chooses sales by them. They stand in the file alone: a change of them plans nothing."`
	Annotations map[string]string `yaml:"annotations,omitempty" jsonschema_description:"Any text under keys like those of labels, for people and pipelines: 256 KiB in all. It stands in the file alone, too, and nothing is chosen by it."`
}

func (metadataPart) JSONSchemaExtend(s *jsonschema.Schema) {
	property(s, "name").Pattern = nameForm
	bound(s, "run", math.MaxInt64, DefaultRun)
	property(s, "protect").Default = false
	for _, name := range []string{"labels", "annotations"} {
		longest := uint64(MaxLabelPrefix + len("/") + MaxLabelName)
		property(s, name).PropertyNames = &jsonschema.Schema{Pattern: labelKeyForm, MaxLength: &longest}
	}
	property(s, "labels").AdditionalProperties.Pattern = labelValueForm
}

// metadata decodes the identity of a sale.
func (d *decoder) metadata(document object, got *declared) {
	got.sale.Run = DefaultRun
	o, ok := d.part(document, "metadata", reflect.TypeFor[metadataPart]())
	if !ok {
		return
	}
	if v, ok := d.value(o, "name"); ok {
		if name, ok := checked(d, v, "movie-tickets", checkName); ok {
			got.sale.Name, got.name, got.nameAt = name, name, v.at
		}
	}
	if v, ok := d.value(o, "run"); ok {
		got.sale.Run, _ = d.number(v, 1, math.MaxInt64)
	}
	got.sale.Protect = d.flag(o, "protect")
	if v, ok := d.value(o, "labels"); ok {
		got.sale.Labels = d.labels(v)
	}
	if v, ok := d.value(o, "annotations"); ok {
		got.sale.Annotations = d.annotations(v)
	}
}

// metadataPart converts the identity of a sale to its part of a document.
func (s Sale) metadataPart() metadataPart {
	return metadataPart{Name: s.Name, Run: unless(DefaultRun, s.Run), Protect: s.Protect, Labels: s.Labels, Annotations: s.Annotations}
}
