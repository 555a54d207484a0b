package hbase

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"

	"salectl/backends/ledger"
	"salectl/internal/services"
	"salectl/internal/wait"
)

// within bounds a call that must not hang.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func head(slot uint64) []byte { return fmt.Appendf(nil, `{"slot":%d}`, slot) }

// fill appends entries of a size to a new log.
func fill(t *testing.T, logs *Logs, log string, slots, size int) {
	t.Helper()
	var prev []byte
	for slot := range uint64(slots) {
		entry := bytes.Repeat([]byte{byte(slot)}, size)
		if err := logs.Append(within(t, wait.Limit), log, slot, prev, head(slot), entry); err != nil {
			t.Fatal(err)
		}
		prev = head(slot)
	}
}

// framed is a connection that complains of a request in several writes: another
// could come between them, and answers are counted by writes.
type framed struct {
	net.Conn
	t       *testing.T
	greeted bool
}

func (f *framed) Write(b []byte) (int, error) {
	if !f.greeted {
		f.greeted = true
	} else if len(b) < 4 || int(binary.BigEndian.Uint32(b)) != len(b)-4 {
		f.t.Errorf("a write of %d bytes is not one request: %.60q", len(b), b)
	}
	return f.Conn.Write(b)
}

func TestEveryRequestIsOneWrite(t *testing.T) {
	logs := mustOpen(t, func(o *Options) {
		o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, addr)
			return &framed{Conn: c, t: t}, err
		}
	})
	for name, call := range callsOf(logs) {
		if err := call(within(t, wait.Limit)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Another client reads the cells that the design describes, and nothing else.
func TestCells(t *testing.T) {
	logs, log := mustOpen(t), newPrefix()+"7"
	fill(t, logs, log, 3, 5)
	client := gohbase.NewClient(mustStandalone(t).Zookeeper(), gohbase.Logger(slog.New(slog.DiscardHandler)))
	defer client.Close()
	get, err := hrpc.NewGetStr(within(t, wait.Limit), "sales", log, hrpc.MaxVersions(100), hrpc.SkipBatch())
	if err != nil {
		t.Fatal(err)
	}
	row, err := client.Get(get)
	if err != nil {
		t.Fatal(err)
	}
	var cells []string
	for _, c := range row.Cells {
		cells = append(cells, fmt.Sprintf("%s:%s@%d=%q", c.Family, c.Qualifier, *c.Timestamp, c.Value))
	}
	want := strings.Join([]string{
		`s:e0000000000000000@1="\x00\x00\x00\x00\x00"`,
		`s:e0000000000000001@2="\x01\x01\x01\x01\x01"`,
		`s:e0000000000000002@3="\x02\x02\x02\x02\x02"`,
		`s:h@3="{\"slot\":2}"`,
	}, "\n")
	if got := strings.Join(cells, "\n"); got != want {
		t.Errorf("the row has\n%s\nwant\n%s", got, want)
	}
}

func TestAppendRefusesWhatCannotBe(t *testing.T) {
	logs, log := mustOpen(t), newPrefix()+"log"
	for name, test := range map[string]struct {
		slot              uint64
		prev, head, entry []byte
		want              error // nil: any other than these
	}{
		"an empty prev, which HBase takes for none": {0, []byte{}, head(0), []byte("x"), ledger.ErrTaken},
		"an empty head":              {0, nil, nil, []byte("x"), nil},
		"the head of another slot":   {0, nil, head(1), []byte("x"), nil},
		"a head without a slot":      {0, nil, []byte("{}"), []byte("x"), nil},
		"a slot without a timestamp": {math.MaxInt64 - 1, head(math.MaxInt64 - 2), head(math.MaxInt64 - 1), []byte("x"), nil},
		"20 MB":                      {0, nil, head(0), make([]byte, 20<<20), ledger.ErrTooLarge},
		"a large head":               {0, nil, make([]byte, 2<<20), nil, ledger.ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			err := logs.Append(within(t, wait.Limit), log, test.slot, test.prev, test.head, test.entry)
			switch {
			case err == nil:
				t.Error("it was stored")
			case test.want != nil && !errors.Is(err, test.want), test.want == nil && errors.Is(err, ledger.ErrTaken), test.want == nil && errors.Is(err, ledger.ErrTooLarge):
				t.Errorf("%v, want %v", err, test.want)
			}
		})
	}
	if head, entries, err := logs.Read(within(t, wait.Limit), log, 0, 10); head != nil || entries != nil || err != nil {
		t.Errorf("then the log has %q, %d entries, %v", head, len(entries), err)
	}
}

// Where HBase's own limit is lower than ours, its refusal is as good.
func TestServerRefusesLargeEntries(t *testing.T) {
	logs, log := mustOpen(t), newPrefix()+"log"
	logs.maxEntry = 12 << 20
	fill(t, logs, log, 1, 10)
	wait.UntilNil(t, "11 MB are refused with one line", func() error { // a connection may be lost meanwhile
		err := logs.Append(within(t, wait.Limit), log, 1, head(0), head(1), make([]byte, 11<<20))
		if !errors.Is(err, ledger.ErrTooLarge) || strings.Contains(err.Error(), "\n") {
			return fmt.Errorf("%v, want one line of ErrTooLarge", err)
		}
		return nil
	})
	if err := logs.Append(within(t, wait.Limit), log, 1, head(0), head(1), []byte("smaller")); err != nil {
		t.Error(err)
	}
}

func TestSlotsAtTheEndOfNumbers(t *testing.T) {
	logs, log := mustOpen(t), newPrefix()+"log"
	stored, err := logs.checkAndPut(within(t, wait.Limit), log, maxSlot, nil, head(maxSlot), []byte("last"))
	if err != nil || !stored {
		t.Fatal(stored, err)
	}
	for from, want := range map[uint64]int{maxSlot - 1: 0, maxSlot: 1, maxSlot + 1: 0, math.MaxUint64: 0} {
		h, entries, err := logs.Read(within(t, wait.Limit), log, from, math.MaxInt)
		if err != nil || !bytes.Equal(h, head(maxSlot)) || len(entries) != want {
			t.Errorf("read from %d: %q, %d entries, %v; want %d", from, h, len(entries), err, want)
		}
	}
	if err := logs.Delete(within(t, wait.Limit), log, math.MaxUint64); err != nil {
		t.Fatal(err)
	}
	if h, _, err := logs.Read(within(t, wait.Limit), log, 0, 1); h != nil || err != nil {
		t.Errorf("after a delete of everything: %q, %v", h, err)
	}
}

// A page of large entries must not be as large as it can be, yet every page
// must bring the reader on.
func TestReadIsBoundedInBytes(t *testing.T) {
	logs, log := mustOpen(t), newPrefix()+"log"
	const slots, size = 24, 1 << 20
	fill(t, logs, log, slots, size)
	reads := 0
	for from := uint64(0); from < slots; reads++ {
		h, entries, err := logs.Read(within(t, wait.Limit), log, from, 256)
		if err != nil || len(entries) == 0 || !bytes.Equal(h, head(slots-1)) {
			t.Fatalf("read from %d: head %q, %d entries, %v", from, h, len(entries), err)
		}
		if bytes := len(entries) * size; bytes > readBytes+size {
			t.Errorf("a read from %d brought %d bytes", from, bytes)
		}
		for i, e := range entries {
			if len(e) != size || e[0] != byte(from)+byte(i) {
				t.Errorf("slot %d has %d bytes of %d", from+uint64(i), len(e), e[0])
			}
		}
		from += uint64(len(entries))
	}
	if reads < slots*size/(readBytes+size) || reads > slots {
		t.Errorf("%d reads", reads)
	}
}

// No server is contacted before the first call, and the error of a call names the
// unreachable server.
func TestServersAway(t *testing.T) {
	nobody, err := services.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	logs := mustOpenAt(t, nobody)
	for name, call := range callsOf(logs) {
		err := call(within(t, wait.Limit))
		if err == nil || !strings.Contains(err.Error(), nobody) || !strings.Contains(err.Error(), "table sales") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want one line with the table and %s", name, err, nobody)
		}
		if errors.Is(err, ledger.ErrTaken) || errors.Is(err, ledger.ErrNoTable) || errors.Is(err, ledger.ErrTableUnfit) {
			t.Errorf("%s: %v, which claims more than is known", name, err)
		}
	}
}

// callsOf are all calls that a handle has.
func callsOf(logs *Logs) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Append": func(ctx context.Context) error {
			return logs.Append(ctx, newPrefix()+"log", 0, nil, head(0), []byte("x"))
		},
		"Read": func(ctx context.Context) error {
			_, _, err := logs.Read(ctx, "00/nothing", 0, 1)
			return err
		},
		"Heads": func(ctx context.Context) error {
			_, err := logs.Heads(ctx, []string{"00/nothing", "80/nothing"})
			return err
		},
		"Delete":      func(ctx context.Context) error { return logs.Delete(ctx, "00/nothing", 1) },
		"CheckTable":  logs.CheckTable,
		"CreateTable": logs.CreateTable,
	}
}

func TestOpenRefusesWhatNamesNoTable(t *testing.T) {
	for name, o := range map[string]Options{"no ZooKeeper": {Table: "sales"}, "no table": {Zookeeper: []string{"zk:2181"}}} {
		if logs, err := Open(o); err == nil {
			logs.Close()
			t.Errorf("%s: no error", name)
		}
	}
}

func TestClosed(t *testing.T) {
	logs := mustOpen(t)
	fill(t, logs, newPrefix()+"log", 1, 1)
	for range 2 {
		if err := logs.Close(); err != nil {
			t.Error(err)
		}
	}
	for name, call := range callsOf(logs) {
		if err := call(t.Context()); !errors.Is(err, errClosed) {
			t.Errorf("%s on a closed handle: %v", name, err)
		}
	}
}

func TestZookeeperRoot(t *testing.T) {
	zookeeper := mustStandalone(t).Zookeeper()
	wrong := mustOpen(t, func(o *Options) { o.ZookeeperRoot = "/hbase-elsewhere" })
	if _, _, err := wrong.Read(within(t, wait.Limit), "log", 0, 1); err == nil || !strings.Contains(err.Error(), "/hbase-elsewhere") {
		t.Errorf("with a root where no HBase is: %v", err)
	}
	right := mustOpen(t, func(o *Options) { o.ZookeeperRoot = "/hbase" })
	if _, _, err := right.Read(within(t, wait.Limit), "log", 0, 1); err != nil {
		t.Errorf("%s: %v", zookeeper, err)
	}
}

// One host of the quorum that answers is enough, whatever is wrong with others.
func TestQuorumWithHostsAway(t *testing.T) {
	frozen, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and sends nothing
	if err != nil {
		t.Fatal(err)
	}
	defer frozen.Close()
	away := []string{"127.0.0.1:1", "no-such-host.invalid:2181", frozen.Addr().String()}
	logs := mustOpen(t, func(o *Options) { o.Zookeeper = append(away, o.Zookeeper...) })
	if _, _, err := logs.Read(within(t, wait.Limit), "log", 0, 1); err != nil {
		t.Error(err)
	}
}
