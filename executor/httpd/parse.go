package httpd

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"salectl/api"
	"salectl/executor"
)

// fault is what is wrong with a request's form.
type fault struct {
	status int    // 400, 404, 413, 415 or 422
	detail string // names the field and says what would be right
}

func malformed(format string, args ...any) *fault {
	return &fault{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

func unacceptable(err error) *fault { return &fault{http.StatusUnprocessableEntity, err.Error()} }

// parseClaim reads the body of a claim: a JSON object with a string "user" and, if it
// pleases, an integer "quantity", the names of the "units" that are wanted, or whether they
// are to be "adjacent", and nothing else.
//
// It is written by hand because encoding/json forgives what must not be forgiven
// here: a key given twice, a key in other letters, and bytes or surrogates that
// are no text, which it makes all the same "\uFFFD", and so two users one.
func parseClaim(body []byte) (r executor.Request, _ *fault) {
	p := parser{in: body}
	var userText []byte
	var seenUser, seenQuantity, seenUnits bool
	r.Quantity = 1
	f := p.object(`{"user": "u-1", "quantity": 1}`, func(field []byte) (f *fault) {
		switch string(field) {
		case "user":
			seenUser = true
			userText, f = p.text("user")
		case "quantity":
			seenQuantity = true
			r.Quantity, f = p.integer("quantity")
		case "units":
			seenUnits = true
			r.Names, f = p.texts("units")
		case "adjacent":
			r.Adjacent, f = p.truth("adjacent")
		default:
			f = malformed("%s: unknown field; a claim has user, quantity, units and adjacent", name(field))
		}
		return f
	})
	if f != nil {
		return executor.Request{}, f
	}
	if !seenUser {
		return executor.Request{}, malformed("user: missing")
	}
	r.User = string(userText)
	if seenUnits {
		if f := named(&r, seenQuantity); f != nil {
			return executor.Request{}, f
		}
	}
	if err := cmp.Or(api.CheckUser(r.User), api.CheckQuantity(r.Quantity)); err != nil {
		return executor.Request{}, unacceptable(err)
	}
	return r, nil
}

// named checks the names of units that a request asks for, which say how many it asks for.
func named(r *executor.Request, quantity bool) *fault {
	n := int64(len(r.Names))
	switch err := api.CheckNames(r.Names); {
	case err != nil:
		return unacceptable(err)
	case quantity && r.Quantity != n:
		return unacceptable(fmt.Errorf("quantity: is %d, and %d units are named; leave it out", r.Quantity, n))
	case r.Adjacent:
		return unacceptable(errors.New("adjacent: goes with a quantity, not with units that are named"))
	}
	r.Quantity = n
	return nil
}

// parseSettlement reads the body of a settlement: a JSON object with the fields of an
// api.Settlement, those that belong to how, and nothing else.
func parseSettlement(body []byte, how api.How) (x api.Settlement, _ *fault) {
	p := parser{in: body}
	f := p.object(`{"reason": "sent back"}`, func(field []byte) (f *fault) {
		var text []byte
		into := map[string]*string{"payment": &x.Payment, "who": &x.Who, "reason": &x.Reason}[string(field)]
		switch {
		case into != nil:
			text, f = p.text(string(field))
			*into = string(text)
		case string(field) == "retire":
			x.Retire, f = p.truth("retire")
		default:
			return malformed("%s: unknown field; there are payment, who, reason and retire", name(field))
		}
		return f
	})
	if f != nil {
		return x, f
	}
	if err := x.Check(how); err != nil {
		return x, unacceptable(err)
	}
	return x, nil
}

// name quotes a field's name that may be anything, at a bearable length.
func name(field []byte) string {
	if len(field) > 40 {
		return fmt.Sprintf("%q…", bytes.ToValidUTF8(field[:40], nil))
	}
	return fmt.Sprintf("%q", field)
}

// parser reads the little JSON that a claim or a settlement needs.
type parser struct {
	in []byte
	at int

	beyond bool // the last integer was none that int64 can hold
}

func (p *parser) space() {
	for p.at < len(p.in) {
		switch p.in[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// take skips c and the space before it, if it comes next.
func (p *parser) take(c byte) bool {
	p.space()
	if p.at == len(p.in) || p.in[p.at] != c {
		return false
	}
	p.at++
	return true
}

// object reads an object to the end of the input. value reads the value of a field.
func (p *parser) object(like string, value func(field []byte) *fault) *fault {
	if p.at == 0 && bytes.HasPrefix(p.in, []byte("\ufeff")) {
		p.at = len("\ufeff") // RFC 8259 lets a reader pass over a byte order mark
	}
	if p.space(); p.at == len(p.in) || p.in[p.at] != '{' {
		return malformed("the body must be a JSON object like %s", like)
	}
	if f := p.members(value); f != nil {
		return f
	}
	if p.space(); p.at < len(p.in) {
		return malformed("something follows the object; a request has one")
	}
	return nil
}

// members reads an object.
func (p *parser) members(value func(field []byte) *fault) *fault {
	if !p.take('{') {
		return malformed("the value must be a JSON object")
	}
	var seen []string
	for more := !p.take('}'); more; {
		field, f := p.text("a field's name")
		if f != nil {
			return f
		}
		if slices.Contains(seen, string(field)) {
			return malformed("%s: given twice", field)
		}
		seen = append(seen, string(field))
		if !p.take(':') {
			return malformed("%s: a colon and a value must follow the name", name(field))
		}
		if f := value(field); f != nil {
			return f
		}
		if more = p.take(','); !more && !p.take('}') {
			return malformed("%s: a comma or the end of the object must follow the value", field)
		}
	}
	return nil
}

// text reads a string; what names it in a fault. The text may be a part of the
// input: whoever keeps it, copies it.
func (p *parser) text(what string) ([]byte, *fault) {
	if !p.take('"') {
		return nil, malformed("%s: must be a string in double quotes", what)
	}
	start, escaped := p.at, false
	for ; p.at < len(p.in); p.at++ {
		switch c := p.in[p.at]; {
		case c == '"':
			raw := p.in[start:p.at]
			p.at++
			if !utf8.Valid(raw) {
				return nil, malformed("%s: must be UTF-8", what)
			}
			if !escaped {
				return raw, nil
			}
			text, ok := unescape(raw)
			if !ok {
				return nil, malformed("%s: has a bad escape sequence", what)
			}
			return text, nil
		case c == '\\':
			escaped = true
			p.at++ // whatever is escaped, it does not end the string
		case c < ' ':
			return nil, malformed("%s: must not contain control characters", what)
		}
	}
	return nil, malformed("%s: the string has no end", what)
}

// texts reads a list of strings.
func (p *parser) texts(what string) (all []string, _ *fault) {
	if !p.take('[') {
		return nil, malformed("%s: must be a list of strings", what)
	}
	for more := !p.take(']'); more; {
		text, f := p.text(what)
		if f != nil {
			return nil, f
		}
		all = append(all, string(text))
		if more = p.take(','); !more && !p.take(']') {
			return nil, malformed("%s: a comma or the end of the list must follow a string", what)
		}
	}
	return all, nil
}

// integer reads a number without fraction and exponent. One that int64 cannot
// hold comes back as the nearest that it can.
func (p *parser) integer(what string) (int64, *fault) {
	negative := p.take('-') // before it may be space, after it may not
	if !negative {
		p.space()
	}
	start, n := p.at, int64(0)
	p.beyond = false
	for ; p.at < len(p.in) && isDigit(p.in[p.at]); p.at++ {
		digit := int64(p.in[p.at] - '0')
		if n > (math.MaxInt64-digit)/10 {
			n, p.beyond = math.MaxInt64, true
			continue
		}
		n = n*10 + digit
	}
	digits := p.in[start:p.at]
	followed := p.at < len(p.in) && (p.in[p.at] == '.' || p.in[p.at]|0x20 == 'e')
	if len(digits) == 0 || followed || digits[0] == '0' && len(digits) > 1 {
		return 0, malformed("%s: must be an integer like 1, in plain digits and without quotes", what)
	}
	if negative {
		n = -n
	}
	return n, nil
}

// truth reads true or false.
func (p *parser) truth(what string) (bool, *fault) {
	p.space()
	for word, value := range map[string]bool{"true": true, "false": false} {
		if bytes.HasPrefix(p.in[p.at:], []byte(word)) {
			p.at += len(word)
			return value, nil
		}
	}
	return false, malformed("%s: must be true or false, without quotes", what)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

var unescaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unescape resolves the escape sequences of a JSON string. It refuses half a
// surrogate pair, which is no character.
func unescape(raw []byte) ([]byte, bool) {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			i++
			continue
		}
		if c := unescaped[raw[i+1]]; c != 0 {
			out = append(out, c)
			i += 2
			continue
		}
		r := codeUnit(raw[i:])
		i += 6
		if utf16.IsSurrogate(r) {
			if i > len(raw) {
				return nil, false
			}
			r = utf16.DecodeRune(r, codeUnit(raw[i:]))
			i += 6
			if r == utf8.RuneError {
				return nil, false
			}
		}
		if r < 0 {
			return nil, false
		}
		out = utf8.AppendRune(out, r)
	}
	return out, true
}

// codeUnit reads the \uXXXX that raw begins with; -1: it does not.
func codeUnit(raw []byte) rune {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range raw[2:6] {
		switch {
		case isDigit(c):
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return -1
		}
	}
	return r
}
