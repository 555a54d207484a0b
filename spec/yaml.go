package spec

import (
	"bytes"
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// YAML converts a declaration to a document that Load reads as an equal declaration, if its
// paths are relative to the working directory. Defaults are omitted. A file without a known
// name gets a name in capitals, with a comment. YAML fails for a Sale that Load would reject,
// or whose homes no document can name.
func (s Sale) YAML() ([]byte, error) {
	if err := s.sane(); err != nil {
		return nil, err
	}
	if s.Homes != nil {
		return nil, fmt.Errorf("no document names the place of the sale: %s", s.Homes.Ledger.Place)
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(s.document()); err != nil {
		return nil, err
	}
	var missing []string
	for _, name := range someFiles {
		if bytes.Contains(b.Bytes(), []byte(name)) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return b.Bytes(), nil
	}
	return append(fmt.Appendf(nil, "# The ledger does not say where files are: put yours in place of %s.\n", strings.Join(missing, ", ")), b.Bytes()...), nil
}

// unless returns value, or the zero value if it is the default.
func unless[T comparable](normal, value T) T {
	if value == normal {
		var none T
		return none
	}
	return value
}

func orElse(path, some string) string {
	if path == "" {
		return some
	}
	return path
}
