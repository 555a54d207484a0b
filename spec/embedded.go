package spec

import (
	"reflect"

	"github.com/invopop/jsonschema"
)

// Embedded keeps a sale in SQLite files in one folder, with no server.
type Embedded struct {
	// Dir is the folder. Load resolves a relative path against the document's folder. It is
	// not stored in ledgers: a sale that is moved with its files is unchanged.
	Dir string `yaml:"dir,omitempty" json:"-" jsonschema_description:"Folder of the files."`
}

// DefaultEmbeddedDir is the default folder of a document.
const DefaultEmbeddedDir = ".salectl"

// EmbeddedNode is the name of the one lock node of an embedded sale.
const EmbeddedNode = "embedded"

func (Embedded) JSONSchemaExtend(s *jsonschema.Schema) {
	dir, one := property(s, "dir"), uint64(1)
	dir.Default, dir.MinLength = DefaultEmbeddedDir, &one
}

// embedded decodes the folder of the files.
func (d *decoder) embedded(spec object) *Embedded {
	v, ok := d.value(spec, "embedded")
	if !ok {
		return nil
	}
	if v.node.Value == "" && v.node.ShortTag() == "!!null" {
		d.refuse(v.at, "Write embedded: {}.", "%s is empty, and should be a mapping of keys", v.path)
		return nil
	}
	o, ok := d.object(v, reflect.TypeFor[Embedded]())
	if !ok {
		return nil
	}
	dir := DefaultEmbeddedDir
	if v, ok := d.value(o, "dir"); ok {
		dir, _ = checked(d, v, DefaultEmbeddedDir, checkDir)
	}
	return &Embedded{Dir: d.src.resolve(dir)}
}

// part converts the folder to its part of a document.
func (e *Embedded) part() *Embedded {
	if e == nil {
		return nil
	}
	return &Embedded{Dir: unless(DefaultEmbeddedDir, e.Dir)}
}

// withFolder returns e with the folder of local.
func (e *Embedded) withFolder(local *Embedded) *Embedded {
	if e == nil || local == nil {
		return e
	}
	return &Embedded{Dir: local.Dir}
}

// home returns the home of the ledger. That of the locks has a node in addition.
func (e *Embedded) home() Home {
	return Home{Kind: "embedded", Place: "embedded files", Local: e.Dir, Settings: Settings{Backend: "embedded"}}
}
