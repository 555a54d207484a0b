package hbase

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"github.com/tsuna/gohbase/region"
	"github.com/tsuna/gohbase/zk"
	"google.golang.org/protobuf/proto"

	"salectl/backends/ledger"
)

// createPatience bounds how long CreateTable waits for the table's regions,
// apart from ctx.
const createPatience = time.Minute

// Table is ledger.Table's.
func (l *Logs) Table() string { return l.table }

// CheckTable is ledger.Table's. It asks the master.
func (l *Logs) CheckTable(ctx context.Context) error {
	if err := l.begin(); err != nil {
		return err
	}
	defer l.busy.Done()
	err := l.check(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ledger.ErrNoTable):
		return fmt.Errorf("%s: %w; run salectl apply", l.place, ledger.ErrNoTable)
	case errors.Is(err, ledger.ErrTableUnfit):
		return fmt.Errorf("%s: %w", l.place, err)
	}
	return l.failed("check the table", err)
}

func (l *Logs) check(ctx context.Context) error {
	found := new(pb.GetTableDescriptorsResponse)
	err := l.askMaster(ctx, "GetTableDescriptors", &pb.GetTableDescriptorsRequest{
		TableNames: []*pb.TableName{tableName(l.table)},
	}, found)
	switch {
	case err != nil:
		return err
	case len(found.GetTableSchema()) == 0:
		return ledger.ErrNoTable
	}
	wrong, mend := misfits(l.table, found.GetTableSchema()[0])
	on, err := l.enabled(ctx)
	if err != nil {
		return err
	}
	if !on {
		wrong, mend = append(wrong, "it is disabled"), append(mend, fmt.Sprintf("enable '%s'", l.table))
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%w: %s. In the HBase shell: %s", ledger.ErrTableUnfit, strings.Join(wrong, "; "), strings.Join(mend, "; "))
	}
	return nil
}

// CreateTable is ledger.Table's. It returns when every region of the table
// answers, also when somebody else is creating it at the same time.
func (l *Logs) CreateTable(ctx context.Context) error {
	if err := l.begin(); err != nil {
		return err
	}
	defer l.busy.Done()
	ctx, cancel := context.WithTimeoutCause(ctx, createPatience, fmt.Errorf("it was not ready within %v", createPatience))
	defer cancel()
	err := l.create(ctx)
	if err == nil || isException(err, "TableExistsException") {
		err = l.awaitRegions(ctx)
	}
	switch {
	case isException(err, "NamespaceNotFoundException"):
		namespace, _, _ := strings.Cut(l.table, ":")
		return fmt.Errorf("create %s: its namespace does not exist; in the HBase shell: create_namespace '%s'", l.place, namespace)
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("create %s: %w: %w", l.place, context.Cause(ctx), err)
	case err != nil:
		return fmt.Errorf("create %s: %w", l.place, err)
	}
	return nil
}

// create has the master make the table and waits until it has done so.
func (l *Logs) create(ctx context.Context) error {
	begun := new(pb.CreateTableResponse)
	err := l.askMaster(ctx, "CreateTable", &pb.CreateTableRequest{TableSchema: schema(l.table), SplitKeys: splits()}, begun)
	if err != nil {
		return err
	}
	return l.finish(ctx, begun.GetProcId())
}

// finish waits for the end of something that the master has begun.
func (l *Logs) finish(ctx context.Context, procedure uint64) error {
	for {
		state := new(pb.GetProcedureResultResponse)
		err := l.askMaster(ctx, "getProcedureResult", &pb.GetProcedureResultRequest{ProcId: &procedure}, state)
		switch {
		case err != nil:
			return err
		case state.GetState() == pb.GetProcedureResultResponse_RUNNING:
		case state.GetException() != nil:
			e := state.GetException().GetGenericException()
			return &fault{server: "master", what: className(e.GetClassName()) + ": " + e.GetMessage()}
		default: // finished, or so long ago that the master has forgotten it
			return nil
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// awaitRegions waits until the table is enabled and a read in each of its
// regions is answered.
func (l *Logs) awaitRegions(ctx context.Context) error {
	for row := []byte(nil); ; {
		p, err := l.regions.find(ctx, row)
		if err == nil {
			var get *hrpc.Get
			if get, err = l.getHead(ctx, append(bytes.Clone(p.StartKey()), 0)); err == nil {
				_, err = l.regions.askAt(ctx, p, get)
			}
		}
		switch {
		case err == nil && len(p.StopKey()) == 0:
			return nil
		case err == nil:
			row = p.StopKey()
			continue
		case ctx.Err() != nil:
			return err
		}
		if pause(ctx, 50*time.Millisecond) != nil {
			return err
		}
	}
}

// enabled asks hbase:meta for the table's state.
func (l *Logs) enabled(ctx context.Context) (bool, error) {
	var answer proto.Message
	err := l.again(ctx, func() error {
		get, err := hrpc.NewGet(ctx, metaTable, l.regions.table, hrpc.Families(map[string][]string{"table": {"state"}}))
		if err == nil {
			answer, err = l.regions.askMeta(ctx, get)
		}
		return err
	})
	if err != nil {
		return false, err
	}
	for _, cell := range answer.(*pb.GetResponse).GetResult().GetCell() {
		state := new(pb.Table)
		if err := proto.Unmarshal(cell.GetValue(), state); err != nil {
			return false, fmt.Errorf("hbase:meta has an odd table state: %w", err)
		}
		return state.GetState() == pb.Table_ENABLED, nil
	}
	return false, nil
}

// askMaster asks the active master, again while it says that it is starting.
func (l *Logs) askMaster(ctx context.Context, name string, request, response proto.Message) error {
	for {
		answer, err := l.askMasterOnce(ctx, name, request, response)
		if err == nil {
			proto.Merge(response, answer)
			return nil
		}
		if !isFault(err, busy) || pause(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}

func (l *Logs) askMasterOnce(ctx context.Context, name string, request, response proto.Message) (proto.Message, error) {
	addr, err := l.regions.zookeeper.find(ctx, zk.Master)
	if err != nil {
		return nil, err
	}
	master, err := l.servers.get(ctx, endpoint{addr, region.MasterClient})
	if err != nil {
		return nil, err
	}
	return l.servers.ask(ctx, master, newMasterCall(ctx, name, request, response))
}

// pause waits for a while, or returns what ended ctx.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
