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

// createPatience bounds how long CreateTable waits for the table's regions, in addition to ctx.
const createPatience = time.Minute

// Table implements ledger.Table.
func (l *Logs) Table() string { return l.table }

// CheckTable implements ledger.Table. It queries the master.
func (l *Logs) CheckTable(ctx context.Context) error {
	return l.call("check the table", func() error {
		err := l.check(ctx)
		if errors.Is(err, ledger.ErrNoTable) {
			err = fmt.Errorf("%w; run 'salectl apply'", err)
		}
		return err
	})
}

func (l *Logs) check(ctx context.Context) error {
	found, err := l.described(ctx)
	if err != nil {
		return err
	}
	wrong, mend := misfits(l.table, found)
	state, err := l.state(ctx)
	if err != nil {
		return err
	}
	if state == pb.Table_DISABLED || state == pb.Table_DISABLING {
		wrong, mend = append(wrong, "it is disabled"), append(mend, fmt.Sprintf("enable '%s'", l.table))
	}
	if len(wrong) > 0 {
		return &ledger.UnfitError{Faults: strings.Join(wrong, "; "), Remedy: "In the HBase shell: " + strings.Join(mend, "; ")}
	}
	return nil
}

// described queries the master for the schema of the table.
func (l *Logs) described(ctx context.Context) (*pb.TableSchema, error) {
	found := new(pb.GetTableDescriptorsResponse)
	err := l.callMaster(ctx, "GetTableDescriptors", &pb.GetTableDescriptorsRequest{
		TableNames: []*pb.TableName{tableName(l.table)},
	}, found)
	switch {
	case err != nil:
		return nil, err
	case len(found.GetTableSchema()) == 0:
		return nil, ledger.ErrNoTable
	}
	return found.GetTableSchema()[0], nil
}

// CreateTable implements ledger.Table. It returns when every region of the table answers, even
// if another process is creating the table at the same time.
func (l *Logs) CreateTable(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, createPatience, fmt.Errorf("it was not ready within %v", createPatience))
	defer cancel()
	return l.call("create the table", func() error {
		err := l.create(ctx)
		if isException(err, "TableExistsException") {
			err = l.awaitEnabled(ctx)
		}
		if err == nil {
			err = l.awaitRegions(ctx)
		}
		switch {
		case errors.Is(err, errDisabled):
			return nil // the table exists; CheckTable reports that it is disabled
		case isException(err, "NamespaceNotFoundException"):
			namespace, _, _ := strings.Cut(l.table, ":")
			return fmt.Errorf("its namespace does not exist. In the HBase shell: create_namespace '%s'", namespace)
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return err
	})
}

// create makes the master create the table, and waits until it has.
func (l *Logs) create(ctx context.Context) error {
	begun := new(pb.CreateTableResponse)
	err := l.callMaster(ctx, "CreateTable", &pb.CreateTableRequest{TableSchema: schema(l.table), SplitKeys: splits()}, begun)
	if err != nil {
		return err
	}
	return l.finish(ctx, begun.GetProcId())
}

// finish waits for the end of a procedure of the master.
func (l *Logs) finish(ctx context.Context, procedure uint64) error {
	for {
		state := new(pb.GetProcedureResultResponse)
		err := l.callMaster(ctx, "getProcedureResult", &pb.GetProcedureResultRequest{ProcId: &procedure}, state)
		switch {
		case err != nil:
			return err
		case state.GetState() == pb.GetProcedureResultResponse_RUNNING:
		case state.GetException() != nil:
			e := state.GetException().GetGenericException()
			return &fault{server: "master", what: className(e.GetClassName()) + ": " + e.GetMessage()}
		default: // finished, possibly so long ago that the master has forgotten it
			return nil
		}
		if err := ledger.Wait(ctx, l, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

var errDisabled = errors.New("the table is disabled")

// awaitEnabled waits until the creator of the table has enabled it. A table that was disabled
// stays so: the result is errDisabled.
func (l *Logs) awaitEnabled(ctx context.Context) error {
	for {
		switch state, err := l.state(ctx); {
		case err != nil:
			return err
		case state == pb.Table_ENABLED:
			return nil
		case state == pb.Table_DISABLED, state == pb.Table_DISABLING:
			return errDisabled
		}
		if err := ledger.Wait(ctx, l, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// awaitRegions waits until each region of the table answers.
func (l *Logs) awaitRegions(ctx context.Context) error {
	for row := []byte(nil); ; {
		stop, err := l.probe(ctx, row)
		switch {
		case err == nil && len(stop) == 0:
			return nil
		case err == nil:
			row = stop
		case ledger.Wait(ctx, l, 50*time.Millisecond) != nil:
			return err
		}
	}
}

// probe reads from the region that begins with row, and returns the end of the region. A
// refusal counts as an answer: the table may lack this package's family.
func (l *Logs) probe(ctx context.Context, row []byte) (stop []byte, err error) {
	p, err := l.regions.find(ctx, row)
	if err != nil {
		return nil, err
	}
	// A key must not be empty, as that of the first region is.
	get, err := l.getHead(ctx, append(bytes.Clone(row), 0))
	if err != nil {
		return nil, err
	}
	if _, err := l.regions.callPlace(ctx, p, get); err != nil && !isFault(err, refused) {
		return nil, err
	}
	return p.StopKey(), nil
}

// state queries hbase:meta for the state of the table. A missing state counts as enabling.
func (l *Logs) state(ctx context.Context) (pb.Table_State, error) {
	var answer proto.Message
	err := l.again(ctx, func() error {
		get, err := hrpc.NewGet(ctx, metaTable, l.regions.table, hrpc.Families(map[string][]string{"table": {"state"}}))
		if err == nil {
			answer, err = l.regions.callMeta(ctx, get)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	cells := answer.(*pb.GetResponse).GetResult().GetCell()
	if len(cells) == 0 {
		return pb.Table_ENABLING, nil
	}
	found := new(pb.Table)
	if err := proto.Unmarshal(cells[0].GetValue(), found); err != nil {
		return 0, fmt.Errorf("hbase:meta has an odd state of the table: %w", err)
	}
	return found.GetState(), nil
}

// callMaster calls the active master, and repeats the call while the master is busy.
func (l *Logs) callMaster(ctx context.Context, name string, request, response proto.Message) error {
	for {
		answer, err := l.callMasterOnce(ctx, name, request, response)
		if err == nil {
			proto.Merge(response, answer)
			return nil
		}
		if !isFault(err, busy) || ledger.Wait(ctx, l, 100*time.Millisecond) != nil {
			return err
		}
	}
}

func (l *Logs) callMasterOnce(ctx context.Context, name string, request, response proto.Message) (proto.Message, error) {
	addr, err := l.regions.zookeeper.find(ctx, zk.Master)
	if err != nil {
		return nil, err
	}
	master, err := l.servers.get(ctx, endpoint{addr, region.MasterClient})
	if err != nil {
		return nil, err
	}
	return l.servers.call(ctx, master, &masterCall{
		ctx: ctx, name: name, request: request, response: response, results: make(chan hrpc.RPCResult, 1),
	})
}
