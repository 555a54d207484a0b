package hbase

import (
	"testing"

	"salectl/backends/backendtest"
	"salectl/backends/ledger"
)

// A network that is slow and cuts what it carries into pieces breaks no promise.
func TestLogsOverASlowNetwork(t *testing.T) {
	p := newProxies(t)
	p.poison("slow", "latency", "upstream", `"latency":1,"jitter":1`)
	p.poison("cut", "slicer", "downstream", `"average_size":300,"size_variation":200,"delay":10`)
	backendtest.TestLogs(t, func(t *testing.T) (a, b ledger.Logs) {
		prefix := newPrefix()
		return store{mustOpen(t, p.through), prefix}, store{mustOpen(t, p.through), prefix}
	}, noCreateAfterDelete)
}

// Connections break in the middle of calls, answers are lost, and requests
// vanish: nothing that was acknowledged is, and all goes on by itself.
func TestFaultyNetwork(t *testing.T) {
	for name, fault := range map[string]struct{ kind, direction, attributes string }{
		"cut off":          {"reset_peer", "upstream", `"timeout":20`},
		"answers cut off":  {"limit_data", "downstream", `"bytes":20000`},
		"requests cut off": {"limit_data", "upstream", `"bytes":50000`},
		"answers vanish":   {"timeout", "downstream", `"timeout":0`},
		"requests vanish":  {"timeout", "upstream", `"timeout":0`},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProxies(t)
			logs := mustOpen(t, p.through)
			c := startCrowd(t, logs, newPrefix(), 8, 2000)
			c.more(t, 20)
			p.poison("fault", fault.kind, fault.direction, fault.attributes)
			c.suffer(t)
			p.heal()
			t.Logf("all rows accepted writes again after %v", c.more(t, 20))
			c.check(t, mustOpen(t))
		})
	}
}
