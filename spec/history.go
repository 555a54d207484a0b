package spec

import (
	"path/filepath"
	"strings"
)

// History is the source of what users bought in other sales: Files, Table or both.
type History struct {
	// Files are exports of sales, or patterns of their names for filepath.Match, resolved by
	// Load. In a declaration of FromJSON with files it is empty and not nil.
	Files Files `yaml:"files,omitempty" json:"files,omitzero" anyof:"source" unstored:"EXPORTS/*.ndjson" form:"patterns" max:"99" example:"exports/*.ndjson" doc:"Exports, or patterns such as exports/*.ndjson."`
	// Table has a row for each user and a column for each run in which the user bought.
	// Destroy adds to it.
	Table *Rows `yaml:"hbase,omitempty" json:"hbase,omitempty" anyof:"source" doc:"Table with one row per user, keyed by user id. destroy adds the purchases of this sale."`
}

// Files are files that a document names. JSON has an empty list: a sale that is moved with its
// files is unchanged.
type Files []string

// MarshalJSON returns an empty list.
func (Files) MarshalJSON() ([]byte, error) { return []byte("[]"), nil }

// String describes the files without their names, which plans do not compare.
func (Files) String() string { return "exports" }

// patterns decodes patterns of file names.
func (d *decoder) patterns(v value, o *option) (any, bool) {
	items, _ := d.items(v, o, "Write patterns, such as exports/*.ndjson.")
	var all []string
	for _, item := range items {
		if pattern, ok := d.file(item, "file", o.example, checkPattern); ok {
			all = append(all, d.src.resolvePattern(pattern))
		}
	}
	return all, true
}

// resolvePattern is resolve for a pattern. It escapes special characters of the document's
// folder.
func (s *source) resolvePattern(pattern string) string {
	if filepath.IsAbs(pattern) {
		return filepath.Clean(pattern)
	}
	folder := strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(s.dir)
	return filepath.Join(folder, pattern)
}

func checkPattern(pattern string) *fault {
	if _, err := filepath.Match(pattern, ""); err != nil {
		return &fault{"is no pattern of file names", "Write a pattern such as exports/*.ndjson, with a backslash before a [ that is meant."}
	}
	return nil
}
