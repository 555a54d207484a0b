package replicas

import (
	"fmt"
	"testing"
)

// listed keeps the units of a sale in lists on three Redis.
func listed(t testing.TB, _ string) string {
	return fmt.Sprintf("  engine: redis\n  ack: redis\n  redis: {nodes: [%s]}\n  embedded: {}\n", redisNodes(t))
}

// A sale whose units Redis gives out is served on by others when processes end, and when
// one is killed.
func TestLists(t *testing.T) {
	t.Parallel()
	rolling(t, listed, 1, 80, calmTTL)
}

func TestListsKill(t *testing.T) {
	kill(t, listed, 80)
}
