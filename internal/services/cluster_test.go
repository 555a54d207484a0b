package services

import (
	"strings"
	"testing"
)

// One part is enough here: the tests of backends/hbase start all of them.
func TestClusterPartFailsAndStartsAgain(t *testing.T) {
	c, err := newCluster(ClusterOptions{Dir: t.TempDir()})
	Require(t, err)
	t.Cleanup(c.Stop)
	for range 2 {
		if err := c.Start(t.Context(), "zk"); err != nil {
			t.Fatal(err)
		}
		if answer := query(t.Context(), c.Zookeeper(), nil, zookeeperRequest); !strings.HasPrefix(answer, zookeeperReply) {
			t.Errorf("the reply of its ZooKeeper is %q", answer)
		}
		if err := c.Kill("zk", "rs3"); err == nil || !strings.Contains(err.Error(), "rs2") {
			t.Errorf("a part that does not exist: %v", err)
		}
		if c.parts["zk"].running() == nil {
			t.Error("a call that names a part that does not exist did half of its work")
		}
		if err := c.Kill("zk"); err != nil {
			t.Fatal(err)
		}
		if err := c.Pause("zk"); err == nil {
			t.Error("a part that is gone was paused")
		}
	}
	if err := c.Start(t.Context(), "zk"); err != nil {
		t.Fatal(err)
	}
	c.Stop()
	for name, part := range c.parts {
		if part.running() != nil {
			t.Errorf("%s runs after Stop", name)
		}
	}
	if _, err := StartCluster(t.Context(), ClusterOptions{Dir: c.dir}); err == nil || !strings.Contains(err.Error(), "empty folder") {
		t.Errorf("in the folder of another: %v", err)
	}
}
