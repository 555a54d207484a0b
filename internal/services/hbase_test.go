package services

import (
	"io"
	"log/slog"
	"testing"

	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"
)

// What was acknowledged before a kill is there after a start, though a start
// throws away what ZooKeeper has.
func TestHBaseKeepsDataOverKillAndStart(t *testing.T) {
	h, err := StartHBase(t.Context(), HBaseOptions{Dir: t.TempDir()})
	Require(t, err)
	t.Cleanup(h.Stop)
	zookeeper := h.Zookeeper()
	quiet := gohbase.Logger(slog.New(slog.NewTextHandler(io.Discard, nil)))

	admin := gohbase.NewAdminClient(zookeeper, quiet)
	if err := admin.CreateTable(hrpc.NewCreateTable(t.Context(), []byte("t"), map[string]map[string]string{"f": nil})); err != nil {
		t.Fatal(err)
	}
	put, err := hrpc.NewPutStr(t.Context(), "t", "row", map[string]map[string][]byte{"f": {"q": []byte("value")}})
	if err != nil {
		t.Fatal(err)
	}
	before := gohbase.NewClient(zookeeper, quiet)
	_, err = before.Put(put)
	before.Close()
	if err != nil {
		t.Fatal(err)
	}

	if err := h.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h.Zookeeper() != zookeeper {
		t.Errorf("it moved from %s to %s", zookeeper, h.Zookeeper())
	}
	after := gohbase.NewClient(zookeeper, quiet)
	defer after.Close()
	get, err := hrpc.NewGetStr(t.Context(), "t", "row")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := after.Get(get); err != nil || len(got.Cells) != 1 || string(got.Cells[0].Value) != "value" {
		t.Errorf("got %v, %v", got, err)
	}
}
