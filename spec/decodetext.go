package spec

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// checked decodes a string for which check returns nil.
func checked(d *decoder, v value, example string, check func(string) *fault) (string, bool) {
	text, ok := d.text(v, example)
	if !ok {
		return "", false
	}
	if f := check(text); f != nil {
		d.fault(v, f)
		return "", false
	}
	return text, true
}

// choice decodes one of words; the first is the default. For any other value it returns "" and
// false.
func choice[Word ~string](d *decoder, o object, key string, words ...Word) (Word, bool) {
	if o.keys[key] == nil {
		return words[0], true
	}
	var all []string
	for _, word := range words {
		all = append(all, string(word))
	}
	remedy := fmt.Sprintf("Write %s: %s.", key, strings.Join(all, ", or "+key+": "))
	v, ok := d.value(o, key)
	if !ok || !d.scalar(v, "one of "+and(all), remedy) {
		return "", false
	}
	if i := slices.Index(all, v.node.Value); i >= 0 {
		return words[i], true
	}
	d.refuse(v.at, remedy, "%s is %q, which is none of %s", v.path, v.node.Value, and(all))
	return "", false
}

// term decodes a duration in [least, most]; 0 if it is absent or invalid.
func (d *decoder) term(o object, key, example string, least, most time.Duration) Duration {
	v, ok := d.value(o, key)
	if !ok || !d.scalar(v, "a duration", fmt.Sprintf("Write a duration, such as %s: %s.", key, example)) {
		return 0
	}
	term, f := readTerm(v.node.Value, example, least, most)
	if f != nil {
		d.fault(v, f)
	}
	return Duration(term)
}

// file decodes the path of a file, or a pattern, without resolving it.
func (d *decoder) file(v value, example string, check func(string) *fault) (path string, ok bool) {
	return checked(d, v, example, func(text string) *fault {
		f := checkPath(text, "file", example)
		if f == nil {
			f = check(text)
		}
		return f
	})
}

// env decodes the name of an environment variable. An invalid name may be a secret, so neither
// the message nor the shown line contains it.
func (d *decoder) env(o object, key string) string {
	v, ok := d.value(o, key)
	if !ok || !d.scalar(v, "the name of an environment variable", fmt.Sprintf("Write %s: NAME, in capitals.", key)) {
		return ""
	}
	f := checkEnv(v.node.Value)
	if f == nil && v.node.ShortTag() != "!!str" {
		f = checkEnv("")
	}
	if f != nil {
		d.hide(v.node)
		d.fault(v, f)
		return ""
	}
	return v.node.Value
}

// prose decodes a text of any length, such as an expression, and returns its place. Trailing
// blanks are removed, such as the line end of a block.
func (d *decoder) prose(o object, key, example string) (string, Place) {
	v, ok := d.value(o, key)
	if !ok {
		return "", Place{}
	}
	text, ok := d.text(v, example)
	if !ok {
		return "", Place{}
	}
	if text = strings.TrimRight(text, " \t\r\n"); text == "" {
		d.refuse(v.at, fmt.Sprintf("Write text, such as %s: %s.", key, example), "%s is blank", v.path)
	}
	return text, d.place(v)
}

// distinct decodes values that must differ from each other.
type distinct struct {
	*decoder
	first map[string]value
}

func (d *decoder) distinct() distinct { return distinct{d, map[string]value{}} }

// take decodes a string for which check returns nil; "" if there is a problem.
func (d distinct) take(v value, example string, check func(string) *fault) string {
	text, ok := checked(d.decoder, v, example, check)
	if !ok || !d.once(v, text) {
		return ""
	}
	return text
}

// once reports a problem and returns false if an earlier value is the same text.
func (d distinct) once(v value, text string) bool {
	if twin, twice := d.first[text]; twice {
		d.refuse(v.at, "Give one of them another name.", "%s is %s, which %s is already", v.path, text, twin.path)
		return false
	}
	d.first[text] = v
	return true
}
