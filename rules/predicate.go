package rules

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/decls"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"salectl/spec"
)

// Predicates about payments read JSON of any form from another program. So it is known only at
// evaluation whether response.body.state exists. Other names, fields of fixed objects and result
// types are checked at compilation, as in rules. The cost of an evaluation is limited while it
// runs, since the size of the JSON is unknown before.

// scope is the set of names that predicates of one kind can use. Its texts are the remedies for
// conditions and references of a wrong type.
type scope struct {
	condition, reference string
	compiler             func() (compiler, error) // made on first use
}

var (
	checkScope = newScope(`response.body.state == "paid".`, "response.body.id.", object(responseName), object(claimName), object(saleName))

	webhookScope = newScope(`event.type == "payment.paid".`, "event.data.id.", decls.NewVariable(eventName, types.DynType), object(saleName))
)

// Types of conditions, and of references: a text or a whole number. JSON of the payment service has any type.
var (
	truths = []*types.Type{types.BoolType, types.DynType}
	texts  = []*types.Type{types.StringType, types.IntType, types.UintType, types.DynType}
)

func newScope(condition, reference string, names ...*decls.VariableDecl) *scope {
	return &scope{"Write a condition, such as " + condition, "Write an expression that is text, such as " + reference, sync.OnceValues(func() (compiler, error) {
		p := &provider{types.NewEmptyRegistry(), names, map[string][]field{}}
		for _, n := range names {
			p.objects[n.Name()] = inputObjects[n.Name()]
		}
		// A JSON number is an int or a double, depending on its notation.
		environment, err := newEnvironment(p, cel.CrossTypeNumericComparisons(true))
		return compiler{provider: p, env: environment}, err
	})}
}

// Conditions are the compiled expressions of a payment check or a webhook.
type Conditions struct {
	Success, Failure *Predicate // conditions; Failure may be nil: never true
	Payment, Claim   *Predicate // references, or nil: the claim's id
}

// ForPayments compiles the expressions of a sale's check and webhook, which are nil if the sale has
// none. The error contains all problems, as that of ForSale. The expressions of a check read
// response.status, response.body, claim.id, claim.user, claim.quantity, sale.name and sale.run, and
// those of a webhook event, sale.name and sale.run.
func ForPayments(s spec.Sale) (check, webhook *Conditions, err error) {
	if s.Payment == nil {
		return nil, nil, nil
	}
	var problems []error
	conditions := func(of *scope, path, success, failure, payment, claim string) *Conditions {
		c, failed := of.compiler()
		if failed != nil {
			err = failed
			return nil
		}
		c.sale = s
		all := &Conditions{
			c.predicate(path+"success", success, of.condition, truths...), c.predicate(path+"failure", failure, of.condition, truths...),
			c.predicate(path+"payment", payment, of.reference, texts...), c.predicate(path+"claim", claim, of.reference, texts...),
		}
		problems = append(problems, c.problems...)
		return all
	}
	if p := s.Payment.Check; p != nil {
		check = conditions(checkScope, "spec.payment.check.", p.Success, p.Failure, p.Payment, "")
	}
	if p := s.Payment.Webhook; p != nil {
		webhook = conditions(webhookScope, "spec.payment.webhook.", p.Success, p.Failure, p.Payment, p.Claim)
	}
	return check, webhook, cmp.Or(err, spec.Join(problems))
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

// Names in payment predicates, beside claim and sale.
const (
	responseName = "response"
	eventName    = "event"
)

func inputField(name string, kind *types.Type, get func(*PredicateInput) ref.Val) field {
	return field{name, kind, func(from any) (ref.Val, error) { return get(from.(*PredicateInput)), nil }}
}

// inputObjects are the objects of both scopes.
var inputObjects = map[string][]field{
	responseName: {
		inputField("status", types.IntType, func(t *PredicateInput) ref.Val { return types.Int(t.Status) }),
		inputField("body", types.DynType, func(t *PredicateInput) ref.Val { return types.DefaultTypeAdapter.NativeToValue(t.Body) }),
	},
	claimName: {
		inputField("id", types.StringType, func(t *PredicateInput) ref.Val { return types.String(t.Claim) }),
		inputField("user", types.StringType, func(t *PredicateInput) ref.Val { return types.String(t.User) }),
		inputField("quantity", types.IntType, func(t *PredicateInput) ref.Val { return types.Int(t.Quantity) }),
	},
	saleName: {
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

// predicate compiles an expression whose value is of a type in want. It returns nil after a problem, and
// for an absent expression.
func (c *compiler) predicate(path, text, remedy string, want ...*types.Type) *Predicate {
	if text == "" {
		return nil
	}
	at, before := place{path, path}, len(c.problems)
	checked := c.check(at, text, remedy, want...)
	if checked == nil {
		c.problems = c.problems[:before+1] // others of a short expression follow from the first
		return nil
	}
	program, err := c.env.Program(checked, programOptions(MaxCost)...)
	if err != nil {
		c.refuseAt(at, text, 1, 0, "", err.Error())
		return nil
	}
	return &Predicate{program}
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
func ParseJSON(text []byte) (any, error) { return parseJSON(text, parseNumber) }

// parseJSON is ParseJSON with another conversion of numbers.
func parseJSON(text []byte, number func(string) any) (any, error) {
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
	return parseValue(d, whole, number)
}

// misread is the error of ParseJSON, with its place in the text in bytes.
type misread struct {
	error
	at int64
}

// parseValue parses the next value of d, which reads text.
func parseValue(d *json.Decoder, text []byte, number func(string) any) (any, error) {
	before := d.InputOffset()
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Number:
		return number(token.String()), nil
	case string:
		if strings.ContainsRune(token, utf8.RuneError) { // it may replace an invalid character
			written := bytes.TrimLeft(text[before:d.InputOffset()], " \t\r\n:,")
			return string(written[1 : len(written)-1]), nil
		}
		return token, nil
	case json.Delim:
		list, members := []any{}, map[string]any{}
		for d.More() {
			v, err := parseValue(d, text, number)
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
			if members[name], err = parseValue(d, text, number); err != nil {
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
