package spec

import (
	"fmt"
	"reflect"

	"github.com/invopop/jsonschema"
)

// HBase is the table of the logs.
type HBase struct {
	// Zookeeper are the servers as host:port in lower case, without duplicates.
	Zookeeper []string `yaml:"zookeeper" json:"zookeeper" jsonschema_description:"ZooKeeper servers, host:port each."`
	// ZookeeperRoot is HBase's parent znode.
	ZookeeperRoot string `yaml:"zookeeperRoot,omitempty" json:"zookeeperRoot" jsonschema_description:"Parent znode of HBase."`
	// Table includes the namespace, unless it is the default one.
	Table string `yaml:"table" json:"table" jsonschema:"example=sales" jsonschema_description:"Table of the ledgers; sales may share it, and destroy keeps it. NAMESPACE:TABLE is possible."`
}

// DefaultZookeeperRoot is the default parent znode of a document.
const DefaultZookeeperRoot = "/hbase"

func (HBase) JSONSchemaExtend(s *jsonschema.Schema) {
	addressList(property(s, "zookeeper"))
	root := property(s, "zookeeperRoot")
	root.Pattern, root.Default = znodeForm, DefaultZookeeperRoot
	property(s, "table").Pattern = tableForm
}

// hbase decodes the table of the logs.
func (d *decoder) hbase(spec object) *HBase {
	o, ok := d.part(spec, "hbase", reflect.TypeFor[HBase]())
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

// table decodes the name of a table; "" if there is a problem.
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

// part converts the table to its part of a document.
func (h *HBase) part() *HBase {
	if h == nil {
		return nil
	}
	return &HBase{Zookeeper: h.Zookeeper, ZookeeperRoot: unless(DefaultZookeeperRoot, h.ZookeeperRoot), Table: h.Table}
}

func (h *HBase) home() Home {
	return Home{
		Kind: "hbase", Place: "the HBase table " + h.Table, Local: fmt.Sprint(*h),
		Settings: Settings{Backend: "HBase table " + h.Table, Zookeeper: h.Zookeeper, ZookeeperRoot: h.ZookeeperRoot},
	}
}
