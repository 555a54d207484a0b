package replicas

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// wantFigures says whether figures are wanted: `make replicas` says so. They go by wall
// time, on a machine that does nothing else.
var wantFigures = os.Getenv("SALECTL_FIGURES") != ""

func figures(t *testing.T) {
	t.Helper()
	if !wantFigures {
		t.Skip("make replicas measures this")
	}
}

// processor is the time that processes have taken of the processors, user and system.
func (s *sale) processor() (sum time.Duration) {
	s.Helper()
	for _, r := range s.alive() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.cmd.Process.Pid))
		if err != nil {
			s.Skip(err)
		}
		_, rest, _ := strings.Cut(string(text), ") ") // behind the program's name
		fields := strings.Fields(rest)
		for _, n := range []int{11, 12} { // utime and stime
			ticks, err := strconv.ParseInt(fields[n], 10, 64)
			if err != nil {
				s.Fatal(err)
			}
			sum += time.Duration(ticks) * time.Second / 100
		}
	}
	return sum
}

// TestFiguresOfAClaim prints what a claim costs one process and three, at the same rate,
// by clients that know nothing and by the client that learns who decides: in turns, round
// after round.
func TestFiguresOfAClaim(t *testing.T) {
	figures(t)
	for _, where := range []struct {
		name  string
		store store
		rate  int
	}{{"embedded", embedded, 1000}, {"embedded", embedded, 4000}, {"HBase", cluster, 1000}, {"HBase", cluster, 4000}} {
		t.Run(fmt.Sprint(where.name, "-", where.rate), func(t *testing.T) { cost(t, where.store, where.rate) })
	}
}

func cost(t *testing.T, where store, rate int) {
	const rounds, span = 5, 4 * time.Second
	o := terms{stock: 10_000_000, shards: 12, ttl: 3 * time.Second}
	var sales [2]*sale
	for i, n := range []int{1, 3} {
		sales[i] = applyAs(t, fmt.Sprint("cost-", rate, "-", n), where, o)
		for range n {
			sales[i].add()
		}
		sales[i].settled()
	}
	kinds := []struct {
		name    string
		of      int
		over    string
		follows bool
	}{
		{"one process, HTTP/1.1", 0, "http", false},
		{"three, clients that know nothing", 1, "http", false},
		{"three, clients that learn", 1, "http", true},
		{"one process, streams", 0, "stream", false},
		{"three, streams that know nothing", 1, "stream", false},
		{"three, streams that learn", 1, "stream", true},
	}
	costs, ratios := make([][]float64, len(kinds)), make([][]float64, len(kinds))
	waits := make([][]time.Duration, len(kinds))
	for round := range rounds {
		for i, k := range kinds {
			s := sales[k.of]
			c := s.comeAs(&crowd{over: k.over, rate: rate, once: true, follows: k.follows, name: fmt.Sprint(round, "-", i, "-")})
			time.Sleep(time.Second / 2)
			answered, spent := len(c.answered()), s.processor()
			began := time.Now()
			time.Sleep(span)
			n, used := len(c.answered())-answered, s.processor()-spent
			ended := time.Now()
			c.leave()
			if failed, what := c.failed(); failed > 0 {
				t.Errorf("%s: %d claims failed:\n%s", k.name, failed, what)
			}
			costs[i] = append(costs[i], float64(used.Microseconds())/float64(n))
			ratios[i] = append(ratios[i], costs[i][round]/costs[i/3*3][round])
			waits[i] = append(waits[i], c.waits(began, ended, nil)...)
		}
	}
	for i, k := range kinds {
		slices.Sort(costs[i])
		slices.Sort(ratios[i])
		slices.Sort(waits[i])
		t.Logf("%-34s %4.0f µs of processor a claim (%.0f to %.0f), %.2f of one process's (%.2f to %.2f); %s", k.name,
			costs[i][rounds/2], costs[i][0], costs[i][rounds-1], ratios[i][rounds/2], ratios[i][0], ratios[i][rounds-1], summary(waits[i]))
	}
}

// TestFiguresOfRestarts prints how long claims wait while processes are started anew, ten
// times each.
func TestFiguresOfRestarts(t *testing.T) {
	figures(t)
	t.Run("embedded", func(t *testing.T) { rolling(t, embedded, 10, 200, 3*time.Second) })
	t.Run("HBase", func(t *testing.T) { rolling(t, cluster, 10, 200, 3*time.Second) })
}

// TestFiguresOfAKill prints how long the share of a process that is killed is away, and
// what the others' users notice.
func TestFiguresOfAKill(t *testing.T) {
	figures(t)
	for name, where := range map[string]store{"embedded": embedded, "HBase": cluster} {
		t.Run(name, func(t *testing.T) {
			back, before, after := kill(t, where, 400)
			if back > killTTL+time.Second {
				t.Errorf("its share was back after %v, want at most %v", back, killTTL+time.Second)
			}
			if after > 2*before {
				t.Errorf("p99 of the others was %v and is %v", before, after)
			}
		})
	}
}
