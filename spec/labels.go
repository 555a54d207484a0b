package spec

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/invopop/jsonschema"
	"gopkg.in/yaml.v3"
)

// Labels and annotations of a sale have the forms of Kubernetes, so that they can be shared
// with its tools.

// Limits of labels and annotations.
const (
	MaxLabelPrefix = 253       // characters of a key before its slash
	MaxLabelName   = 63        // characters of a key after its slash, and of a label's value
	MaxAnnotations = 256 << 10 // bytes of all keys and values together
)

const (
	labelPrefixForm = `[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*`
	labelNameForm   = `[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?`
	labelKeyForm    = `^(` + labelPrefixForm + `/)?` + labelNameForm + `$`
	labelValueForm  = `^(` + labelNameForm + `)?$`
)

var labelKeyRE = regexp.MustCompile(labelKeyForm)

func checkLabelKey(key string) *fault {
	if prefix, _, cut := strings.Cut(key, "/"); labelKeyRE.MatchString(key) && (!cut || len(prefix) <= MaxLabelPrefix) {
		return nil
	}
	return &fault{"is no key of a label or annotation",
		"Write a name, or a DNS name of at most 253 characters, a slash and a name, such as example.com/team: a name has at most 63 letters, digits, -, _ and dots, and begins and ends with a letter or digit."}
}

var checkLabelValue = matches(labelValueForm, "is no value of a label",
	"Write at most 63 letters, digits, -, _ and dots that begin and end with a letter or digit; other text is for annotations.")

// labelSchema returns the schema of a mapping of label keys to text of a form.
func labelSchema(values string) func(*jsonschema.Schema) {
	return func(s *jsonschema.Schema) {
		longest := uint64(MaxLabelPrefix + len("/") + MaxLabelName)
		s.PropertyNames = &jsonschema.Schema{Pattern: labelKeyForm, MaxLength: &longest}
		s.AdditionalProperties.Pattern = values
	}
}

// labels decodes the labels, nil if there are none.
func (d *decoder) labels(v value, _ *option) (any, bool) {
	return d.labelled(v, "team: tickets", checkLabelValue), true
}

// annotations decodes the annotations, nil if there are none.
func (d *decoder) annotations(v value, _ *option) (any, bool) {
	all := d.labelled(v, `contact: "on-call@example.com"`, checkNothing)
	size := 0
	for key, text := range all {
		size += len(key) + len(text)
	}
	if size > MaxAnnotations {
		d.refuse(v.at, "Keep large texts elsewhere, and write down where.", "%s has %d bytes, at most %d are allowed", v.path, size, MaxAnnotations)
	}
	return all, true
}

// labelled decodes a mapping of label keys to text. A value may be "" if it is quoted.
func (d *decoder) labelled(v value, example string, check func(string) *fault) map[string]string {
	var all map[string]string
	for _, e := range d.entries(v, example) {
		if f := checkLabelKey(e.key); f != nil {
			d.refuse(e.keyAt, f.remedy, "%s: %q %s", v.path, e.key, f.message)
			continue
		}
		text, ok := "", e.node.Kind == yaml.ScalarNode && e.node.Style != 0 && e.node.Value == ""
		if !ok {
			text, ok = d.text(e.value, fmt.Sprintf("%q", "tickets"))
		}
		if !ok {
			continue
		}
		if f := check(text); f != nil {
			d.fault(e.value, f)
			continue
		}
		if all == nil {
			all = map[string]string{}
		}
		all[e.key] = text
	}
	return all
}
