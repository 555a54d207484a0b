package replicas

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"salectl/internal/services"
)

// store is where a sale is kept: a part of its file.
type store func(t testing.TB, sale string) (yaml string)

// embedded keeps a sale in its own folder.
func embedded(testing.TB, string) string { return "  embedded: {}\n" }

// cluster keeps a sale in an HBase that tests share, with its locks on three Redis of its
// own.
func cluster(t testing.TB, sale string) string {
	t.Helper()
	base, err := startHBase()
	services.Require(t, err)
	return fmt.Sprintf("  redis: {nodes: [%s]}\n  hbase: {zookeeper: [%q], table: %s}\n",
		redisNodes(t), base.Zookeeper(), strings.ReplaceAll(sale, "-", "_"))
}

// redisNodes starts three Redis and returns them as a file names them.
func redisNodes(t testing.TB) string {
	t.Helper()
	var nodes []string
	for i := range 3 {
		node, err := services.StartRedis(t.Context(), services.RedisOptions{
			Dir: filepath.Join(folder(t), fmt.Sprint(i)), Args: []string{"--appendonly", "yes", "--appendfsync", "always"},
		})
		services.Require(t, err)
		t.Cleanup(node.Stop)
		nodes = append(nodes, strconv.Quote(node.Addr()))
	}
	return strings.Join(nodes, ", ")
}

var (
	startHBase = sync.OnceValues(func() (h *services.HBase, err error) {
		dir, err := newFolder()
		if err != nil {
			return nil, err
		}
		h, err = services.StartHBase(context.Background(), services.HBaseOptions{Dir: dir})
		stopHBase = func() {
			if err == nil {
				h.Stop()
			}
			os.RemoveAll(dir)
		}
		return h, err
	})
	stopHBase = func() {}
)
