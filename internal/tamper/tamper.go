// Package tamper alters files of JSON lines, for tests that each alteration is detected.
package tamper

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// value is a number, a string or a boolean of a line.
type value struct {
	path       string // such as "draw.shards.0.entries"
	field      int    // index of its field's name; -1: an element of a list
	start, end int
	json       any
}

// Line yields a line of JSON with one small alteration of a value, or with two adjacent values
// swapped, for each possible one. what is the path of the value and the change: "counts.sold +
// 1".
func Line(line string) iter.Seq2[string, string] {
	return func(yield func(what, altered string) bool) {
		values := valuesOf(line)
		for i, v := range values {
			text := line[v.start:v.end]
			put := func(how, text string) bool {
				return yield(v.path+" "+how, line[:v.start]+text+line[v.end:])
			}
			switch is := v.json.(type) {
			case json.Number:
				n, err := strconv.ParseInt(text, 10, 64)
				if err == nil && (!put("+ 1", fmt.Sprint(n+1)) || !put("- 1", fmt.Sprint(n-1))) {
					return
				}
			case bool:
				if !put("inverted", fmt.Sprint(!is)) {
					return
				}
			case string:
				for _, at := range slices.Compact([]int{0, len(is) / 2, max(0, len(is)-1)}) {
					if is != "" && !put(fmt.Sprintf("letter %d", at), quoted(is[:at]+next(is[at])+is[at+1:])) {
						return
					}
				}
			}
			if v.field >= 0 && !yield(v.path+" removed", without(line, v.field, v.end)) {
				return
			}
			if i == 0 {
				continue
			}
			if before := values[i-1]; fmt.Sprintf("%T", before.json) == fmt.Sprintf("%T", v.json) && line[before.start:before.end] != text {
				swapped := line[:before.start] + text + line[before.end:v.start] + line[before.start:before.end] + line[v.end:]
				if !yield(before.path+" swapped with "+v.path, swapped) {
					return
				}
			}
		}
	}
}

// next returns another letter or digit of the same kind, so that a digest stays one.
func next(c byte) string {
	switch c {
	case '9':
		return "8"
	case 'f', 'F', 'z', 'Z':
		return string(c - 1)
	}
	return string(c + 1)
}

func quoted(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.Encode(s) // never fails
	return strings.TrimSuffix(b.String(), "\n")
}

// without removes a field, and one comma beside it.
func without(line string, start, end int) string {
	if line[end] == ',' {
		return line[:start] + line[end+1:]
	}
	return strings.TrimSuffix(line[:start], ",") + line[end:]
}

func valuesOf(line string) (all []value) {
	d := json.NewDecoder(strings.NewReader(line))
	d.UseNumber()
	var walk func(path string, field int)
	walk = func(path string, field int) {
		before := int(d.InputOffset())
		token, err := d.Token()
		if err != nil {
			panic(err) // salectl has written the line
		}
		delim, ok := token.(json.Delim)
		if !ok {
			start := before + strings.IndexAny(line[before:], `"-0123456789tfn`)
			all = append(all, value{path, field, start, int(d.InputOffset()), token})
			return
		}
		for i := 0; d.More(); i++ {
			name, field := strconv.Itoa(i), -1
			if delim == '{' {
				field = int(d.InputOffset())
				field += strings.IndexByte(line[field:], '"')
				key, _ := d.Token() // found by More
				name = key.(string)
			}
			walk(strings.TrimPrefix(path+"."+name, "."), field)
		}
		d.Token() // the end
	}
	walk("", -1)
	return all
}
