package apply

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"salectl/backends/clock"
	"salectl/backends/embedded"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/quorum"
	"salectl/planner"
	"salectl/planner/current"
	"salectl/planner/machine"
)

// The whole life of a sale on a real store, by the doors that commands use.
func TestLifeOnTheEmbeddedBackend(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	logs, err := embedded.OpenLogs(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	node, err := embedded.OpenNode(dir, embedded.ThisHost())
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	w := newWorld(t) // only for its numbers
	writer := make([]byte, 8)
	w.Read(writer)
	cfg := Config{
		Backends: machine.Backends{Logs: logs, Nodes: []quorum.Node{node}, Clock: clock.System(), Rand: w},
		Options:  Options{Writer: writer, Who: "tester@host"},
	}

	desired := tickets(1000)
	desired.LockCount = 100
	read := func() *planner.Actual {
		t.Helper()
		a, err := current.Read(t.Context(), cfg.Backends, desired.Name)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	apply := func(p *planner.Plan, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Run(t.Context(), cfg, p); err != nil {
			t.Fatal(err)
		}
	}
	apply(planner.Make(desired, read()))
	desired.Stock = 1500
	apply(planner.Make(desired, read()))
	apply(planner.MakePhase(read(), pb.Phase_CLOSED))
	status, err := current.ReadStatus(t.Context(), cfg.Backends, desired.Name)
	if err != nil || status.Stock != 1500 || status.Phase != ledger.PhaseClosed || !status.Nodes[0].Up {
		t.Fatalf("status: %+v, %v", status, err)
	}
	plan, err := planner.MakeDestroy(read())
	if err != nil {
		t.Fatal(err)
	}
	result, err := Destroy(t.Context(), cfg, plan, filepath.Join(t.TempDir(), "export.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(result.Export)
	if digest := sha256.Sum256(content); err != nil || fmt.Sprintf("%x", digest) != result.ExportDigest {
		t.Errorf("the export's digest is %x, %v; the sale's log has %s", digest, err, result.ExportDigest)
	}
	if a := read(); !a.Sale.Destroyed() || a.Shards[99].Head != nil {
		t.Errorf("after destroy the sale is %s", a.Sale.Phase())
	}
}

// TestClockThatWasSet sets the clock of the one host that a sale is on: it is said by
// whatever looks, and nothing is appended by it before somebody trusts it.
func TestClockThatWasSet(t *testing.T) {
	for name, test := range map[string]struct {
		by   time.Duration
		want string
	}{
		"forward": {61 * time.Minute, "this host's clock was set forward by 1h1m0s, and no time server keeps it right"},
		"back":    {-61 * time.Minute, "this host's clock was set back by 1h1m0s, and no time server keeps it right"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			logs, err := embedded.OpenLogs(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer logs.Close()
			off := time.Duration(0)
			host := embedded.ThisHost()
			if host.Booted == nil {
				t.Skip("there is no clock here that cannot be set")
			}
			host.Kept = nil
			host.Wall = func() time.Time { return time.Now().Add(off) }
			node, err := embedded.OpenNode(dir, host)
			if err != nil {
				t.Fatal(err)
			}
			defer node.Close()
			system := clock.System()
			cfg := Config{
				Backends: machine.Backends{
					Logs: logs, Nodes: []quorum.Node{node}, Rand: newWorld(t),
					Clock: func() clock.Now {
						now := system()
						now.Wall = now.Wall.Add(off)
						return now
					},
				},
				Options: Options{Writer: []byte("planner1"), Who: "tester@host"},
			}
			desired := tickets(10)
			plan := func() *planner.Plan {
				t.Helper()
				actual, err := current.Read(t.Context(), cfg.Backends, desired.Name)
				if err != nil {
					t.Fatal(err)
				}
				p, err := planner.Make(desired, actual)
				if err != nil {
					t.Fatal(err)
				}
				return p
			}
			if _, err := Run(t.Context(), cfg, plan()); err != nil {
				t.Fatal(err)
			}
			off, desired.Stock = test.by, 20
			warned := strings.Join(plan().Warnings, "\n")
			status, err := current.ReadStatus(t.Context(), cfg.Backends, desired.Name)
			if err != nil {
				t.Fatal(err)
			}
			for what, got := range map[string]string{"plan": warned, "status": strings.Join(status.Warnings, "\n")} {
				if !strings.Contains(got, test.want+": no claim is accepted. Set it right; if") {
					t.Errorf("%s warns of %q, want %q", what, got, test.want)
				}
				if ahead := strings.Contains(got, "by up to 1h1m0s this host's clock is behind the last append to the sale's log, shard/0, shard/1, "); ahead != (test.by < 0) {
					t.Errorf("%s tells of logs ahead: %q", what, got)
				}
			}
			_, err = Run(t.Context(), cfg, plan())
			refused := new(planner.Refusal)
			if !errors.As(err, &refused) || refused.Reason != test.want || !strings.Contains(refused.Remedy, "apply --trust-clock") {
				t.Errorf("apply: %v, want %q", err, test.want)
			}
			if err := node.TrustClock(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := Run(t.Context(), cfg, plan()); err != nil {
				t.Error(err)
			}
		})
	}
}
