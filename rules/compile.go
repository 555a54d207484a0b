package rules

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"salectl/spec"
)

// Set is the compiled rules of a sale. It is immutable and safe for concurrent use.
type Set struct {
	schema    *Schema
	variables []variable
	rules     []rule
	priority  *expression // nil: none
	hash      Digest
	provider  *provider
	pool      sync.Pool // of *evaluation
}

type rule struct {
	spec.Rule
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
	own     uint64   // worst-case cost without variables
	worst   uint64   // worst-case cost, with each variable counted once; math.MaxUint64: unbounded
	reads   []string // names that it reads itself, such as user.level, sorted
	uses    []int    // indices of the variables that it needs directly or through others, sorted
}

// ForSale compiles the rules of a sale. It returns nil if the sale has neither rules nor a
// priority. The error contains all problems, each a *spec.Problem at its place in the sale's file if
// the sale comes from a file. Any other error comes from CEL itself.
func ForSale(s spec.Sale) (*Set, error) {
	if !evaluates(s) && len(s.Variables) == 0 {
		return nil, nil
	}
	c, err := newCompiler(s)
	if err != nil {
		return nil, fmt.Errorf("the rules of sale %s: %w", s.Name, err)
	}
	for i, v := range s.Variables {
		c.variable(v, fmt.Sprintf("spec.variables[%d].expression", i))
	}
	for i, r := range s.Rules {
		c.rule(r, fmt.Sprintf("spec.rules[%d].", i))
	}
	if text := priorityOf(s); text != "" {
		c.set.priority = c.expression(place{"priority", "spec.queue.priority"}, text,
			"Write an expression that is an int or a double.", types.IntType, types.DoubleType)
	}
	if err := spec.Join(c.problems); err != nil || !evaluates(s) {
		return nil, err // without rules and priority, the variables alone were checked
	}
	c.set.hash = hashOf(s)
	return c.set, nil
}

// HashFor returns the hash of the set that ForSale returns, without compiling it. It also works for
// a declaration stored by another version of this program. It reports false if there is no set.
func HashFor(s spec.Sale) (Digest, bool) {
	if !evaluates(s) {
		return Digest{}, false
	}
	return hashOf(s), true
}

func evaluates(s spec.Sale) bool { return len(s.Rules) > 0 || priorityOf(s) != "" }

func priorityOf(s spec.Sale) string {
	if s.Queue == nil {
		return ""
	}
	return s.Queue.Priority
}

// Hash identifies the rules, variables, attributes, priority and tables of a set. Equal
// declarations have equal hashes on every host and in every version.
func (s *Set) Hash() Digest { return s.hash }

// Schema returns the schema of the users that the set's rules read.
func (s *Set) Schema() *Schema { return s.schema }

// hashOf hashes all that a decision depends on. Rules cannot read the tables of users and history, but
// decisions based on different tables differ.
func hashOf(s spec.Sale) Digest {
	content := struct {
		Users     *spec.Users
		History   *spec.History
		Variables []spec.Variable
		Rules     []spec.Rule
		Priority  string
	}{s.Users, s.History, s.Variables, s.Rules, priorityOf(s)}
	if s.Users != nil {
		content.Users = &spec.Users{Attributes: s.Users.Attributes, Table: s.Users.Table}
	}
	text, err := json.Marshal(content)
	if err != nil {
		panic(err) // texts and lists of texts only
	}
	return sha256.Sum256(append([]byte("salectl.rules.v1\x00"), text...))
}

// Costs returns the worst-case costs, in units of CEL and with each variable counted once, of the
// conditions of the rules as "rule NAME", and of the "priority". Each is at most MaxCost.
func (s *Set) Costs() map[string]uint64 {
	costs := map[string]uint64{}
	for _, r := range s.rules {
		costs["rule "+r.Name] = r.require.worst
	}
	if s.priority != nil {
		costs["priority"] = s.priority.worst
	}
	return costs
}

// compiler compiles expressions that use the names of a provider.
type compiler struct {
	provider *provider
	env      *cel.Env
	problems []error

	// The fields below are for the rules of a sale.
	sale    spec.Sale
	options []cel.ProgramOption
	set     *Set
}

func newCompiler(s spec.Sale) (*compiler, error) {
	schema := SchemaFor(s)
	p := newProvider(schema, s.History != nil)
	environment, err := newEnvironment(p, ruleOptions...)
	if err != nil {
		return nil, err
	}
	set := &Set{schema: schema, provider: p}
	set.pool.New = func() any { return new(evaluation) }
	return &compiler{provider: p, env: environment, sale: s, options: programOptions(MaxCost), set: set}, nil
}

// variable compiles a variable and declares it for the expressions after it.
func (c *compiler) variable(v spec.Variable, path string) {
	at := place{"variable " + v.Name, path}
	x := c.expression(at, v.Expression, "")
	if x == nil {
		return
	}
	if !isPlain(x.kind) {
		c.refuse(at, "A variable is a bool, number, text, time or duration, or a list of such or of purchases.",
			"a variable cannot be of type %s", cel.FormatCELType(x.kind))
		return
	}
	if x.worst > MaxCost {
		x.own = 0 // reported already: do not blame the expressions that use it
	}
	i := len(c.set.variables)
	c.set.variables = append(c.set.variables, variable{v.Name, *x})
	c.provider.objects[variablesName] = append(c.provider.objects[variablesName],
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

func (c *compiler) rule(r spec.Rule, path string) {
	at := func(key string) place { return place{"rule " + r.Name + ", " + key, path + key} }
	c.checkMessage(at("message"), r.Message)
	compiled := rule{Rule: r, refusal: r.Message}
	if r.Message == "" {
		compiled.refusal = fmt.Sprintf("the rule %s does not allow this claim", r.Name)
	}
	compiled.require = c.expression(at("require"), r.Require, "Write a condition, such as user.level >= 3.", types.BoolType)
	if r.MessageExpression != "" {
		compiled.message = c.expression(at("messageExpression"), r.MessageExpression,
			`Write a text, such as "you have " + string(user.level) + " points".`, types.StringType)
	}
	c.set.rules = append(c.set.rules, compiled)
}

func (c *compiler) checkMessage(at place, text string) {
	switch {
	case len(text) > MaxMessage:
		c.refuse(at, "Shorten it.", "the message has %d bytes, at most %d are allowed", len(text), MaxMessage)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		c.refuse(at, "Write it in one line, without control characters.", "the message is more than one line of text")
	}
}

// check parses and type-checks an expression. If there are types in want, the result must have one of
// them; remedy is for another one. It returns nil after a problem.
func (c *compiler) check(at place, text, remedy string, want ...*types.Type) *cel.Ast {
	switch n := utf8.RuneCountInString(text); {
	case strings.TrimSpace(text) == "":
		c.refuse(at, "Write an expression in CEL, such as user.known.", "there is no expression")
		return nil
	case !utf8.ValidString(text):
		c.refuse(at, "Save it as UTF-8.", "the expression is not UTF-8")
		return nil
	case n > MaxExpression:
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
	if kind := checked.OutputType(); len(want) > 0 && !slices.ContainsFunc(want, kind.IsExactType) {
		c.refuseAt(at, text, 1, 0, remedy, fmt.Sprintf("this is %s and not %s", article(kind), article(want[0])))
		return nil
	}
	return checked
}

// expression compiles one expression of a rule, and reports a problem if it may cost more than
// MaxCost. The other parameters and the result are those of check.
func (c *compiler) expression(at place, text, remedy string, want ...*types.Type) *expression {
	checked := c.check(at, text, remedy, want...)
	if checked == nil || !c.deterministic(at, text, checked) {
		return nil
	}
	x := &expression{text: text, kind: checked.OutputType()}
	estimate, err := c.env.EstimateCost(checked, sizes{})
	if err == nil {
		x.program, err = c.env.Program(checked, c.options...)
	}
	if err == nil && estimate.Max <= MaxUncounted && !loops(checked) {
		x.quick, err = c.env.Program(checked, evalOptions)
	}
	if err != nil {
		c.refuseAt(at, text, 1, 0, "", err.Error())
		return nil
	}
	c.names(x, checked)
	x.own, x.worst = estimate.Max, estimate.Max
	for _, i := range x.uses {
		x.worst = cost.SafeAdd(x.worst, c.set.variables[i].own)
	}
	remedy = fmt.Sprintf("Compare fewer or shorter values, or loop less: a list counts with %d elements and a text with %d bytes.", MaxList, MaxText)
	switch {
	case x.worst == math.MaxUint64:
		c.refuse(at, remedy, "its worst-case cost has no bound, at most %d is allowed", MaxCost)
	case x.worst > MaxCost:
		c.refuse(at, remedy, "its worst-case cost is %d, at most %d is allowed", x.worst, MaxCost)
	}
	return x
}

// loops reports whether an expression has a macro with a loop, such as all, exists or map.
func loops(checked *cel.Ast) bool {
	return len(ast.MatchDescendants(ast.NavigateAST(checked.NativeRep()), ast.KindMatcher(ast.ComprehensionKind))) > 0
}

func article(t *types.Type) string {
	name := cel.FormatCELType(t)
	if strings.ContainsRune("aeiou", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}
