package rules

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"cel.dev/cel-go/common/decls"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// Names that rules can use. The CEL type of an object has the name of the object.
const (
	userName      = "user"
	claimName     = "claim"
	saleName      = "sale"
	historyName   = "history"
	nowName       = "now"
	variablesName = "variables"

	fieldID    = "id"
	fieldKnown = "known"
)

// purchaseType is the name of the CEL type of an element of history. No expression can write it.
const purchaseType = "a purchase"

var (
	purchaseObject = types.NewObjectType(purchaseType)
	historyType    = types.NewListType(purchaseObject)
)

// field is a field of an object that expressions can read. get receives the *evaluation, or the
// *purchase for a field of a purchase. It returns nil if there is no value.
type field struct {
	name string
	kind *types.Type
	get  func(from any) (ref.Val, error)
}

// MissingError reports that an evaluation read a missing value.
type MissingError struct{ Name string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is missing", e.Name)
}

// provider declares names to CEL, and the fields of the objects among them. Variables are added one
// by one, so that each sees only those before it.
type provider struct {
	types.Provider // of new objects: there are none
	names          []*decls.VariableDecl
	objects        map[string][]field // by name, and that of purchaseType
}

func object(name string) *decls.VariableDecl {
	return decls.NewVariable(name, types.NewObjectType(name))
}

// newProvider returns the provider of rules.
func newProvider(s *Schema, history bool) *provider {
	user := []field{
		{fieldID, types.StringType, func(from any) (ref.Val, error) { return from.(*evaluation).in.User.record().boxed, nil }},
		{fieldKnown, types.BoolType, func(from any) (ref.Val, error) { return types.Bool(from.(*evaluation).in.User.Known()), nil }},
	}
	for i, a := range s.attributes {
		user = append(user, field{a.Name, celTypes[a.Type], func(from any) (ref.Val, error) {
			return from.(*evaluation).in.User.at(s, i), nil
		}})
	}
	names := []*decls.VariableDecl{
		object(userName), object(claimName), object(saleName), decls.NewVariable(nowName, types.TimestampType), object(variablesName),
	}
	if history {
		names = append(names, decls.NewVariable(historyName, historyType))
	}
	return &provider{types.NewEmptyRegistry(), names, map[string][]field{
		userName: user, claimName: claimFields, saleName: saleFields, purchaseType: purchaseFields, variablesName: nil,
	}}
}

var claimFields = []field{
	{"quantity", types.IntType, func(from any) (ref.Val, error) { return types.Int(from.(*evaluation).in.Claim.Quantity), nil }},
	{"key", types.StringType, func(from any) (ref.Val, error) { return textValue(from.(*evaluation).in.Claim.Key), nil }},
	{"at", types.TimestampType, func(from any) (ref.Val, error) { return instant(from.(*evaluation).in.Claim.At), nil }},
}

var saleFields = []field{
	{"name", types.StringType, func(from any) (ref.Val, error) { return textValue(from.(*evaluation).in.Sale.Name), nil }},
	{"stock", types.IntType, func(from any) (ref.Val, error) { return types.Int(from.(*evaluation).in.Sale.Stock), nil }},
	{"perUserLimit", types.IntType, func(from any) (ref.Val, error) { return types.Int(from.(*evaluation).in.Sale.PerUserLimit), nil }},
	{"opensAt", types.TimestampType, func(from any) (ref.Val, error) { return instant(from.(*evaluation).in.Sale.OpensAt), nil }},
	{"closesAt", types.TimestampType, func(from any) (ref.Val, error) { return instant(from.(*evaluation).in.Sale.ClosesAt), nil }},
}

var purchaseFields = []field{
	{"sale", types.StringType, func(from any) (ref.Val, error) { return textValue(from.(*purchase).Sale), nil }},
	{"units", types.IntType, func(from any) (ref.Val, error) { return types.Int(from.(*purchase).Units), nil }},
	{"at", types.TimestampType, func(from any) (ref.Val, error) { return instant(from.(*purchase).At), nil }},
}

func textValue(s string) ref.Val {
	if s == "" {
		return nil
	}
	return types.String(s)
}

func instant(t time.Time) ref.Val {
	if t.IsZero() {
		return nil
	}
	return types.Timestamp{Time: t.UTC()}
}

// object returns the name of the object of a type. It is empty for any other type, and for an element
// of history, which has no name.
func (p *provider) object(of *types.Type) string {
	name := of.TypeName()
	if _, ok := p.objects[name]; !ok || name == purchaseType {
		return ""
	}
	return name
}

func (p *provider) find(object, name string) (field, bool) {
	i := slices.IndexFunc(p.objects[object], func(f field) bool { return f.name == name })
	if i < 0 {
		return field{}, false
	}
	return p.objects[object][i], true
}

// FindStructFieldType implements types.Provider.
func (p *provider) FindStructFieldType(structType, name string) (*types.FieldType, bool) {
	f, ok := p.find(structType, name)
	if !ok {
		return nil, false
	}
	// Shared by all evaluations: CEL wraps it each time.
	missing := &MissingError{Name: structType + "." + name}
	if structType == purchaseType {
		missing.Name = "the purchase's " + name
	}
	return &types.FieldType{
		Type: f.kind,
		IsSet: func(from any) bool {
			v, err := f.get(from)
			return err == nil && v != nil
		},
		GetFrom: func(from any) (any, error) {
			v, err := f.get(from)
			if err == nil && v == nil {
				return nil, missing
			}
			return v, err
		},
	}, true
}

// FindStructType implements types.Provider.
func (p *provider) FindStructType(structType string) (*types.Type, bool) {
	if _, ok := p.objects[structType]; !ok {
		return nil, false
	}
	return types.NewTypeTypeWithParam(types.NewObjectType(structType)), true
}

// FindStructFieldNames implements types.Provider.
func (p *provider) FindStructFieldNames(structType string) ([]string, bool) {
	fields, ok := p.objects[structType]
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	return names, ok
}

// EnumValue implements types.Provider. A registry has the enums of protobuf.
func (p *provider) EnumValue(name string) ref.Val { return types.NewErr("unknown enum name %q", name) }

// FindIdent implements types.Provider. There are no identifiers besides names.
func (p *provider) FindIdent(string) (ref.Val, bool) { return nil, false }

// purchase is an element of history as a CEL value.
type purchase struct{ Purchase }

// Type implements ref.Val.
func (p *purchase) Type() ref.Type { return purchaseObject }

// Value implements ref.Val.
func (p *purchase) Value() any { return p }

// Equal implements ref.Val.
func (p *purchase) Equal(other ref.Val) ref.Val {
	q, ok := other.(*purchase)
	return types.Bool(ok && p.Sale == q.Sale && p.Units == q.Units && p.At.Equal(q.At))
}

// String returns the purchase for people.
func (p *purchase) String() string {
	return fmt.Sprintf("%d of %s at %s", p.Units, p.Sale, p.At.UTC().Format(time.RFC3339Nano))
}

// ConvertToNative implements ref.Val. It always fails.
func (p *purchase) ConvertToNative(to reflect.Type) (any, error) {
	return nil, fmt.Errorf("a purchase is no %v", to)
}

// ConvertToType implements ref.Val. It always fails.
func (p *purchase) ConvertToType(to ref.Type) ref.Val {
	return types.NewErr("a purchase is no %s", to.TypeName())
}
