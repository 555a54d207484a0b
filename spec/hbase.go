package spec

import (
	"fmt"
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
	if f != nil {
		d.fault(v, f)
	}
	return table, f == nil
}

func (h *HBase) home() Home {
	return Home{Kind: "hbase", Place: "the HBase table " + h.Table, Local: fmt.Sprint(*h)}
}
