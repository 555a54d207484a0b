package redis

import (
	"fmt"
	"testing"
	"time"

	"salectl/backends/backendtest"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/internal/services"
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
			Fill:    func(registry string) { fillRegistry(t, server, registry) },
		}
	})
}

// fillRegistry writes the fields of quorum.MaxMembers members. A thousand calls of Announce, each
// of which returns all members, take longer on a busy machine than a member's ttl.
func fillRegistry(t *testing.T, server *services.Redis, registry string) {
	t.Helper()
	args := []any{"HSET", registry}
	for i := range quorum.MaxMembers {
		args = append(args, fmt.Sprint("member-", i), fmt.Sprint(time.Now().Add(time.Hour).UnixMicro(), " "))
	}
	do(t, server, args...)
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
