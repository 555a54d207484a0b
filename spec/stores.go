package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"
	"gopkg.in/yaml.v3"
)

// MaxServers is the maximum length of a list of servers. Every lease needs a call to each lock
// node, so a longer list is a mistake.
const MaxServers = 99

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

// Redis are the nodes of the locks and, with EngineRedis, of the lists. Secrets are given by
// names of environment variables.
type Redis struct {
	// Nodes are host:port in lower case, without duplicates; an odd number with EngineLedger.
	Nodes       []string `yaml:"nodes" json:"nodes" form:"addresses" max:"99" example:"127.0.0.1:6379" doc:"Independent standalone Redis nodes, host:port each; an odd number, except with engine redis. On a live sale they change only while it is paused."`
	UsernameEnv string   `yaml:"usernameEnv,omitempty" json:"usernameEnv,omitempty" with:"passwordEnv" form:"env" example:"REDIS_USERNAME" doc:"Environment variable with the user name. Needs passwordEnv."`
	PasswordEnv string   `yaml:"passwordEnv,omitempty" json:"passwordEnv,omitempty" form:"env" example:"REDIS_PASSWORD" doc:"Environment variable with the password."`
	TLS         bool     `yaml:"tls,omitempty" json:"tls" doc:"Connect with TLS, by the machine's certificate authorities or SSL_CERT_FILE."`
}

// stores checks the location of the sale: embedded, or redis and hbase; with the Redis engine
// redis, and embedded or hbase. If the engine is unknown, conflicts cannot be reported.
func (d *decoder) stores(o object, engine Engine) {
	switch engine {
	case EngineRedis:
		d.listsAndLedger(o)
	case EngineLedger:
		d.oneHome(o)
	}
	d.redis(engine == EngineLedger)
}

// oneHome reports a sale with no location, two, or an incomplete one.
func (d *decoder) oneHome(o object) {
	embedded, redis, hbase := o.keys["embedded"], o.keys["redis"], o.keys["hbase"]
	switch {
	case embedded == nil && redis == nil && hbase == nil:
		d.refuse(o.at, "Add embedded: {} to keep it in local files, or redis and hbase.",
			"%s names no store of the sale", o.path)
	case embedded == nil && hbase == nil:
		d.refuse(o.at, "Add hbase for the ledger, or use embedded: {} instead of redis.", "%s has redis but no hbase", o.path)
	case embedded == nil && redis == nil:
		d.refuse(o.at, "Add redis for the locks, or use embedded: {} instead of hbase.", "%s has hbase but no redis", o.path)
	}
	if other := cmp.Or(redis, hbase); embedded != nil && other != nil {
		d.beside(o, embedded, other,
			"Keep embedded for local files, or redis and hbase for servers; embedded fits redis only with engine: redis.")
	}
}

// listsAndLedger reports a sale of the Redis engine without lists, or without exactly one
// ledger.
func (d *decoder) listsAndLedger(o object) {
	engine, embedded, hbase := join(o.path, "engine"), o.keys["embedded"], o.keys["hbase"]
	if o.keys["redis"] == nil {
		d.refuse(o.values["engine"], `Add redis: {nodes: ["127.0.0.1:6379"]} for the lists and locks, or remove engine.`,
			"%s is redis, but %s has no redis", engine, o.path)
	}
	switch {
	case embedded == nil && hbase == nil:
		d.refuse(o.values["engine"], "Add embedded: {} to keep the ledger in local files, or hbase.",
			"%s is redis, but %s names no store of the ledger", engine, o.path)
	case embedded != nil && hbase != nil:
		d.beside(o, embedded, hbase, "Keep one of them, for the ledger.")
	}
}

// after reports whether a is behind b in the document.
func after(a, b *yaml.Node) bool {
	return a.Line > b.Line || a.Line == b.Line && a.Column > b.Column
}

// beside reports the later of two keys that exclude each other.
func (d *decoder) beside(o object, a, b *yaml.Node, remedy string) {
	later, other := b, a
	if after(a, b) {
		later, other = a, b
	}
	d.refuse(later, remedy, "%s cannot be combined with %s, which is on line %d", join(o.path, target(later).Value), target(other).Value, other.Line)
}

// addresses decodes a list of distinct host:port.
func (d *decoder) addresses(v value, o *option) (any, bool) {
	items, _ := d.items(v, o, "Name fewer, each once; three or five suffice.")
	for _, item := range v.node.Content { // of a list that is too long, too
		d.hideLogin(target(item))
	}
	var all []string
	first := map[string]value{}
	for _, item := range items {
		// text would suggest quotes for a lone port.
		if !d.scalar(item, "host:port", fmt.Sprintf("Write host:port, such as %q.", o.example)) {
			continue
		}
		address, f := readAddress(item.node.Value)
		if !d.valid(item, f) {
			continue
		}
		if twin, twice := first[address]; twice {
			d.refuse(item.at, "Name each server once.",
				"%s is %s, which %s is already", item.path, address, twin.path)
			continue
		}
		first[address] = item
		all = append(all, address)
	}
	return all, true
}

// hideLogin masks an address that may contain a password.
func (d *decoder) hideLogin(n *yaml.Node) {
	if strings.Contains(n.Value, "@") {
		d.hide(n)
	}
}

func addressList(s *jsonschema.Schema) {
	s.UniqueItems, s.Items.Pattern = true, addressForm
}

// redis checks the nodes. odd: their number must be odd, since they only vote.
func (d *decoder) redis(odd bool) {
	o, ok := d.objects["spec.redis"]
	if !ok {
		return
	}
	if v, ok := d.value(o, "nodes"); ok {
		if n := len(v.node.Content); odd && n%2 == 0 && n > 0 && n <= MaxServers {
			d.refuse(v.at, fmt.Sprintf("Name %d or %d: an even number tolerates no more failures than one node less.", n-1, n+1),
				"%s has %d nodes, an even number", v.path, n)
		}
	}
}

func (r *Redis) home() Home {
	nodes := strings.Join(slices.Sorted(slices.Values(r.Nodes)), " ")
	return Home{Kind: "redis", Place: "the Redis nodes " + nodes, Nodes: r.Nodes, Local: nodes}
}
