package spec

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"
)

// History is the source of what users bought in other sales: Files, Table or both.
type History struct {
	// Files are exports of sales, or patterns of their names for filepath.Match, resolved by
	// Load. In a declaration of FromJSON with files it is empty and not nil.
	Files []string
	// Table has a row for each user and a column for each run in which the user bought.
	// Destroy adds to it.
	Table *HistoryTable
}

// HistoryTable is an HBase table of what users bought.
type HistoryTable struct {
	// Zookeeper are the servers as host:port. The default is that of the sale's own table.
	Zookeeper     []string `yaml:"zookeeper,omitempty" json:"zookeeper" jsonschema_description:"ZooKeeper servers, host:port each. Default: those of spec.hbase."`
	ZookeeperRoot string   `yaml:"zookeeperRoot,omitempty" json:"zookeeperRoot" jsonschema:"example=/hbase" jsonschema_description:"Parent znode of HBase. Default: that of spec.hbase, or /hbase with zookeeper."`
	Table         string   `yaml:"table" json:"table" jsonschema:"example=purchases" jsonschema_description:"Table of the purchases."`
	Family        string   `yaml:"family" json:"family" jsonschema:"example=h" jsonschema_description:"Column family of the purchases."`
}

// MaxFiles is the maximum number of patterns of a history.
const MaxFiles = 99

type historyPart struct {
	Files []string      `yaml:"files,omitempty" jsonschema_description:"Exports, or patterns such as exports/*.ndjson."`
	HBase *HistoryTable `yaml:"hbase,omitempty" jsonschema_description:"Table with one row per user, keyed by user id. destroy adds the purchases of this sale."`
}

func (historyPart) JSONSchemaExtend(s *jsonschema.Schema) {
	list(property(s, "files"), MaxFiles)
	s.AnyOf = []*jsonschema.Schema{{Required: []string{"files"}}, {Required: []string{"hbase"}}}
}

func (HistoryTable) JSONSchemaExtend(s *jsonschema.Schema) { outerTable(s) }

// history decodes the source of what users bought.
func (d *decoder) history(spec object, from tableHome) *History {
	o, ok := d.part(spec, "history", reflect.TypeFor[historyPart]())
	if !ok {
		return nil
	}
	h := new(History)
	if o.keys["files"] == nil && o.keys["hbase"] == nil {
		d.refuse(o.at, `Add files: ["exports/*.ndjson"], or hbase.`, "%s has neither files nor hbase", o.path)
	}
	if v, ok := d.value(o, "files"); ok {
		h.Files = d.patterns(v)
	}
	if o, ok := d.part(o, "hbase", reflect.TypeFor[HistoryTable]()); ok {
		h.Table = new(HistoryTable)
		h.Table.Zookeeper, h.Table.ZookeeperRoot = d.zookeeper(o, from)
		h.Table.Table, h.Table.Family = d.table(o, "purchases"), d.family(o)
	}
	return h
}

// patterns decodes patterns of file names.
func (d *decoder) patterns(v value) []string {
	const example = "exports/*.ndjson"
	items, ok := d.items(v, fmt.Sprintf("Write %s: [%q].", v.key, example))
	switch {
	case ok && len(items) == 0:
		d.refuse(v.at, fmt.Sprintf("Write %s: [%q], or leave the key out.", v.key, example), "%s is an empty list", v.path)
	case len(items) > MaxFiles:
		d.refuse(v.at, "Write patterns, such as exports/*.ndjson.", "%s has %d items, and may have %d", v.path, len(items), MaxFiles)
		return nil
	}
	var all []string
	for _, item := range items {
		if pattern, ok := d.file(item, example, checkPattern); ok {
			all = append(all, d.src.resolvePattern(pattern))
		}
	}
	return all
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

// someExports replaces the files, which a stored declaration lacks.
const someExports = "EXPORTS/*.ndjson"

// part converts a history to its part of a document. own is the ledger of the sale.
func (h *History) part(own *HBase) *historyPart {
	if h == nil {
		return nil
	}
	part := &historyPart{Files: h.Files}
	if h.Files != nil && len(h.Files) == 0 {
		part.Files = []string{someExports}
	}
	if t := h.Table; t != nil {
		part.HBase = &HistoryTable{Table: t.Table, Family: t.Family}
		part.HBase.Zookeeper, part.HBase.ZookeeperRoot = own.elsewhere(t.Zookeeper, t.ZookeeperRoot)
	}
	return part
}

// storedHistory is a History without the names of the files.
type storedHistory struct {
	Files bool          `json:"files,omitempty"`
	HBase *HistoryTable `json:"hbase,omitempty"`
}

func (h *History) stored() *storedHistory {
	if h == nil {
		return nil
	}
	return &storedHistory{Files: h.Files != nil, HBase: h.Table}
}

func (in *storedHistory) read() *History {
	if in == nil {
		return nil
	}
	h := &History{Table: in.HBase}
	if in.Files {
		h.Files = []string{}
	}
	return h
}

// withFiles returns the history with the files of local.
func (h *History) withFiles(local *History) *History {
	if h == nil || h.Files == nil || local == nil {
		return h
	}
	history := *h
	history.Files = local.Files
	return &history
}

// sane checks what the rest of the program assumes about a history.
func (h *History) sane() error {
	if h != nil && h.Files == nil && h.Table == nil {
		return errors.New("the history has neither files nor a table")
	}
	return nil
}
