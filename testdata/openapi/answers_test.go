package openapi

import (
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	"github.com/pb33f/libopenapi-validator/content"
	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
)

// unseen are the answers of the document that the test does not provoke, with the reason.
var unseen = map[string]string{
	"openStream 503 application/problem+json": "only between SIGTERM and the end of the connection, some microseconds; executor/httpd has a test of it",
}

// everywhere are headers that need not be declared; of the last the document's text speaks.
var everywhere = []string{"Cache-Control", "Connection", "Content-Length", "Content-Type", "Date", "X-Request-Id"}

// operation is one of the document.
type operation struct {
	name, method, path string
	admin              bool             // the admin address alone has it
	declared           map[int][]string // the media types of each status
	headers            map[int][]string // and the headers
}

// world is what the test works with: the document as a server gives it, a server with tokens,
// and one without, on standby, which reaches no process that owns a shard.
type world struct {
	t          *testing.T
	shop, idle *server
	validator  validator.Validator // objects have no fields but those of the document
	lax        validator.Validator // where the document leaves open which
	operations map[string]*operation
	seen       map[string]bool // "operation status media type"
	users      int
	gone       bool // the sale of that name is destroyed
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, shop: start(t, "--token-file", "tokens"), idle: start(t, "--standby"),
		operations: make(map[string]*operation), seen: make(map[string]bool),
	}
	r, err := http.Get(w.shop.buyers + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r.Body)
	r.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	document, err := libopenapi.NewDocument(text)
	if err != nil {
		t.Fatal(err)
	}
	model, err := document.BuildV3Model()
	if err != nil {
		t.Fatal(err)
	}
	options := []config.Option{config.WithFormatAssertions(), config.WithStandardBodyDecoders(), config.WithRejectUnsupportedBodyContent()}
	for _, media := range []string{"text/event-stream", "application/vnd.salectl.stream+protobuf", "application/vnd.google.protobuf"} {
		options = append(options, config.WithBodyDecoder(media, content.TextDecoder()))
	}
	var errs, more []error
	w.lax, errs = validator.NewValidator(document, options...)
	w.validator, more = validator.NewValidator(document, append(options, config.WithStrictMode())...)
	if errs = append(errs, more...); len(errs) > 0 {
		t.Fatal(errs)
	}
	if ok, faults := w.validator.ValidateDocument(); !ok {
		t.Errorf("the document is not valid: %v", faults)
	}
	for path, item := range model.Model.Paths.PathItems.FromOldest() {
		for method, o := range item.GetOperations().FromOldest() {
			w.add(&model.Model, path, item, strings.ToUpper(method), o)
		}
	}
	return w
}

// add notes an operation of the document.
func (w *world) add(document *v3.Document, path string, item *v3.PathItem, method string, o *v3.Operation) {
	if len(item.Servers) > 0 || len(document.Servers) != 1 {
		w.t.Errorf("%s has servers of its own, or the document several: generators take another host for them", path)
	}
	one := &operation{name: o.OperationId, method: method, path: path, declared: make(map[int][]string), headers: make(map[int][]string)}
	if at := item.Extensions.GetOrZero("x-salectl-address"); at != nil {
		one.admin = at.Value == "admin"
	}
	for code, response := range o.Responses.Codes.FromOldest() {
		status := 0
		if _, err := fmt.Sscan(code, &status); err != nil {
			w.t.Fatal(err)
		}
		one.declared[status] = slices.Collect(response.Content.KeysFromOldest())
		one.headers[status] = slices.Collect(response.Headers.KeysFromOldest())
	}
	w.operations[one.name] = one
}

// check holds an answer, whose body was read, against the document.
func (w *world) check(o *operation, sent *http.Request, got *http.Response, body string) {
	w.t.Helper()
	media, _, _ := mime.ParseMediaType(got.Header.Get("Content-Type"))
	w.seen[fmt.Sprint(o.name, " ", got.StatusCode, " ", media)] = true
	// Some requests have a method on purpose that the document lacks.
	asked := sent.Clone(w.t.Context())
	asked.Method = o.method
	got.Body = io.NopCloser(strings.NewReader(body))
	v := w.validator
	if o.name == "getOpenAPI" {
		v = w.lax
	}
	if ok, faults := v.ValidateHttpResponse(asked, got); !ok {
		for _, fault := range faults {
			w.t.Errorf("%s %d: %s: %s %v\n%.2000s", o.name, got.StatusCode, fault.Message, fault.Reason, fault.SchemaValidationErrors, body)
		}
	}
	if declared := o.declared[got.StatusCode]; !slices.Contains(declared, media) {
		w.t.Errorf("%s %d has the Content-Type %q, and the document declares %q", o.name, got.StatusCode, media, declared)
	}
	for name := range got.Header {
		isName := func(declared string) bool { return http.CanonicalHeaderKey(declared) == name }
		if !slices.ContainsFunc(o.headers[got.StatusCode], isName) && !slices.Contains(everywhere, name) {
			w.t.Errorf("%s %d has the header %s, which the document does not declare", o.name, got.StatusCode, name)
		}
	}
}

// TestAnswers calls each operation so that each of its declared answers comes about, and also
// in ways that bring others an answer that it does not have. It holds each answer against the
// document: status, headers and body.
func TestAnswers(t *testing.T) {
	w := newWorld(t)
	for _, name := range slices.Sorted(maps.Keys(w.operations)) {
		o := w.operations[name]
		for _, status := range slices.Sorted(maps.Keys(o.declared)) {
			if w.excepted(o, status) {
				continue
			}
			if got := w.provoke(o, status); got != status {
				t.Errorf("%s was to be answered with %d, and is with %d", name, status, got)
			}
		}
		w.misuse(o)
	}
	w.others()

	for _, o := range w.operations {
		for status, types := range o.declared {
			for _, media := range types {
				one := fmt.Sprint(o.name, " ", status, " ", media)
				if reason, listed := unseen[one]; listed == w.seen[one] {
					t.Errorf("the answer %s was seen: %t; that it is not to be seen: %q", one, w.seen[one], reason)
				}
			}
		}
	}
	for _, one := range slices.Concat(slices.Collect(maps.Keys(unseen)), slices.Collect(maps.Keys(special))) {
		var name string
		var status int
		if _, err := fmt.Sscan(one, &name, &status); err != nil || w.operations[name] == nil || w.operations[name].declared[status] == nil {
			t.Errorf("the document declares no answer %s", one)
		}
	}
}

// excepted reports whether the test provokes no answer of that status.
func (w *world) excepted(o *operation, status int) bool {
	for _, media := range o.declared[status] {
		if unseen[fmt.Sprint(o.name, " ", status, " ", media)] == "" {
			return false
		}
	}
	return true
}
