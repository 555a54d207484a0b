package spec

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// checked takes text that check finds nothing wrong with.
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

// choice takes one of a few words; the first stands for an absent key. It
// returns false, and the empty word, for any other.
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

// term takes a duration from least to most; 0 if there is none, or a wrong one.
func (d *decoder) term(o object, key, example string, least, most time.Duration) time.Duration {
	v, ok := d.value(o, key)
	if !ok || !d.scalar(v, "a duration", fmt.Sprintf("Write a duration, such as %s: %s.", key, example)) {
		return 0
	}
	term, f := readTerm(v.node.Value, example, least, most)
	if f != nil {
		d.fault(v, f)
	}
	return term
}

// file takes the path of a file, or a pattern, as it is written.
func (d *decoder) file(v value, example string, check func(string) *fault) (path string, ok bool) {
	return checked(d, v, example, func(text string) *fault {
		f := checkPath(text, "file", example)
		if f == nil {
			f = check(text)
		}
		return f
	})
}

// env takes the name of an environment variable. What is none may be a secret,
// so neither the message nor the line shown has it.
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

// prose takes a text of any length, such as an expression, and where it stands. What
// is blank at its end is left out: a block of text has a line end there.
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

// distinct takes values none of which may be there twice.
type distinct struct {
	*decoder
	first map[string]value
}

func (d *decoder) distinct() distinct { return distinct{d, map[string]value{}} }

// take takes text that check finds nothing wrong with; empty if there is a problem.
func (d distinct) take(v value, example string, check func(string) *fault) string {
	text, ok := checked(d.decoder, v, example, check)
	if !ok || !d.once(v, text) {
		return ""
	}
	return text
}

// once reports a text that another value has already.
func (d distinct) once(v value, text string) bool {
	if twin, twice := d.first[text]; twice {
		d.refuse(v.at, "Give one of them another name.", "%s is %s, which %s is already", v.path, text, twin.path)
		return false
	}
	d.first[text] = v
	return true
}
