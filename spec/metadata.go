package spec

import (
	"math"
	"reflect"

	"github.com/invopop/jsonschema"
)

// DefaultRun is the default run of a document.
const DefaultRun = 1

type metadataPart struct {
	Name string `yaml:"name" jsonschema:"example=movie-tickets" jsonschema_description:"Unique name of the sale, a DNS label: lower-case letters, digits and hyphens, at most 63."`
	Run  int64  `yaml:"run,omitempty" jsonschema_description:"Reuses the name of a destroyed sale: use the next number."`

	Protect bool `yaml:"protect,omitempty" jsonschema_description:"Refuses destroy, close, and a past closesAt, until an apply without it. May change on a live sale."`

	Labels      map[string]string `yaml:"labels,omitempty" jsonschema_description:"Labels for -l, with keys and values as in Kubernetes. Not part of the plan."`
	Annotations map[string]string `yaml:"annotations,omitempty" jsonschema_description:"Free text under such keys, 256 KiB in all. Not part of the plan."`
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
