package spec

// Embedded keeps a sale in SQLite files in one folder, with no server.
type Embedded struct {
	// Dir is the folder. Load resolves a relative path against the document's folder. It is
	// not stored in ledgers: a sale that is moved with its files is unchanged.
	Dir string `yaml:"dir,omitempty" json:"-" form:"folder" default:".salectl" example:".salectl" doc:"Folder of the files."`
}

// EmbeddedNode is the name of the one lock node of an embedded sale.
const EmbeddedNode = "embedded"

// home returns the home of the ledger. That of the locks has a node in addition.
func (e *Embedded) home() Home {
	return Home{Kind: "embedded", Place: "embedded files", Local: e.Dir}
}
