package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"salectl/api"
	"salectl/executor"
)

// Malformed returns a BadRequest with status 400.
func Malformed(format string, args ...any) *Problem {
	return BadRequest(http.StatusBadRequest, fmt.Sprintf(format, args...))
}

// Unacceptable returns a BadRequest with status 422, for a value that is not allowed.
func Unacceptable(err error) *Problem {
	return BadRequest(http.StatusUnprocessableEntity, err.Error())
}

// CheckContentType requires a media type of the body of a request.
func CheckContentType(r *http.Request, media string) *Problem {
	if values := r.Header["Content-Type"]; len(values) == 1 {
		if values[0] == media { // as usual
			return nil
		}
		if given, _, err := mime.ParseMediaType(values[0]); err == nil && given == media {
			return nil
		}
	}
	return BadRequest(http.StatusUnsupportedMediaType, "Content-Type: must be "+media+", given once")
}

// ParseClaim parses the body of a claim: a JSON object with a string "user" and, optionally, an
// integer "quantity", the names of the requested "units", or a boolean "adjacent".
//
// The parser is written by hand because encoding/json accepts repeated keys, keys that differ in case,
// and invalid UTF-8 or surrogates, all of which it replaces by "\uFFFD": two users would become one.
func ParseClaim(body []byte) (r executor.Request, _ *Problem) {
	p := Parser{In: body}
	var userText []byte
	var seenUser, seenQuantity, seenUnits bool
	r.Quantity = 1
	f := p.Body(`{"user": "u-1", "quantity": 1}`, func(field []byte) (f *Problem) {
		switch string(field) {
		case "user":
			seenUser = true
			userText, f = p.stringBytes("user")
		case "quantity":
			seenQuantity = true
			r.Quantity, f = p.integer("quantity")
		case "units":
			seenUnits = true
			r.Names, f = p.strings("units")
		case "adjacent":
			r.Adjacent, f = p.Bool("adjacent")
		default:
			f = Malformed("%s: unknown field; a claim has user, quantity, units and adjacent", QuoteName(field))
		}
		return f
	})
	if f != nil {
		return executor.Request{}, f
	}
	if !seenUser {
		return executor.Request{}, Malformed("user: missing")
	}
	r.User = string(userText)
	if seenUnits {
		if f := NormalizeNames(&r, seenQuantity); f != nil {
			return executor.Request{}, f
		}
	}
	if err := cmp.Or(api.CheckUser(r.User), api.CheckQuantity(r.Quantity)); err != nil {
		return executor.Request{}, Unacceptable(err)
	}
	return r, nil
}

// NormalizeNames checks the names of the requested units and sets the quantity to their number. quantity
// reports whether the request also has a quantity, which then must be that number.
func NormalizeNames(r *executor.Request, quantity bool) *Problem {
	n := int64(len(r.Names))
	switch err := api.CheckNames(r.Names); {
	case err != nil:
		return Unacceptable(err)
	case quantity && r.Quantity != n:
		return Unacceptable(fmt.Errorf("quantity: is %d, and %d units are named; leave it out", r.Quantity, n))
	case r.Adjacent:
		return Unacceptable(errors.New("adjacent: goes with a quantity, not with units that are named"))
	}
	r.Quantity = n
	return nil
}

// ParseSettlement parses the body of a settlement: a JSON object with those fields of an
// api.Settlement that belong to how.
func ParseSettlement(body []byte, how api.How) (x api.Settlement, _ *Problem) {
	p := Parser{In: body}
	f := p.Body(`{"reason": "sent back"}`, func(field []byte) (f *Problem) {
		var text []byte
		into := map[string]*string{"payment": &x.Payment, "who": &x.Who, "reason": &x.Reason}[string(field)]
		switch {
		case into != nil:
			text, f = p.stringBytes(string(field))
			*into = string(text)
		case string(field) == "retire":
			x.Retire, f = p.Bool("retire")
		default:
			return Malformed("%s: unknown field; there are payment, who, reason and retire", QuoteName(field))
		}
		return f
	})
	if f != nil {
		return x, f
	}
	if err := x.Check(how); err != nil {
		return x, Unacceptable(err)
	}
	return x, nil
}

// ParseQuery returns the query of a request, which may have each of the named parameters once.
func ParseQuery(r *http.Request, names ...string) (url.Values, *Problem) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, Malformed("the query: %v", err)
	}
	for name, values := range query {
		switch {
		case !slices.Contains(names, name):
			return nil, Malformed("%s: unknown parameter; there are %s", name, strings.Join(names, " and "))
		case len(values) != 1:
			return nil, Malformed("%s: given twice", name)
		}
	}
	return query, nil
}

// QuoteName quotes the name of a field, which may be anything, and shortens it.
func QuoteName(field []byte) string {
	if len(field) > 40 {
		return fmt.Sprintf("%q…", bytes.ToValidUTF8(field[:40], nil))
	}
	return fmt.Sprintf("%q", field)
}

// Parser reads JSON objects of strings, integers, booleans and lists of strings.
type Parser struct {
	In []byte
	at int
}

func (parser *Parser) space() {
	for parser.at < len(parser.In) {
		switch parser.In[parser.at] {
		case ' ', '\t', '\n', '\r':
			parser.at++
		default:
			return
		}
	}
}

// take skips space and then c, and reports whether c was there.
func (parser *Parser) take(c byte) bool {
	parser.space()
	if parser.at == len(parser.In) || parser.In[parser.at] != c {
		return false
	}
	parser.at++
	return true
}

// Body reads the whole input, which must be one object. value reads the value of the named field; like is
// an example of a valid body, for the Problem.
func (parser *Parser) Body(like string, value func(field []byte) *Problem) *Problem {
	if parser.at == 0 && bytes.HasPrefix(parser.In, []byte("\ufeff")) {
		parser.at = len("\ufeff") // RFC 8259 lets a reader pass over a byte order mark
	}
	if !parser.take('{') {
		return Malformed("the body must be a JSON object like %s", like)
	}
	var seen []string
	for more := !parser.take('}'); more; {
		field, f := parser.stringBytes("a field's name")
		if f != nil {
			return f
		}
		if slices.Contains(seen, string(field)) {
			return Malformed("%s: given twice", field)
		}
		seen = append(seen, string(field))
		if !parser.take(':') {
			return Malformed("%s: a colon and a value must follow the name", QuoteName(field))
		}
		if f := value(field); f != nil {
			return f
		}
		if more = parser.take(','); !more && !parser.take('}') {
			return Malformed("%s: a comma or the end of the object must follow the value", field)
		}
	}
	if parser.space(); parser.at < len(parser.In) {
		return Malformed("something follows the object; a request has one")
	}
	return nil
}

// stringBytes reads a string; what names it in a problem. The result may be a part of the input and must be
// copied to be kept.
func (parser *Parser) stringBytes(what string) ([]byte, *Problem) {
	if !parser.take('"') {
		return nil, Malformed("%s: must be a string in double quotes", what)
	}
	start, escaped := parser.at, false
	for ; parser.at < len(parser.In); parser.at++ {
		switch c := parser.In[parser.at]; {
		case c == '"':
			raw := parser.In[start:parser.at]
			parser.at++
			if !utf8.Valid(raw) {
				return nil, Malformed("%s: must be UTF-8", what)
			}
			if !escaped {
				return raw, nil
			}
			text, ok := unescape(raw)
			if !ok {
				return nil, Malformed("%s: has a bad escape sequence", what)
			}
			return text, nil
		case c == '\\':
			escaped = true
			parser.at++ // whatever is escaped, it does not end the string
		case c < ' ':
			return nil, Malformed("%s: must not contain control characters", what)
		}
	}
	return nil, Malformed("%s: the string has no end", what)
}

// strings reads a list of strings.
func (parser *Parser) strings(what string) (all []string, _ *Problem) {
	if !parser.take('[') {
		return nil, Malformed("%s: must be a list of strings", what)
	}
	for more := !parser.take(']'); more; {
		text, f := parser.stringBytes(what)
		if f != nil {
			return nil, f
		}
		all = append(all, string(text))
		if more = parser.take(','); !more && !parser.take(']') {
			return nil, Malformed("%s: a comma or the end of the list must follow a string", what)
		}
	}
	return all, nil
}

// integer reads a number without fraction and exponent. One that is out of the range of int64 becomes
// the nearest value.
func (parser *Parser) integer(what string) (int64, *Problem) {
	negative := parser.take('-') // before it may be space, after it may not
	if !negative {
		parser.space()
	}
	start, n := parser.at, int64(0)
	for ; parser.at < len(parser.In) && '0' <= parser.In[parser.at] && parser.In[parser.at] <= '9'; parser.at++ {
		digit := int64(parser.In[parser.at] - '0')
		if n > (math.MaxInt64-digit)/10 {
			n = math.MaxInt64
			continue
		}
		n = n*10 + digit
	}
	digits := parser.In[start:parser.at]
	followed := parser.at < len(parser.In) && (parser.In[parser.at] == '.' || parser.In[parser.at]|0x20 == 'e')
	if len(digits) == 0 || followed || digits[0] == '0' && len(digits) > 1 {
		return 0, Malformed("%s: must be an integer like 1, in plain digits and without quotes", what)
	}
	if negative {
		n = -n
	}
	return n, nil
}

// Bool reads true or false.
func (parser *Parser) Bool(what string) (bool, *Problem) {
	parser.space()
	for word, value := range map[string]bool{"true": true, "false": false} {
		if bytes.HasPrefix(parser.In[parser.at:], []byte(word)) {
			parser.at += len(word)
			return value, nil
		}
	}
	return false, Malformed("%s: must be true or false, without quotes", what)
}

// escapes matches an escape sequence of JSON: a surrogate pair, or half of one (1), or any other.
var escapes = regexp.MustCompile(`\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F])|.)`)

// unescape resolves the escape sequences of a JSON string. It refuses half a
// surrogate pair, which is no character.
func unescape(raw []byte) ([]byte, bool) {
	if slices.ContainsFunc(escapes.FindAllSubmatchIndex(raw, -1), func(found []int) bool { return found[2] >= 0 }) {
		return nil, false
	}
	var text string
	err := json.Unmarshal(slices.Concat([]byte(`"`), raw, []byte(`"`)), &text)
	return []byte(text), err == nil
}
