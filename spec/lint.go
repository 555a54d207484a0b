package spec

import (
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"
)

// maxExpansion bounds the number of values that the aliases of a document stand for. A sale
// has some twenty; a few lines of nested aliases can make billions.
const maxExpansion = 10_000

// linter reports problems independent of the format: explicit tags, duplicate keys, merge
// keys, keys that are no scalars, and aliases without end or nearly so.
type linter struct {
	*decoder

	// sizes is the number of values in each visited node, open the set of nodes being visited.
	// An alias follows its anchor, so the target has a size, unless it contains the alias.
	sizes    map[*yaml.Node]int
	open     map[*yaml.Node]bool
	expanded int // number of values that aliases stand for so far
}

// lint reports whether the document can be decoded further.
func (d *decoder) lint(root *yaml.Node) bool {
	l := linter{decoder: d, sizes: map[*yaml.Node]int{}, open: map[*yaml.Node]bool{}}
	d.tagged = map[*yaml.Node]bool{}
	return l.walk(root)
}

func (l *linter) walk(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode {
		return l.alias(n)
	}
	if tag := l.src.tagOf(n); tag != "" {
		l.tagged[n] = true
		l.refuse(n, "Write the value without it.", "explicit tags like %s are not allowed", tag)
	}
	if n.Kind == yaml.MappingNode {
		l.keys(n)
	}
	l.open[n] = true
	size := 1
	for _, below := range n.Content {
		if !l.walk(below) {
			return false
		}
		size += l.sizes[below]
	}
	delete(l.open, n)
	l.sizes[n] = size
	return true
}

func (l *linter) alias(n *yaml.Node) bool {
	if l.open[n.Alias] {
		l.refuse(n, "Write the value out.", "the alias *%s stands inside of what it names, and so has no end", n.Value)
		return false
	}
	l.sizes[n] = l.sizes[n.Alias]
	if l.expanded += l.sizes[n]; l.expanded > maxExpansion {
		l.refuse(n, "Write the values out.", "the aliases of this document expand to more than %d values", maxExpansion)
		return false
	}
	return true
}

// secretWord matches keys that people use for secrets.
var secretWord = regexp.MustCompile(`(?i)passw|secret|token|credential|auth`)

// keys reports problems with keys of any mapping, and masks the values of secret keys.
func (l *linter) keys(n *yaml.Node) {
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, content := n.Content[i], target(n.Content[i+1])
		name := target(key).Value
		if secretWord.MatchString(name) && content.Kind == yaml.ScalarNode && !envRE.MatchString(content.Value) {
			l.hide(content)
		}
		switch {
		case isMerge(key):
			l.refuse(key, "Write the keys out; a sale has few.", "merge keys (<<) are not allowed")
		case target(key).Kind != yaml.ScalarNode:
			l.refuse(key, "Write a word and a colon.", "a key is a mapping or a list, and should be a word")
		case lines[name] > 0:
			l.refuse(key, "Keep one of the two.", "the key %s is repeated; it was on line %d", name, lines[name])
		default:
			lines[name] = key.Line
		}
	}
}

// isMerge reports whether a key is a merge key, which copies another mapping's keys.
func isMerge(key *yaml.Node) bool {
	return key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge"
}

// tagOf returns the tag written before a value, or "". The node lacks only a lone "!", which
// makes a number text.
func (s *source) tagOf(n *yaml.Node) string {
	if n.Style&yaml.TaggedStyle != 0 {
		return n.ShortTag()
	}
	rest := s.runesAt(n.Line, n.Column)
	if len(rest) > 0 && rest[0] == '&' {
		rest = rest[min(len("&")+len(n.Anchor), len(rest)):] // an anchor is ASCII here
		for len(rest) > 0 && (rest[0] == ' ' || rest[0] == '\t') {
			rest = rest[1:]
		}
		// The tag may be on a line of its own, like any property.
		for line := n.Line + 1; (len(rest) == 0 || rest[0] == '#') && line <= len(s.lines); line++ {
			rest = []rune(strings.TrimSpace(s.line(line)))
		}
	}
	if len(rest) > 0 && rest[0] == '!' {
		return "!"
	}
	return ""
}

// shift moves the nodes of a document to its lines in the file.
func shift(n *yaml.Node, lines int) {
	n.Line += lines
	for _, below := range n.Content {
		shift(below, lines)
	}
}
