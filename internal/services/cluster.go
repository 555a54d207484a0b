package services

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// ClusterOptions describes an HBase over HDFS.
type ClusterOptions struct {
	Dir string // for logs and data, empty or new; "": a temporary one, removed by Stop
}

// Cluster is an HBase over HDFS, with a Java process for each part, so that
// each can fail by itself: ZooKeeper (zk), a NameNode (nn), two DataNodes (dn1,
// dn2), a master (hm), two region servers (rs1, rs2). It takes about 1.6 GB of
// memory. Every block is on both DataNodes. A ZooKeeper session lasts 6 s: a
// region server that is paused for longer ends when it continues, and must be
// started again.
type Cluster struct {
	parts     map[string]*server
	zookeeper int // port
	dir       string
	temporary string
}

// layers are the parts in the order in which they can start: each needs those
// of the layers before it.
var layers = [][]string{{"zk", "nn"}, {"dn1", "dn2"}, {"hm", "rs1", "rs2"}}

// ClusterParts returns the names of a cluster's parts.
func ClusterParts() []string { return slices.Concat(layers...) }

// StartCluster starts all parts and returns when the master is ready and both
// region servers serve, about 25 s later.
func StartCluster(ctx context.Context, o ClusterOptions) (*Cluster, error) {
	var c *Cluster
	err := retryLostPort(false, func() (err error) {
		if c, err = newCluster(o); err != nil {
			return err
		}
		if err = c.format(ctx); err == nil {
			err = c.Start(ctx, ClusterParts()...)
		}
		if err != nil {
			c.Stop()
			// Another try has other ports; nothing may know the old ones.
			err = errors.Join(err, os.RemoveAll(filepath.Join(c.dir, "data")))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Zookeeper returns the address of its ZooKeeper, host:port.
func (c *Cluster) Zookeeper() string { return address(c.zookeeper) }

// Kill ends parts with SIGKILL and returns when they are gone. Killing a part
// that does not run is no error.
func (c *Cluster) Kill(parts ...string) error { return c.each(parts, (*server).Kill) }

// Pause stops parts with SIGSTOP.
func (c *Cluster) Pause(parts ...string) error { return c.each(parts, (*server).Pause) }

// Continue lets paused parts run again.
func (c *Cluster) Continue(parts ...string) error { return c.each(parts, (*server).Continue) }

// Start starts parts again, in the order that they need, and returns when they
// are ready. A master is ready only once a region server has reported to it,
// and a region server once it has reported to a master: where neither runs,
// start them in one call.
func (c *Cluster) Start(ctx context.Context, parts ...string) error {
	if err := c.each(parts, func(*server) error { return nil }); err != nil {
		return err
	}
	for _, layer := range layers {
		var chosen []string
		for _, part := range layer {
			if slices.Contains(parts, part) {
				chosen = append(chosen, part)
			}
		}
		if err := c.each(chosen, func(s *server) error { return s.Start(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends all parts and returns when they are gone. It kills them: an orderly
// end takes them half a minute, and they lose nothing without.
func (c *Cluster) Stop() {
	_ = c.Kill(ClusterParts()...)
	if c.temporary != "" {
		_ = os.RemoveAll(c.temporary)
	}
}

// each does something to the named parts, all at the same time.
func (c *Cluster) each(parts []string, do func(*server) error) error {
	for _, part := range parts {
		if c.parts[part] == nil {
			return fmt.Errorf("a cluster has no part %q, but %s", part, strings.Join(ClusterParts(), ", "))
		}
	}
	errs := make([]error, len(parts))
	var wait sync.WaitGroup
	for i, part := range parts {
		wait.Go(func() { errs[i] = do(c.parts[part]) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// newCluster prepares a cluster that does not run yet.
func newCluster(o ClusterOptions) (*Cluster, error) {
	java, err := findHBase()
	if err != nil {
		return nil, err
	}
	dir, temporary, err := folder(o.Dir, "cluster")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "data")); err == nil {
		return nil, fmt.Errorf("%s has the data of another cluster; a cluster begins in an empty folder", dir)
	}
	chosen, err := freePorts(7)
	if err != nil {
		return nil, err
	}
	ports := clusterPorts{zookeeper: chosen[0], nameNode: chosen[1], master: chosen[2], dataNodes: [2]int(chosen[3:5]), regionServers: [2]int(chosen[5:7])}
	if err := configureCluster(dir, ports); err != nil {
		return nil, err
	}
	c := &Cluster{dir: dir, temporary: temporary, zookeeper: ports.zookeeper, parts: make(map[string]*server)}
	part := func(name, heap string, ready func(context.Context, string) bool, class string, args ...string) {
		c.parts[name] = &server{
			name:    name,
			command: javaCommand(java, filepath.Join(dir, "conf"), heap, class, args...),
			log:     filepath.Join(dir, "log", name),
			ready:   ready,
			limit:   startLimit,
		}
	}
	// It binds its port before it serves. The answer alone could be another program's.
	bound := logged("binding to port")
	serves := func(ctx context.Context, log string) bool {
		return bound(ctx, log) && strings.HasPrefix(query(ctx, c.Zookeeper(), nil, zookeeperRequest), zookeeperReply)
	}
	part("zk", "128m", serves, "org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(dir, "conf", "zoo.cfg"))
	part("nn", "256m", logged("NameNode RPC up at"), "org.apache.hadoop.hdfs.server.namenode.NameNode")
	for i, port := range ports.dataNodes {
		name := fmt.Sprint("dn", i+1)
		part(name, "256m", logged("Successfully sent block report"), "org.apache.hadoop.hdfs.server.datanode.DataNode",
			fmt.Sprint("-Ddfs.datanode.address=", address(port)),
			"-Ddfs.datanode.data.dir=file://"+filepath.Join(dir, "data", name))
	}
	part("hm", "384m", logged(initialized), "org.apache.hadoop.hbase.master.HMaster", "start")
	for i, port := range ports.regionServers {
		part(fmt.Sprint("rs", i+1), "768m", logged("Serving as"), "org.apache.hadoop.hbase.regionserver.HRegionServer",
			fmt.Sprint("-Dhbase.regionserver.port=", port), "start")
	}
	return c, nil
}

// format prepares the NameNode's folder.
func (c *Cluster) format(ctx context.Context) error {
	nn := c.parts["nn"]
	format := &server{name: "the formatting of HDFS", command: append(slices.Clone(nn.command), "-format", "-nonInteractive"),
		log: filepath.Join(filepath.Dir(nn.log), "format")}
	r, err := format.launch()
	if err != nil {
		return fmt.Errorf("start %s: %w", format.name, err)
	}
	select {
	case <-r.ended:
	case <-ctx.Done():
		_ = format.Kill()
		return context.Cause(ctx)
	}
	if r.err != nil {
		return format.startError(r, r.err)
	}
	return nil
}

// clusterPorts are the ports that clients and other parts of a cluster know. A
// part that is started again has its old one.
type clusterPorts struct {
	zookeeper, nameNode, master int
	dataNodes, regionServers    [2]int
}

// configureCluster writes the configuration that all parts share.
func configureCluster(dir string, ports clusterPorts) error {
	conf := filepath.Join(dir, "conf")
	// Both daemons of HDFS want a web application, which their jars lack.
	for _, name := range []string{"hdfs", "datanode"} {
		folder := filepath.Join(conf, "webapps", name, "WEB-INF")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, "web.xml"), []byte("<web-app/>\n"), 0o644); err != nil {
			return err
		}
	}
	if err := writeLogging(conf); err != nil {
		return err
	}
	zookeeper := fmt.Sprintf("tickTime=1000\ndataDir=%s\nclientPort=%d\nclientPortAddress=%s\nadmin.enableServer=false\nmaxClientCnxns=0\n",
		filepath.Join(dir, "data", "zk"), ports.zookeeper, loopback)
	if err := os.WriteFile(filepath.Join(conf, "zoo.cfg"), []byte(zookeeper), 0o644); err != nil {
		return err
	}
	for name, settings := range map[string]properties{
		"core-site.xml": coreSettings(dir, ports), "hdfs-site.xml": hdfsSettings(dir, ports), "hbase-site.xml": clusterSettings(dir, ports),
	} {
		if err := settings.write(filepath.Join(conf, name)); err != nil {
			return err
		}
	}
	return nil
}

func coreSettings(dir string, ports clusterPorts) properties {
	return properties{
		{"fs.defaultFS", "hdfs://" + address(ports.nameNode)},
		{"hadoop.tmp.dir", filepath.Join(dir, "data", "tmp")},
		// A part that is down is noticed within seconds, not minutes.
		{"ipc.client.connect.max.retries", "3"},
		{"ipc.client.connect.retry.interval", "500"},
	}
}

func hdfsSettings(dir string, ports clusterPorts) properties {
	return properties{
		{"dfs.replication", "2"},
		{"dfs.permissions.enabled", "false"},
		{"dfs.namenode.name.dir", "file://" + filepath.Join(dir, "data", "nn")},
		{"dfs.namenode.rpc-address", address(ports.nameNode)},
		{"dfs.namenode.http-address", address(0)},
		{"dfs.namenode.datanode.registration.ip-hostname-check", "false"},
		{"dfs.namenode.safemode.extension", "0"},
		{"dfs.datanode.hostname", loopback},
		{"dfs.datanode.ipc.address", address(0)},
		{"dfs.datanode.http.address", address(0)},
		// The NameNode gives a silent DataNode up after 14 s, not 10 minutes.
		{"dfs.heartbeat.interval", "1"},
		{"dfs.namenode.heartbeat.recheck-interval", "2000"},
		// With two DataNodes there is none to take the place of a dead one.
		{"dfs.client.block.write.replace-datanode-on-failure.enable", "false"},
		{"dfs.client.socket-timeout", "5000"},
		{"dfs.datanode.socket.write.timeout", "5000"},
	}
}

func clusterSettings(dir string, ports clusterPorts) properties {
	return properties{
		{"hbase.rootdir", "hdfs://" + address(ports.nameNode) + "/hbase"},
		{"hbase.tmp.dir", filepath.Join(dir, "data", "hbase")},
		{"hbase.cluster.distributed", "true"},
		{"hbase.wal.provider", "asyncfs"},
		{"hbase.zookeeper.quorum", loopback},
		{"hbase.zookeeper.property.clientPort", strconv.Itoa(ports.zookeeper)},
		{"zookeeper.session.timeout", "6000"},
		{"hbase.master.hostname", loopback},
		{"hbase.master.ipc.address", loopback},
		{"hbase.master.port", strconv.Itoa(ports.master)},
		{"hbase.master.info.port", "-1"},
		// At first both region servers come, and get regions both; a master that
		// is started again goes on with one after a while.
		{"hbase.master.wait.on.regionservers.mintostart", "1"},
		{"hbase.master.wait.on.regionservers.maxtostart", "2"},
		{"hbase.master.wait.on.regionservers.timeout", "15000"},
		{"hbase.regionserver.hostname", loopback},
		{"hbase.regionserver.ipc.address", loopback},
		{"hbase.regionserver.info.port", "-1"},
		{"hbase.regionserver.msginterval", "500"},
		noChunks,
		// A dead region server's log is taken over within seconds.
		{"hbase.lease.recovery.first.pause", "500"},
		{"hbase.lease.recovery.pause", "500"},
		{"hbase.lease.recovery.dfs.timeout", "4000"},
	}
}
