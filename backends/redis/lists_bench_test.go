package redis

import (
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/internal/services"
)

// benchList is a list of the usual length of a name.
var benchList = lists.List{UID: "01jd9zq6n3bench", Shard: 7}

// benchBatches are calls for so many users each, all different.
func benchBatches(calls, users int) (all [][]lists.Batch) {
	for i := range calls {
		b := lists.Batch{List: benchList, Fill: 1, At: 1}
		for j := range users {
			b.Users = append(b.Users, fmt.Sprintf("user-%09d", i*users+j))
			b.Keys = append(b.Keys, fmt.Sprintf("8f14e45f%012d", j))
		}
		all = append(all, []lists.Batch{b})
	}
	return all
}

// BenchmarkGrab is how fast one server gives units out, with two calls under way.
func BenchmarkGrab(b *testing.B) {
	const underWay = 2
	for _, mode := range []struct {
		name  string
		users int // of each call
		args  []string
	}{
		{"keeps nothing", 256, nil},
		{"keeps nothing, 512 a call", 512, nil},
		{"appendfsync everysec", 256, []string{"--appendonly", "yes", "--appendfsync", "everysec"}},
		{"appendfsync always", 256, []string{"--appendonly", "yes", "--appendfsync", "always"}},
	} {
		b.Run(mode.name, func(b *testing.B) {
			server := mustStart(b, services.RedisOptions{Args: mode.args})
			l := mustOpen(b, Options{Address: server.Addr()}).Lists()
			mustFill(b, l, benchList, 1, int64(b.N*mode.users))
			calls := benchBatches(b.N, mode.users)
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
						if err != nil || given[0].Units[mode.users-1].Number == 0 {
							b.Errorf("%+v, %v", given, err)
							return
						}
					}
				})
			}
			lanes.Wait()
			b.StopTimer()
			reportGrabs(b, server, before, b.N*mode.users)
		})
	}
}

// BenchmarkDrain is how fast what was given is read and deleted. An op is a page.
func BenchmarkDrain(b *testing.B) {
	const calls, users, page = 4, 1000, 4000
	server := mustStart(b, services.RedisOptions{})
	l := mustOpen(b, Options{Address: server.Addr()}).Lists()
	mustFill(b, l, benchList, 1, int64(b.N*calls*users))
	for _, call := range benchBatches(b.N*calls, users) {
		if _, err := l.Grab(b.Context(), call); err != nil {
			b.Fatal(err)
		}
	}
	do(b, server, "CONFIG", "RESETSTAT")
	before := infoFloat(b, server, "cpu", serverCPU)
	b.ReportAllocs()
	b.ResetTimer()
	after := ""
	for range b.N {
		entries, err := l.Read(b.Context(), benchList, 1, after, after, page)
		if err != nil || len(entries) != calls {
			b.Fatalf("%d entries, %v", len(entries), err)
		}
		after = entries[len(entries)-1].ID
	}
	b.StopTimer()
	reportGrabs(b, server, before, b.N*page)
}

// reportGrabs reports how long a server has been kept by some grabs.
func reportGrabs(b *testing.B, server *services.Redis, cpuBefore float64, grabs int) {
	script := infoFloat(b, server, "commandstats", perScript)
	cpu := infoFloat(b, server, "cpu", serverCPU) - cpuBefore
	b.ReportMetric(float64(grabs)/b.Elapsed().Seconds(), "users/s")
	b.ReportMetric(float64(grabs)/float64(b.N)/script*1e6, "users/s-of-script")
	b.ReportMetric(script, "script-µs/op")
	b.ReportMetric(cpu*1e9/float64(grabs), "server-ns/user")
}

var (
	// perScript is the mean of how long a script has kept the server, in
	// microseconds; serverCPU how long it has used a processor, in seconds.
	perScript = regexp.MustCompile(`cmdstat_evalsha:.*usec_per_call=([\d.]+)`)
	serverCPU = regexp.MustCompile(`used_cpu_user_main_thread:([\d.]+)`)
)

// infoFloat is a number of a section of a server's INFO.
func infoFloat(t testing.TB, server *services.Redis, section string, field *regexp.Regexp) float64 {
	t.Helper()
	info := do(t, server, "INFO", section).(string)
	found := field.FindStringSubmatch(info)
	if found == nil {
		t.Fatalf("no %v in %s", field, info)
	}
	number, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
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
		err = l.Start(t.Context(), list, fill, run, lists.Start{Units: units, OpensAt: 1})
	}
	if err != nil {
		t.Fatal(err)
	}
}
