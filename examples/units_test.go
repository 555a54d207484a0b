package examples

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptUnits is "units EXAMPLE one|cluster": the files of an example, whose sale.yaml is on
// servers of the script if it says so.
func scriptUnits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: units EXAMPLE one|cluster")
	}
	folder := filepath.Join(ts.Getenv("EXAMPLES"), args[0])
	files, err := fs.Glob(os.DirFS(folder), "*.csv")
	ts.Check(err)
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join(folder, name))
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(name), text, 0o600))
	}
	s := serversOf(ts)
	var changes []change
	switch args[1] {
	case "one":
	case "cluster":
		s.startRedis(ts, 3)
		s.startHBase(ts, false)
		changes = []change{{"embedded: {dir: .salectl}", "redis: {nodes: " + s.nodes() + "}\n" +
			"  hbase: {zookeeper: [" + strconv.Quote(s.hbase.Zookeeper()) + "], table: " + s.table + "}"}}
	default:
		ts.Fatalf("no such place: %s", args[1])
	}
	s.example(ts, args[0], changes...)
}
