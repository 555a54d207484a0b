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

// Malformed returns the Problem of a request in a wrong form: a BadRequest with status 400.
func Malformed(format string, args ...any) *Problem {
	return BadRequest(http.StatusBadRequest, fmt.Sprintf(format, args...))
}

// Unacceptable returns the Problem of a value that is not allowed: a BadRequest with status 422.
func Unacceptable(err error) *Problem {
	return BadRequest(http.StatusUnprocessableEntity, err.Error())
}

// CheckContentType returns a Problem unless the header Content-Type of a request has the media type, and the
// body is not encoded.
func CheckContentType(r *http.Request, media string) *Problem {
	if r.Header["Content-Encoding"] != nil {
		return BadRequest(http.StatusUnsupportedMediaType, "Content-Encoding: send the body without an encoding such as gzip, and leave this header out")
	}
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
// It does not use encoding/json, which accepts repeated keys and keys that differ in case. That package also
// replaces all invalid UTF-8 and surrogates by "\uFFFD": two users would become one.
func ParseClaim(body []byte) (claim executor.Request, _ *Problem) {
	parser := Parser{Input: body}
	var userText []byte
	var seenUser, seenQuantity, seenUnits bool
	claim.Quantity = 1
	problem := parser.Object(`{"user": "u-1", "quantity": 1}`, func(field []byte) (problem *Problem) {
		switch string(field) {
		case "user":
			seenUser = true
			userText, problem = parser.stringBytes("user")
		case "quantity":
			seenQuantity = true
			claim.Quantity, problem = parser.integer("quantity")
		case "units":
			seenUnits = true
			claim.Names, problem = parser.strings("units")
		case "adjacent":
			claim.Adjacent, problem = parser.Bool("adjacent")
		default:
			problem = Malformed("%s: unknown field; a claim has user, quantity, units and adjacent", QuoteName(field))
		}
		return problem
	})
	if problem != nil {
		return executor.Request{}, problem
	}
	if !seenUser {
		return executor.Request{}, Malformed("user: missing")
	}
	claim.User = string(userText)
	if seenUnits {
		if problem := CheckNamedUnits(&claim, seenQuantity); problem != nil {
			return executor.Request{}, problem
		}
	}
	if err := cmp.Or(api.CheckUser(claim.User), api.CheckQuantity(claim.Quantity)); err != nil {
		return executor.Request{}, Unacceptable(err)
	}
	return claim, nil
}

// CheckNamedUnits checks the names of the requested units and sets the claim's quantity to their number.
// hasQuantity reports whether the request also has a quantity. It must then be that number.
func CheckNamedUnits(claim *executor.Request, hasQuantity bool) *Problem {
	count := int64(len(claim.Names))
	switch err := api.CheckNames(claim.Names); {
	case err != nil:
		return Unacceptable(err)
	case hasQuantity && claim.Quantity != count:
		return Unacceptable(fmt.Errorf("quantity: is %d, and %d units are named; leave it out", claim.Quantity, count))
	case claim.Adjacent:
		return Unacceptable(errors.New("adjacent: goes with a quantity, not with units that are named"))
	}
	claim.Quantity = count
	return nil
}

// ParseSettlement parses the body of a settlement: a JSON object with fields of api.Settlement. how is the
// kind of settlement. It determines which of these fields are allowed and required.
func ParseSettlement(body []byte, how api.How) (settlement api.Settlement, _ *Problem) {
	parser := Parser{Input: body}
	problem := parser.Object(`{"reason": "sent back"}`, func(field []byte) (problem *Problem) {
		var text []byte
		into := map[string]*string{"payment": &settlement.Payment, "who": &settlement.Who, "reason": &settlement.Reason}[string(field)]
		switch {
		case into != nil:
			text, problem = parser.stringBytes(string(field))
			*into = string(text)
		case string(field) == "retire":
			settlement.Retire, problem = parser.Bool("retire")
		default:
			return Malformed("%s: unknown field; there are payment, who, reason and retire", QuoteName(field))
		}
		return problem
	})
	if problem != nil {
		return settlement, problem
	}
	if err := settlement.Check(how); err != nil {
		return settlement, Unacceptable(err)
	}
	return settlement, nil
}

// ParseQuery parses the query of a request. It accepts only the named parameters, and each of them once.
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

// QuoteName quotes the name of a field for a message. The name is any text, so a long one is shortened.
func QuoteName(field []byte) string {
	if len(field) > 40 {
		return fmt.Sprintf("%q…", bytes.ToValidUTF8(field[:40], nil))
	}
	return fmt.Sprintf("%q", field)
}

// Parser reads a JSON object of strings, integers, booleans and lists of strings from Input.
type Parser struct {
	Input  []byte
	offset int // of the next byte to read
}

func (parser *Parser) skipSpace() {
	for parser.offset < len(parser.Input) {
		switch parser.Input[parser.offset] {
		case ' ', '\t', '\n', '\r':
			parser.offset++
		default:
			return
		}
	}
}

// accept skips space. If the next byte is c, accept reads it and returns true.
func (parser *Parser) accept(c byte) bool {
	parser.skipSpace()
	if parser.offset == len(parser.Input) || parser.Input[parser.offset] != c {
		return false
	}
	parser.offset++
	return true
}

// Object reads the whole input, which must be one object. It calls readValue to read the value of each field.
// The Problem of an input that is no object shows the example of a valid one.
func (parser *Parser) Object(example string, readValue func(field []byte) *Problem) *Problem {
	if parser.offset == 0 && bytes.HasPrefix(parser.Input, []byte("\ufeff")) {
		parser.offset = len("\ufeff") // RFC 8259 permits a reader to ignore a byte order mark
	}
	if !parser.accept('{') {
		return Malformed("the body must be a JSON object like %s", example)
	}
	var seen []string
	for more := !parser.accept('}'); more; {
		field, problem := parser.stringBytes("a field's name")
		if problem != nil {
			return problem
		}
		if slices.Contains(seen, string(field)) {
			return Malformed("%s: given twice", field)
		}
		seen = append(seen, string(field))
		if !parser.accept(':') {
			return Malformed("%s: a colon and a value must follow the name", QuoteName(field))
		}
		if problem := readValue(field); problem != nil {
			return problem
		}
		if more = parser.accept(','); !more && !parser.accept('}') {
			return Malformed("%s: a comma or the end of the object must follow the value", field)
		}
	}
	if parser.skipSpace(); parser.offset < len(parser.Input) {
		return Malformed("something follows the object; a request has one")
	}
	return nil
}

// stringBytes reads a string. A Problem names it field, here and in the methods below. The result may be a
// slice of the input, which a caller must not retain.
func (parser *Parser) stringBytes(field string) ([]byte, *Problem) {
	if !parser.accept('"') {
		return nil, Malformed("%s: must be a string in double quotes", field)
	}
	start, escaped := parser.offset, false
	for ; parser.offset < len(parser.Input); parser.offset++ {
		switch c := parser.Input[parser.offset]; {
		case c == '"':
			raw := parser.Input[start:parser.offset]
			parser.offset++
			if !utf8.Valid(raw) {
				return nil, Malformed("%s: must be UTF-8", field)
			}
			if !escaped {
				return raw, nil
			}
			text, ok := unescape(raw)
			if !ok {
				return nil, Malformed("%s: has a bad escape sequence", field)
			}
			return text, nil
		case c == '\\':
			escaped = true
			parser.offset++ // whatever is escaped, it does not end the string
		case c < ' ':
			return nil, Malformed("%s: must not contain control characters", field)
		}
	}
	return nil, Malformed("%s: the string has no end", field)
}

// strings reads a list of strings.
func (parser *Parser) strings(field string) (all []string, _ *Problem) {
	if !parser.accept('[') {
		return nil, Malformed("%s: must be a list of strings", field)
	}
	for more := !parser.accept(']'); more; {
		text, problem := parser.stringBytes(field)
		if problem != nil {
			return nil, problem
		}
		all = append(all, string(text))
		if more = parser.accept(','); !more && !parser.accept(']') {
			return nil, Malformed("%s: a comma or the end of the list must follow a string", field)
		}
	}
	return all, nil
}

// integer reads a number without fraction and exponent. Beyond int64 it becomes math.MaxInt64 or the negative.
func (parser *Parser) integer(field string) (int64, *Problem) {
	negative := parser.accept('-') // space may precede the sign, but not follow it
	if !negative {
		parser.skipSpace()
	}
	start, value := parser.offset, int64(0)
	for ; parser.offset < len(parser.Input) && '0' <= parser.Input[parser.offset] && parser.Input[parser.offset] <= '9'; parser.offset++ {
		digit := int64(parser.Input[parser.offset] - '0')
		if value > (math.MaxInt64-digit)/10 {
			value = math.MaxInt64
			continue
		}
		value = value*10 + digit
	}
	digits := parser.Input[start:parser.offset]
	followed := parser.offset < len(parser.Input) && (parser.Input[parser.offset] == '.' || parser.Input[parser.offset]|0x20 == 'e')
	if len(digits) == 0 || followed || digits[0] == '0' && len(digits) > 1 {
		return 0, Malformed("%s: must be an integer like 1, in plain digits and without quotes", field)
	}
	if negative {
		value = -value
	}
	return value, nil
}

// Bool reads true or false.
func (parser *Parser) Bool(field string) (bool, *Problem) {
	parser.skipSpace()
	for word, value := range map[string]bool{"true": true, "false": false} {
		if bytes.HasPrefix(parser.Input[parser.offset:], []byte(word)) {
			parser.offset += len(word)
			return value, nil
		}
	}
	return false, Malformed("%s: must be true or false, without quotes", field)
}

// escapes matches an escape sequence of JSON. Group 1 matches half a surrogate pair.
var escapes = regexp.MustCompile(`\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F])|.)`)

// unescape resolves the escapes of a JSON string. It returns false if one is invalid or half a surrogate pair.
func unescape(raw []byte) ([]byte, bool) {
	if slices.ContainsFunc(escapes.FindAllSubmatchIndex(raw, -1), func(found []int) bool { return found[2] >= 0 }) {
		return nil, false
	}
	var text string
	err := json.Unmarshal(slices.Concat([]byte(`"`), raw, []byte(`"`)), &text)
	return []byte(text), err == nil
}
