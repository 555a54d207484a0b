package redis

import (
	"testing"

	"salectl/backends/backendtest"
	"salectl/backends/quorum"
	"salectl/services"
)

func TestNode(t *testing.T) {
	t.Parallel()
	backendtest.TestNode(t, func(t *testing.T) (a, b quorum.Node, hands backendtest.Hands) {
		t.Parallel()
		server := mustStart(t, services.RedisOptions{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
		o := Options{Address: server.Addr()}
		return mustOpen(t, o), mustOpen(t, o), backendtest.Hands{
			Lose: func() {
				do(t, server, "FLUSHALL")
				mustRestart(t, server)
			},
			Restart: func() { mustRestart(t, server) },
		}
	})
}
