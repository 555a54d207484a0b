package api

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of a request.
const (
	MaxUser      = 255  // bytes
	MaxKey       = 255  // bytes
	MaxRequestID = 128  // bytes
	MaxQuantity  = 1000 // units
	MaxPayment   = 255  // bytes
	MaxWho       = 255  // bytes
	MaxReason    = 1023 // bytes
	MaxNames     = 100  // units requested by name
	MaxName      = 4096 // bytes
	MaxListed    = 10   // claims of the user with LimitReached
	MaxPage      = 1000 // claims of a user, or refunds due of a claim, in one reply
)

// Default limits of a page.
const (
	DefaultClaims  = 100 // of a user
	DefaultRefunds = 10  // due, of a claim
)

// Check returns an error if the page is invalid. The owner of the list checks its cursor.
func (p Page) Check() error {
	if p.Limit < 0 || p.Limit > MaxPage {
		return fmt.Errorf("limit: must be from 1 to %d", MaxPage)
	}
	return nil
}

// CheckUser returns an error if a user's id is invalid.
func CheckUser(user string) error {
	switch {
	case user == "":
		return fmt.Errorf("user: must not be empty")
	case len(user) <= MaxUser && visible(user): // fast path for the usual case
		return nil
	}
	return checkText("user", user, MaxUser)
}

// checkText returns an error if a text for the records is invalid.
func checkText(name, value string, most int) error {
	switch {
	case len(value) > most:
		return fmt.Errorf("%s: %d bytes are too many, at most %d", name, len(value), most)
	case !utf8.ValidString(value):
		return fmt.Errorf("%s: must be UTF-8", name)
	case strings.ContainsFunc(value, unicode.IsControl):
		return fmt.Errorf("%s: must not contain control characters", name)
	}
	return nil
}

var quotedKey = regexp.MustCompile(`^"((?:[^"\\]|\\["\\])*)"$`)

// ParseKey returns the key in a value of KeyHeader: the value itself or, if it begins with a quote, the text
// in quotes, where a backslash precedes a quote or backslash. The second is the form of
// draft-ietf-httpapi-idempotency-key-header.
func ParseKey(value string) (key string, err error) {
	if key = value; strings.HasPrefix(value, `"`) {
		quoted := quotedKey.FindStringSubmatch(value)
		if quoted == nil {
			return "", fmt.Errorf(`%s: the value begins with a quote, and is no text in quotes; write the key without quotes, or "the-key"`, KeyHeader)
		}
		key = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(quoted[1])
	}
	return key, CheckKey(key)
}

// keyValue returns the value of KeyHeader for a key. It is the inverse of ParseKey.
func keyValue(key string) string {
	if strings.HasPrefix(key, `"`) {
		return `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(key) + `"`
	}
	return key
}

// CheckKey returns an error if a key is invalid. A key is any visible ASCII text.
func CheckKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%s: empty; leave the header out or set a key", KeyHeader)
	case len(key) > MaxKey:
		return fmt.Errorf("%s: %d bytes are too many, at most %d", KeyHeader, len(key), MaxKey)
	case !visible(key):
		return fmt.Errorf("%s: only visible ASCII characters are allowed", KeyHeader)
	}
	return nil
}

// GoodRequestID reports whether a request's id is used unchanged: 1 to MaxRequestID visible
// ASCII characters.
func GoodRequestID(id string) bool {
	return id != "" && len(id) <= MaxRequestID && visible(id)
}

// visible reports whether a text has only visible ASCII characters.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// CheckNames returns an error if the names of requested units are invalid. Their number is the
// quantity of the claim.
func CheckNames(names []string) error {
	if len(names) == 0 || len(names) > MaxNames {
		return fmt.Errorf("units: must be 1 to %d names", MaxNames)
	}
	for i, name := range names {
		switch {
		case name == "" || len(name) > MaxName:
			return fmt.Errorf("units: a name has 1 to %d bytes", MaxName)
		case !utf8.ValidString(name):
			return fmt.Errorf("units: must be UTF-8")
		case slices.Contains(names[:i], name):
			return fmt.Errorf("units: %q is named twice", name)
		}
	}
	return nil
}

// CheckQuantity returns an error if a requested quantity is invalid.
func CheckQuantity(quantity int64) error {
	if quantity < 1 || quantity > MaxQuantity {
		return fmt.Errorf("quantity: must be from 1 to %d", MaxQuantity)
	}
	return nil
}
