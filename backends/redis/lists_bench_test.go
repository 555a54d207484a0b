package redis

import (
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/services"
)

// BenchmarkGrab is how fast one server gives units out, to 256 users a call with
// two calls under way.
func BenchmarkGrab(b *testing.B) {
	const users, underWay = 256, 2
	for _, mode := range []struct {
		name string
		args []string
	}{
		{"keeps nothing", nil},
		{"appendfsync everysec", []string{"--appendonly", "yes", "--appendfsync", "everysec"}},
		{"appendfsync always", []string{"--appendonly", "yes", "--appendfsync", "always"}},
	} {
		b.Run(mode.name, func(b *testing.B) {
			server := mustStart(b, services.RedisOptions{Args: mode.args})
			l := mustOpen(b, Options{Address: server.Addr()}).Lists()
			list := lists.List{UID: "01jd9zq6n3bench", Shard: 7}
			mustFill(b, l, list, 1, int64(b.N*users))
			calls := make([][]lists.Batch, b.N)
			for i := range calls {
				batch := lists.Batch{List: list, Fill: 1}
				for j := range users {
					batch.Users = append(batch.Users, fmt.Sprintf("user-%09d", i*users+j))
					batch.Keys = append(batch.Keys, fmt.Sprintf("8f14e45f%012d", j))
				}
				calls[i] = []lists.Batch{batch}
			}
			do(b, server, "CONFIG", "RESETSTAT")
			before := infoFloat(b, server, "cpu", serverCPU)
			b.ReportAllocs()
			b.ResetTimer()
			var at atomic.Int64
			var lanes sync.WaitGroup
			for range underWay {
				lanes.Go(func() {
					for i := at.Add(1) - 1; i < int64(b.N); i = at.Add(1) - 1 {
						given, err := l.Grab(b.Context(), calls[i])
						if err != nil || given[0].Units[users-1].Number == 0 {
							b.Errorf("%+v, %v", given, err)
							return
						}
					}
				})
			}
			lanes.Wait()
			b.StopTimer()
			script, cpu := infoFloat(b, server, "commandstats", perScript), infoFloat(b, server, "cpu", serverCPU)-before
			b.ReportMetric(float64(b.N*users)/b.Elapsed().Seconds(), "users/s")
			b.ReportMetric(users/script*1e6, "users/s-of-script")
			b.ReportMetric(script, "script-µs/op")
			b.ReportMetric(cpu*1e9/float64(b.N*users), "server-ns/user")
		})
	}
}

var (
	// perScript is the mean of how long a script has kept the server, in
	// microseconds; serverCPU how long it has used a processor, in seconds.
	perScript = regexp.MustCompile(`cmdstat_evalsha:.*usec_per_call=([\d.]+)`)
	serverCPU = regexp.MustCompile(`used_cpu_user_main_thread:([\d.]+)`)
)

// infoFloat is a number of a section of what a server says of itself.
func infoFloat(b *testing.B, server *services.Redis, section string, field *regexp.Regexp) float64 {
	info := do(b, server, "INFO", section).(string)
	found := field.FindStringSubmatch(info)
	if found == nil {
		b.Fatalf("no %v in %s", field, info)
	}
	number, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return number
}

// mustFill gives a list units from 1 on and turns it on.
func mustFill(t testing.TB, l lists.Node, list lists.List, fill uint64, units int64) {
	t.Helper()
	run, err := l.RunID(t.Context())
	if err == nil {
		err = l.Stop(t.Context(), list, fill, run)
	}
	const part = 10_000
	for at := int64(0); err == nil && (at < units || at == 0); at += part {
		p := lists.Part{First: at == 0, Units: at}
		if n := min(part, units-at); n > 0 {
			p.Add = ledger.Units{{First: at + 1, Count: n}}
		}
		err = l.Put(t.Context(), list, fill, run, p)
	}
	if err == nil {
		err = l.Start(t.Context(), list, fill, run, lists.Start{Units: units, OpensAt: time.UnixMicro(1)})
	}
	if err != nil {
		t.Fatal(err)
	}
}
