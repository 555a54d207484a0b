package spec

import (
	"fmt"
	"slices"
)

// HBase is the table of the logs.
type HBase struct {
	// Zookeeper are the servers as host:port in lower case, without duplicates.
	Zookeeper []string `yaml:"zookeeper" json:"zookeeper" form:"addresses" max:"99" example:"127.0.0.1:2181" doc:"ZooKeeper servers, host:port each."`
	// ZookeeperRoot is HBase's parent znode.
	ZookeeperRoot string `yaml:"zookeeperRoot,omitempty" json:"zookeeperRoot" form:"znode" default:"/hbase" example:"/hbase" doc:"Parent znode of HBase."`
	// Table includes the namespace, unless it is the default one.
	Table string `yaml:"table" json:"table" form:"table" example:"sales" doc:"Table of the ledgers; sales may share it, and destroy keeps it. NAMESPACE:TABLE is possible."`
}

// DefaultZookeeperRoot is the default parent znode of a document.
const DefaultZookeeperRoot = "/hbase"

// table decodes the name of a table.
func (d *decoder) table(v value, o *option) (any, bool) {
	text, ok := d.text(v, o.example)
	if !ok {
		return nil, false
	}
	table, f := readTable(text)
	return table, d.valid(v, f)
}

func (h *HBase) home() Home {
	return Home{Kind: "hbase", Place: "the HBase table " + h.Table, Local: fmt.Sprint(*h)}
}

// Rows is an HBase table outside the sale, with a row for each user by the user's id.
type Rows struct {
	// Zookeeper are the servers as host:port. The default is that of the sale's own table.
	Zookeeper     []string `yaml:"zookeeper,omitempty" json:"zookeeper" form:"addresses" max:"99" example:"127.0.0.1:2181" doc:"ZooKeeper servers, host:port each. Default: those of spec.hbase."`
	ZookeeperRoot string   `yaml:"zookeeperRoot,omitempty" json:"zookeeperRoot" form:"znode" example:"/hbase" doc:"Parent znode of HBase. Default: that of spec.hbase, or /hbase with zookeeper."`
	Table         string   `yaml:"table" json:"table" form:"table" example:"shop:buyers" doc:"Name of the table; NAMESPACE:TABLE is possible."`
	Family        string   `yaml:"family" json:"family" form:"family" example:"f" doc:"Column family of the values."`
}

// rows completes the location of a table outside the sale. The default is that of the sale's own table.
func (d *decoder) rows(path string, s *Sale, t *Rows) {
	o, own := d.objects[path], d.objects["spec"].keys["hbase"] != nil
	given := o.keys["zookeeper"] != nil
	switch {
	case s.HBase != nil && !given:
		t.Zookeeper = s.HBase.Zookeeper
	case !given && !own:
		d.refuse(o.at, `Add zookeeper: ["127.0.0.1:2181"].`, "%s lacks zookeeper, and the sale has no hbase of its own", o.path)
	}
	switch {
	case o.keys["zookeeperRoot"] != nil:
	case s.HBase != nil && !given:
		t.ZookeeperRoot = s.HBase.ZookeeperRoot
	default:
		t.ZookeeperRoot = DefaultZookeeperRoot
	}
}

// omitHome omits the location of a table as far as it is that of the ledger.
func (t *Rows) omitHome(h *HBase) {
	switch {
	case h == nil || !slices.Equal(t.Zookeeper, h.Zookeeper):
		if t.ZookeeperRoot == DefaultZookeeperRoot {
			t.ZookeeperRoot = ""
		}
	case t.ZookeeperRoot == h.ZookeeperRoot:
		t.Zookeeper, t.ZookeeperRoot = nil, ""
	}
}
