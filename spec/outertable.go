package spec

import (
	"slices"

	"github.com/invopop/jsonschema"
)

// tableHome is where a table is looked for that says nothing of its ZooKeeper.
type tableHome struct {
	declared bool   // whether the document has the sale's own table
	sale     *HBase // of the sale's own ledger; nil: it has none, or a problem
}

// outerTable is the schema of a table that the sale does not keep: of users, or of a
// history.
func outerTable(s *jsonschema.Schema) {
	addressList(property(s, "zookeeper"))
	property(s, "zookeeperRoot").Pattern = znodeForm
	property(s, "table").Pattern = tableForm
	property(s, "family").Pattern = familyForm
}

// zookeeper takes where the table's servers are found, by default where the sale's own
// are.
func (d *decoder) zookeeper(o object, from tableHome) (servers []string, root string) {
	root = DefaultZookeeperRoot
	if from.sale != nil && o.keys["zookeeper"] == nil {
		servers, root = from.sale.Zookeeper, from.sale.ZookeeperRoot
	}
	if v, ok := d.value(o, "zookeeper"); ok {
		servers = d.addresses(v, "127.0.0.1:2181")
	} else if !from.declared {
		d.refuse(o.at, `Add zookeeper: ["127.0.0.1:2181"].`, "%s lacks zookeeper, and the sale has no hbase of its own", o.path)
	}
	if v, ok := d.value(o, "zookeeperRoot"); ok {
		root, _ = checked(d, v, DefaultZookeeperRoot, checkZnode)
	}
	return servers, root
}

func (d *decoder) family(o object) string {
	v, ok := d.value(o, "family")
	if !ok {
		return ""
	}
	family, _ := checked(d, v, "u", func(text string) *fault {
		if familyRE.MatchString(text) {
			return nil
		}
		return &fault{"is no column family that HBase takes", "Use letters, digits, and _ . - behind the first."}
	})
	return family
}

// elsewhere returns where a table is, if that is not where the table of the ledger is.
func (h *HBase) elsewhere(zookeeper []string, root string) ([]string, string) {
	switch {
	case h == nil || !slices.Equal(zookeeper, h.Zookeeper):
		return zookeeper, unless(DefaultZookeeperRoot, root)
	case root == h.ZookeeperRoot:
		return nil, ""
	}
	return zookeeper, root
}
