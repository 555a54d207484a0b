package spec

import (
	"fmt"
	"regexp"
	"slices"
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
		s.PropertyNames = &jsonschema.Schema{Pattern: labelKeyForm, MaxLength: new(uint64(MaxLabelPrefix + len("/") + MaxLabelName))}
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
		if !ok || !d.valid(e.value, check(text)) {
			continue
		}
		if all == nil {
			all = map[string]string{}
		}
		all[e.key] = text
	}
	return all
}

// Selector selects sales by their labels, as the label selectors of Kubernetes do: all its
// requirements must hold. The zero Selector selects all sales.
type Selector struct {
	text         string
	requirements []requirement
}

// requirement is a condition on one label. It holds if the label exists and, unless values is
// nil, its value is among values. not negates it.
type requirement struct {
	key    string
	values []string
	not    bool
}

// selectorWord is a character of a key or a value.
const selectorWord = `[^\s=!(),<>]`

// requirementRE matches a requirement and the comma after it: !key (1); or a key (2), alone, with an
// operator (3) and a value (4), or with another (5) and values in parentheses (6).
var requirementRE = regexp.MustCompile(`^\s*(?:!\s*(` + selectorWord + `+)|(` + selectorWord + `+)` +
	`(?:\s*(==?|!=)\s*(` + selectorWord + `*)|\s+(in|notin)\s*\(([^()=!<>]*)\))?)\s*(,|$)`)

// ParseSelector parses requirements separated by commas: key=value, key==value, key!=value,
// key in (a,b), key notin (a,b), key, !key. != and notin also hold if the label is absent. A
// value may be empty. The error is a clause about the text.
func ParseSelector(text string) (Selector, error) {
	s := Selector{text: text}
	for rest, more := text, true; more; {
		m := requirementRE.FindStringSubmatch(rest)
		if m == nil {
			return Selector{}, fmt.Errorf("%q does not begin with a requirement: "+
				"key=value, key!=value, key in (a,b), key notin (a,b), key or !key, with commas between them", rest)
		}
		r := requirement{key: m[1] + m[2], not: m[1] != "" || m[3] == "!=" || m[5] == "notin"}
		switch {
		case m[3] != "":
			r.values = []string{m[4]}
		case m[5] != "":
			r.values = strings.Split(m[6], ",")
		}
		if f := checkLabelKey(r.key); f != nil {
			return Selector{}, fmt.Errorf("%q %s", r.key, f.message)
		}
		for i, value := range r.values {
			r.values[i] = strings.TrimSpace(value)
			if f := checkLabelValue(r.values[i]); f != nil {
				return Selector{}, fmt.Errorf("%s: %q %s", r.key, r.values[i], f.message)
			}
		}
		s.requirements = append(s.requirements, r)
		rest, more = rest[len(m[0]):], m[7] == ","
	}
	return s, nil
}

// String returns the text that was parsed.
func (s Selector) String() string { return s.text }

// Matches reports whether the selector selects a sale with these labels.
func (s Selector) Matches(labels map[string]string) bool {
	for _, r := range s.requirements {
		value, there := labels[r.key]
		if holds := there && (r.values == nil || slices.Contains(r.values, value)); holds == r.not {
			return false
		}
	}
	return true
}
