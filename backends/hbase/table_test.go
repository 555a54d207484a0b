package hbase

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/tsuna/gohbase/pb"
	"google.golang.org/protobuf/proto"

	"salectl/backends/ledger"
	"salectl/internal/wait"
)

// mustCallMaster does what we never do: it makes tables that do not fit.
func mustCallMaster(t *testing.T, logs *Logs, name string, request, response proto.Message) {
	t.Helper()
	err := logs.call(name, func() error { return logs.callMaster(within(t, wait.Limit), name, request, response) })
	if err != nil {
		t.Fatal(err)
	}
}

// createTable creates a table. It repeats the call while ZooKeeper or the master of a busy host do not answer.
func createTable(ctx context.Context, logs *Logs) error {
	return wait.Poll(wait.Limit, func() error { return logs.CreateTable(ctx) })
}

func TestMissingTable(t *testing.T) {
	logs, other := mustOpen(t, table("later")), mustOpen(t, table("later"))
	calls := callsOf(logs)
	for _, name := range []string{"Read", "Heads", "Delete"} {
		if err := calls[name](within(t, wait.Limit)); err != nil {
			t.Errorf("%s without a table: %v", name, err)
		}
	}
	if err := calls["Append"](within(t, wait.Limit)); !errors.Is(err, ledger.ErrNoTable) || !strings.Contains(err.Error(), "salectl apply") {
		t.Errorf("Append without a table: %v", err)
	}
	if err := logs.CheckTable(within(t, wait.Limit)); !errors.Is(err, ledger.ErrNoTable) || errors.Is(err, ledger.ErrTableUnfit) {
		t.Errorf("CheckTable without a table: %v", err)
	}

	// Both make it; one of them has to find that it is there already.
	var both sync.WaitGroup
	for _, l := range []*Logs{logs, other} {
		both.Go(func() {
			if err := createTable(t.Context(), l); err != nil {
				t.Error(err)
			}
			if err := l.CheckTable(within(t, wait.Limit)); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if err := createTable(t.Context(), logs); err != nil {
		t.Errorf("create it again: %v", err)
	}
	if n := len(logs.regions.known); n != regionCount {
		t.Errorf("it has %d regions, want %d", n, regionCount)
	}
	if err := calls["Append"](within(t, wait.Limit)); err != nil {
		t.Errorf("Append to a table made since: %v", err)
	}
	dropTable(t, other)
	// Its regions are known still, to the handle.
	for _, name := range []string{"Read", "Heads", "Delete"} {
		if err := calls[name](within(t, wait.Limit)); err != nil {
			t.Errorf("%s after the table was dropped: %v", name, err)
		}
	}
}

func TestUnfitTables(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*pb.TableSchema)
		want   string
	}{
		"versions": {set("VERSIONS", "3"), "alter 'TABLE', {NAME => 's', VERSIONS => 1}"},
		"ttl":      {set("TTL", "86400"), "alter 'TABLE', {NAME => 's', TTL => 'FOREVER'}"},
		"family":   {func(s *pb.TableSchema) { s.ColumnFamilies[0].Name = []byte("other") }, "no family s"},
	} {
		t.Run(name, func(t *testing.T) {
			name := unused(name)
			test.want = strings.ReplaceAll(test.want, "TABLE", name)
			logs := mustOpen(t, table(name))
			s := schema(name)
			test.change(s)
			mustCallMaster(t, logs, "CreateTable", &pb.CreateTableRequest{TableSchema: s}, new(pb.CreateTableResponse))
			// To create it is no error: it is there. What it is like is another
			// question.
			if err := createTable(t.Context(), logs); err != nil {
				t.Error(err)
			}
			err := logs.CheckTable(within(t, wait.Limit))
			if unfit, is := errors.AsType[*ledger.UnfitError](err); !is || !strings.Contains(unfit.Faults+". "+unfit.Remedy, test.want) {
				t.Errorf("%#v, want it unfit and %q", err, test.want)
			}
		})
	}
}

func TestDisabledTable(t *testing.T) {
	name := unused("off")
	logs := mustOpen(t, table(name))
	if err := createTable(t.Context(), logs); err != nil {
		t.Fatal(err)
	}
	disableTable(t, logs)
	if err := createTable(t.Context(), logs); err != nil {
		t.Errorf("create it again: %v", err)
	}
	err := logs.CheckTable(within(t, wait.Limit))
	if unfit, is := errors.AsType[*ledger.UnfitError](err); !is || !strings.Contains(unfit.Remedy, "enable '"+name+"'") {
		t.Errorf("%#v, want it unfit", err)
	}
	err = callsOf(logs)["Append"](within(t, wait.Limit))
	if err == nil || errors.Is(err, ledger.ErrTaken) || strings.Contains(err.Error(), "\n") {
		t.Errorf("Append to it: %v", err)
	}
}

func TestNamespaces(t *testing.T) {
	namespace := unused("shop")
	logs := mustOpen(t, table(namespace+":sales"))
	if err := logs.CreateTable(within(t, wait.Limit)); err == nil || !strings.Contains(err.Error(), "create_namespace '"+namespace+"'") {
		t.Errorf("without its namespace: %v", err)
	}
	if err := logs.CheckTable(within(t, wait.Limit)); !errors.Is(err, ledger.ErrNoTable) {
		t.Errorf("without its namespace: %v", err)
	}
	mustCallMaster(t, logs, "CreateNamespace", &pb.CreateNamespaceRequest{
		NamespaceDescriptor: &pb.NamespaceDescriptor{Name: []byte(namespace)},
	}, new(pb.CreateNamespaceResponse))
	if err := createTable(t.Context(), logs); err != nil { // the namespace takes its time
		t.Fatal(err)
	}
	if err := logs.CheckTable(within(t, wait.Limit)); err != nil {
		t.Error(err)
	}
	log := newPrefix() + "log"
	fill(t, logs, log, 2, 10)
	if _, entries, err := logs.Read(within(t, wait.Limit), log, 0, 10); len(entries) != 2 || err != nil {
		t.Errorf("read %d entries, %v", len(entries), err)
	}
	if _, entries, err := mustOpen(t).Read(within(t, wait.Limit), log, 0, 10); entries != nil || err != nil {
		t.Errorf("the table of the same name in the default namespace has %d of them, %v", len(entries), err)
	}
}

func disableTable(t *testing.T, logs *Logs) {
	t.Helper()
	begun := new(pb.DisableTableResponse)
	mustCallMaster(t, logs, "DisableTable", &pb.DisableTableRequest{TableName: tableName(logs.table)}, begun)
	mustFinish(t, logs, begun.GetProcId())
}

func dropTable(t *testing.T, logs *Logs) {
	t.Helper()
	disableTable(t, logs)
	begun := new(pb.DeleteTableResponse)
	mustCallMaster(t, logs, "DeleteTable", &pb.DeleteTableRequest{TableName: tableName(logs.table)}, begun)
	mustFinish(t, logs, begun.GetProcId())
}

func mustFinish(t *testing.T, logs *Logs, procedure uint64) {
	t.Helper()
	err := logs.call("finish", func() error { return logs.finish(within(t, wait.Limit), procedure) })
	if err != nil {
		t.Fatal(err)
	}
}
