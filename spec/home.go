package spec

import "fmt"

// Home is the location of the ledger or the locks of a sale, independent of its kind. Packages
// planner and cli use it instead of the kinds.
type Home struct {
	// Kind is the key of the document that declares it: embedded, hbase, redis.
	Kind string `json:"kind"`
	// Place is its name for people, in plans and refusals ("it cannot move from Place to
	// Place"). It is equal for the same ledger on every host.
	Place string `json:"place"`
	// Nodes are the names of the lock nodes, as given by their drivers, in the order of the
	// document. A ledger has none.
	Nodes []string `json:"nodes,omitempty"`
	// Local distinguishes homes with the same Place within a process. It is no part of a
	// declaration: a folder may be moved with its content.
	Local string `json:"-"`
}

// Key is equal for homes that a process opens only once.
func (h Home) Key() string { return fmt.Sprintf("%q %q %q", h.Kind, h.Place, h.Local) }

// Homes are the homes of a sale with drivers that no document can name, of a program with its
// own drivers.
type Homes struct {
	Ledger Home `json:"ledger"`
	Locks  Home `json:"locks"`
}

// KeepInFiles has the sale keep ledger and locks in files beside its document.
func (s *Sale) KeepInFiles() { s.Embedded = &Embedded{} }

// KeepOnServers has the sale keep its locks on Redis nodes, and its ledger in a table of the HBase that
// ZooKeeper servers name: host:port each.
func (s *Sale) KeepOnServers(redis, zookeeper []string, table string) {
	s.Redis, s.HBase = &Redis{Nodes: redis}, &HBase{Zookeeper: zookeeper, Table: table}
}

// At returns a name for people on this host: Place, and the folder of files.
func (h Home) At() string {
	if h.Kind != "embedded" || h.Local == "" {
		return h.Place
	}
	return h.Place + " in " + h.Local
}

// Ledger returns the home of the sale's logs. It fails for a stored declaration of another
// version of the program with an unknown home.
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

// Locks returns the home of the sale's leases. It fails as Ledger does.
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

// known returns an error for a home without kind or place.
func (h Home) known(what string) error {
	if h.Kind == "" || h.Place == "" {
		return fmt.Errorf("its declaration does not state where %s kept in a way that this program knows: use a newer one", what)
	}
	return nil
}

// ListNodes returns the names of the list nodes in the order used by ListNode; none with
// EngineLedger.
func (s Sale) ListNodes() []string {
	if s.Engine != EngineRedis || s.Redis == nil {
		return nil
	}
	return s.Redis.Nodes
}
