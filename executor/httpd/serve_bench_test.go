package httpd

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/embedded"
	"salectl/backends/ledger"
	"salectl/backends/quorum"
	"salectl/executor"
	"salectl/executor/httpd/httpdtest"
	"salectl/executor/saletest"
	"salectl/internal/services/certs"
	"salectl/internal/wait"
	"salectl/planner"
	"salectl/planner/apply"
	"salectl/planner/current"
	"salectl/planner/machine"
	"salectl/spec"
)

// serveReal applies a sale of five shards to a new embedded store and runs its executor.
func serveReal(b testing.TB, name string, stock int64) *executor.Executor {
	b.Helper()
	return serveShards(b, name, stock, 5)
}

// serveShards is serveReal with so many shards.
func serveShards(b testing.TB, name string, stock int64, shards int) *executor.Executor {
	b.Helper()
	return serveOn(b, nil, name, stock, shards)
}

// serveOn is serveShards on other logs; nil: on a new embedded store.
func serveOn(b testing.TB, logs ledger.Logs, name string, stock int64, shards int) *executor.Executor {
	b.Helper()
	dir := b.TempDir()
	if logs == nil {
		opened, err := embedded.OpenLogs(dir)
		if err != nil {
			b.Fatal(err)
		}
		logs = opened
	}
	node, err := embedded.OpenNode(dir, embedded.ThisHost())
	if err != nil {
		b.Fatal(err)
	}
	sale := spec.Sale{
		Name: name, Run: 1, Stock: stock, LockCount: shards, PerUserLimit: stock,
		LockTTL: spec.DefaultLockTTL, Embedded: &spec.Embedded{Dir: dir},
	}
	nodes := []quorum.Node{node}
	cfg := apply.Config{
		Backends: machine.Backends{Logs: logs, Nodes: nodes, Clock: clock.System(), Rand: rand.Reader},
		Options:  apply.Options{Writer: []byte("planner1")},
	}
	actual, err := current.Read(b.Context(), cfg.Backends, sale.Name)
	if err != nil {
		b.Fatal(err)
	}
	plan, err := planner.Make(sale, actual)
	if err == nil {
		_, err = apply.Run(b.Context(), cfg, plan)
	}
	if err != nil {
		b.Fatal(err)
	}
	e := executor.New(executor.Config{Logs: logs, Nodes: nodes, Sale: sale.Name, Address: "127.0.0.1:1"})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, logs.(io.Closer).Close(), node.Close()); err != nil {
			b.Error(err)
		}
	})
	wait.Until(b, "the process is ready", func() bool { return e.Ready() == nil })
	return e
}

// sellOut buys everything.
func sellOut(b *testing.B, e *executor.Executor) {
	b.Helper()
	for i := 0; ; i++ {
		switch a := e.Do(b.Context(), executor.Request{User: fmt.Sprint("early-", i), Quantity: 1}); a.Outcome {
		case api.SoldOut:
			return
		case api.Sold, api.NoneNow:
		default:
			b.Fatalf("claim %d: %+v", i, a)
		}
	}
}

// BenchmarkServe is BenchmarkHTTP with nothing faked: claims end in commits on
// the embedded store.
func BenchmarkServe(b *testing.B) {
	const round = 4000
	for _, conns := range []int{200, 2000} {
		b.Run(fmt.Sprintf("conns=%d", conns), func(b *testing.B) {
			empty := serveReal(b, "empty", 5)
			sellOut(b, empty)
			s := New(Config{Sales: []executor.Service{serveReal(b, "full", 100_000_000), empty}})
			bare := start(b, serveEcho)
			addr := start(b, s.Serve)
			loads := []struct {
				name string
				load *load
				took time.Duration
				used time.Duration // of the processors, by server and clients
			}{
				{name: "echo", load: newLoad(b, bare, conns, claimRequest("/v1/sales/full/claims"), "201")},
				{name: "claims", load: newLoad(b, addr, conns, claimRequest("/v1/sales/full/claims"), "201")},
				{name: "sold_out", load: newLoad(b, addr, conns, claimRequest("/v1/sales/empty/claims"), "409")},
			}
			for b.Loop() {
				for i := range loads {
					began, before := time.Now(), saletest.ProcessorTime(b)
					if err := loads[i].load.run(round); err != nil {
						b.Fatal(err)
					}
					loads[i].took += time.Since(began)
					loads[i].used += saletest.ProcessorTime(b) - before
				}
			}
			b.ReportMetric(0, "ns/op")
			for _, l := range loads {
				b.ReportMetric(float64(b.N*round)/l.took.Seconds(), l.name+"/s")
				if l.name != "echo" {
					b.ReportMetric(loads[0].took.Seconds()/l.took.Seconds(), l.name+":echo")
					b.ReportMetric(loads[0].used.Seconds()/l.used.Seconds(), l.name+":echo-cpu")
				}
			}
		})
	}
}

// BenchmarkServeTLS compares claims over TLS with claims without, over connections that last.
// The processor time is that of both ends.
func BenchmarkServeTLS(b *testing.B) {
	const conns, round = 200, 4000
	ca := httpdtest.Authority(b, "ca")
	files := serverFiles(b, ca, b.TempDir(), "server", certs.Leaf{})
	secure := start(b, New(Config{Sales: []executor.Service{serveReal(b, "secure", 100_000_000)}, Certificates: certificates(b, files)}).Serve)
	plain := start(b, New(Config{Sales: []executor.Service{serveReal(b, "plain", 100_000_000)}}).Serve)
	loads := []*load{
		newLoad(b, plain, conns, claimRequest("/v1/sales/plain/claims"), "201"),
		newLoad(b, secure, conns, claimRequest("/v1/sales/secure/claims"), "201").secure(b, &tls.Config{RootCAs: ca.Pool, ServerName: "localhost"}),
	}
	var took, used [2]time.Duration
	for b.Loop() {
		for i, l := range loads {
			began, before := time.Now(), saletest.ProcessorTime(b)
			if err := l.run(round); err != nil {
				b.Fatal(err)
			}
			took[i] += time.Since(began)
			used[i] += saletest.ProcessorTime(b) - before
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(b.N*round)/took[1].Seconds(), "TLS/s")
	b.ReportMetric(took[0].Seconds()/took[1].Seconds(), "TLS:plain")
	b.ReportMetric(used[0].Seconds()/used[1].Seconds(), "TLS:plain-cpu")
}
