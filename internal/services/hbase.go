package services

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// HBaseOptions describes an HBase in one process. The zero value is one with a
// free ZooKeeper port and a temporary folder.
type HBaseOptions struct {
	Dir  string // for its log and data, kept over restarts; empty: a temporary one, removed by Stop
	Port int    // ZooKeeper's; 0: a free one
}

// HBase is a ZooKeeper, a master and a region server in one Java process, with
// its data in a local folder. What it has acknowledged is still there after
// Kill and Start; a failure of the machine's power may lose it. All of it
// pauses together, for up to two minutes, and goes on as if nothing had been.
type HBase struct {
	server
	port int    // ZooKeeper's
	conf string // the folder of its settings
}

// initialized is what a master logs when it serves. Its ports are open long
// before that.
const initialized = "Master has completed initialization"

// StartHBase starts an HBase and returns when its master is ready, five to ten
// seconds later.
func StartHBase(ctx context.Context, o HBaseOptions) (*HBase, error) {
	return startNew(ctx, o.Port != 0, func() (*HBase, error) { return newHBase(o) })
}

// Zookeeper returns the address of its ZooKeeper, host:port, which is all that
// a client needs.
func (h *HBase) Zookeeper() string { return address(h.port) }

// Java returns the command line by which a Java program, given as its source, is run as a client
// of it: with the classes and settings that 'hbase classpath' names where HBase is installed.
func (h *HBase) Java(source string, args ...string) ([]string, error) {
	java, err := jdk.path()
	if err != nil {
		return nil, err
	}
	return append([]string{java, "-cp", h.conf + ":" + filepath.Join(jarFolder(), "lib", "*"), source}, args...), nil
}

// newHBase prepares an HBase that does not run yet.
func newHBase(o HBaseOptions) (*HBase, error) {
	java, err := findHBase()
	if err != nil {
		return nil, err
	}
	port, err := portOr(o.Port)
	if err != nil {
		return nil, err
	}
	dir, temporary, err := folder(o.Dir, "hbase")
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, "conf")
	if err := os.MkdirAll(conf, 0o755); err != nil {
		return nil, err
	}
	if err := writeLogging(conf); err != nil {
		return nil, err
	}
	if err := standaloneSettings(dir, port).write(filepath.Join(conf, "hbase-site.xml")); err != nil {
		return nil, err
	}
	return &HBase{port: port, conf: conf, server: server{
		name:    "HBase with ZooKeeper on " + address(port),
		command: javaCommand(java, conf, "1g", "org.apache.hadoop.hbase.master.HMaster", "start"),
		log:     filepath.Join(dir, "hbase.log"),
		// A killed process leaves its sessions behind in ZooKeeper, and the next
		// one would wait until they run out. HBase keeps nothing there that it
		// does not have in its own folder too, so a start begins without.
		prepare:   func() error { return os.RemoveAll(filepath.Join(dir, "zookeeper")) },
		ready:     logged(initialized),
		limit:     startLimit,
		grace:     5 * time.Second, // at times it waits for its own ZooKeeper, which is down already
		temporary: temporary,
	}}, nil
}

// logged is ready once the log contains a line of the server.
func logged(line string) func(context.Context, string) bool {
	return func(_ context.Context, log string) bool { return strings.Contains(log, line) }
}

// noChunks keeps a region from reserving 2 MiB of memory at its first write: the tables of tests have
// hundreds of regions with a few kB each, and a process that serves several runs of a test has
// those of all.
var noChunks = [2]string{"hbase.hregion.memstore.mslab.enabled", "false"}

func standaloneSettings(dir string, zookeeper int) properties {
	return properties{
		{"hbase.rootdir", "file://" + filepath.Join(dir, "data")},
		{"hbase.tmp.dir", filepath.Join(dir, "tmp")},
		{"hbase.zookeeper.property.dataDir", filepath.Join(dir, "zookeeper")},
		{"hbase.zookeeper.property.clientPort", strconv.Itoa(zookeeper)},
		{"hbase.zookeeper.quorum", loopback},
		{"hbase.cluster.distributed", "false"},
		{"hbase.wal.provider", "filesystem"},
		noChunks,
		// The default local file system writes checksums beside its data and
		// keeps the last bytes back for them. This one has none, so that what
		// the log flushes reaches the kernel, and survives a killed process.
		{"fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem"},
		// Longer than any test pauses the process. With the default of 10 s the
		// sessions have run out when it continues, and it ends itself.
		{"zookeeper.session.timeout.localHBaseCluster", "120000"},
		{"hbase.zookeeper.property.minSessionTimeout", "4000"},
		{"hbase.zookeeper.property.maxSessionTimeout", "120000"},
		// The master need not wait whether more region servers come, nor the
		// region server poll for its master only every three seconds: ready in
		// 5 s instead of 12.
		{"hbase.master.wait.on.regionservers.maxtostart", "1"},
		{"hbase.regionserver.msginterval", "500"},
		{"hbase.master.hostname", loopback},
		{"hbase.master.ipc.address", loopback},
		{"hbase.master.port", "0"},
		{"hbase.master.info.port", "-1"},
		{"hbase.regionserver.hostname", loopback},
		{"hbase.regionserver.ipc.address", loopback},
		{"hbase.regionserver.port", "0"},
		{"hbase.regionserver.info.port", "-1"},
	}
}
