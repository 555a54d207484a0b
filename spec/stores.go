package spec

import (
	"fmt"
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"
)

// stores takes the parts that say where the sale lives: embedded, or redis and
// hbase; with the Redis engine redis, and embedded or hbase. If the engine could
// not be made out, nobody can say which parts go together.
func (d *decoder) stores(o object, s *Sale, engineOK bool) {
	switch {
	case engineOK && s.Engine == EngineRedis:
		d.listsAndLedger(o)
	case engineOK:
		d.oneHome(o)
	}
	if v, ok := d.value(o, "embedded"); ok {
		s.Embedded = d.embedded(v)
	}
	if v, ok := d.value(o, "redis"); ok {
		s.Redis = d.redis(v, engineOK && s.Engine == EngineLedger)
	}
	if v, ok := d.value(o, "hbase"); ok {
		s.HBase = d.hbase(v)
	}
}

// oneHome reports a sale that lives nowhere, in two places, or by halves.
func (d *decoder) oneHome(o object) {
	embedded, redis, hbase := o.keys["embedded"], o.keys["redis"], o.keys["hbase"]
	switch {
	case embedded == nil && redis == nil && hbase == nil:
		d.refuse(o.at, "Add embedded: {} to keep it in local files, or redis and hbase.",
			"%s does not say where the sale is kept", o.path)
	case embedded == nil && hbase == nil:
		d.refuse(o.at, "Add hbase for the ledger, or use embedded: {} instead of redis.", "%s has redis but no hbase", o.path)
	case embedded == nil && redis == nil:
		d.refuse(o.at, "Add redis for the locks, or use embedded: {} instead of hbase.", "%s has hbase but no redis", o.path)
	}
	if embedded == nil {
		return
	}
	// The conflict is in the key that came later, as a reader would say.
	const remedy = "Keep embedded for local files, or redis and hbase for servers; embedded goes with redis only if engine: redis stands there."
	var before []string
	for _, name := range []string{"redis", "hbase"} {
		switch other := o.keys[name]; {
		case other == nil:
		case after(other, embedded):
			d.refuse(other, remedy, "%s cannot stand beside embedded, which is on line %d", join(o.path, name), embedded.Line)
		default:
			before = append(before, name)
		}
	}
	if len(before) > 0 {
		d.refuse(embedded, remedy, "%s cannot stand beside %s", join(o.path, "embedded"), and(before))
	}
}

// listsAndLedger reports a sale of the Redis engine that has no lists, or not
// one ledger.
func (d *decoder) listsAndLedger(o object) {
	engine, embedded, hbase := join(o.path, "engine"), o.keys["embedded"], o.keys["hbase"]
	if o.keys["redis"] == nil {
		d.refuse(o.values["engine"], `Add redis: {nodes: ["127.0.0.1:6379"]} for the lists and locks, or remove engine.`,
			"%s is redis, and %s has no redis", engine, o.path)
	}
	switch {
	case embedded == nil && hbase == nil:
		d.refuse(o.values["engine"], "Add embedded: {} to keep the ledger in local files, or hbase.",
			"%s is redis, and %s does not say where the ledger is kept", engine, o.path)
	case embedded != nil && hbase != nil:
		d.beside(o, embedded, hbase, "Keep one of them, for the ledger.")
	}
}

// after reports whether a stands behind b in the document.
func after(a, b *yaml.Node) bool {
	return a.Line > b.Line || a.Line == b.Line && a.Column > b.Column
}

// beside reports the later of two keys that cannot stand beside each other.
func (d *decoder) beside(o object, a, b *yaml.Node, remedy string) {
	later, other := b, a
	if after(a, b) {
		later, other = a, b
	}
	d.refuse(later, remedy, "%s cannot stand beside %s, which is on line %d", join(o.path, target(later).Value), target(other).Value, other.Line)
}

func (d *decoder) embedded(v value) *Embedded {
	if v.node.Value == "" && v.node.ShortTag() == "!!null" {
		d.refuse(v.at, "Write embedded: {}.", "%s is empty, and should be a mapping of keys", v.path)
		return nil
	}
	o, ok := d.object(v, reflect.TypeFor[embeddedPart]())
	if !ok {
		return nil
	}
	dir := DefaultEmbeddedDir
	if v, ok := d.value(o, "dir"); ok {
		dir, _ = checked(d, v, DefaultEmbeddedDir, checkDir)
	}
	return &Embedded{Dir: d.src.resolve(dir)}
}

// redis takes the nodes. odd: their number must be, since nothing but a majority
// of them is wanted.
func (d *decoder) redis(v value, odd bool) *Redis {
	o, ok := d.object(v, reflect.TypeFor[redisPart]())
	if !ok {
		return nil
	}
	r := &Redis{UsernameEnv: d.env(o, "usernameEnv"), PasswordEnv: d.env(o, "passwordEnv")}
	if v, ok := d.value(o, "nodes"); ok {
		r.Nodes = d.addresses(v, "127.0.0.1:6379")
		if n := len(v.node.Content); odd && n%2 == 0 && n > 0 && n <= MaxServers {
			d.refuse(v.at, fmt.Sprintf("Name %d or %d: of an even number, no more may fail than of one less.", n-1, n+1),
				"%s has %d nodes, an even number", v.path, n)
		}
	}
	if user := o.keys["usernameEnv"]; user != nil && o.keys["passwordEnv"] == nil {
		d.refuse(user, "Add passwordEnv, or remove usernameEnv.", "%s stands without passwordEnv", join(o.path, "usernameEnv"))
	}
	if v, ok := d.value(o, "tls"); ok {
		r.TLS, _ = d.boolean(v)
	}
	return r
}

func (d *decoder) hbase(v value) *HBase {
	o, ok := d.object(v, reflect.TypeFor[hbasePart]())
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

// addresses takes a list of host:port without repetitions.
func (d *decoder) addresses(v value, example string) []string {
	items, ok := d.items(v, fmt.Sprintf("Write %s: [%q].", v.key, example))
	if ok && len(items) == 0 {
		d.refuse(v.at, fmt.Sprintf("Write %s: [%q].", v.key, example), "%s is an empty list", v.path)
	}
	if len(items) > MaxServers {
		d.refuse(v.at, fmt.Sprintf("Name at most %d, each once: three or five will do.", MaxServers), "%s has %d servers", v.path, len(items))
		for _, item := range items {
			d.hideLogin(item)
		}
		return nil
	}
	var all []string
	first := map[string]value{}
	for _, item := range items {
		// Not by text: of a lone port, that would say to quote it.
		if !d.scalar(item, "host:port", fmt.Sprintf("Write host:port, such as %q.", example)) {
			continue
		}
		address, f := readAddress(item.node.Value)
		if f != nil {
			d.hideLogin(item)
			d.fault(item, f)
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
	return all
}

// hideLogin hides an address that a password may stand in.
func (d *decoder) hideLogin(v value) {
	if strings.Contains(v.node.Value, "@") {
		d.hide(v.node)
	}
}

// env takes the name of an environment variable. What is none may be a secret,
// so neither the message nor the line shown has it.
func (d *decoder) env(o object, key string) string {
	v, ok := d.value(o, key)
	if !ok || !d.scalar(v, "the name of an environment variable", fmt.Sprintf("Write %s: NAME, in capitals.", key)) {
		return ""
	}
	f := checkEnv(v.node.Value)
	if f == nil && v.node.ShortTag() != "!!str" {
		f = checkEnv("")
	}
	if f != nil {
		d.hide(v.node)
		d.fault(v, f)
		return ""
	}
	return v.node.Value
}
