package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"github.com/hashicorp/go-multierror"

	"salectl/spec"
)

// Set is a compiled declaration. It is immutable and safe for concurrent use.
type Set struct {
	schema    *Schema
	variables []variable
	rules     []rule
	priority  *expression // nil: none
	hash      Digest
	fields    map[string]field // by name in rules, such as user.level
	pool      sync.Pool        // of *evaluation
}

type rule struct {
	Rule
	require *expression
	message *expression // nil: Message is used
	refusal string      // the buyer's message without messageExpression
}

type variable struct {
	name string
	expression
}

// expression is a compiled expression.
type expression struct {
	text    string
	program cel.Program // counts its cost and stops at the limit
	quick   cel.Program // does not; nil if the limit may be needed
	kind    *types.Type
	worst   uint64   // worst-case cost without variables
	reads   []string // names that it reads, such as user.level, sorted
	uses    []int    // indices of the variables that it names, sorted
}

// Compile compiles a declaration. The error contains all problems, each a *Problem, in the order of
// variables, rules and priority; spec.Problems extracts them. Any other error comes from CEL itself.
func Compile(d Declaration) (*Set, error) {
	schema := d.Attributes
	if schema == nil {
		schema = noAttributes
	}
	c, err := newCompiler(schema, d.History)
	if err != nil {
		return nil, err
	}
	c.declared = d.Variables
	c.count("variables", len(d.Variables), MaxVariables)
	c.count("rules", len(d.Rules), MaxRules)
	for _, v := range d.Variables {
		c.variable(v)
	}
	for _, r := range d.Rules {
		c.rule(r)
	}
	if d.Priority != "" {
		c.set.priority = c.priority(d.Priority)
	}
	if len(c.problems) > 0 {
		all := &multierror.Error{ErrorFormat: spec.ErrorFormat}
		for _, p := range c.problems {
			all.Errors = append(all.Errors, p)
		}
		return nil, all
	}
	c.set.hash = d.hash(schema)
	return c.set, nil
}

// Cost is the worst-case cost of one expression.
type Cost struct {
	Of, Name, Field string // as in Problem
	Worst           uint64 // in units of CEL, with each variable counted once; at most MaxCost
}

// Costs returns the worst-case costs of the expressions of all rules and of the priority.
func (s *Set) Costs() []Cost {
	var all []Cost
	for _, r := range s.rules {
		all = append(all, Cost{"rule", r.Name, "require", s.worst(r.require)})
		if r.message != nil {
			all = append(all, Cost{"rule", r.Name, "messageExpression", s.worst(r.message)})
		}
	}
	if s.priority != nil {
		all = append(all, Cost{Of: "priority", Worst: s.worst(s.priority)})
	}
	return all
}

// compiler makes a Set of a Declaration.
type compiler struct {
	env      *cel.Env
	provider *provider
	options  []cel.ProgramOption
	history  bool
	declared []Variable
	set      *Set
	problems []*Problem
}

func newCompiler(schema *Schema, history bool) (*compiler, error) {
	p := newProvider(schema)
	environment, err := newEnvironment(p, history)
	if err != nil {
		return nil, fmt.Errorf("set up CEL: %w", err)
	}
	set := &Set{schema: schema, fields: p.fields()}
	set.pool.New = func() any { return new(evaluation) }
	return &compiler{env: environment, provider: p, options: programOptions(MaxCost), history: history, set: set}, nil
}

func (c *compiler) count(what string, n, limit int) {
	if n > limit {
		c.refuse(place{}, "Take some out, or say more in one.", "there are %d %s, at most %d are allowed", n, what, limit)
	}
}

// variable compiles a variable and declares it for the expressions after it.
func (c *compiler) variable(v Variable) {
	at := place{"variable", v.Name, ""}
	if err := spec.CheckIdentifier(v.Name); err != nil {
		c.refuse(place{of: "variable"}, "", "%s", err)
		return
	}
	if c.provider.has(variablesType, v.Name) {
		c.refuse(at, "Rename one of them.", "there are two variables of this name")
		return
	}
	x := c.expression(at, v.Expression, nil)
	if x == nil {
		return
	}
	if !isPlain(x.kind) {
		c.refuse(at, "A variable is a bool, number, text, time or duration, or a list of such or of purchases.",
			"a variable cannot be of type %s", cel.FormatCELType(x.kind))
		return
	}
	if c.costs(at, x) > MaxCost {
		x.worst = 0 // reported already: do not blame the expressions that use it
	}
	i := len(c.set.variables)
	c.set.variables = append(c.set.variables, variable{v.Name, *x})
	c.provider.objects[variablesType] = append(c.provider.objects[variablesType],
		field{v.Name, x.kind, func(from any) (ref.Val, error) { return from.(*evaluation).variable(i) }})
}

// isPlain reports whether a variable may have a type: its size must be known.
func isPlain(t *types.Type) bool {
	switch t.Kind() {
	case types.BoolKind, types.IntKind, types.UintKind, types.DoubleKind, types.StringKind, types.BytesKind,
		types.TimestampKind, types.DurationKind:
		return true
	case types.ListKind:
		element := t.Parameters()[0]
		return element.Kind() != types.ListKind && isPlain(element) || element.TypeName() == purchaseType
	}
	return false
}

var ruleName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

func (c *compiler) rule(r Rule) {
	if !ruleName.MatchString(r.Name) {
		c.refuse(place{of: "rule"}, "Write small letters, digits and hyphens, such as members-only, at most 63.", "%q is no name for a rule", r.Name)
	}
	if slices.ContainsFunc(c.set.rules, func(other rule) bool { return other.Name == r.Name }) {
		c.refuse(place{"rule", r.Name, "name"}, "Rename one of them.", "there are two rules of this name")
	}
	if r.Enforce == "" {
		r.Enforce = Deny
	}
	if r.Enforce != Deny && r.Enforce != Audit {
		c.refuse(place{"rule", r.Name, "enforce"}, "Write deny or audit.", "%q is no way to enforce a rule", r.Enforce)
	}
	c.checkMessage(r)
	compiled := rule{Rule: r, refusal: r.Message}
	if r.Message == "" {
		compiled.refusal = fmt.Sprintf("the rule %s does not allow this claim", r.Name)
	}
	require := place{"rule", r.Name, "require"}
	if compiled.require = c.expression(require, r.Require, types.BoolType); compiled.require != nil {
		c.costs(require, compiled.require)
	}
	if r.MessageExpression != "" {
		at := place{"rule", r.Name, "messageExpression"}
		if compiled.message = c.expression(at, r.MessageExpression, types.StringType); compiled.message != nil {
			c.costs(at, compiled.message)
		}
	}
	c.set.rules = append(c.set.rules, compiled)
}

func (c *compiler) checkMessage(r Rule) {
	at := place{"rule", r.Name, "message"}
	switch {
	case len(r.Message) > MaxMessage:
		c.refuse(at, "Shorten it.", "the message has %d bytes, at most %d are allowed", len(r.Message), MaxMessage)
	case !utf8.ValidString(r.Message) || strings.ContainsFunc(r.Message, func(r rune) bool { return !unicode.IsPrint(r) }):
		c.refuse(at, "Write it in one line, without control characters.", "the message is more than one line of text")
	}
}

// priority compiles the expression for the order of a queue.
func (c *compiler) priority(text string) *expression {
	at := place{of: "priority"}
	x := c.expression(at, text, nil)
	if x == nil {
		return nil
	}
	if k := x.kind.Kind(); k != types.IntKind && k != types.DoubleKind {
		c.refuseAt(at, text, 1, 0, "Write an expression that is an int or a double.",
			fmt.Sprintf("a priority is a number, and this is %s", article(x.kind)))
	}
	c.costs(at, x)
	return x
}

// expression compiles one expression. If want is not nil the result must have that type. It returns
// nil after a problem.
func (c *compiler) expression(at place, text string, want *types.Type) *expression {
	if strings.TrimSpace(text) == "" {
		c.refuse(at, "Write an expression in CEL, such as user.known.", "there is no expression")
		return nil
	}
	if !utf8.ValidString(text) {
		c.refuse(at, "Save it as UTF-8.", "the expression is not UTF-8")
		return nil
	}
	if n := utf8.RuneCountInString(text); n > MaxExpression {
		c.refuse(at, "Move parts of it into variables or into rules of their own.", "the expression has %d characters, at most %d are allowed", n, MaxExpression)
		return nil
	}
	parsed, issues := c.env.Parse(text)
	if issues.Err() != nil {
		c.issues(at, text, nil, issues)
		return nil
	}
	checked, issues := c.env.Check(parsed)
	if issues.Err() != nil {
		c.issues(at, text, parsed, issues)
		return nil
	}
	if kind := checked.OutputType(); want != nil && !kind.IsExactType(want) {
		c.refuseAt(at, text, 1, 0, expected(want), fmt.Sprintf("this is %s and not %s", article(kind), article(want)))
		return nil
	}
	if !c.deterministic(at, text, checked) {
		return nil
	}
	program, err := c.env.Program(checked, c.options...)
	if err != nil {
		c.refuseAt(at, text, 1, 0, "", err.Error())
		return nil
	}
	estimate, err := c.env.EstimateCost(checked, sizes{})
	if err != nil {
		c.refuseAt(at, text, 1, 0, "", err.Error())
		return nil
	}
	x := &expression{text: text, program: program, kind: checked.OutputType(), worst: estimate.Max}
	if x.worst <= MaxUncounted && !loops(checked) {
		if x.quick, err = c.env.Program(checked, evalOptions); err != nil {
			c.refuseAt(at, text, 1, 0, "", err.Error())
			return nil
		}
	}
	c.names(x, checked)
	return x
}

// loops reports whether an expression has a macro with a loop, such as all, exists or map.
func loops(checked *cel.Ast) bool {
	return len(ast.MatchDescendants(ast.NavigateAST(checked.NativeRep()), ast.KindMatcher(ast.ComprehensionKind))) > 0
}

func expected(t *types.Type) string {
	if t.Kind() == types.BoolKind {
		return "Write a condition, such as user.level >= 3."
	}
	return `Write a text, such as "you have " + string(user.level) + " points".`
}

func article(t *types.Type) string {
	name := cel.FormatCELType(t)
	if strings.ContainsRune("aeiou", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}
