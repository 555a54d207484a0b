package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// checked decodes a string for which check returns nil.
func checked(d *decoder, v value, example string, check func(string) *fault) (string, bool) {
	text, ok := d.text(v, example)
	return text, ok && d.valid(v, check(text))
}

// choice decodes one of words; "" if there is a problem.
func (d *decoder) choice(v value, words []string) string {
	remedy := fmt.Sprintf("Write %s: %s.", v.key, strings.Join(words, ", or "+v.key+": "))
	if !d.scalar(v, "one of "+and(words), remedy) {
		return ""
	}
	if slices.Contains(words, v.node.Value) {
		return v.node.Value
	}
	d.refuse(v.at, remedy, "%s is %q, which is none of %s", v.path, v.node.Value, and(words))
	return ""
}

// term decodes a duration in [least, most]; 0 if there is a problem.
func (d *decoder) term(v value, example string, least, most time.Duration) time.Duration {
	if !d.scalar(v, "a duration", fmt.Sprintf("Write a duration, such as %s: %s.", v.key, example)) {
		return 0
	}
	term, f := readTerm(v.node.Value, example, least, most)
	d.valid(v, f)
	return term
}

// time decodes a time with or without quotes: YAML may take it for a date or text. It returns
// the zero time if there is a problem.
func (d *decoder) time(v value, example string) time.Time {
	if !d.scalar(v, "a time", fmt.Sprintf("Write a time, such as %s: %s, or leave the key out.", v.key, example)) {
		return time.Time{}
	}
	t, f := readTime(v.node.Value)
	d.valid(v, f)
	return t
}

// file decodes the path of a file or folder, or a pattern, without resolving it.
func (d *decoder) file(v value, what, example string, check func(string) *fault) (path string, ok bool) {
	return checked(d, v, example, func(text string) *fault {
		return cmp.Or(checkPath(text, what, example), check(text))
	})
}

// env decodes the name of an environment variable. An invalid name may be a secret, so neither
// the message nor the shown line contains it.
func (d *decoder) env(v value, _ *option) (any, bool) {
	if !d.scalar(v, "the name of an environment variable", fmt.Sprintf("Write %s: NAME, in capitals.", v.key)) {
		return nil, false
	}
	f := checkEnv(v.node.Value)
	if f == nil && (v.node.ShortTag() != "!!str" || d.outside[v.node] != nil) {
		f = checkEnv("")
	}
	if f != nil {
		d.hide(v.node)
	}
	return v.node.Value, d.valid(v, f)
}

// prose decodes a text of any length, and records its place. Trailing blanks are removed, such
// as the line end of a block.
func (d *decoder) prose(v value, o *option) (any, bool) {
	text, ok := d.text(v, quoted(o.example))
	return d.placed(v, text, ok, "text", quoted(o.example))
}

// expression decodes an expression in CEL, and records its place. It may be written like a value that
// is no text, such as true.
func (d *decoder) expression(v value, o *option) (any, bool) {
	return d.placed(v, v.node.Value, d.scalar(v, "an expression in CEL", fmt.Sprintf("Write an expression, such as %s: %s.", v.key, quoted(o.example))),
		"an expression", quoted(o.example))
}

func (d *decoder) placed(v value, text string, ok bool, what, example string) (any, bool) {
	if !ok {
		return nil, false
	}
	if text = strings.TrimRight(text, " \t\r\n"); text == "" {
		d.refuse(v.at, fmt.Sprintf("Write %s, such as %s: %s.", what, v.key, example), "%s is blank", v.path)
	}
	if d.places == nil {
		d.places = map[string]Place{}
	}
	d.places[v.path] = Place{d.src, v.node}
	return text, text != ""
}

// quoted returns an example as it may be written after a key.
func quoted(example string) string {
	if strings.Contains(example, ": ") || strings.HasPrefix(example, "'") || strings.HasSuffix(example, ".") {
		return strconv.Quote(example)
	}
	return example
}
