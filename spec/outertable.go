package spec

import (
	"slices"

	"github.com/invopop/jsonschema"
)

// tableHome is the default location of a table without zookeeper.
type tableHome struct {
	declared bool   // the document has the sale's own table
	sale     *HBase // table of the sale's own ledger; nil: none, or invalid
}

// outerTable sets the schema of a table outside the sale: of users, or of a history.
func outerTable(s *jsonschema.Schema) {
	addressList(property(s, "zookeeper"))
	property(s, "zookeeperRoot").Pattern = znodeForm
	property(s, "table").Pattern = tableForm
	property(s, "family").Pattern = familyForm
}

// zookeeper decodes the servers of the table. The default are those of the sale's own table.
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

// elsewhere returns the location of a table as far as it differs from that of the ledger.
func (h *HBase) elsewhere(zookeeper []string, root string) ([]string, string) {
	switch {
	case h == nil || !slices.Equal(zookeeper, h.Zookeeper):
		return zookeeper, unless(DefaultZookeeperRoot, root)
	case root == h.ZookeeperRoot:
		return nil, ""
	}
	return zookeeper, root
}
