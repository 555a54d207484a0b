package spec

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

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
