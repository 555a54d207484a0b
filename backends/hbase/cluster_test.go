package hbase

import (
	"testing"
	"time"

	"salectl/internal/services"
)

// TestCluster takes region servers away while rows on both are written to. The
// rows of the other one go on, and those of the one that is away are back soon
// after HBase has moved them: it notices a dead server when its session in
// ZooKeeper ends, after 6 s here, however it died.
func TestCluster(t *testing.T) {
	ctx := t.Context()
	cluster, err := services.StartCluster(ctx, services.ClusterOptions{})
	services.Require(t, err)
	t.Cleanup(cluster.Stop)
	logs := mustOpenAt(t, cluster.Zookeeper())
	if err := createTable(ctx, logs); err != nil {
		t.Fatal(err)
	}
	meta, other := whoHasMeta(t, cluster, logs)
	c := startCrowd(t, logs, newPrefix(), 8, 2000)
	for _, fault := range []struct {
		name     string
		do, undo func() error
	}{
		{"ZooKeeper frozen for a moment",
			func() error { return cluster.Pause("zk") },
			func() error { return cluster.Continue("zk") }},
		// With the server that has hbase:meta frozen, HBase's own master waits
		// for it for a minute.
		{"a region server frozen",
			func() error { return cluster.Pause(other) },
			func() error { cluster.Kill(other); return cluster.Start(ctx, other) }},
		{"the region server that has hbase:meta killed",
			func() error { return cluster.Kill(meta) },
			func() error { return cluster.Start(ctx, meta) }},
		{"the master killed",
			func() error { return cluster.Kill("hm") },
			func() error { return cluster.Start(ctx, "hm") }},
	} {
		c.more(t, 50)
		begin := time.Now()
		if err := fault.do(); err != nil {
			t.Fatal(err)
		}
		c.more(t, 20)
		t.Logf("%s: all rows accepted writes again after %v", fault.name, time.Since(begin))
		if err := fault.undo(); err != nil {
			t.Fatal(err)
		}
	}
	c.more(t, 20)
	c.check(t, mustOpenAt(t, cluster.Zookeeper()))
}

// whoHasMeta returns the region server that has hbase:meta, and the other one:
// the one without which meta is silent.
func whoHasMeta(t *testing.T, cluster *services.Cluster, logs *Logs) (meta, other string) {
	t.Helper()
	if err := cluster.Pause("rs1"); err != nil {
		t.Fatal(err)
	}
	defer cluster.Continue("rs1")
	err := logs.call("find meta", func() error {
		_, err := logs.regions.lookup([]byte("00"))
		return err
	})
	if err != nil {
		return "rs1", "rs2"
	}
	return "rs2", "rs1"
}
