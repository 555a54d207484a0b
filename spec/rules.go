package spec

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Rule is a condition of a claim, in CEL. Package rules says what it may read, and
// what is told to whom.
type Rule struct {
	Name              string // a DNS label, unlike that of every other rule
	Require           string // the expression that has to be true
	Message           string // what a buyer is told whom the rule refuses; empty: a text that names the rule
	MessageExpression string // an expression that makes such a text; empty: Message is told
	Enforce           Enforce
	// At is where the rule stands in its file. It is no part of the declaration.
	At RulePlaces
}

// RulePlaces are where the texts of a rule stand.
type RulePlaces struct{ Require, Message, MessageExpression Place }

// Enforce is what a rule does with a claim that does not satisfy it.
type Enforce string

// The ways to enforce a rule.
const (
	EnforceDeny  Enforce = "deny"  // it refuses the claim; the default
	EnforceAudit Enforce = "audit" // it counts the claim, and lets it go on
)

// Variable is an expression that rules share; each may use those before it.
type Variable struct {
	Name       string // an identifier, unlike that of every other variable
	Expression string
	// At is where the expression stands in its file. It is no part of the declaration.
	At Place
}

// Limits of rules. Package rules has those of what is in them.
const (
	MaxRules     = 64
	MaxVariables = 64
)

// ruleKeys are the keys that say who may claim, and in which order.
var ruleKeys = []string{"rules", "variables", "users", "history", "queue"}

// who takes what says who may claim. It comes after the stores, since tables are
// looked for where the ledger is.
func (d *decoder) who(o object, s *Sale) {
	if v, ok := d.value(o, "rules"); ok {
		s.Rules = d.rules(v)
	}
	if v, ok := d.value(o, "variables"); ok {
		s.Variables = d.variables(v)
	}
	from := tableHome{declared: o.keys["hbase"] != nil, sale: s.HBase}
	if v, ok := d.value(o, "users"); ok {
		s.Users = d.users(v, from)
	}
	if v, ok := d.value(o, "history"); ok {
		s.History = d.history(v, from)
	}
	if v, ok := d.value(o, "queue"); ok {
		s.Queue = d.queue(v)
	}
}

func (d *decoder) rules(v value) []Rule {
	names := d.distinct()
	var all []Rule
	for _, o := range d.objects(v, reflect.TypeFor[rulePart](), "{name: members, require: user.known}", MaxRules) {
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

func (d *decoder) variables(v value) []Variable {
	names := d.distinct()
	var all []Variable
	for _, o := range d.objects(v, reflect.TypeFor[variablePart](), "{name: minor, expression: user.age < 18}", MaxVariables) {
		var variable Variable
		if v, ok := d.value(o, "name"); ok {
			variable.Name = names.take(v, "minor", checkIdentifier)
		}
		variable.Expression, variable.At = d.prose(o, "expression", "user.age < 18")
		all = append(all, variable)
	}
	return all
}

// objects takes a list of 1 to most mappings that t describes. Those that are none
// are left out.
func (d *decoder) objects(v value, t reflect.Type, example string, most int) []object {
	items, ok := d.items(v, fmt.Sprintf("Write a list, each item like - %s.", example))
	switch {
	case ok && len(items) == 0:
		d.refuse(v.at, fmt.Sprintf("Write items like - %s, or leave the key out.", example), "%s is an empty list", v.path)
	case len(items) > most:
		d.refuse(v.at, "Take some out, or say more in one.", "%s has %d items, and may have %d", v.path, len(items), most)
		return nil
	}
	var all []object
	for _, item := range items {
		if o, ok := d.object(item, t); ok {
			all = append(all, o)
		}
	}
	return all
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

// saneRules is the part of sane that says who may claim. What stands in the
// expressions is not asked here.
func (s Sale) saneRules() error {
	for _, r := range s.Rules {
		switch {
		case !nameRE.MatchString(r.Name):
			return fmt.Errorf("the rule name %q is no DNS label", r.Name)
		case r.Require == "":
			return fmt.Errorf("the rule %s requires nothing", r.Name)
		case r.Enforce != EnforceDeny && r.Enforce != EnforceAudit:
			return fmt.Errorf("the rule %s has the enforce %q, which is not known to this program: use a newer one", r.Name, r.Enforce)
		}
	}
	for _, v := range s.Variables {
		if checkIdentifier(v.Name) != nil || v.Expression == "" {
			return fmt.Errorf("the variable %q has no identifier for a name, or no expression", v.Name)
		}
	}
	if s.Users != nil {
		if err := s.Users.check(); err != nil {
			return err
		}
	}
	if h := s.History; h != nil && h.Files == nil && h.Table == nil {
		return errors.New("the history has neither files nor a table")
	}
	if s.Queue != nil {
		if err := s.Queue.check(); err != nil {
			return err
		}
	}
	return s.saneDraw()
}

// who reports whether a sale says who may claim, or in which order.
func (s Sale) who() bool {
	return len(s.Rules) > 0 || len(s.Variables) > 0 || s.Users != nil || s.History != nil || s.Queue != nil
}

// The words that CEL does not take as the name of a field.
var reservedWords = []string{
	"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
	"namespace", "null", "package", "return", "true", "var", "void", "while",
}

// MaxIdentifier is the most characters that the name of an attribute or a variable has.
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

// CheckIdentifier says what is wrong with the name of an attribute or a variable, and
// what to do about it.
func CheckIdentifier(name string) error {
	if f := checkIdentifier(name); f != nil {
		return fmt.Errorf("%q %s: %s%s", name, f.message, strings.ToLower(f.remedy[:1]), strings.TrimSuffix(f.remedy[1:], "."))
	}
	return nil
}
