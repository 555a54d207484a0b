package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends"
	"salectl/backends/ledger"
	"salectl/backends/memory"
	"salectl/backends/quorum"
	"salectl/internal/services/scripts"
	"salectl/internal/wait"
	"salectl/spec"
)

// memoryHome is a store and lock nodes of kinds that the program does not have.
type memoryHome struct {
	logs  *memory.Store
	nodes []*memory.Node

	away, silent atomic.Bool // the store fails, or does not answer
}

// fault is that of a call of the store.
func (m *memoryHome) fault(memory.Call) (f memory.Fault) {
	if m.away.Load() {
		f.Kind = memory.ErrorBefore
	}
	return f
}

// silentLogs do not answer who reads while the home is silent.
type silentLogs struct {
	ledger.Logs
	home *memoryHome
}

func (l silentLogs) Read(ctx context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	for l.home.silent.Load() {
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return l.Logs.Read(ctx, log, from, max)
}

func newMemoryHome(t *testing.T) *memoryHome {
	began := time.Now()
	m := &memoryHome{logs: memory.NewStore()}
	for i := range 3 {
		m.nodes = append(m.nodes, memory.NewNode(fmt.Sprintf("memory-%d", i), began))
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
func (m *memoryHome) read(paths []string, stdin io.Reader) ([]spec.Sale, []string, error) {
	sales, foreign, err := spec.Load(paths, stdin)
	for i := range sales {
		homes := &spec.Homes{
			Ledger: spec.Home{Kind: "memory", Place: "the memory of a test"},
			Locks:  spec.Home{Kind: "memory", Place: "the memory of a test"},
		}
		for _, n := range m.nodes {
			homes.Locks.Nodes = append(homes.Locks.Nodes, n.Name())
		}
		sales[i].Embedded, sales[i].Homes = nil, homes
	}
	return sales, foreign, err
}

func (m *memoryHome) open(sale spec.Sale, _ *slog.Logger) (*backends.Store, error) {
	nodes, _, _ := m.openNodes(sale) // never fails
	return &backends.Store{Name: "memory", Logs: silentLogs{m.logs.Handle(m.fault), m}, Nodes: nodes}, nil
}

func (m *memoryHome) openNodes(sale spec.Sale) (nodes []quorum.Node, closeNodes func() error, err error) {
	for _, name := range sale.Homes.Locks.Nodes {
		for _, n := range m.nodes {
			if n.Name() == name {
				nodes = append(nodes, n)
			}
		}
	}
	return nodes, func() error { return nil }, nil
}

// drivers are those of the homes in memory, which have no file open.
func (m *memoryHome) drivers() drivers {
	d := ownDrivers
	d.read, d.open, d.nodes, d.files = m.read, m.open, m.openNodes, func(spec.Sale) (int, error) { return 0, nil }
	return d
}

// run runs a command there, which is to end with an exit code, and returns what it says.
func (m *memoryHome) run(t *testing.T, want int, args ...string) string {
	t.Helper()
	c := newCapture()
	c.drivers = m.drivers()
	if code := c.run(append([]string{"salectl"}, args...), nil); code != want {
		t.Fatalf("%v: exit code %d, want %d\n%s", args, code, want, &c.err)
	}
	return c.out.String() + c.err.String()
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
		return m.run(t, want, args...)
	}
	said := run(0, "plan", "-f", path)
	for _, part := range []string{"ledger        the memory of a test\n", "lock nodes    memory-0, memory-1, memory-2\n", "node/memory-2"} {
		if !strings.Contains(said, part) {
			t.Errorf("the plan does not say %q: %s", part, said)
		}
	}
	run(0, "apply", "-f", path, "--yes")

	buyers := scripts.FreeAddress(t)
	server, signals, ended := newCapture(), make(chan os.Signal, 1), make(chan int, 1)
	server.drivers = m.drivers()
	go func() {
		ended <- server.run([]string{"salectl", "serve", "-f", path, "--listen", buyers, "--admin-listen", "127.0.0.1:0"}, signals)
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

	// The lock commands ask the same nodes, for leases and for named locks.
	for _, n := range m.nodes { // none had named locks before, so that it would abstain for 10 s
		info, err := n.Info(t.Context())
		if err == nil {
			err = n.Mark(t.Context(), spec.NamedLockMarker, info.RunID)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	run(0, "lock", "run", "-f", path, "nightly", "--", "true")
	m.grant(t, spec.NamedLock("nightly"), "ada@host:1")
	if said := run(0, "lock", "list", "-f", path); !strings.Contains(said, "tickets/1") || !strings.Contains(said, "ada@host:1") {
		t.Errorf("the locks are %s", said)
	}
	run(0, "lock", "break", "-f", path, "--yes", "nightly")
	if said := run(0, "lock", "list", "-f", path); !strings.Contains(said, "tickets/1") || strings.Contains(said, "nightly") {
		t.Errorf("after lock break the locks are %s", said)
	}

	// Nothing is taken for granted: the nodes of an open sale are not changed.
	lost := m.nodes[2]
	m.nodes = m.nodes[:2]
	if said := run(3, "plan", "-f", path); !strings.Contains(said, "cannot change from memory-0, memory-1, memory-2 to memory-0, memory-1") {
		t.Errorf("of other nodes the plan says %s", said)
	}
	m.nodes = append(m.nodes, lost)

	// A node that had its marker mends it when it is back: apply does not wait.
	lost.SetFaults(func(memory.Call) memory.Fault { return memory.Fault{Kind: memory.ErrorBefore} })
	document(", perUserLimit: 2")
	run(0, "apply", "-f", path, "--yes")
	lost.SetFaults(nil)

	signals <- syscall.SIGTERM
	if code := <-ended; code != 0 {
		t.Errorf("serve: exit code %d\n%s", code, &server.err)
	}
	export := filepath.Join(t.TempDir(), "export.ndjson")
	run(0, "destroy", "-f", path, "--yes", "--out", export)
	if text, err := os.ReadFile(export); err != nil || !bytes.Contains(text, []byte(`"sold":4`)) {
		t.Errorf("the export has %.300s, %v", text, err)
	}
}

// TestStatusInAnOutage has the ledger away: status tells what the lock nodes have, and what the
// process that serves the sale knows; and without that, or with nodes away too, the rest.
func TestStatusInAnOutage(t *testing.T) {
	m := newMemoryHome(t)
	dir := t.TempDir()
	var names, files []string
	for shards, name := range []string{1: "aria", 2: "tickets", 3: "zoo"} { // one process serves them all
		if name == "" {
			continue
		}
		path := filepath.Join(dir, name+".yaml")
		text := fmt.Sprintf("apiVersion: salectl/v1\nkind: Sale\nmetadata: {name: %s}\n"+
			"spec: {stock: 10, lockCount: %d, lock: {ttl: 2s}, embedded: {}}\n", name, shards)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		names, files = append(names, name), append(files, "-f", path)
	}
	run := func(want int, args ...string) string {
		t.Helper()
		return m.run(t, want, args...)
	}
	status := func(want int, name string, more ...string) string {
		t.Helper()
		return run(want, append([]string{"status", "-f", filepath.Join(dir, name+".yaml")}, more...)...)
	}
	run(0, append(append([]string{"apply"}, files...), "--yes")...)
	at := scripts.FreeAddress(t)
	server, signals, ended := newCapture(), make(chan os.Signal, 1), make(chan int, 1)
	server.drivers = m.drivers()
	go func() {
		ended <- server.run(append(append([]string{"salectl", "serve"}, files...), "--listen", at, "--admin-listen", "127.0.0.1:0"), signals)
	}()
	stop := func() {
		signals <- syscall.SIGTERM
		<-ended
	}
	for _, name := range names {
		wait.Until(t, name+" to be served", func() bool { return strings.Contains(status(0, name), "served at "+at) })
	}

	m.away.Store(true)
	for i, name := range names {
		said := status(1, name)
		for _, part := range []string{
			name + ": unknown\n", "  the ledger cannot be read: ", "  0 of 10 units sold, 10 available, according to the serving process\n",
			"  served at " + at + ", which reports the phase ", fmt.Sprintf("  memory-2        %d  ", i+1),
		} {
			if !strings.Contains(said, part) {
				t.Errorf("status does not say %q: %s", part, said)
			}
		}
		if n := strings.Count(said, "not read"); n < i+1 {
			t.Errorf("%s has %d shards: %s", name, i+1, said)
		}
	}
	var said []string
	wait.UntilNil(t, "the process to find out", func() error {
		c := newCapture()
		c.drivers = m.drivers()
		code := c.run(append(append([]string{"salectl", "status"}, files...), "--json", "--exit-code"), nil)
		said = strings.Split(strings.TrimSpace(c.out.String()), "\n")
		if len(said) != len(names) {
			t.Fatalf("exit code %d, one object a sale: %s", code, &c.out)
		}
		if down := strings.Count(c.out.String(), `"state":"down"`); down != len(names) || code != 8 {
			return fmt.Errorf("exit code %d of %d stalled sales: %s", code, down, &c.out)
		}
		return nil
	})
	for _, part := range []string{
		`"phase":"unknown"`, `"ledgerError":"`, `"owner":"` + at + `"`, `"available":10`, `"reasons":["the ledger cannot be read: `, `"server":{"address":"` + at + `","phase":"`,
	} {
		if !strings.Contains(said[1], part) {
			t.Errorf("status does not say %s: %s", part, said[1])
		}
	}
	if said := status(7, "tickets", "--wait-for", "closed", "--timeout", "3s"); !strings.Contains(said, "timed out after 3s: ") {
		t.Errorf("who waits in vain is not told so: %s", said)
	}
	m.nodes[0].SetFaults(func(memory.Call) memory.Fault { return memory.Fault{Kind: memory.ErrorBefore} })
	if said := status(1, "tickets"); !strings.Contains(said, "served at "+at) || !strings.Contains(said, "memory-0        -          -  down") {
		t.Errorf("with a node away, too, status says %s", said)
	}
	m.nodes[0].SetFaults(nil)
	m.away.Store(false)

	m.silent.Store(true)
	if said := status(1, "tickets", "--timeout", "2s"); !strings.Contains(said, "tickets: unknown\n") || !strings.Contains(said, "it was not read in 1s") || !strings.Contains(said, "served at "+at) {
		t.Errorf("of a ledger that does not answer status says %s", said)
	}
	wait.UntilNil(t, "the process to report the ledger, and status to wait no longer", func() error {
		said := status(1, "tickets", "--timeout", "1h")
		if !strings.Contains(said, "tickets: unknown\n") || !strings.Contains(said, "and the serving process cannot read it either") {
			return errors.New(said)
		}
		return nil
	})
	m.silent.Store(false)
	stop()
	m.away.Store(true)
	if said := status(1, "tickets"); strings.Contains(said, " sold") || strings.Contains(said, "served at") ||
		!strings.Contains(said, "no serving process answers\n\n  lock node") || !strings.Contains(said, "memory-2        0") {
		t.Errorf("with nobody serving the sale, status says %s", said)
	}

	// One that cannot tell how the sale stands, either, tells who there is.
	half := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"outcome":"no_quorum","detail":"its words","known":{"nodes":[],"shards":[],"processes":[
			{"address":"a:1","state":"serving","here":true,"up":true,"shards":0,"assigned":1},{"address":"b:1","state":"serving","up":false,"assigned":1}]}}`)
	}))
	defer half.Close()
	at = strings.TrimPrefix(half.URL, "http://")
	m.grant(t, spec.LeaseKey("0123456789abcdef", 0), at)
	if said := status(1, "tickets"); !strings.Contains(said, "  "+at+", which reaches 1 of 2 processes, does not report the state of the whole sale: no_quorum: its words\n") ||
		!strings.Contains(said, "b:1      -        not reached") || strings.Contains(said, "no process") {
		t.Errorf("with a process that cannot tell, status says %s", said)
	}
}

// grant has the nodes give a lock to a process at an address, which needs no sale.
func (m *memoryHome) grant(t *testing.T, key, address string) {
	t.Helper()
	note := quorum.Note{Address: address, TTL: quorum.MaxTTL}.String()
	for _, n := range m.nodes {
		info, err := n.Info(t.Context())
		if err == nil { // a node that had no named locks before would abstain for 10 s
			err = n.Mark(t.Context(), spec.NamedLockMarker, info.RunID)
		}
		if err != nil {
			t.Fatal(err)
		}
		ask := quorum.LeaseRequest{Key: key, Token: address, Note: note}
		if got, err := n.Vote(t.Context(), quorum.Ballot{Marker: spec.NamedLockMarker, TTL: quorum.MaxTTL, Requests: []quorum.LeaseRequest{ask}}); err != nil || !got.Yes[0] {
			t.Fatalf("%s does not grant %s to %s: %+v, %v", n.Name(), key, address, got, err)
		}
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
		"files": func(s spec.Sale) error { _, err := backends.Files(s); return err },
	} {
		if err := open(sale); err == nil || !strings.Contains(err.Error(), "no driver for the memory of a test (memory)") {
			t.Errorf("%s of a kind without a driver: %v", name, err)
		}
		if err := open(spec.Sale{Name: "tickets"}); err == nil || !strings.Contains(err.Error(), "use a newer one") {
			t.Errorf("%s of a sale that does not say where it is: %v", name, err)
		}
	}
}
