package rules

import (
	"testing"

	"salectl/spec"
)

// A rule set of other tables has another hash, so that no shard grants a claim that was decided
// by the tables of an earlier generation. A declaration that was stored has the same one.
func TestHashNamesTables(t *testing.T) {
	sale := func(users, history string) spec.Sale {
		return spec.Sale{
			Name: "tickets", Run: 1, Stock: 1, LockCount: 1, PerUserLimit: 1, LockTTL: spec.DefaultFresh,
			Rules: []spec.Rule{{Name: "all", Require: "true", Enforce: spec.EnforceDeny}},
			Users: &spec.Users{
				Fresh: spec.DefaultFresh, Cached: 1, Attributes: []spec.Attribute{{Name: "a", Type: spec.TypeInt}, {Name: "b", Type: spec.TypeInt}},
				Table: &spec.UsersTable{Rows: spec.Rows{Zookeeper: []string{"zk:2181"}, ZookeeperRoot: "/hbase", Table: users, Family: "u"}, Columns: map[string]string{"a": "x", "b": "y"}},
			},
			History: &spec.History{Table: &spec.Rows{Zookeeper: []string{"zk:2181"}, ZookeeperRoot: "/hbase", Table: history, Family: "h"}},
		}
	}
	hash := func(s spec.Sale) Digest {
		t.Helper()
		h, ok := HashFor(s)
		if !ok {
			t.Fatal("there is no rule set")
		}
		if set, err := ForSale(s); err != nil || set.Hash() != h {
			t.Fatalf("the set is %v, and the declaration has %v: %v", set, h, err)
		}
		return h
	}
	first := hash(sale("u1", "h1"))
	stored, err := sale("u1", "h1").JSON()
	if err != nil {
		t.Fatal(err)
	}
	again, err := spec.FromJSON(stored)
	if err != nil {
		t.Fatal(err)
	}
	if hash(again) != first {
		t.Error("the declaration that was stored has another rule set")
	}
	for name, other := range map[string]spec.Sale{"users": sale("u2", "h1"), "history": sale("u1", "h2")} {
		if hash(other) == first {
			t.Errorf("the rule set is the same with another table of %s", name)
		}
	}
	file := sale("u1", "h1")
	file.History.Files = []string{"a.ndjson"}
	if hash(file) == first {
		t.Error("the rule set is the same with files of purchases beside the table")
	}
}
