package redis

import (
	"testing"

	"salectl/backends/backendtest"
	"salectl/backends/lists"
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

func TestLists(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"append-only file": {"--appendonly", "yes", "--appendfsync", "always"},
		"snapshots":        nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			backendtest.TestLists(t, func(t *testing.T) (a, b lists.Node, hands backendtest.ListsHands) {
				t.Parallel()
				server := mustStart(t, services.RedisOptions{Args: args})
				o := Options{Address: server.Addr()}
				hands.Flush = func() { do(t, server, "FLUSHALL") }
				if args != nil {
					hands.Restart = func() { mustRestart(t, server) }
				} else {
					hands.Save = func() { do(t, server, "SAVE") }
					hands.RestartSaved = func() { mustRestart(t, server) }
					hands.RestartEmpty = hands.RestartSaved // from no snapshot at all
				}
				return mustOpen(t, o).Lists(), mustOpen(t, o).Lists(), hands
			})
		})
	}
}
