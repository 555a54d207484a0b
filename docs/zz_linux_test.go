package docs

import (
	"os"
	"strings"
	"testing"

	"salectl/services"
)

func TestMine(t *testing.T) {
	services.Require(t, services.Installed())
	var blocks []block
	for _, p := range strings.Fields(os.Getenv("MINE")) {
		blocks = append(blocks, shellBlocks(t, readPage(t, p))...)
	}
	runBlocks(t, cloneTree(t), cacheFolder(t), blocks)
}
