package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"salectl/spec"
)

// Predicates about payments read JSON of any form from another program. So it is known only at
// evaluation whether response.body.state exists. Other names, fields of fixed objects and result
// types are checked at compilation, as in rules. The cost of an evaluation is limited while it
// runs, since the size of the JSON is unknown before.

// Scope is the set of names that predicates of one kind can use.
type Scope int

// Scopes of predicates.
const (
	// CheckScope has response.status, response.body, claim.id, claim.user, claim.quantity,
	// sale.name and sale.run.
	CheckScope Scope = iota
	// WebhookScope has event, sale.name and sale.run.
	WebhookScope
)

// Predicate is a compiled expression about a payment. It is immutable and safe for concurrent use.
type Predicate struct {
	program cel.Program
}

// PredicateInput is the input of a predicate. Body and Event are results of ParseJSON.
type PredicateInput struct {
	Status   int64
	Body     any
	Event    any
	Claim    string // the claim's id
	User     string
	Quantity int64
	Sale     string
	Run      int64
}

// Names and types in payment predicates.
const (
	responseName = "response"
	eventName    = "event"

	responseType  = "payments.Response"
	heldClaimType = "payments.Claim"
	heldSaleType  = "payments.Sale"
)

func toldField(name string, kind *types.Type, get func(*PredicateInput) ref.Val) field {
	return field{name, kind, func(from any) (ref.Val, error) { return get(from.(*PredicateInput)), nil }}
}

// toldObjects are the objects of both scopes.
var toldObjects = &provider{objects: map[string][]field{
	responseType: {
		toldField("status", types.IntType, func(t *PredicateInput) ref.Val { return types.Int(t.Status) }),
		toldField("body", types.DynType, func(t *PredicateInput) ref.Val { return types.DefaultTypeAdapter.NativeToValue(t.Body) }),
	},
	heldClaimType: {
		toldField("id", types.StringType, func(t *PredicateInput) ref.Val { return types.String(t.Claim) }),
		toldField("user", types.StringType, func(t *PredicateInput) ref.Val { return types.String(t.User) }),
		toldField("quantity", types.IntType, func(t *PredicateInput) ref.Val { return types.Int(t.Quantity) }),
	},
	heldSaleType: {
		toldField("name", types.StringType, func(t *PredicateInput) ref.Val { return types.String(t.Sale) }),
		toldField("run", types.IntType, func(t *PredicateInput) ref.Val { return types.Int(t.Run) }),
	},
}}

// toldNames returns the names of a scope and their types.
func (s Scope) toldNames() ([]string, map[string]*types.Type) {
	if s == CheckScope {
		return []string{responseName, claimName, saleName}, map[string]*types.Type{
			responseName: types.NewObjectType(responseType), claimName: types.NewObjectType(heldClaimType), saleName: types.NewObjectType(heldSaleType),
		}
	}
	return []string{eventName, saleName}, map[string]*types.Type{eventName: types.DynType, saleName: types.NewObjectType(heldSaleType)}
}

// ResolveName implements cel.Activation.
func (t *PredicateInput) ResolveName(name string) (any, bool) {
	switch name {
	case responseName, claimName, saleName:
		return t, true
	case eventName:
		return types.DefaultTypeAdapter.NativeToValue(t.Event), true
	}
	return nil, false
}

// Parent implements cel.Activation.
func (t *PredicateInput) Parent() cel.Activation { return nil }

// toldEnvironments returns the environments of the scopes, made on first use.
var toldEnvironments = [...]func() (*cel.Env, error){
	CheckScope:   sync.OnceValues(func() (*cel.Env, error) { return newToldEnvironment(CheckScope) }),
	WebhookScope: sync.OnceValues(func() (*cel.Env, error) { return newToldEnvironment(WebhookScope) }),
}

func newToldEnvironment(s Scope) (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.CustomTypeProvider(toldObjects),
		cel.CrossTypeNumericComparisons(true), // a JSON number is an int or a double, depending on its notation
	}
	_, kinds := s.toldNames()
	for name, kind := range kinds {
		options = append(options, cel.Variable(name, kind))
	}
	return newCEL(options...)
}

// Condition compiles an expression of type bool.
func (s Scope) Condition(text string) (*Predicate, error) {
	return s.compile(text, types.BoolType, `Write a condition, such as `+map[Scope]string{
		CheckScope: `response.body.state == "paid".`, WebhookScope: `event.type == "payment.paid".`}[s])
}

// Reference compiles an expression whose value is a text or a whole number.
func (s Scope) Reference(text string) (*Predicate, error) {
	return s.compile(text, types.StringType, `Write what is text, such as `+map[Scope]string{
		CheckScope: `response.body.id.`, WebhookScope: `event.data.id.`}[s])
}

// compile compiles an expression. A *spec.Problem describes an invalid one, with line and column in
// the expression.
func (s Scope) compile(text string, want *types.Type, remedy string) (*Predicate, error) {
	environment, err := toldEnvironments[s]()
	if err != nil {
		return nil, fmt.Errorf("set up CEL: %w", err)
	}
	if n := utf8.RuneCountInString(text); n > MaxExpression || !utf8.ValidString(text) {
		return nil, problemIn(text, 1, 0, fmt.Sprintf("the expression is not UTF-8, or has %d characters: at most %d are allowed", n, MaxExpression), "Shorten it.")
	}
	parsed, issues := environment.Parse(text)
	if issues.Err() != nil {
		return nil, s.issue(text, nil, issues)
	}
	checked, issues := environment.Check(parsed)
	if issues.Err() != nil {
		return nil, s.issue(text, parsed, issues)
	}
	kind := checked.OutputType()
	if !kind.IsExactType(want) && kind.Kind() != types.DynKind && (want.Kind() != types.StringKind || kind.Kind() != types.IntKind && kind.Kind() != types.UintKind) {
		return nil, problemIn(text, 1, 0, fmt.Sprintf("this is %s and not %s", article(kind), article(want)), remedy)
	}
	program, err := environment.Program(checked, programOptions(MaxCost)...)
	if err != nil {
		return nil, problemIn(text, 1, 0, err.Error(), "")
	}
	return &Predicate{program}, nil
}

// issue returns the first error that CEL has found.
func (s Scope) issue(text string, parsed *cel.Ast, issues *cel.Issues) *spec.Problem {
	e := issues.Errors()[0]
	line, column := e.Location.Line(), e.Location.Column()
	if m := undefinedField.FindStringSubmatch(e.Message); m != nil {
		column = fieldAt(text, line, column, m[1])
	}
	message, remedy := s.reword(e.Message, exprOf(parsed, e.ExprID))
	return problemIn(text, line, column, message, remedy)
}

// reword rephrases CEL's errors about names, fields and types.
func (s Scope) reword(message string, at ast.Expr) (reworded, remedy string) {
	known, kinds := s.toldNames()
	if m := undefinedField.FindStringSubmatch(message); m != nil && at != nil && at.Kind() == ast.SelectKind {
		owner := "this"
		if operand := at.AsSelect().Operand(); operand.Kind() == ast.IdentKind {
			owner = operand.AsIdent()
		}
		if kind := kinds[owner]; kind != nil {
			return fmt.Sprintf("%s has no field %q", owner, m[1]), oneOf(m[1], toldObjects.names(kind.TypeName()), "field")
		}
	}
	if m := undeclared.FindStringSubmatch(message); m != nil {
		if at != nil && at.Kind() == ast.CallKind {
			return fmt.Sprintf("there is no function %s()", m[1]), oneOf(m[1], functions, "function")
		}
		first, _, _ := strings.Cut(m[1], ".")
		return fmt.Sprintf("%q is not known", m[1]), oneOf(first, known, "name")
	}
	if m := noOverload.FindStringSubmatch(message); m != nil {
		return wrongTypes(m[1], m[2])
	}
	if syntax, is := strings.CutPrefix(message, "Syntax error: "); is {
		return "this is no CEL: " + syntaxExpecting.ReplaceAllString(syntax, ""), "Complete the expression or correct it here."
	}
	return message, ""
}

// problemIn returns a problem at a line (from 1) and a column (from 0) of an expression.
func problemIn(text string, line, column int, message, remedy string) *spec.Problem {
	lines := strings.Split(text, "\n")
	line = min(max(line, 1), len(lines))
	return &spec.Problem{File: "expression", Line: line, Column: max(column, 0) + 1, Source: lines[line-1], Message: message, Remedy: remedy}
}

// Holds evaluates a condition. It returns an error if the condition has no value: it reads a
// missing field, has another type, or costs too much.
func (p *Predicate) Holds(t *PredicateInput) (bool, error) {
	val, err := p.eval(t)
	if err != nil {
		return false, err
	}
	is, ok := val.(types.Bool)
	if !ok {
		return false, fmt.Errorf("it is of type %s and not a bool", val.Type().TypeName())
	}
	return bool(is), nil
}

// Text evaluates a reference. It returns a whole number in decimal digits.
func (p *Predicate) Text(t *PredicateInput) (string, error) {
	val, err := p.eval(t)
	switch val := val.(type) {
	case types.String:
		return string(val), nil
	case types.Int:
		return strconv.FormatInt(int64(val), 10), nil
	case types.Uint:
		return strconv.FormatUint(uint64(val), 10), nil
	case nil:
		return "", err
	default:
		return "", fmt.Errorf("it is of type %s, and neither text nor a whole number", val.Type().TypeName())
	}
}

func (p *Predicate) eval(t *PredicateInput) (ref.Val, error) {
	val, _, err := p.program.Eval(t)
	switch {
	case err != nil && tooCostly(err):
		return nil, errors.New("it costs too much")
	case err != nil:
		return nil, err
	}
	return val, nil
}

// ParseJSON parses one JSON value for predicates. A number without fraction and exponent becomes an
// int or a uint if it fits, and any other that fits becomes a double. Values that no type can hold
// become text as written, a number's digits or the content of a string's quotes. So different ids
// stay different. A duplicate member of an object is an error: the sender may mean either.
func ParseJSON(text []byte) (any, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	d := json.NewDecoder(bytes.NewReader(text))
	var whole json.RawMessage
	if err := d.Decode(&whole); err != nil {
		return nil, fmt.Errorf("it is no JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is no JSON: something follows the first value")
	}
	d = json.NewDecoder(bytes.NewReader(whole))
	d.UseNumber()
	return parseValue(d, whole)
}

// parseValue parses the next value of d, which reads text.
func parseValue(d *json.Decoder, text []byte) (any, error) {
	before := d.InputOffset()
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Number:
		return parseNumber(token.String()), nil
	case string:
		if strings.ContainsRune(token, utf8.RuneError) { // it may replace an invalid character
			written := bytes.TrimLeft(text[before:d.InputOffset()], " \t\r\n:,")
			return string(written[1 : len(written)-1]), nil
		}
		return token, nil
	case json.Delim:
		if token == '[' {
			return parseList(d, text)
		}
		return parseObject(d, text)
	}
	return token, nil
}

func parseList(d *json.Decoder, text []byte) (any, error) {
	all := []any{}
	for d.More() {
		v, err := parseValue(d, text)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	_, err := d.Token() // the end
	return all, err
}

func parseObject(d *json.Decoder, text []byte) (any, error) {
	all := map[string]any{}
	for d.More() {
		name, err := parseValue(d, text)
		if err != nil {
			return nil, err
		}
		key := name.(string)
		if _, twice := all[key]; twice {
			return nil, fmt.Errorf("it has %q twice in one object", oneLine(key))
		}
		if all[key], err = parseValue(d, text); err != nil {
			return nil, err
		}
	}
	_, err := d.Token() // the end
	return all, err
}

func parseNumber(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && strings.ContainsAny(text, ".eE") {
		return f
	}
	return text
}
