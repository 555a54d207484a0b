package backends_test

import (
	"testing"

	"salectl/backends"
	"salectl/spec"
)

// The Redis engine has its lists on the lock nodes, in the order of the file, and
// these are Redis even where the ledger is embedded.
func TestOpenListsForEngineRedis(t *testing.T) {
	sale := spec.Sale{
		Name: "red", Embedded: &spec.Embedded{Dir: t.TempDir()},
		Redis: &spec.Redis{Nodes: []string{"127.0.0.1:1", "127.0.0.1:2"}}, Engine: spec.EngineRedis,
	}
	var stores backends.Stores
	defer stores.Close()
	s, err := stores.Open(sale)
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "embedded" || len(s.Nodes) != 2 || len(s.Lists) != 2 {
		t.Fatalf("the store is %s, with %d nodes and %d lists", s.Name, len(s.Nodes), len(s.Lists))
	}
	for i, name := range sale.Redis.Nodes {
		if s.Nodes[i].Name() != name || s.Lists[i].Name() != name {
			t.Errorf("node %d is %s, and of lists %s; want %s", i, s.Nodes[i].Name(), s.Lists[i].Name(), name)
		}
	}
	// The same folder with locks of its own is another place.
	plain := sale
	plain.Engine, plain.Redis = spec.EngineLedger, nil
	other, err := stores.Open(plain)
	if err != nil || other == s || other.Lists != nil || len(other.Nodes) != 1 {
		t.Errorf("for engine ledger: %+v, %v", other, err)
	}
	if again, err := stores.Open(sale); err != nil || again != s {
		t.Errorf("the same place was opened twice, %v", err)
	}
}
