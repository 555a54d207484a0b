package wire

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor"
)

var wellFormed = map[string]struct {
	body     string
	user     string
	quantity int64
}{
	"both":              {`{"user":"u-1","quantity":3}`, "u-1", 3},
	"behind a mark":     {"\ufeff" + `{"user":"u-1","quantity":3}`, "u-1", 3},
	"other order":       {`{"quantity":1000,"user":"u-1"}`, "u-1", 1000},
	"quantity left out": {`{"user":"u-1"}`, "u-1", 1},
	"space everywhere":  {" {\t\"user\" :\r\n\"u 1\" , \"quantity\" : 2 } \n", "u 1", 2},
	"escapes":           {`{"user":"\"\\\/\u00e9"}`, `"\/é`, 1},
	"surrogates":        {`{"user":"\uD83C\uDFAB"}`, "🎫", 1},
	"escaped name":      {`{"\u0075ser":"u-1"}`, "u-1", 1},
	"other scripts":     {`{"user":"用户�"}`, "用户�", 1},
	"longest user":      {`{"user":"` + strings.Repeat("u", 255) + `"}`, strings.Repeat("u", 255), 1},
}

func TestParseClaim(t *testing.T) {
	for name, c := range wellFormed {
		t.Run(name, func(t *testing.T) {
			r, f := ParseClaim([]byte(c.body))
			if f != nil {
				t.Fatalf("refused: %s", f.Detail)
			}
			if r.User != c.user || r.Quantity != c.quantity || r.Names != nil || r.Adjacent {
				t.Errorf("got %+v, want %q, %d", r, c.user, c.quantity)
			}
		})
	}
}

func TestParseClaimThatChooses(t *testing.T) {
	for body, want := range map[string]executor.Request{
		`{"user":"u","units":["A1","A2"]}`:              {User: "u", Quantity: 2, Names: []string{"A1", "A2"}},
		` {"units" : [ "\u0041" ] , "user":"u"} `:       {User: "u", Quantity: 1, Names: []string{"A"}},
		`{"user":"u","quantity":2,"units":["A1","A2"]}`: {User: "u", Quantity: 2, Names: []string{"A1", "A2"}},
		`{"user":"u","quantity":3,"adjacent":true}`:     {User: "u", Quantity: 3, Adjacent: true},
		`{"user":"u","adjacent":false}`:                 {User: "u", Quantity: 1},
	} {
		if r, f := ParseClaim([]byte(body)); f != nil || !reflect.DeepEqual(r, want) {
			t.Errorf("%s is %+v, %v", body, r, f)
		}
	}
}

var malformedBodies = map[string]struct {
	body   string
	status int
	detail string // a part of it
}{
	"empty":                {``, 400, "must be a JSON object"},
	"array":                {`[]`, 400, "must be a JSON object"},
	"string":               {`"u-1"`, 400, "must be a JSON object"},
	"null":                 {`null`, 400, "must be a JSON object"},
	"form":                 {`user=u-1`, 400, "must be a JSON object"},
	"cut after brace":      {`{`, 400, "a field's name"},
	"cut in name":          {`{"us`, 400, "no end"},
	"cut after name":       {`{"user"`, 400, `"user": a colon`},
	"cut after colon":      {`{"user":`, 400, "user: must be a string"},
	"cut in value":         {`{"user":"u`, 400, "user: the string has no end"},
	"cut in escape":        {`{"user":"u\`, 400, "user: the string has no end"},
	"cut after value":      {`{"user":"u"`, 400, "user: a comma or the end"},
	"cut after comma":      {`{"user":"u",`, 400, "a field's name"},
	"trailing comma":       {`{"user":"u",}`, 400, "a field's name"},
	"no comma":             {`{"user":"u" "quantity":1}`, 400, "user: a comma"},
	"no colon":             {`{"user" "u"}`, 400, "a colon"},
	"bare name":            {`{user:"u"}`, 400, "double quotes"},
	"single quotes":        {`{'user':'u'}`, 400, "double quotes"},
	"two objects":          {`{"user":"u"}{"user":"v"}`, 400, "something follows"},
	"garbage behind":       {`{"user":"u"} x`, 400, "something follows"},
	"comment":              {`{"user":"u"/**/}`, 400, "a comma or the end"},
	"unknown field":        {`{"user":"u","colour":"red"}`, 400, `"colour": unknown field`},
	"long unknown field":   {`{"` + strings.Repeat("x", 1000) + `":1}`, 400, `x"…: unknown field`},
	"name in capitals":     {`{"User":"u"}`, 400, `"User": unknown field`},
	"user twice":           {`{"user":"u","user":"u"}`, 400, "user: given twice"},
	"user twice, escaped":  {`{"user":"u","\u0075ser":"v"}`, 400, "user: given twice"},
	"quantity twice":       {`{"quantity":1,"user":"u","quantity":1}`, 400, "quantity: given twice"},
	"user missing":         {`{"quantity":1}`, 400, "user: missing"},
	"nothing":              {`{}`, 400, "user: missing"},
	"user a number":        {`{"user":7}`, 400, "user: must be a string"},
	"user null":            {`{"user":null}`, 400, "user: must be a string"},
	"user an object":       {`{"user":{"id":"u"}}`, 400, "user: must be a string"},
	"raw control":          {"{\"user\":\"a\tb\"}", 400, "user: must not contain control"},
	"broken UTF-8":         {"{\"user\":\"a\xff\"}", 400, "user: must be UTF-8"},
	"half a pair":          {`{"user":"\ud83c"}`, 400, "user: has a bad escape"},
	"half a pair, more":    {`{"user":"\ud83cabcdef"}`, 400, "user: has a bad escape"},
	"low surrogate first":  {`{"user":"\udfab\ud83c"}`, 400, "user: has a bad escape"},
	"escape of nothing":    {`{"user":"\q"}`, 400, "user: has a bad escape"},
	"escape too short":     {`{"user":"\u12"}`, 400, "user: has a bad escape"},
	"escape not hex":       {`{"user":"\u00g0"}`, 400, "user: has a bad escape"},
	"quantity quoted":      {`{"user":"u","quantity":"1"}`, 400, "quantity: must be an integer"},
	"quantity null":        {`{"user":"u","quantity":null}`, 400, "quantity: must be an integer"},
	"quantity true":        {`{"user":"u","quantity":true}`, 400, "quantity: must be an integer"},
	"quantity a list":      {`{"user":"u","quantity":[1]}`, 400, "quantity: must be an integer"},
	"quantity 1.0":         {`{"user":"u","quantity":1.0}`, 400, "quantity: must be an integer"},
	"quantity 1e0":         {`{"user":"u","quantity":1e0}`, 400, "quantity: must be an integer"},
	"quantity 1E0":         {`{"user":"u","quantity":1E0}`, 400, "quantity: must be an integer"},
	"quantity 01":          {`{"user":"u","quantity":01}`, 400, "quantity: must be an integer"},
	"quantity +1":          {`{"user":"u","quantity":+1}`, 400, "quantity: must be an integer"},
	"quantity - 1":         {`{"user":"u","quantity":- 1}`, 400, "quantity: must be an integer"},
	"quantity 1x":          {`{"user":"u","quantity":1x}`, 400, "quantity: a comma"},
	"quantity 0x1":         {`{"user":"u","quantity":0x1}`, 400, "quantity: a comma"},
	"quantity NaN":         {`{"user":"u","quantity":NaN}`, 400, "quantity: must be an integer"},
	"user empty":           {`{"user":""}`, 422, "user: must not be empty"},
	"user too long":        {`{"user":"` + strings.Repeat("u", 256) + `"}`, 422, "user: 256 bytes are too many"},
	"user with a newline":  {`{"user":"a\nb"}`, 422, "user: must not contain control"},
	"user with a NUL":      {`{"user":"a\u0000b"}`, 422, "user: must not contain control"},
	"user with a C1":       {`{"user":"a\u0085b"}`, 422, "user: must not contain control"},
	"quantity 0":           {`{"user":"u","quantity":0}`, 422, "quantity: must be from 1 to 1000"},
	"quantity -0":          {`{"user":"u","quantity":-0}`, 422, "quantity: must be from 1 to 1000"},
	"quantity -1":          {`{"user":"u","quantity":-1}`, 422, "quantity: must be from 1 to 1000"},
	"quantity 1001":        {`{"user":"u","quantity":1001}`, 422, "quantity: must be from 1 to 1000"},
	"quantity beyond all":  {`{"user":"u","quantity":18446744073709551617}`, 422, "quantity: must be from 1 to 1000"},
	"quantity below all":   {`{"user":"u","quantity":-99999999999999999999}`, 422, "quantity: must be from 1 to 1000"},
	"units of no name":     {`{"user":"u","units":[]}`, 422, "units: must be 1 to 100 names"},
	"units twice":          {`{"user":"u","units":["A","A"]}`, 422, `units: "A" is named twice`},
	"an empty name":        {`{"user":"u","units":[""]}`, 422, "units: a name has 1 to"},
	"another quantity":     {`{"user":"u","units":["A"],"quantity":2}`, 422, "quantity: is 2, and 1 units are named"},
	"units side by side":   {`{"user":"u","units":["A"],"adjacent":true}`, 422, "adjacent: goes with a quantity"},
	"units of numbers":     {`{"user":"u","units":[1]}`, 400, "units: must be a string"},
	"units that are one":   {`{"user":"u","units":"A"}`, 400, "units: must be a list of strings"},
	"units without an end": {`{"user":"u","units":["A"`, 400, "units: a comma or the end of the list"},
	"a word for adjacent":  {`{"user":"u","adjacent":"yes"}`, 400, "adjacent: must be true or false"},
	"form before contents": {`{"user":"","quantity":1.5}`, 400, "quantity: must be an integer"},
}

func TestParseClaimRefuses(t *testing.T) {
	for name, c := range malformedBodies {
		t.Run(name, func(t *testing.T) {
			r, f := ParseClaim([]byte(c.body))
			if f == nil {
				t.Fatalf("accepted as %+v", r)
			}
			if f.Status != c.status || !strings.Contains(f.Detail, c.detail) {
				t.Errorf("got %d %q, want %d and %q in it", f.Status, f.Detail, c.status, c.detail)
			}
		})
	}
}

// FuzzParseClaim holds the parser against encoding/json, made as strict as it
// can be: both accept the same bodies, for the same reasons, as the same claim.
func FuzzParseClaim(f *testing.F) {
	for _, c := range wellFormed {
		f.Add([]byte(c.body))
	}
	for _, c := range malformedBodies {
		f.Add([]byte(c.body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > streampb.MaxMessage {
			return // never reaches the parser
		}
		claim, got := ParseClaim(body)
		status := http.StatusOK
		if got != nil {
			status = got.Status
			if !utf8.ValidString(got.Detail) {
				t.Errorf("detail %q is not UTF-8", got.Detail)
			}
		}
		want, wantStatus := oracle(body)
		if status != wantStatus {
			t.Fatalf("status %d (%v), encoding/json says %d", status, got, wantStatus)
		}
		if got == nil && !reflect.DeepEqual(claim, want) {
			t.Fatalf("read as %+v, encoding/json says %+v", claim, want)
		}
	})
}

// oracle reads a claim with encoding/json and returns the status it deserves.
func oracle(body []byte) (r executor.Request, status int) {
	const bad, unacceptable = http.StatusBadRequest, http.StatusUnprocessableEntity
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	if !json.Valid(body) || !utf8.Valid(body) || hasHalfSurrogate(body) {
		return r, bad
	}
	in := json.NewDecoder(bytes.NewReader(body))
	if first, _ := in.Token(); first != json.Delim('{') {
		return r, bad
	}
	seen := map[string]bool{}
	var number json.Number
	var names []*string
	for in.More() {
		key, _ := in.Token()
		field := key.(string)
		var raw json.RawMessage
		if err := in.Decode(&raw); err != nil || seen[field] {
			return r, bad
		}
		seen[field] = true
		var err error
		switch kind := raw[0]; {
		case field == "user" && kind == '"':
			err = json.Unmarshal(raw, &r.User)
		case field == "quantity" && (kind == '-' || kind >= '0' && kind <= '9') && !bytes.ContainsAny(raw, ".eE"):
			number = json.Number(raw)
		case field == "units" && kind == '[':
			err = json.Unmarshal(raw, &names)
		case field == "adjacent" && (kind == 't' || kind == 'f'):
			err = json.Unmarshal(raw, &r.Adjacent)
		default:
			return r, bad
		}
		if err != nil || slices.Contains(names, nil) {
			return r, bad
		}
	}
	if !seen["user"] {
		return r, bad
	}
	r.Quantity = 1
	if seen["quantity"] {
		var err error
		if r.Quantity, err = number.Int64(); err != nil {
			r.Quantity = -1
		}
	}
	if seen["units"] {
		for _, name := range names {
			if *name == "" || slices.Contains(r.Names, *name) {
				return r, unacceptable
			}
			r.Names = append(r.Names, *name)
		}
		n := int64(len(names))
		if n == 0 || n > 100 || seen["quantity"] && r.Quantity != n || r.Adjacent {
			return r, unacceptable
		}
		r.Quantity = n
	}
	if api.CheckUser(r.User) != nil || r.Quantity < 1 || r.Quantity > 1000 {
		return r, unacceptable
	}
	return r, http.StatusOK
}

// hasHalfSurrogate reports whether a valid document has half a surrogate pair in a
// string. encoding/json replaces those, so decoding to text and encoding again
// would not show them; they are looked for escape by escape.
func hasHalfSurrogate(body []byte) bool {
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' {
			continue
		}
		var unit string
		if body[i+1] == 'u' {
			unit = strings.ToLower(string(body[i+2 : i+6]))
		}
		switch {
		case unit >= "d800" && unit < "dc00":
			low := body[i+6:]
			if len(low) < 6 || low[0] != '\\' || low[1] != 'u' {
				return true
			}
			if next := strings.ToLower(string(low[2:6])); next < "dc00" || next > "dfff" {
				return true
			}
			i += 11
		case unit >= "dc00" && unit <= "dfff":
			return true
		default:
			i++
		}
	}
	return false
}
