package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"salectl/backends"
	"salectl/backends/ledger"
	"salectl/spec"
)

// listable is a place with the sales tickets and zoo.
func listable(t *testing.T) (path string, sale spec.Sale, store *backends.Store) {
	t.Helper()
	path = applySale(t, "tickets")
	sales, _, err := spec.Load([]string{path}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if store, err = backends.Open(sales[0], nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	newCapture().leave(t, store, sales[0], "zoo")
	return path, sales[0], store
}

// A sale whose log is damaged hides no other from list.
func TestListDamaged(t *testing.T) {
	path, _, store := listable(t)
	log := spec.SaleLog("tickets")
	head, entries, err := store.Logs.Read(t.Context(), log, 0, 9)
	if err != nil {
		t.Fatal(err)
	}
	slot := func(n int) string { return fmt.Sprintf(`"slot":%d`, n) }
	next := strings.Replace(string(head), slot(len(entries)-1), slot(len(entries)), 1)
	if err := store.Logs.Append(t.Context(), log, uint64(len(entries)), head, []byte(next), []byte("no entry")); err != nil {
		t.Fatal(err)
	}
	c := newCapture()
	if code := c.run([]string{"salectl", "list", "-f", path}, nil); code != 3 {
		t.Errorf("exit code %d", code)
	}
	if out := c.out.String(); !strings.Contains(out, "tickets  unknown") || !strings.Contains(out, "zoo      open") {
		t.Errorf("list says\n%s", out)
	}
}

// silentLog is a store that says nothing of one log until its context ends, which it has end once the
// other sale was read.
type silentLog struct {
	ledger.Lister
	read chan struct{}
	end  func()
}

func (s *silentLog) Read(ctx context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	if log != spec.SaleLog("tickets") {
		return s.Lister.Read(ctx, log, from, max)
	}
	<-s.read
	s.end()
	<-ctx.Done()
	return nil, nil, ctx.Err()
}

func (s *silentLog) Heads(ctx context.Context, logs []string) ([][]byte, error) {
	defer close(s.read)
	return s.Lister.Heads(ctx, logs)
}

// A sale that the store does not tell of in time hides no other from list.
func TestListSilent(t *testing.T) {
	_, sale, store := listable(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	logs := &silentLog{store.Logs.(ledger.Lister), make(chan struct{}), func() { cancel(timedOut(time.Second)) }}
	l, err := listPlace(ctx, &backends.Store{Logs: logs}, keptAt{sales: []spec.Sale{sale}})
	if err == nil || l == nil || len(l.Sales) != 2 {
		t.Fatalf("%+v, %v", l, err)
	}
	if tickets, zoo := l.Sales[0], l.Sales[1]; tickets.Error == "" || zoo.Error != "" || zoo.Brief == nil || zoo.Phase != "open" {
		t.Errorf("%+v and %+v", tickets, zoo)
	}
}
