package hbase

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"salectl/backends/ledger"
	"salectl/internal/services"
)

// started is the HBase of standalone, once it runs.
var started *services.HBase

// standalone is one HBase in one process, for all tests that do it no harm that
// lasts. The first of them starts it.
var standalone = sync.OnceValues(func() (*services.HBase, error) {
	ctx := context.Background()
	h, err := services.StartHBase(ctx, services.HBaseOptions{})
	if err != nil {
		return nil, err
	}
	started = h
	logs, err := Open(Options{Zookeeper: []string{h.Zookeeper()}, Table: "sales"})
	if err != nil {
		return nil, err
	}
	defer logs.Close()
	return h, createTable(ctx, logs)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if started != nil {
		started.Stop()
	}
	// A proxy with a fault in it does not end all of its own.
	err := goleak.Find(goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2.(*ToxicLink).read"),
		goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"))
	if err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func mustStandalone(t testing.TB) *services.HBase {
	t.Helper()
	h, err := standalone()
	services.Require(t, err)
	return h
}

// mustOpen opens a handle on the table that all tests share.
func mustOpen(t testing.TB, change ...func(*Options)) *Logs {
	t.Helper()
	return mustOpenAt(t, mustStandalone(t).Zookeeper(), change...)
}

// mustOpenAt opens a handle that the test's end closes.
func mustOpenAt(t testing.TB, zookeeper string, change ...func(*Options)) *Logs {
	t.Helper()
	o := Options{Zookeeper: []string{zookeeper}, Table: "sales"}
	for _, c := range change {
		c(&o)
	}
	logs, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { logs.Close() })
	return logs
}

// table makes mustOpen open another table.
func table(name string) func(*Options) { return func(o *Options) { o.Table = name } }

// unused returns a name with an ending of its own, since a test may run again in one process.
func unused(name string) string { return fmt.Sprintf("%s%d", name, stores.Add(1)) }

// stores counts the stores and names that tests were given.
var stores atomic.Int64

// newPrefix begins the names of logs that nobody else uses, as those of shards
// begin: with a salt.
func newPrefix() string {
	n := stores.Add(1)
	return fmt.Sprintf("%02x/test%d/", n*53%256, n)
}

// store is a part of a table that acts as a separate store.
type store struct {
	ledger.Logs
	prefix string
}

func (s store) Append(ctx context.Context, log string, slot uint64, prev, head, entry []byte) error {
	return s.Logs.Append(ctx, s.prefix+log, slot, prev, head, entry)
}

func (s store) Read(ctx context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	return s.Logs.Read(ctx, s.prefix+log, from, max)
}

func (s store) Heads(ctx context.Context, logs []string) ([][]byte, error) {
	names := make([]string, len(logs))
	for i, log := range logs {
		names[i] = s.prefix + log
	}
	return s.Logs.Heads(ctx, names)
}

func (s store) Delete(ctx context.Context, log string, upTo uint64) error {
	return s.Logs.Delete(ctx, s.prefix+log, upTo)
}

func (s store) List(ctx context.Context, prefix string) ([]string, error) {
	names, err := s.Logs.(ledger.Lister).List(ctx, s.prefix+prefix)
	for i, name := range names {
		names[i] = strings.TrimPrefix(name, s.prefix)
	}
	return names, err
}
