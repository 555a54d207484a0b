package spec

import (
	"fmt"
	"reflect"

	"github.com/invopop/jsonschema"
)

// HBase names the table of the logs.
type HBase struct {
	Zookeeper     []string // host:port, lower case, none twice
	ZookeeperRoot string   // HBase's parent znode
	Table         string   // with its namespace, unless that is the default one
}

// DefaultZookeeperRoot is HBase's parent znode where a document says nothing.
const DefaultZookeeperRoot = "/hbase"

type hbasePart struct {
	Zookeeper     []string `yaml:"zookeeper" jsonschema_description:"HBase's ZooKeeper servers, host:port each."`
	ZookeeperRoot string   `yaml:"zookeeperRoot,omitempty" jsonschema_description:"HBase's parent znode."`
	Table         string   `yaml:"table" jsonschema:"example=sales" jsonschema_description:"Table that keeps the ledgers; many sales may share it, and destroy leaves it. A namespace may stand before it, with a colon."`
}

func (hbasePart) JSONSchemaExtend(s *jsonschema.Schema) {
	addressList(property(s, "zookeeper"))
	root := property(s, "zookeeperRoot")
	root.Pattern, root.Default = znodeForm, DefaultZookeeperRoot
	property(s, "table").Pattern = tableForm
}

// hbase takes the table of the logs.
func (d *decoder) hbase(spec object) *HBase {
	o, ok := d.part(spec, "hbase", reflect.TypeFor[hbasePart]())
	if !ok {
		return nil
	}
	h := &HBase{ZookeeperRoot: DefaultZookeeperRoot}
	if v, ok := d.value(o, "zookeeper"); ok {
		h.Zookeeper = d.addresses(v, "127.0.0.1:2181")
	}
	if v, ok := d.value(o, "zookeeperRoot"); ok {
		h.ZookeeperRoot, _ = checked(d, v, DefaultZookeeperRoot, checkZnode)
	}
	h.Table = d.table(o, "sales")
	return h
}

// table takes the name of a table; empty if there is a problem.
func (d *decoder) table(o object, example string) string {
	v, ok := d.value(o, "table")
	if !ok {
		return ""
	}
	text, ok := d.text(v, example)
	if !ok {
		return ""
	}
	table, f := readTable(text)
	if f != nil {
		d.fault(v, f)
	}
	return table
}

// part writes the table for a document.
func (h *HBase) part() *hbasePart {
	if h == nil {
		return nil
	}
	return &hbasePart{Zookeeper: h.Zookeeper, ZookeeperRoot: unless(DefaultZookeeperRoot, h.ZookeeperRoot), Table: h.Table}
}

type storedHBase struct {
	Zookeeper     []string `json:"zookeeper"`
	ZookeeperRoot string   `json:"zookeeperRoot"`
	Table         string   `json:"table"`
}

func (h *HBase) stored() *storedHBase {
	if h == nil {
		return nil
	}
	return &storedHBase{h.Zookeeper, h.ZookeeperRoot, h.Table}
}

func (in *storedHBase) read() *HBase {
	if in == nil {
		return nil
	}
	return &HBase{in.Zookeeper, in.ZookeeperRoot, in.Table}
}

func (h *HBase) home() Home {
	return Home{
		Kind: "hbase", Place: "the HBase table " + h.Table, Local: fmt.Sprint(*h),
		Settings: Settings{Backend: "HBase table " + h.Table, Zookeeper: h.Zookeeper, ZookeeperRoot: h.ZookeeperRoot},
	}
}
