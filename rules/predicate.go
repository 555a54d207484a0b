package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// Predicates about payments read JSON of any form from another program. So it is known only at
// evaluation whether response.body.state exists. Other names, fields of fixed objects and result
// types are checked at compilation, as in rules. The cost of an evaluation is limited while it
// runs, since the size of the JSON is unknown before.

// Scope is the set of names that predicates of one kind can use. Its texts are examples of conditions
// and references.
type Scope struct {
	condition, reference string
	compiler             func() (compiler, error) // made on first use
}

// Scopes of predicates.
var (
	// CheckScope has response.status, response.body, claim.id, claim.user, claim.quantity,
	// sale.name and sale.run.
	CheckScope = newScope(`response.body.state == "paid".`, "response.body.id.",
		object(responseName, responseType), object(claimName, heldClaimType), object(saleName, heldSaleType))
	// WebhookScope has event, sale.name and sale.run.
	WebhookScope = newScope(`event.type == "payment.paid".`, "event.data.id.",
		declared{eventName, types.DynType}, object(saleName, heldSaleType))
)

func newScope(condition, reference string, names ...declared) *Scope {
	return &Scope{condition, reference, sync.OnceValues(func() (compiler, error) {
		p := &provider{names, inputObjects}
		// A JSON number is an int or a double, depending on its notation.
		environment, err := newEnvironment(p, cel.CrossTypeNumericComparisons(true))
		return compiler{provider: p, env: environment}, err
	})}
}

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

func inputField(name string, kind *types.Type, get func(*PredicateInput) ref.Val) field {
	return field{name, kind, func(from any) (ref.Val, error) { return get(from.(*PredicateInput)), nil }}
}

// inputObjects are the objects of both scopes.
var inputObjects = map[string][]field{
	responseType: {
		inputField("status", types.IntType, func(t *PredicateInput) ref.Val { return types.Int(t.Status) }),
		inputField("body", types.DynType, func(t *PredicateInput) ref.Val { return types.DefaultTypeAdapter.NativeToValue(t.Body) }),
	},
	heldClaimType: {
		inputField("id", types.StringType, func(t *PredicateInput) ref.Val { return types.String(t.Claim) }),
		inputField("user", types.StringType, func(t *PredicateInput) ref.Val { return types.String(t.User) }),
		inputField("quantity", types.IntType, func(t *PredicateInput) ref.Val { return types.Int(t.Quantity) }),
	},
	heldSaleType: {
		inputField("name", types.StringType, func(t *PredicateInput) ref.Val { return types.String(t.Sale) }),
		inputField("run", types.IntType, func(t *PredicateInput) ref.Val { return types.Int(t.Run) }),
	},
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

// Condition compiles an expression of type bool.
func (s *Scope) Condition(text string) (*Predicate, error) {
	return s.compile(text, types.BoolType, "Write a condition, such as "+s.condition)
}

// Reference compiles an expression whose value is a text or a whole number.
func (s *Scope) Reference(text string) (*Predicate, error) {
	return s.compile(text, types.StringType, "Write an expression that is text, such as "+s.reference, types.IntKind, types.UintKind)
}

// compile compiles an expression whose value is of type want, or of one of other kinds. A *spec.Problem
// describes an invalid one, with line and column in the expression.
func (s *Scope) compile(text string, want *types.Type, remedy string, others ...types.Kind) (*Predicate, error) {
	c, err := s.compiler()
	if err != nil {
		return nil, err
	}
	at := place{of: "expression"}
	checked := c.check(at, text)
	if checked == nil {
		return nil, c.problems[0]
	}
	if kind := checked.OutputType(); !kind.IsExactType(want) && !slices.Contains(append(others, types.DynKind), kind.Kind()) {
		c.refuseAt(at, text, 1, 0, remedy, fmt.Sprintf("this is %s and not %s", article(kind), article(want)))
		return nil, c.problems[0]
	}
	program, err := c.env.Program(checked, programOptions(MaxCost)...)
	if err != nil {
		c.refuseAt(at, text, 1, 0, "", err.Error())
		return nil, c.problems[0]
	}
	return &Predicate{program}, nil
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
		at := int64(len(text))
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			at = syntax.Offset - 1
		}
		return nil, &misread{fmt.Errorf("it is no JSON: %w", err), at}
	}
	end := d.InputOffset()
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, &misread{errors.New("it is no JSON: something follows the first value"), end}
	}
	d = json.NewDecoder(bytes.NewReader(whole))
	d.UseNumber()
	return parseValue(d, whole)
}

// misread is the error of ParseJSON, with its place in the text in bytes.
type misread struct {
	error
	at int64
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
		list, members := []any{}, map[string]any{}
		for d.More() {
			v, err := parseValue(d, text)
			if err != nil {
				return nil, err
			}
			if token == '[' {
				list = append(list, v)
				continue
			}
			name := v.(string)
			if _, twice := members[name]; twice {
				return nil, &misread{fmt.Errorf("it has %q twice in one object", oneLine(name)), d.InputOffset()}
			}
			if members[name], err = parseValue(d, text); err != nil {
				return nil, err
			}
		}
		_, err := d.Token() // the end
		if token == '[' {
			return list, err
		}
		return members, err
	}
	return token, nil
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
