package cli

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"salectl/internal/services"
)

// lanes is how many rounds go on at a time. Most of a round is waiting: for the
// lease of a dead process to run out, and for processes to start.
const lanes = 2

// TestRounds has sales of the Redis engine live from the first apply to the last
// destroy while each of their processes is killed with SIGKILL at random moments,
// and a Redis of every third sale too. In the end nothing is lost and nothing given
// twice; round.check has the list.
//
// SALECTL_TEST_ROUNDS says how many rounds, SALECTL_TEST_SEED which ones. A round
// goes by the seed and its own number, so that one alone can be run again, as far
// as chance and not the machine decides: -run 'TestRounds/lane/^7$'.
func TestRounds(t *testing.T) {
	all := &rounds{
		seed:  setting(t, "SALECTL_TEST_SEED", rand.Uint64N(1_000_000)),
		usual: map[string]time.Duration{}, count: map[string]int{},
	}
	count := int(setting(t, "SALECTL_TEST_ROUNDS", 6))
	t.Logf("SALECTL_TEST_SEED=%d SALECTL_TEST_ROUNDS=%d", all.seed, count)
	t.Cleanup(func() { t.Log(all.counted()) })
	nodes := startSynced(t, lanes*3)
	newRound(t, all, 0, nodes).quiet()
	for first := range lanes {
		t.Run(fmt.Sprint("lane-", first), func(t *testing.T) {
			t.Parallel()
			nodes := nodes[first*3:][:3]
			for n := first; n < count; n += lanes {
				t.Run(fmt.Sprint(n), func(t *testing.T) { newRound(t, all, n, nodes).run() })
			}
		})
	}
}

// setting is a number from the environment.
func setting(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// synced is a Redis that has on the disk what it has answered.
type synced struct {
	*services.Redis
	dir string
}

func startSynced(t *testing.T, n int) (nodes []*synced) {
	t.Helper()
	for i := range n {
		dir := filepath.Join(t.TempDir(), fmt.Sprint(i))
		node, err := services.StartRedis(t.Context(), services.RedisOptions{
			Dir: dir, Args: []string{"--appendonly", "yes", "--appendfsync", "always"},
		})
		services.Require(t, err)
		t.Cleanup(node.Stop)
		nodes = append(nodes, &synced{node, dir})
	}
	return nodes
}

// rounds is what all rounds have in common.
type rounds struct {
	seed uint64

	// mu guards the rest, which the goroutines of all rounds use.
	mu    sync.Mutex
	usual map[string]time.Duration // how long each command takes that nobody kills
	count map[string]int           // of what was killed, and what came of it
}

// add counts something that has happened.
func (r *rounds) add(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count[what]++
}

// took tells how long a command has taken from its beginning to its end. What is
// usual grows at once, and shrinks slowly: a command that others keep waiting shall
// be killed at its end too.
func (r *rounds) took(command string, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.usual[command]; d < old {
		d = (3*old + d) / 4
	}
	r.usual[command] = d
}

// takes returns how long a command usually takes, 0 if it never ran.
func (r *rounds) takes(command string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.usual[command]
}

func (r *rounds) counted() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []string
	for _, what := range slices.Sorted(maps.Keys(r.count)) {
		lines = append(lines, fmt.Sprintf("%6d %s", r.count[what], what))
	}
	for _, command := range slices.Sorted(maps.Keys(r.usual)) {
		lines = append(lines, fmt.Sprintf("%6d ms: %s, as a rule", r.usual[command].Milliseconds(), command))
	}
	return strings.Join(append([]string{"in all:"}, lines...), "\n")
}
