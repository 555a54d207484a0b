package spec

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// variable is an environment variable that a document declares in metadata.env.
type variable struct {
	text  string
	fault *fault // why it has no text
	used  bool
}

// reference matches ${NAME}, and ${ without a name, with all dollars before the brace.
var reference = regexp.MustCompile(`(\$+)\{([A-Z_][A-Z0-9_]*\})?`)

// environment replaces ${NAME} in the values of a document by environment variables, if
// metadata.env declares any.
func (d *decoder) environment(root *yaml.Node) {
	declared := entryOf(entryOf(root, "metadata"), "env")
	if declared.Kind == 0 {
		return
	}
	d.variables, d.outside = map[string]*variable{}, map[*yaml.Node][]string{}
	for _, n := range target(declared).Content {
		name := target(n).Value
		text, f := readVariable(name)
		d.variables[name] = &variable{text: text, fault: f}
	}
	d.substitute(root, declared)
}

// entryOf returns the value of a key of a mapping, or an empty node.
func entryOf(n *yaml.Node, key string) *yaml.Node {
	all := target(n).Content
	for i := 0; target(n).Kind == yaml.MappingNode && i+1 < len(all); i += 2 {
		if target(all[i]).Value == key {
			return all[i+1]
		}
	}
	return new(yaml.Node)
}

// substitute replaces the references of a node and of those below it, except in keys and in declared.
// It replaces text of parsed scalars: no variable has syntax. $$ before a brace is an escaped dollar.
func (d *decoder) substitute(n, declared *yaml.Node) {
	for i, below := range n.Content {
		if below != declared && (n.Kind != yaml.MappingNode || i%2 == 1) {
			d.substitute(below, declared)
		}
	}
	n.Value = reference.ReplaceAllStringFunc(n.Value, func(found string) string {
		dollars := strings.Index(found, "{")
		name := strings.TrimSuffix(found[dollars+1:], "}")
		switch v := d.variables[name]; {
		case dollars%2 == 0:
			return found[dollars/2:]
		case name == "":
			d.refuse(n, "Write ${NAME}, with a name in capitals, or $${ for the text ${.", "${ begins no name of an environment variable")
		case v == nil:
			d.refuse(n, fmt.Sprintf("Add %s to metadata.env, or write $${%[1]s} for the text.", name), "metadata.env does not declare %s", name)
		case d.substituted+len(v.text) > MaxFileSize:
			d.refuse(n, "Write fewer references.", "the environment variables of the document have more than 1 MiB")
		default:
			v.used, d.substituted = true, d.substituted+len(v.text)
			n.Style, d.tagged[n] = 0, d.tagged[n] || v.fault != nil
			if !slices.Contains(d.outside[n], name) {
				d.outside[n] = append(d.outside[n], name)
			}
			return found[:dollars/2] + v.text
		}
		d.tagged[n] = true
		return ""
	})
}

// listOf returns the items of a list that is one substituted text, with commas between them.
func (d *decoder) listOf(n *yaml.Node) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode, Line: n.Line, Column: n.Column}
	for text := range strings.SplitSeq(n.Value, ",") {
		item := *n
		item.Value, d.outside[&item] = strings.TrimSpace(text), d.outside[n]
		list.Content = append(list.Content, &item)
	}
	return list
}

// readVariable returns the text of an environment variable, or why metadata.env cannot declare it.
// Plans and ledgers have the text, so it must be no secret.
func readVariable(name string) (string, *fault) {
	text := os.Getenv(name)
	_, wrong := newSource("", "", text)
	switch {
	case !envRE.MatchString(name):
		return "", &fault{"is not the name of an environment variable", "Write a name in capitals, such as STOCK."}
	case secretWord.MatchString(name), strings.HasSuffix(name, "KEY"):
		return "", &fault{"has the name of a secret, which plans and the ledger would have", "Rename it if it is none; keys such as passwordEnv and keyEnv take the name of a secret's variable."}
	case text == "": // platforms set undefined variables so
		return "", &fault{fmt.Sprintf("is %s, which is not set in the environment, or empty", name), fmt.Sprintf("Set %s for this command, and for all others that read the file.", name)}
	case wrong != nil:
		return "", &fault{fmt.Sprintf("is %s, which has text that no file may have; at its line %d, column %d: %s", name, wrong.Line, wrong.Column, wrong.Message), wrong.Remedy}
	}
	return text, nil
}

// declaredVariables decodes metadata.env to texts like NAME=VALUE.
func (d *decoder) declaredVariables(v value, o *option) (any, bool) {
	var all []string
	items, _ := d.items(v, o, "Remove some.")
	for _, item := range items {
		name, ok := d.text(item, o.example)
		switch v := d.variables[name]; {
		case !ok || !d.valid(item, v.fault):
		case slices.Contains(all, name+"="+v.text):
			d.refuse(item.at, "Name it once.", "%s is %s, which is declared already", item.path, name)
		case !v.used:
			d.refuse(item.at, fmt.Sprintf("Write ${%s} in a value, or remove it here.", name), "%s is %s, which no value of the document reads", item.path, name)
		default:
			all = append(all, name+"="+v.text)
		}
	}
	return all, true
}
