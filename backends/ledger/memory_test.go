package ledger_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// largeWorld has a claim of one unit for each of n users.
func largeWorld(t *testing.T, n int) *ledger.World {
	t.Helper()
	w := ledger.NewWorld(t)
	w.Plan(int64(n), 0, ledger.PhaseSettings(pb.Phase_OPEN))
	for user := 0; n > 0; {
		for shard := range w.Shards {
			d := w.Draft(shard)
			for range min(1000, n) {
				for name := ""; ; {
					name, user = fmt.Sprintf("user-%011d", user), user+1
					if spec.HomeShard(name, ledger.WorldShards) != shard {
						continue
					}
					if v := d.Claim(name, fmt.Sprintf("key-%022d", user), 1); v.Kind == ledger.Granted {
						n--
					}
					break
				}
			}
			w.Commit(shard, d)
		}
	}
	return w
}

// measured records the memory in use when most of an export was read.
type measured struct {
	from *bytes.Reader
	at   int // bytes left
	use  int64
}

func (m *measured) Read(p []byte) (int, error) {
	if m.use == 0 && m.from.Len() < m.at {
		m.use = int64(ledger.HeapInUse())
	}
	return m.from.Read(p)
}

// To read an export back takes no memory that grows with it.
func TestCheckExportTakesNoMemory(t *testing.T) {
	w := largeWorld(t, 30_000)
	file := mustExport(t, w)
	for _, left := range []float64{0.6, 0.1} { // among the claims, and among the commits
		from := &measured{from: bytes.NewReader(file), at: int(left * float64(len(file)))}
		before := int64(ledger.HeapInUse())
		if err := exportOf(w).Check(t.Context(), from); err != nil {
			t.Fatal(err)
		}
		if took := from.use - before; from.use == 0 || took > int64(len(file)/10) {
			t.Errorf("with %.0f%% to go it takes %d bytes more, for an export of %d", 100*left, took, len(file))
		}
	}
	runtime.KeepAlive(w)
}

// An audit keeps its own account of each user and request, in less memory than
// the reducer, which has them too, and takes little itself.
func TestAuditTakesLittleMemory(t *testing.T) {
	w := largeWorld(t, 30_000)
	empty := int64(ledger.HeapInUse())
	recount := recounted(t, w, func(log string) audit.Reducer { return ledger.NewState(log) })
	all := int64(ledger.HeapInUse()) - empty
	runtime.KeepAlive(recount)
	recount = recounted(t, w, func(string) audit.Reducer { return noReducer{} })
	account := int64(ledger.HeapInUse()) - empty
	t.Logf("%d bytes, without the reducer's state %d", all, account)
	if reducer := all - account; account > reducer*8/10 || reducer > 120*30_000 {
		t.Errorf("the reducer takes %d bytes, and the audit %d beside it", reducer, account)
	}
	runtime.KeepAlive(recount)
	runtime.KeepAlive(w)
}

// noReducer keeps nothing.
type noReducer struct{ audit.Reducer }

func (noReducer) Apply(*pb.Commit, ledger.Hash, int) error { return nil }
func (noReducer) Head() ledger.Head                        { return ledger.Head{} }

// recounted has booked all shards of a sale.
func recounted(t *testing.T, w *ledger.World, newReducer func(string) audit.Reducer) *audit.Recount {
	t.Helper()
	r, _ := audit.NewRecount("test", ledger.TestUID, ledger.WorldShards, newReducer)
	for _, b := range r.Books {
		if _, err := ledger.Load(t.Context(), w.Logs, b.Log(), b); err != nil {
			t.Fatal(err)
		}
	}
	return r
}
