package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"salectl/api"
	"salectl/internal/services/scripts"
)

// largeShards and largeClaims are those of a sale that is large to whoever reads it.
const largeShards, largeClaims = 1024, 1_000_000

// BenchmarkLarge measures the commands that read a sale of 1,024 shards and 1,000,000
// claims on the embedded backend, as processes from their start to their end. The sale
// is applied, served and sold over a stream by the program itself, in SALECTL_BENCH_LARGE
// if that names a folder, which then keeps the sale for the next time.
func BenchmarkLarge(b *testing.B) {
	dir := os.Getenv("SALECTL_BENCH_LARGE")
	if dir == "" {
		dir = b.TempDir()
	}
	file := filepath.Join(dir, "sale.yaml")
	if _, err := os.Stat(filepath.Join(dir, "sold")); err != nil {
		sellLarge(b, dir, file)
	}
	for _, args := range [][]string{
		{"status", "-f", file}, {"plan", "-f", file}, {"audit", "-f", file},
	} {
		b.Run(args[0], func(b *testing.B) {
			var used []time.Duration
			for b.Loop() {
				command := exec.Command("salectl", args...)
				command.Dir = dir
				if out, err := command.CombinedOutput(); err != nil {
					b.Fatalf("salectl %v: %v\n%s", args, err, out)
				}
				used = append(used, command.ProcessState.UserTime()+command.ProcessState.SystemTime())
			}
			slices.Sort(used)
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/run")
			b.ReportMetric(used[len(used)/2].Seconds(), "processor-s/run")
		})
	}
}

// sellLarge sells a large sale from the folder dir.
func sellLarge(b *testing.B, dir, file string) {
	b.Helper()
	text := fmt.Sprintf(`apiVersion: salectl/v1
kind: Sale
metadata: {name: large}
spec:
  stock: %d
  lockCount: %d
  perUserLimit: 1
  embedded: {dir: data}
`, 2*largeClaims, largeShards)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
	apply := exec.Command("salectl", "apply", "-f", file, "--yes")
	apply.Dir = dir
	if out, err := apply.CombinedOutput(); err != nil {
		b.Fatalf("salectl apply: %v\n%s", err, out)
	}
	listen := scripts.FreeAddress(b)
	serve := exec.Command("salectl", "serve", "-f", file, "--listen", listen)
	serve.Dir = dir
	if err := serve.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = serve.Process.Signal(syscall.SIGTERM)
		if err := serve.Wait(); err != nil {
			b.Errorf("salectl serve: %v", err)
		}
	}()
	client, err := api.NewClient(api.Config{Servers: []string{"http://" + listen}, Sale: "large", Stream: true})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	var next, wrong atomic.Int64
	var all sync.WaitGroup
	for range 2000 {
		all.Go(func() {
			for i := next.Add(1); i <= largeClaims; i = next.Add(1) {
				a, err := client.Claim(context.Background(), api.Request{User: fmt.Sprintf("user-%011d", i), Quantity: 1})
				if err != nil || a.Outcome != api.Sold {
					wrong.Add(1)
				}
			}
		})
	}
	all.Wait()
	if wrong.Load() > 0 {
		b.Fatalf("%d claims were not sold", wrong.Load())
	}
	if err := os.WriteFile(filepath.Join(dir, "sold"), nil, 0o644); err != nil {
		b.Fatal(err)
	}
}
