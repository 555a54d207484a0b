package httpd

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"salectl/api"
)

var wellFormed = map[string]struct {
	body     string
	user     string
	quantity int64
}{
	"both":              {`{"user":"u-1","quantity":3}`, "u-1", 3},
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
			user, quantity, f := parseClaim([]byte(c.body))
			if f != nil {
				t.Fatalf("refused: %s", f.detail)
			}
			if user != c.user || quantity != c.quantity {
				t.Errorf("got %q, %d, want %q, %d", user, quantity, c.user, c.quantity)
			}
		})
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
	"form before contents": {`{"user":"","quantity":1.5}`, 400, "quantity: must be an integer"},
}

func TestParseClaimRefuses(t *testing.T) {
	for name, c := range malformedBodies {
		t.Run(name, func(t *testing.T) {
			user, quantity, f := parseClaim([]byte(c.body))
			if f == nil {
				t.Fatalf("accepted as %q, %d", user, quantity)
			}
			if f.status != c.status || !strings.Contains(f.detail, c.detail) {
				t.Errorf("got %d %q, want %d and %q in it", f.status, f.detail, c.status, c.detail)
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
		if len(body) > maxBody {
			return // never reaches the parser
		}
		user, quantity, got := parseClaim(body)
		status := http.StatusOK
		if got != nil {
			status = got.status
			if !utf8.ValidString(got.detail) {
				t.Errorf("detail %q is not UTF-8", got.detail)
			}
		}
		wantUser, wantQuantity, wantStatus := oracle(body)
		if status != wantStatus {
			t.Fatalf("status %d (%v), encoding/json says %d", status, got, wantStatus)
		}
		if got == nil && (user != wantUser || quantity != wantQuantity) {
			t.Fatalf("read as %q, %d, encoding/json says %q, %d", user, quantity, wantUser, wantQuantity)
		}
	})
}

// oracle reads a claim with encoding/json and returns the status it deserves.
func oracle(body []byte) (user string, quantity int64, status int) {
	const bad = http.StatusBadRequest
	if !json.Valid(body) || !utf8.Valid(body) || hasHalfSurrogate(body) {
		return "", 0, bad
	}
	in := json.NewDecoder(bytes.NewReader(body))
	in.UseNumber()
	if first, _ := in.Token(); first != json.Delim('{') {
		return "", 0, bad
	}
	seen := map[string]any{}
	for in.More() {
		key, _ := in.Token()
		field := key.(string)
		value, _ := in.Token()
		_, isText := value.(string)
		number, isNumber := value.(json.Number)
		switch _, twice := seen[field]; {
		case twice,
			field == "user" && !isText,
			field == "quantity" && (!isNumber || strings.ContainsAny(number.String(), ".eE")),
			field != "user" && field != "quantity":
			return "", 0, bad
		}
		seen[field] = value
	}
	user, ok := seen["user"].(string)
	if !ok {
		return "", 0, bad
	}
	quantity = 1
	if number, ok := seen["quantity"].(json.Number); ok {
		var err error
		if quantity, err = number.Int64(); err != nil {
			quantity = -1
		}
	}
	if api.CheckUser(user) != nil || quantity < 1 || quantity > 1000 {
		return "", 0, http.StatusUnprocessableEntity
	}
	return user, quantity, http.StatusOK
}

// hasHalfSurrogate says whether a valid document has half a surrogate pair in a
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
