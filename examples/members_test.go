package examples

import "github.com/rogpeppe/go-internal/testscript"

// tables makes and fills the tables of the example, as in its README.
var tables = built("./members-only-cluster/tables")

// scriptMembers is "members": three Redis, an HBase and sale.yaml, the example whose users
// stand in a table. Neither that table, USERS, nor that for what they buy, PURCHASES, is
// there yet.
func scriptMembers(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: members")
	}
	s := serversOf(ts)
	s.startRedis(ts, 3)
	s.startHBase(ts, false)
	users, purchases := s.table+"_users", s.table+"_purchases"
	s.example(ts, "members-only-cluster", append(s.places(), change{threeNodes, s.nodes()},
		change{"table: users", "table: " + users}, change{"table: purchases", "table: " + purchases})...)
	ts.Setenv("ZOOKEEPER", s.hbase.Zookeeper())
	ts.Setenv("USERS", users)
	ts.Setenv("PURCHASES", purchases)
}

// scriptTables is "tables FILE": the example's program makes the tables and puts the users
// of the file into theirs.
func scriptTables(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: tables FILE")
	}
	path, err := tables()
	ts.Check(err)
	ts.Check(ts.Exec(path, "-zookeeper", ts.Getenv("ZOOKEEPER"), "-users", ts.Getenv("USERS"), "-history", ts.Getenv("PURCHASES"), args[0]))
}
