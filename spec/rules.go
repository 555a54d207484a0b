package spec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"
)

// Rule is a CEL condition of a claim. Package rules defines what it may read and what buyers
// are told.
type Rule struct {
	Name string `yaml:"name" json:"name" jsonschema:"example=members" jsonschema_description:"Unique DNS label."`
	// Require is the expression that must be true.
	Require string `yaml:"require" json:"require" jsonschema:"example=user.level == 'gold'" jsonschema_description:"CEL condition over user, claim, sale, history, now and variables."`
	// Message is the text for a buyer whose claim the rule denies, unless MessageExpression
	// yields one. "": a text that names the rule.
	Message           string  `yaml:"message,omitempty" json:"message,omitempty" jsonschema:"example=Members only." jsonschema_description:"Text for a refused buyer, one line. Default: a text that names the rule."`
	MessageExpression string  `yaml:"messageExpression,omitempty" json:"messageExpression,omitempty" jsonschema:"example='Hello ' + user.id" jsonschema_description:"CEL that builds the message. If it fails, message is used."`
	Enforce           Enforce `yaml:"enforce,omitempty" json:"enforce" jsonschema_description:"deny: refuse a claim that fails the rule. audit: only count it."`
	// At is the place of the rule in its file. It is no part of the declaration.
	At RulePlaces `yaml:"-" json:"-"`
}

// RulePlaces are the places of a rule's texts.
type RulePlaces struct{ Require, Message, MessageExpression Place }

// Enforce is the effect of a rule on a claim that does not satisfy it.
type Enforce string

// Values of Enforce.
const (
	EnforceDeny  Enforce = "deny"  // default: it denies the claim
	EnforceAudit Enforce = "audit" // it counts the claim and admits it
)

// Variable is an expression shared by rules; each may use those before it.
type Variable struct {
	Name       string `yaml:"name" json:"name" jsonschema:"example=adult" jsonschema_description:"Unique identifier."`
	Expression string `yaml:"expression" json:"expression" jsonschema:"example=now - user.born > duration('157680h')" jsonschema_description:"CEL expression, evaluated at most once per claim."`
	// At is the place of the expression in its file. It is no part of the declaration.
	At Place `yaml:"-" json:"-"`
}

// Limits of rules. Package rules has the limits of their content.
const (
	MaxRules     = 64
	MaxVariables = 64
)

func (Rule) JSONSchemaExtend(s *jsonschema.Schema) {
	property(s, "name").Pattern = nameForm
	notBlank(s, "require", "message", "messageExpression")
	choices(s, "enforce", EnforceDeny, EnforceAudit)
}

func (Variable) JSONSchemaExtend(s *jsonschema.Schema) {
	identifier(property(s, "name"))
	notBlank(s, "expression")
}

// rules decodes the rules.
func (d *decoder) rules(spec object) []Rule {
	v, ok := d.value(spec, "rules")
	if !ok {
		return nil
	}
	names := d.distinct()
	var all []Rule
	for _, o := range d.objects(v, reflect.TypeFor[Rule](), "{name: members, require: user.known}", MaxRules) {
		var r Rule
		if v, ok := d.value(o, "name"); ok {
			r.Name = names.take(v, "members", checkName)
		}
		r.Require, r.At.Require = d.prose(o, "require", "user.known")
		r.Message, r.At.Message = d.prose(o, "message", "Members only")
		r.MessageExpression, r.At.MessageExpression = d.prose(o, "messageExpression", `"Hello " + user.id`)
		r.Enforce, _ = choice(d, o, "enforce", EnforceDeny, EnforceAudit)
		all = append(all, r)
	}
	return all
}

// variables decodes the variables of rules.
func (d *decoder) variables(spec object) []Variable {
	v, ok := d.value(spec, "variables")
	if !ok {
		return nil
	}
	names := d.distinct()
	var all []Variable
	for _, o := range d.objects(v, reflect.TypeFor[Variable](), "{name: minor, expression: user.age < 18}", MaxVariables) {
		var variable Variable
		if v, ok := d.value(o, "name"); ok {
			variable.Name = names.take(v, "minor", checkIdentifier)
		}
		variable.Expression, variable.At = d.prose(o, "expression", "user.age < 18")
		all = append(all, variable)
	}
	return all
}

// ruleParts converts rules to their part of a document.
func ruleParts(rules []Rule) []Rule {
	parts := slices.Clone(rules)
	for i := range parts {
		parts[i].Enforce = unless(EnforceDeny, parts[i].Enforce)
	}
	return parts
}

// saneRules checks what the rest of the program assumes about rules. It does not check
// expressions.
func saneRules(rules []Rule) error {
	for _, r := range rules {
		switch {
		case !nameRE.MatchString(r.Name):
			return fmt.Errorf("the rule name %q is no DNS label", r.Name)
		case r.Require == "":
			return fmt.Errorf("the rule %s requires nothing", r.Name)
		case r.Enforce != EnforceDeny && r.Enforce != EnforceAudit:
			return fmt.Errorf("the rule %s has the enforce %q, which is not known to this program: use a newer one", r.Name, r.Enforce)
		}
	}
	return nil
}

func saneVariables(variables []Variable) error {
	for _, v := range variables {
		if checkIdentifier(v.Name) != nil || v.Expression == "" {
			return fmt.Errorf("the variable %q has no identifier for a name, or no expression", v.Name)
		}
	}
	return nil
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
		return &fault{fmt.Sprintf("has %d bytes, and may have %d", len(text), MaxIdentifier), "Shorten it."}
	case !identifierRE.MatchString(text):
		return &fault{"is no identifier", "Write letters, digits and _, beginning with a letter."}
	case slices.Contains(reservedWords, text):
		return &fault{"is a word of CEL's own", "Choose another name."}
	}
	return nil
}

// CheckIdentifier returns an error with a remedy if the name of an attribute or variable is
// invalid.
func CheckIdentifier(name string) error {
	if f := checkIdentifier(name); f != nil {
		return fmt.Errorf("%q %s: %s%s", name, f.message, strings.ToLower(f.remedy[:1]), strings.TrimSuffix(f.remedy[1:], "."))
	}
	return nil
}
