package spec

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

var (
	jsonString = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	jsonEscape = regexp.MustCompile(`\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\.`)
)

// readableJSON rewrites JSON for the YAML reader and returns other text unchanged. JSON is a subset
// of YAML except for two escapes that the reader lacks: \/, which PHP writes, and a surrogate pair
// \uXXXX\uXXXX. Blanks behind a string replace the characters that it loses, so that whatever
// follows keeps its column.
func readableJSON(text string) string {
	if !strings.Contains(text, `\`) || !json.Valid([]byte(text)) {
		return text
	}
	return jsonString.ReplaceAllStringFunc(text, func(quoted string) string {
		plain := jsonEscape.ReplaceAllStringFunc(quoted, func(escape string) string {
			var decoded string
			switch {
			case escape == `\/`:
				return "/"
			case len(escape) == 2 || json.Unmarshal([]byte(`"`+escape+`"`), &decoded) != nil:
				return escape
			}
			return fmt.Sprintf(`\U%08x`, []rune(decoded)[0])
		})
		return plain + strings.Repeat(" ", len(quoted)-len(plain))
	})
}
