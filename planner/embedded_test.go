package planner

import (
	"path/filepath"
	"testing"
	"time"

	"salectl/backends/clock"
	"salectl/backends/embedded"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/quorum"
)

// The whole life of a sale on a real store, by the doors that commands use.
func TestLifeOnTheEmbeddedBackend(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	logs, err := embedded.OpenLogs(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	node, err := embedded.OpenNode(dir, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	w := newWorld(t) // only for its numbers
	writer := make([]byte, 8)
	w.Read(writer)
	cfg := Config{Logs: logs, Nodes: []quorum.Node{node}, Clock: clock.System(), Writer: writer, Rand: w, Who: "tester@host"}

	desired := tickets(1000)
	desired.LockCount = 100
	read := func() *Actual {
		t.Helper()
		a, err := ReadActual(t.Context(), cfg, desired.Name)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	apply := func(p *Plan, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Apply(t.Context(), cfg, p); err != nil {
			t.Fatal(err)
		}
	}
	apply(Make(desired, read()))
	desired.Stock = 1500
	apply(Make(desired, read()))
	apply(MakePhase(read(), pb.Phase_CLOSED))
	status, err := ReadStatus(t.Context(), cfg, desired.Name)
	if err != nil || status.Stock != 1500 || status.Phase != ledger.PhaseClosed || !status.Nodes[0].Up {
		t.Fatalf("status: %+v, %v", status, err)
	}
	plan, err := MakeDestroy(read())
	if err != nil {
		t.Fatal(err)
	}
	result, err := Destroy(t.Context(), cfg, plan, filepath.Join(t.TempDir(), "export.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	if digest, err := digestOf(result.Export); err != nil || string(digest) != string(result.ExportDigest) {
		t.Errorf("the export's digest is %x, %v; the sale's log has %x", digest, err, result.ExportDigest)
	}
	if a := read(); !a.Sale.Destroyed() || a.Shards[99].Head != nil {
		t.Errorf("after destroy the sale is %s", a.Sale.Phase())
	}
}
