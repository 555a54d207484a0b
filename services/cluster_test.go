package services

import (
	"strings"
	"testing"
)

func TestClusterStartsAndMendsARegionServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	c, err := StartCluster(t.Context(), ClusterOptions{Dir: t.TempDir()})
	Require(t, err)
	t.Cleanup(c.Stop)
	if answer := ask(t.Context(), c.Zookeeper(), nil, zookeeperQuestion); !strings.HasPrefix(answer, zookeeperAnswer) {
		t.Errorf("its ZooKeeper says %q", answer)
	}
	if err := c.Kill("rs1"); err != nil {
		t.Fatal(err)
	}
	if err := c.Pause("rs1"); err == nil {
		t.Error("a part that is gone was paused")
	}
	if err := c.Start(t.Context(), "rs1"); err != nil {
		t.Fatal(err)
	}
	if err := c.Kill("rs1", "rs3"); err == nil || !strings.Contains(err.Error(), "rs2") {
		t.Errorf("a part that does not exist: %v", err)
	}
	if c.parts["rs1"].running() == nil {
		t.Error("a call that names a part that does not exist did half of its work")
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
