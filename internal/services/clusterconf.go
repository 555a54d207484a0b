package services

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

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
		// A dead region server's log is taken over within seconds.
		{"hbase.lease.recovery.first.pause", "500"},
		{"hbase.lease.recovery.pause", "500"},
		{"hbase.lease.recovery.dfs.timeout", "4000"},
	}
}
