package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends"
	"salectl/backends/backendtest"
	"salectl/backends/quorum"
	"salectl/services/scripts"
	"salectl/spec"
)

// memoryHome is a store and lock nodes of kinds that the program does not have.
type memoryHome struct {
	logs  *backendtest.Store
	nodes []*backendtest.Node
}

func newMemoryHome(t *testing.T) *memoryHome {
	began := time.Now()
	m := &memoryHome{logs: backendtest.NewStore()}
	for i := range 3 {
		m.nodes = append(m.nodes, backendtest.NewNode(fmt.Sprintf("memory-%d", i), began))
	}
	all := slices.Clone(m.nodes) // a test may change which of them the home has
	over, ended := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(over); <-ended })
	go func() { // the nodes' clocks stand still unless somebody moves them
		defer close(ended)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for shown := began; ; {
			select {
			case <-over:
				return
			case now := <-tick.C:
				for _, n := range all {
					n.Advance(now.Sub(shown))
				}
				shown = now
			}
		}
	}()
	return m
}

// read puts the homes in memory into whatever documents declare.
func (m *memoryHome) read(paths []string, stdin io.Reader) ([]spec.Sale, error) {
	sales, err := spec.Load(paths, stdin)
	for i := range sales {
		homes := &spec.Homes{
			Ledger: spec.Home{Kind: "memory", Place: "the memory of a test", Settings: spec.Settings{Backend: "memory"}},
			Locks:  spec.Home{Kind: "memory", Place: "the memory of a test"},
		}
		for _, n := range m.nodes {
			homes.Locks.Nodes = append(homes.Locks.Nodes, n.Name())
		}
		homes.Locks.Settings.LockNodes = homes.Locks.Nodes
		sales[i].Embedded, sales[i].Homes = nil, homes
	}
	return sales, err
}

func (m *memoryHome) open(sale spec.Sale, _ *slog.Logger) (*backends.Store, error) {
	store := &backends.Store{Name: "memory", Logs: m.logs.Handle(nil)}
	for _, name := range sale.Homes.Locks.Nodes {
		for _, n := range m.nodes {
			if n.Name() == name {
				store.Nodes = append(store.Nodes, quorum.Node(n))
			}
		}
	}
	return store, nil
}

// A third kind of store and a third kind of lock node are plugged in where stores
// are opened, and nothing else knows of them.
func TestAThirdKindOfStore(t *testing.T) {
	m := newMemoryHome(t)
	path := filepath.Join(t.TempDir(), "sale.yaml")
	document := func(more string) {
		t.Helper()
		text := "apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: tickets}\n" +
			"spec: {stock: 10, lockCount: 2, lock: {ttl: 2s}, embedded: {}" + more + "}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	document("")
	run := func(want int, args ...string) string {
		t.Helper()
		c := newCapture()
		c.drivers = drivers{read: m.read, open: m.open}
		if code := c.run(append([]string{"salectl"}, args...), nil); code != want {
			t.Fatalf("%v: exit code %d, want %d\n%s", args, code, want, &c.err)
		}
		return c.out.String() + c.err.String()
	}
	if said := run(0, "plan", "-f", path); !strings.Contains(said, "memory") || !strings.Contains(said, "node/memory-2") {
		t.Errorf("the plan says %s", said)
	}
	run(0, "apply", "-f", path, "--yes")

	buyers := scripts.FreeAddress(t)
	server, signals, ended := newCapture(), make(chan os.Signal, 1), make(chan int, 1)
	server.drivers = drivers{read: m.read, open: m.open}
	go func() {
		ended <- server.run([]string{"salectl", "serve", "-f", path, "--listen", buyers, "--admin", "127.0.0.1:0"}, signals)
	}()
	client, err := api.NewClient(api.Config{Servers: []string{"http://" + buyers}, Sale: "tickets", MaxWait: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for user := range 4 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		a, err := client.Claim(ctx, api.Request{User: fmt.Sprint("u", user), Quantity: 1})
		if cancel(); err != nil || a.Outcome != api.Sold {
			t.Fatalf("user %d has nothing: %v, %+v", user, err, a)
		}
	}
	if said := run(0, "status", "-f", path, "--json"); !strings.Contains(said, `"sold":4`) {
		t.Errorf("the status is %s", said)
	}

	// Nothing is taken for granted: the nodes of an open sale are not changed.
	lost := m.nodes[2]
	m.nodes = m.nodes[:2]
	if said := run(3, "plan", "-f", path); !strings.Contains(said, "cannot go from memory-0, memory-1, memory-2 to memory-0, memory-1") {
		t.Errorf("of other nodes the plan says %s", said)
	}
	m.nodes = append(m.nodes, lost)

	// A node that had its marker mends it when it is back: apply does not wait.
	lost.SetFaults(func(backendtest.Call) backendtest.Fault { return backendtest.Fault{Kind: backendtest.ErrorBefore} })
	document(", perUserLimit: 2")
	run(0, "apply", "-f", path, "--yes")
	lost.SetFaults(nil)

	signals <- syscall.SIGTERM
	if code := <-ended; code != 0 {
		t.Errorf("serve: exit code %d\n%s", code, &server.err)
	}
	export := filepath.Join(t.TempDir(), "export.ndjson")
	run(0, "destroy", "-f", path, "--yes", "--export", export)
	if text, err := os.ReadFile(export); err != nil || !bytes.Contains(text, []byte(`"sold":4`)) {
		t.Errorf("the export has %.300s, %v", text, err)
	}
}

// What has no driver in this program is refused by name.
func TestAKindWithoutADriver(t *testing.T) {
	sale := spec.Sale{Name: "tickets", Homes: &spec.Homes{
		Ledger: spec.Home{Kind: "memory", Place: "the memory of a test"}, Locks: spec.Home{Kind: "memory", Place: "the memory of a test"},
	}}
	for name, open := range map[string]func(spec.Sale) error{
		"store": func(s spec.Sale) error { _, err := backends.Open(s, nil); return err },
		"nodes": func(s spec.Sale) error { _, _, err := backends.OpenNodes(s); return err },
	} {
		if err := open(sale); err == nil || !strings.Contains(err.Error(), "no driver for the memory of a test (memory)") {
			t.Errorf("%s of a kind without a driver: %v", name, err)
		}
		if err := open(spec.Sale{Name: "tickets"}); err == nil || !strings.Contains(err.Error(), "use a newer one") {
			t.Errorf("%s of a sale that does not say where it is: %v", name, err)
		}
	}
}
