package api

import (
	"encoding"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"
)

// object is one of the document.
type object map[string]any

// theDocument returns the OpenAPI document.
func theDocument(t *testing.T) object {
	t.Helper()
	var d object
	if err := yaml.Unmarshal([]byte(OpenAPI), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func (o object) at(keys ...string) object {
	for _, key := range keys {
		o, _ = o[key].(object)
	}
	return o
}

// follow returns what an object refers to, or itself.
func (o object) follow(document object) object {
	if ref, ok := o["$ref"].(string); ok {
		return document.at(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	return o
}

// outcomesOf are the outcomes that a schema permits; nil: it has none.
func outcomesOf(document, schema object) (all []Outcome) {
	schema = schema.follow(document)
	for _, word := range asSlice(schema.at("properties", "outcome").follow(document)["enum"]) {
		all = append(all, Outcome(word.(string)))
	}
	for _, part := range asSlice(schema["allOf"]) { // the last one has most
		if more := outcomesOf(document, part.(object)); more != nil {
			all = more
		}
	}
	return all
}

func asSlice(v any) []any { s, _ := v.([]any); return s }

// answersOf are the outcomes of the answers in the document, as "status outcome", and by which
// operations.
func answersOf(t *testing.T, document object) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for path, item := range document.at("paths") {
		for method, v := range item.(object) {
			operation, ok := v.(object)
			if !ok || operation["responses"] == nil {
				continue
			}
			for status, response := range operation.at("responses") {
				for _, media := range response.(object).follow(document).at("content") {
					for _, outcome := range outcomesOf(document, media.(object).at("schema")) {
						key := status + " " + string(outcome)
						all[key] = append(all[key], method+" "+path)
					}
				}
			}
		}
	}
	return all
}

// Each outcome stands in the document with its status, and with no other but these.
func TestOpenAPIHasTheOutcomes(t *testing.T) {
	document := theDocument(t)
	var words []string
	for _, row := range Outcomes() {
		words = append(words, string(row.Outcome))
	}
	if got := fmt.Sprint(document.at("components", "schemas", "Outcome")["enum"]); got != fmt.Sprint(words) {
		t.Errorf("the schema Outcome has %s\nwant %s", got, words)
	}
	// An answer of 200 has a claim as it is, and what HTTP has a status for has that.
	// A payment service sends a message again that is answered with 503.
	others := []string{
		"200 sold", "200 held", "200 entered", "200 not_drawn", "200 expired", "200 cancelled", "200 refunded", "200 not_held", "200 ignored",
		"400 bad_request", "413 bad_request", "415 bad_request", "503 overloaded", "503 not_open",
	}
	want := slices.Clone(others)
	for _, row := range Outcomes() {
		want = append(want, strconv.Itoa(row.Status)+" "+string(row.Outcome))
	}
	got := answersOf(t, document)
	for _, one := range want {
		if got[one] == nil {
			t.Errorf("no operation of the document is answered with %s", one)
		}
	}
	for one, by := range got {
		if !slices.Contains(want, one) {
			t.Errorf("the document has the answer %s of %s", one, by)
		}
	}
	for _, one := range []string{"503 overloaded", "503 not_open", "200 ignored", "200 not_held"} {
		if len(got[one]) != 1 || !strings.HasSuffix(got[one][0], "/webhooks/payment") {
			t.Errorf("%s is the answer of %s, and only webhooks have it", one, got[one])
		}
	}
}

// The problem documents of the responses have the status under which they stand.
func TestOpenAPIHasTheStatus(t *testing.T) {
	document := theDocument(t)
	for path, item := range document.at("paths") {
		for method, v := range item.(object) {
			operation, _ := v.(object)
			for status, response := range operation.at("responses") {
				schema := response.(object).follow(document).at("content", TypeProblem, "schema")
				if schema == nil {
					continue
				}
				parts := asSlice(schema.follow(document)["allOf"])
				if got := fmt.Sprint(parts[1].(object).at("properties", "status")["enum"]); got != "["+status+"]" {
					t.Errorf("%s %s: under %s stands the status %s", method, path, status, got)
				}
			}
		}
	}
}

// The schemas are those of the types: each field, of the same kind, and required where it is
// never left out.
func TestOpenAPIHasTheTypes(t *testing.T) {
	document := theDocument(t)
	types := map[string]any{
		"Claim": Claim{}, "User": User{}, "WebhookAnswer": WebhookAnswer{}, "Problem": Problem{}, "Sale": Sale{},
		"Sales": Sales{}, "SaleSummary": SaleSummary{}, "Readiness": Readiness{}, "Share": Share{},
		"ClaimRequest": Request{}, "DrainRequest": DrainRequest{},
	}
	held := map[string]bool{}
	for name, of := range types {
		compare(t, document, name, reflect.TypeOf(of), held)
	}
	// Where a server does not define the required fields of a body, or a field has a request's own sort
	// of settlement.
	settlement := map[string]bool{}
	for _, name := range []string{"ConfirmRequest", "CancelRequest", "RefundRequest", "ReturnRequest"} {
		held[name] = true
		for field := range document.at("components", "schemas", name, "properties") {
			settlement[field] = true
		}
	}
	for field := range fieldsOf(reflect.TypeFor[Settlement]()) {
		if !settlement[field] {
			t.Errorf("no settlement of the document has %s", field)
		}
		delete(settlement, field)
	}
	if len(settlement) > 0 {
		t.Errorf("settlements of the document have also %v", settlement)
	}
	// Those that are no objects of their own.
	for _, name := range []string{"Outcome", "UserID", "ClaimID", "Units", "Digest", "AcceptedClaim", "ExtendRequest", "BareProblem"} {
		held[name] = true
	}
	for name := range document.at("components", "schemas") {
		if !held[name] && !strings.HasSuffix(name, "Problem") { // of a status: TestOpenAPIHasTheStatus
			t.Errorf("the schema %s is of no type", name)
		}
	}
}

type field struct {
	of       reflect.Type
	required bool
}

// fieldsOf are a struct's fields as JSON has them.
func fieldsOf(of reflect.Type) map[string]field {
	all := map[string]field{}
	for _, f := range reflect.VisibleFields(of) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "-" && !f.Anonymous {
			all[name] = field{f.Type, !strings.Contains(options, "omit")}
		}
	}
	return all
}

// compare compares a schema with a struct, and those that they have in them.
func compare(t *testing.T, document object, name string, of reflect.Type, held map[string]bool) {
	t.Helper()
	if held[name] {
		return
	}
	held[name] = true
	schema := document.at("components", "schemas", name)
	required := asSlice(schema["required"])
	properties := schema.at("properties")
	fields := fieldsOf(of)
	for property := range properties {
		if _, ok := fields[property]; !ok {
			t.Errorf("%s: the document has the field %s, and %s has not", name, property, of)
		}
	}
	for _, property := range slices.Sorted(maps.Keys(fields)) {
		f := fields[property]
		v, ok := properties[property].(object)
		if !ok {
			t.Errorf("%s: %s has the field %s, and the document has not", name, of, property)
			continue
		}
		// What a request may leave out its Go client always sends.
		if must := slices.Contains(required, any(property)); must != f.required && !strings.HasSuffix(name, "Request") {
			t.Errorf("%s: %s is required in the document: %v, and in %s: %v", name, property, must, of, f.required)
		}
		compareValue(t, document, name+"."+property, v, f.of, held)
	}
}

func compareValue(t *testing.T, document object, at string, schema object, of reflect.Type, held map[string]bool) {
	t.Helper()
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	ref, _ := schema["$ref"].(string)
	whole := schema.follow(document)
	want := ""
	switch kind := of.Kind(); {
	case of == reflect.TypeFor[time.Time]():
		want = "string"
		if whole["format"] != "date-time" {
			t.Errorf("%s: is a time, and has the format %v", at, whole["format"])
		}
	case of.Implements(reflect.TypeFor[encoding.TextMarshaler]()), kind == reflect.String:
		want = "string"
	case kind == reflect.Bool:
		want = "boolean"
	case kind == reflect.Float64:
		want = "number"
	case kind == reflect.Slice:
		want = "array"
		if items, ok := whole["items"].(object); ok {
			compareValue(t, document, at+"[]", items, of.Elem(), held)
		}
	case kind == reflect.Struct:
		want = "object"
		compare(t, document, ref[strings.LastIndex(ref, "/")+1:], of, held)
	case kind == reflect.Map:
		want = "object"
	default:
		want = "integer"
	}
	if whole["type"] != want {
		t.Errorf("%s: is of type %v in the document, and in Go %s", at, whole["type"], of)
	}
}

// Each word that a field may have is a constant, and each constant is one of the words.
func TestOpenAPIHasTheWords(t *testing.T) {
	phases := constants(t, "../backends/ledger/phase.go", "Phase")
	processes, moves, shards := constants(t, "wire.go", "Process"), constants(t, "wire.go", "Move"), constants(t, "wire.go", "Shard")
	schemas := theDocument(t).at("components", "schemas")
	for _, one := range []struct {
		schema, field string
		words         []string
		except        []string // of these a server has another answer
	}{
		{"Sale", "phase", phases, []string{"planned", "sealed", "destroyed", "unknown"}},
		{"SaleSummary", "phase", phases, nil},
		{"Process", "state", processes, nil},
		{"Share", "state", processes, nil},
		{"Move", "stage", moves, nil},
		{"Shard", "state", shards, nil},
	} {
		var want, got []string
		for _, word := range one.words {
			if !slices.Contains(one.except, word) {
				want = append(want, word)
			}
		}
		for _, word := range asSlice(schemas.at(one.schema, "properties", one.field)["enum"]) {
			got = append(got, word.(string))
		}
		slices.Sort(got)
		slices.Sort(want)
		if len(want) < 4 || !slices.Equal(got, want) {
			t.Errorf("%s.%s may be %q in the document, and in Go %q", one.schema, one.field, got, want)
		}
	}
}

// constants are the texts of a file's constants whose names have a prefix and more.
func constants(t *testing.T, path, prefix string) (all []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		of, ok := d.(*ast.GenDecl)
		if !ok || of.Tok != token.CONST {
			continue
		}
		for _, spec := range of.Specs {
			v := spec.(*ast.ValueSpec)
			if name := v.Names[0].Name; !strings.HasPrefix(name, prefix) {
				continue
			}
			text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, text)
		}
	}
	return all
}

// The limits of requests are those that are checked. A byte is the least that a character
// takes.
func TestOpenAPIHasTheLimits(t *testing.T) {
	schemas := theDocument(t).at("components", "schemas")
	claim := schemas.at("ClaimRequest", "properties")
	for at, one := range map[string]struct {
		got  any
		want int
	}{
		"user":     {schemas.at("UserID")["maxLength"], MaxUser},
		"quantity": {claim.at("quantity")["maximum"], MaxQuantity},
		"units":    {claim.at("units")["maxItems"], MaxNames},
		"name":     {claim.at("units", "items")["maxLength"], MaxName},
		"payment":  {schemas.at("ConfirmRequest", "properties", "payment")["maxLength"], MaxPayment},
		"who":      {schemas.at("CancelRequest", "properties", "who")["maxLength"], MaxWho},
		"reason":   {schemas.at("RefundRequest", "properties", "reason")["maxLength"], MaxReason},
	} {
		if one.got != one.want {
			t.Errorf("%s: the document permits %v, want %d", at, one.got, one.want)
		}
	}
}

// Every operation has a name of its own, and defines the answer to a method that it has not.
func TestOpenAPIOperations(t *testing.T) {
	document := theDocument(t)
	names := map[string]bool{}
	for path, item := range document.at("paths") {
		for method, v := range item.(object) {
			operation, ok := v.(object)
			if !ok {
				continue
			}
			name, _ := operation["operationId"].(string)
			if name == "" || names[name] {
				t.Errorf("%s %s has the name %q", method, path, name)
			}
			names[name] = true
			for _, status := range []int{http.StatusMethodNotAllowed, http.StatusForbidden} {
				if operation.at("responses")[strconv.Itoa(status)] == nil {
					t.Errorf("%s %s has no answer %d", method, path, status)
				}
			}
		}
	}
}
