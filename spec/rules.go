package spec

import (
	"fmt"
	"slices"
)

// Rule is a CEL condition of a claim. Package rules defines what it may read and which
// message buyers receive.
type Rule struct {
	Name string `yaml:"name" json:"name" form:"name" example:"members" doc:"Unique DNS label."`
	// Require is the expression that must be true.
	Require string `yaml:"require" json:"require" form:"text" example:"user.level == 'gold'" doc:"CEL condition over user, claim, sale, history, now and variables."`
	// Message is the text for a buyer whose claim the rule denies, unless MessageExpression
	// yields one. "": a text that names the rule.
	Message           string  `yaml:"message,omitempty" json:"message,omitempty" form:"text" example:"Members only." doc:"Text for a refused buyer, one line. Default: a text that names the rule."`
	MessageExpression string  `yaml:"messageExpression,omitempty" json:"messageExpression,omitempty" form:"text" example:"'Hello ' + user.id" doc:"CEL that builds the message. If it fails, message is used."`
	Enforce           Enforce `yaml:"enforce,omitempty" json:"enforce" words:"deny audit" default:"deny" doc:"deny: refuse a claim that fails the rule. audit: only count it."`
}

// Enforce is the effect of a rule on a claim that does not satisfy it.
type Enforce string

// Values of Enforce.
const (
	EnforceDeny  Enforce = "deny"  // default: it denies the claim
	EnforceAudit Enforce = "audit" // it counts the claim and admits it
)

// Variable is an expression shared by rules; each may use those before it.
type Variable struct {
	Name       string `yaml:"name" json:"name" form:"identifier" example:"adult" doc:"Unique identifier."`
	Expression string `yaml:"expression" json:"expression" form:"text" example:"now - user.born > duration('157680h')" doc:"CEL expression, evaluated at most once per claim."`
}

// distinctNames reports mappings of a list that share a name.
func (d *decoder) distinctNames(o object, key string) {
	list, ok := d.value(o, key)
	if !ok {
		return
	}
	first := map[string]value{}
	for i := range list.node.Content {
		v, ok := d.value(d.objects[fmt.Sprintf("%s[%d]", list.path, i)], "name")
		if !ok || v.node.Value == "" {
			continue
		}
		name := v.node.Value
		if twin, twice := first[name]; twice {
			d.refuse(v.at, "Give one of them another name.", "%s is %s, which %s is already", v.path, name, twin.path)
		} else {
			first[name] = v
		}
	}
}

// Words that CEL rejects as the name of a field.
var reservedWords = []string{
	"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
	"namespace", "null", "package", "return", "true", "var", "void", "while",
}

// MaxIdentifier is the maximum length in characters of the name of an attribute or variable.
const MaxIdentifier = 63

func checkIdentifier(text string) *fault {
	switch {
	case len(text) > MaxIdentifier:
		return &fault{fmt.Sprintf("has %d bytes, at most %d are allowed", len(text), MaxIdentifier), "Shorten it."}
	case !identifierRE.MatchString(text):
		return &fault{"is no identifier", "Write letters, digits and _, beginning with a letter."}
	case slices.Contains(reservedWords, text):
		return &fault{"is a reserved word of CEL", "Choose another name."}
	}
	return nil
}
