package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// decoder walks the nodes of one document and collects its problems. Its methods for values
// report a wrong value once and return false.
type decoder struct {
	src      *source
	problems []*Problem
	tagged   map[*yaml.Node]bool // values with an explicit tag, reported before
	masks    []mask

	variables   map[string]*variable    // of metadata.env, by name; nil: it is absent
	outside     map[*yaml.Node][]string // names of the variables in substituted values
	substituted int                     // bytes

	objects map[string]object // decoded mappings, by path
	places  map[string]Place  // texts for other packages, by path
}

// mask is a part of a line that problems do not show, since it may be a secret.
type mask struct{ line, column, length int }

// object is a mapping without unknown keys.
type object struct {
	at     *yaml.Node // the mapping, or its alias
	path   string
	keys   map[string]*yaml.Node
	values map[string]*yaml.Node
	merged bool // a merge key is present, so missing keys cannot be reported
}

// value is the value of a key or an item of a list.
type value struct {
	path string
	key  string     // last part of the path, for remedies
	at   *yaml.Node // node of the value, or of its alias, for problems
	node *yaml.Node // never an alias
}

func (d *decoder) refuse(at *yaml.Node, remedy, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if names := d.outside[target(at)]; names != nil {
		message += " (with the value of " + and(names) + ")"
	}
	d.problems = append(d.problems, d.src.problem(at.Line, at.Column, message, remedy))
}

// valid reports whether a value has no fault. A fault becomes a problem.
func (d *decoder) valid(v value, f *fault) bool {
	if f != nil {
		d.refuse(v.at, f.remedy, "%s %s", v.path, f.message)
	}
	return f == nil
}

// hide masks a scalar in the lines of problems.
func (d *decoder) hide(n *yaml.Node) {
	rest, value := d.src.runesAt(n.Line, n.Column), []rune(n.Value)
	length := len(rest)
	if n.Style == 0 && len(value) <= length && slices.Equal(rest[:len(value)], value) {
		length = len(value)
	}
	d.masks = append(d.masks, mask{n.Line, n.Column, length})
}

// finish returns the problems in reading order, with secrets masked.
func (d *decoder) finish() []*Problem {
	masked := d.masked()
	for _, p := range d.problems {
		if line, ok := masked[p.Line]; ok {
			p.Source = line
		}
		if d.variables == nil && strings.Contains(p.Source, "${") {
			p.Remedy += " If ${NAME} is an environment variable, declare it in metadata.env."
		}
	}
	slices.SortStableFunc(d.problems, byPlace)
	return d.problems
}

// masked returns the lines with secrets, masked, by number. It visits each character once,
// even of a line as long as the file with overlapping masks.
func (d *decoder) masked() map[int]string {
	slices.SortFunc(d.masks, func(a, b mask) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column))
	})
	masked := map[int]string{}
	for len(d.masks) > 0 {
		number, done := d.masks[0].line, 0
		line := []rune(d.src.line(number))
		for len(d.masks) > 0 && d.masks[0].line == number {
			m := d.masks[0]
			end := min(m.column-1+m.length, len(line))
			for i := max(done, m.column-1); i < end; i++ {
				line[i] = '*'
			}
			d.masks, done = d.masks[1:], max(done, end)
		}
		masked[number] = string(line)
	}
	return masked
}

// object decodes v as a mapping with the keys of b, and reports unknown and missing keys. ok
// is false if v is no mapping.
func (d *decoder) object(v value, b *block) (object, bool) {
	o := object{at: v.at, path: v.path, keys: map[string]*yaml.Node{}, values: map[string]*yaml.Node{}}
	known := keysOf(b.options)
	if v.node.Kind != yaml.MappingNode {
		remedy := "Write its keys below it: " + strings.Join(known, ", ") + "."
		if !slices.ContainsFunc(b.options, func(o *option) bool { return o.required }) && len(known) == 1 {
			remedy = fmt.Sprintf("Write %s: {}.", v.key)
		}
		d.notA(v, "a mapping of keys", remedy)
		return object{}, false
	}
	var meant []string // known keys that unknown ones resemble
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key, content := v.node.Content[i], v.node.Content[i+1]
		name := target(key).Value
		switch {
		case isMerge(key):
			o.merged = true
		case target(key).Kind != yaml.ScalarNode:
			// Reported by lint.
		case !slices.Contains(known, name):
			meant = append(meant, d.unknownKey(o, key, known))
		case o.keys[name] == nil: // the first of duplicates counts
			o.keys[name], o.values[name] = key, content
		}
	}
	d.missingKeys(o, b, meant)
	return o, true
}

// missingKeys reports the missing keys, except those that an unknown key was meant for.
func (d *decoder) missingKeys(o object, b *block, meant []string) {
	var missing []string
	for _, k := range b.options {
		if k.required && !o.merged && o.keys[k.key] == nil && !slices.Contains(meant, k.key) {
			missing = append(missing, k.key)
		}
	}
	if len(missing) > 0 {
		d.refuse(o.at, fmt.Sprintf("Add %s to the keys of %s.", and(missing), called(o.path)),
			"%s lacks %s", called(o.path), and(missing))
	}
}

// called returns the name of a path in problems.
func called(path string) string {
	if path == "" {
		return "the document"
	}
	return path
}

// and joins words as a sentence does.
func and(words []string) string { return listed(words, " and ") }

// listed joins words by commas, and the last one by another text.
func listed(words []string, before string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + before + words[last]
}

// value returns the value of a key; false if it is absent or reported before.
func (d *decoder) value(o object, name string) (value, bool) {
	at := o.values[name]
	if at == nil || d.tagged[at] || d.tagged[target(at)] {
		return value{}, false
	}
	return value{path: join(o.path, name), key: name, at: at, node: target(at)}, true
}

// items returns the values of a list of one item or more. tooMany is the remedy of a list that is
// too long. ok is false if there is a problem.
func (d *decoder) items(v value, o *option, tooMany string) (items []value, ok bool) {
	remedy := fmt.Sprintf("Write %s: [%q].", v.key, o.example)
	if o.inner != nil {
		remedy = fmt.Sprintf("Write a list, each item like - %s.", o.example)
	}
	if d.outside[v.node] != nil && o.inner == nil {
		v.node = d.listOf(v.node)
	}
	if v.node.Kind != yaml.SequenceNode {
		d.notA(v, "a list", remedy)
		return nil, false
	}
	for i, at := range v.node.Content {
		if !d.tagged[at] && !d.tagged[target(at)] {
			items = append(items, value{fmt.Sprintf("%s[%d]", v.path, i), v.key, at, target(at)})
		}
	}
	switch n := len(v.node.Content); {
	case n == 0:
		d.refuse(v.at, remedy, "%s is an empty list", v.path)
	case int64(len(items)) > o.most:
		d.refuse(v.at, tooMany, "%s has %d items, at most %d are allowed", v.path, len(items), o.most)
		return nil, false
	}
	return items, len(items) > 0 && len(items) == len(v.node.Content)
}

// mappings decodes a list of mappings, and omits other items.
func (d *decoder) mappings(v value, opt *option) (all []object) {
	items, _ := d.items(v, opt, "Remove some, or combine them.")
	for _, item := range items {
		if o, ok := d.object(item, opt.inner); ok {
			all = append(all, o)
		}
	}
	return all
}

// entry is a value of a mapping with arbitrary keys.
type entry struct {
	value
	keyAt *yaml.Node
}

// entries returns the values of a mapping with arbitrary keys.
func (d *decoder) entries(v value, example string) []entry {
	if v.node.Kind != yaml.MappingNode {
		d.notA(v, "a mapping of keys", fmt.Sprintf("Write %s: {%s}.", v.key, example))
		return nil
	}
	var all []entry
	seen := map[string]bool{}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key, at := v.node.Content[i], v.node.Content[i+1]
		name := target(key).Value
		if isMerge(key) || target(key).Kind != yaml.ScalarNode || seen[name] || d.tagged[at] || d.tagged[target(at)] {
			continue // reported by lint
		}
		seen[name] = true
		all = append(all, entry{value{join(v.path, name), name, at, target(at)}, key})
	}
	return all
}

// number decodes a plain decimal number in [least, most].
func (d *decoder) number(v value, least, most int64) (int64, bool) {
	if !d.scalar(v, "a number", fmt.Sprintf("Write a number, such as %s: %d.", v.key, least)) {
		return 0, false
	}
	if v.node.Style != 0 {
		f := &fault{"is text, not a number", fmt.Sprintf("Write a number, such as %s: %d.", v.key, least)}
		if plainNumber.MatchString(v.node.Value) {
			f = &fault{"is in quotes, which makes it text", fmt.Sprintf("Write it without the quotes: %s: %s.", v.key, v.node.Value)}
		}
		return 0, d.valid(v, f)
	}
	n, f := readNumber(v.node.Value, least, most)
	return n, d.valid(v, f)
}

// text decodes a string. Without quotes it must be a string in every version of YAML, unless it is
// substituted.
func (d *decoder) text(v value, example string) (string, bool) {
	if !d.scalar(v, "text", fmt.Sprintf("Write text, such as %s: %s.", v.key, example)) {
		return "", false
	}
	is := ""
	switch tag := v.node.ShortTag(); {
	case v.node.Style != 0, d.outside[v.node] != nil:
	case truthWord.MatchString(v.node.Value):
		is = "a word for yes or no"
	case tag != "!!str":
		is = nameTag(tag)
	}
	if is != "" {
		d.refuse(v.at, fmt.Sprintf("Quote it, if it is meant: %q.", v.node.Value), "%s is %s to YAML, not text", v.path, is)
	}
	return v.node.Value, is == ""
}

// boolean decodes true or false.
func (d *decoder) boolean(v value) (is, ok bool) {
	remedy := fmt.Sprintf("Write %s: true or %s: false.", v.key, v.key)
	if !d.scalar(v, "true or false", remedy) {
		return false, false
	}
	if s := v.node.Value; v.node.Style != 0 || s != "true" && s != "false" {
		d.refuse(v.at, remedy, "%s is neither true nor false", v.path)
		return false, false
	}
	return v.node.Value == "true", true
}

// scalar reports whether v is a non-empty scalar, and reports a problem otherwise.
func (d *decoder) scalar(v value, what, remedy string) bool {
	if v.node.Kind == yaml.ScalarNode && v.node.ShortTag() != "!!null" && v.node.Value != "" {
		return true
	}
	d.notA(v, what, remedy)
	return false
}

// notA reports a value that is missing or of another kind than what.
func (d *decoder) notA(v value, what, remedy string) {
	is := "text"
	switch {
	case v.node.Kind == yaml.MappingNode:
		is = "a mapping"
	case v.node.Kind == yaml.SequenceNode:
		is = "a list"
	case v.node.Value == "":
		is = "empty"
	default:
		is = nameTag(v.node.ShortTag())
	}
	d.refuse(v.at, remedy, "%s is %s, and should be %s", called(v.path), is, what)
}

// nameTag returns a name for the type of a scalar.
func nameTag(tag string) string {
	switch tag {
	case "!!null":
		return "null"
	case "!!int", "!!float":
		return "a number"
	case "!!timestamp":
		return "a date"
	case "!!bool":
		return "true or false"
	}
	return "text"
}

// target follows an alias. YAML allows no alias of an alias.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}
