package backends_test

import (
	"log/slog"
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

// Homes of a kind that this program does not know may differ in their place alone.
func TestStoresOfEveryPlace(t *testing.T) {
	stores := backends.Stores{Opener: func(spec.Sale, *slog.Logger) (*backends.Store, error) { return new(backends.Store), nil }}
	open := func(ledger, locks string) *backends.Store {
		t.Helper()
		store, err := stores.Open(spec.Sale{Name: "tickets", Homes: &spec.Homes{
			Ledger: spec.Home{Kind: "third", Place: ledger}, Locks: spec.Home{Kind: "third", Place: locks},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	first := open("here", "here")
	if open("there", "here") == first || open("here", "there") == first {
		t.Error("two places have one store")
	}
	if open("here", "here") != first {
		t.Error("the same place was opened twice")
	}
}
