package spec

import (
	"cmp"
	"fmt"
	"strings"
)

// Home is where the ledger or the locks of a sale are kept. It answers what
// planner and cli ask of such a place, so that neither needs to know its kind.
type Home struct {
	// Kind is the key of the document that declares it: embedded, hbase, redis.
	Kind string `json:"kind"`
	// Place names it for people, in plans and refusals, as in "it cannot move
	// from Place to Place". It is equal for one and the same ledger, whoever
	// reaches it from wherever.
	Place string `json:"place"`
	// Nodes are the names of the lock nodes, as their drivers give them, in the
	// order of the document. A ledger has none.
	Nodes []string `json:"nodes,omitempty"`
	// Settings are what plans show of it. Where they do not say which backend the ledger
	// has, or name the lock nodes, plans show its Place and its Nodes.
	Settings Settings `json:"settings"`
	// Local tells apart the homes of one Place that one process opens. It is no part of
	// a declaration: a folder may be moved together with what is in it.
	Local string `json:"-"`
}

// Key is equal for homes that one process opens once.
func (h Home) Key() string { return fmt.Sprintf("%q %q %q", h.Kind, h.Place, h.Local) }

// Homes are both homes of a sale, where these are of kinds that no document can
// name: those of a program that brings drivers of its own.
type Homes struct {
	Ledger Home `json:"ledger"`
	Locks  Home `json:"locks"`
}

// Settings are what plans show of the homes of a sale. Secrets are not among them.
type Settings struct {
	Backend       string   `json:"backend,omitempty"` // of the ledger
	Zookeeper     []string `json:"zookeeper,omitempty"`
	ZookeeperRoot string   `json:"zookeeperRoot,omitempty"`
	LockNodes     []string `json:"lockNodes,omitempty"`
	UsernameEnv   string   `json:"usernameEnv,omitempty"`
	PasswordEnv   string   `json:"passwordEnv,omitempty"`
	TLS           bool     `json:"tls,omitempty"`
}

// Each calls show for every setting as text, absent ones as "", in a fixed order.
func (s Settings) Each(show func(name, value string)) {
	tls := ""
	if s.TLS {
		tls = "true"
	}
	show("backend", s.Backend)
	show("zookeeper", strings.Join(s.Zookeeper, ", "))
	show("zookeeperRoot", s.ZookeeperRoot)
	show("lock nodes", strings.Join(s.LockNodes, ", "))
	show("usernameEnv", s.UsernameEnv)
	show("passwordEnv", s.PasswordEnv)
	show("tls", tls)
}

// At names a home for people on this host: Place, and the folder of files.
func (h Home) At() string {
	if h.Kind != "embedded" || h.Local == "" {
		return h.Place
	}
	return h.Place + " in " + h.Local
}

// Ledger returns where the sale's logs are. The error is for a declaration that
// another version of the program has stored, with a home that this one does not
// know.
func (s Sale) Ledger() (Home, error) {
	switch {
	case s.Homes != nil:
		return s.Homes.Ledger, s.Homes.Ledger.known("its ledger is")
	case s.HBase != nil:
		return s.HBase.home(), nil
	case s.Embedded != nil:
		return s.Embedded.home(), nil
	}
	return Home{}, Home{}.known("its ledger is")
}

// Locks returns where the sale's leases are, with the error of Ledger.
func (s Sale) Locks() (Home, error) {
	switch {
	case s.Homes != nil:
		return s.Homes.Locks, s.Homes.Locks.known("its locks are")
	case s.Redis != nil:
		return s.Redis.home(), nil
	case s.Embedded != nil:
		home := s.Embedded.home()
		home.Nodes = []string{EmbeddedNode}
		return home, nil
	}
	return Home{}, Home{}.known("its locks are")
}

// known is the error of a home that does not say what and where it is.
func (h Home) known(what string) error {
	if h.Kind == "" || h.Place == "" {
		return fmt.Errorf("its declaration does not say where %s kept in a way that this program knows: use a newer one", what)
	}
	return nil
}

// Settings returns what plans show of both homes, as far as they are known.
func (s Sale) Settings() Settings {
	ledger, _ := s.Ledger()
	locks, _ := s.Locks()
	all := locks.Settings
	if s.Homes != nil && all.LockNodes == nil {
		all.LockNodes = locks.Nodes
	}
	all.Backend = cmp.Or(ledger.Settings.Backend, ledger.Place, "unknown to this program")
	all.Zookeeper, all.ZookeeperRoot = ledger.Settings.Zookeeper, ledger.Settings.ZookeeperRoot
	return all
}

// ListNodes names the nodes that keep the sale's lists, in the order that
// ListNode goes by; none with EngineLedger.
func (s Sale) ListNodes() []string {
	if s.Engine != EngineRedis || s.Redis == nil {
		return nil
	}
	return s.Redis.Nodes
}
