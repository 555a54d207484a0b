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
	Table *HistoryTable `yaml:"hbase,omitempty" json:"hbase,omitempty" anyof:"source" doc:"Table with one row per user, keyed by user id. destroy adds the purchases of this sale."`
}

// Files are files that a document names. JSON has an empty list: a sale that is moved with its
// files is unchanged.
type Files []string

// MarshalJSON returns an empty list.
func (Files) MarshalJSON() ([]byte, error) { return []byte("[]"), nil }

// String describes the files without their names, which plans do not compare.
func (Files) String() string { return "exports" }

// HistoryTable is an HBase table of what users bought.
type HistoryTable struct {
	// Zookeeper are the servers as host:port. The default is that of the sale's own table.
	Zookeeper     []string `yaml:"zookeeper,omitempty" json:"zookeeper" form:"addresses" max:"99" example:"127.0.0.1:2181" doc:"ZooKeeper servers, host:port each. Default: those of spec.hbase."`
	ZookeeperRoot string   `yaml:"zookeeperRoot,omitempty" json:"zookeeperRoot" form:"znode" example:"/hbase" doc:"Parent znode of HBase. Default: that of spec.hbase, or /hbase with zookeeper."`
	Table         string   `yaml:"table" json:"table" form:"table" example:"purchases" doc:"Table of the purchases."`
	Family        string   `yaml:"family" json:"family" form:"family" example:"h" doc:"Column family of the purchases."`
}

// history checks the source of what users bought.
func (d *decoder) history(h *History, from tableHome) {
	if h != nil && h.Table != nil {
		d.outerTable("spec.history.hbase", from, &h.Table.Zookeeper, &h.Table.ZookeeperRoot)
	}
}

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
