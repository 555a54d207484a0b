package executor

import (
	"strings"
	"testing"
)

// The longest user and key and the largest quantity are answered, and nothing
// beyond them.
func TestCheckAtTheBounds(t *testing.T) {
	for name, test := range map[string]struct {
		request Request
		bad     string
	}{
		"the least":          {Request{User: "u", Quantity: 1}, ""},
		"the most":           {Request{User: strings.Repeat("u", MaxUser), Key: strings.Repeat("k", MaxKey), Quantity: MaxQuantity}, ""},
		"no user":            {Request{Quantity: 1}, "a user is named by 1 to 255 bytes"},
		"a longer user":      {Request{User: strings.Repeat("u", MaxUser+1), Quantity: 1}, "a user is named by 1 to 255 bytes"},
		"no text":            {Request{User: "\xff", Quantity: 1}, "a user is named by UTF-8 text"},
		"a longer key":       {Request{User: "u", Key: strings.Repeat("k", MaxKey+1), Quantity: 1}, "a key has at most 255 bytes"},
		"no quantity":        {Request{User: "u"}, "a quantity is 1 to 1000"},
		"a larger quantity":  {Request{User: "u", Quantity: MaxQuantity + 1}, "a quantity is 1 to 1000"},
		"a key of any bytes": {Request{User: "u", Key: "\xff\x00", Quantity: 1}, ""},
	} {
		a, bad := check(test.request)
		if bad != (test.bad != "") || a.Message != test.bad || bad && a.Outcome != BadRequest {
			t.Errorf("%s: %v, %+v", name, bad, a)
		}
	}
}
