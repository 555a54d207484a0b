package ledger

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

// largeWorld has a claim of one unit for each of n users.
func largeWorld(t *testing.T, n int) *world {
	t.Helper()
	w := newWorld(t)
	w.plan(int64(n), 0, phase(pb.Phase_OPEN))
	for user := 0; n > 0; {
		for shard := range w.shards {
			d := w.draft(shard)
			for range min(1000, n) {
				for name := ""; ; {
					name, user = fmt.Sprintf("user-%011d", user), user+1
					if spec.HomeShard(name, worldShards) != shard {
						continue
					}
					if v := d.Claim(name, fmt.Sprintf("key-%022d", user), 1); v.Kind == Granted {
						n--
					}
					break
				}
			}
			w.commit(shard, d)
		}
	}
	return w
}

// measured tells how much memory is in use when most of an export was read.
type measured struct {
	from *bytes.Reader
	at   int // bytes left
	use  int64
}

func (m *measured) Read(p []byte) (int, error) {
	if m.use == 0 && m.from.Len() < m.at {
		m.use = int64(heapInUse())
	}
	return m.from.Read(p)
}

// To read an export back takes no memory that grows with it.
func TestCheckExportTakesNoMemory(t *testing.T) {
	w := largeWorld(t, 30_000)
	file := mustExport(t, w)
	for _, left := range []float64{0.6, 0.1} { // among the claims, and among the commits
		from := &measured{from: bytes.NewReader(file), at: int(left * float64(len(file)))}
		before := int64(heapInUse())
		if err := CheckExport(t.Context(), w.logs, from, "test", w.sale, w.shards, nil); err != nil {
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
	empty := int64(heapInUse())
	var books []*Book
	for shard, s := range w.shards {
		b := newBook(s.log, shard, worldShards, NewState(s.log))
		if _, err := Load(t.Context(), w.logs, s.log, b); err != nil {
			t.Fatal(err)
		}
		books = append(books, b)
	}
	all := int64(heapInUse()) - empty
	for _, b := range books {
		b.reducer = nil
	}
	account := int64(heapInUse()) - empty
	t.Logf("%d bytes, without the reducer's state %d", all, account)
	if reducer := all - account; account > reducer*8/10 || reducer > 120*30_000 {
		t.Errorf("the reducer takes %d bytes, and the audit %d beside it", reducer, account)
	}
	runtime.KeepAlive(books)
	runtime.KeepAlive(w)
}
