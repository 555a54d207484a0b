package spec

import "slices"

// tableHome is the default location of a table without zookeeper.
type tableHome struct {
	declared bool   // the document has the sale's own table
	sale     *HBase // table of the sale's own ledger; nil: none, or invalid
}

// outerTable completes the location of a table outside the sale, of users or of a history. The
// default is that of the sale's own table.
func (d *decoder) outerTable(path string, from tableHome, servers *[]string, root *string) {
	o := d.objects[path]
	given := o.keys["zookeeper"] != nil
	switch {
	case from.sale != nil && !given:
		*servers = from.sale.Zookeeper
	case !given && !from.declared:
		d.refuse(o.at, `Add zookeeper: ["127.0.0.1:2181"].`, "%s lacks zookeeper, and the sale has no hbase of its own", o.path)
	}
	switch {
	case o.keys["zookeeperRoot"] != nil:
	case from.sale != nil && !given:
		*root = from.sale.ZookeeperRoot
	default:
		*root = DefaultZookeeperRoot
	}
}

// omitHome omits the location of a table as far as it is that of the ledger.
func (h *HBase) omitHome(zookeeper *[]string, root *string) {
	switch {
	case h == nil || !slices.Equal(*zookeeper, h.Zookeeper):
		if *root == DefaultZookeeperRoot {
			*root = ""
		}
	case *root == h.ZookeeperRoot:
		*zookeeper, *root = nil, ""
	}
}
