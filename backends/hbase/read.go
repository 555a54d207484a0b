package hbase

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/tsuna/gohbase/filter"
	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"google.golang.org/protobuf/proto"

	"salectl/backends/ledger"
)

// readBytes is the size of keys and values at which a read ends, whatever the requested number,
// after the entry that reaches it.
const readBytes = 4 << 20

// Read implements ledger.Logs. It returns fewer entries than requested if more would be too
// large, but at least one. If the entries reach the end of the log, they and the head are of
// one moment. Otherwise the head is read after them and may be newer; since slots are written
// once, they are part of its log all the same.
func (l *Logs) Read(ctx context.Context, log string, from uint64, max int) (head []byte, entries [][]byte, err error) {
	if err := l.begin(); err != nil {
		return nil, nil, err
	}
	defer l.busy.Done()
	err = l.again(ctx, func() (err error) {
		head, entries, err = l.readRow(ctx, log, from, max)
		return err
	})
	switch {
	case errors.Is(err, ledger.ErrNoTable):
		return nil, nil, nil
	case err != nil:
		return nil, nil, l.failed(fmt.Sprintf("read %s from slot %d", log, from), err)
	}
	return head, entries, nil
}

func (l *Logs) readRow(ctx context.Context, log string, from uint64, max int) (head []byte, entries [][]byte, err error) {
	if max <= 0 || from > maxSlot {
		head, err = l.head(ctx, log)
		return head, nil, err
	}
	scan, err := l.scan(ctx, log, from, max)
	if err != nil {
		return nil, nil, err
	}
	answer, err := l.once(ctx, scan)
	if err != nil {
		return nil, nil, err
	}
	end, found := !answer.(*pb.ScanResponse).GetHeartbeatMessage(), false
	for _, result := range scan.Response.Results {
		end, found = end && !result.Partial, true
		for _, cell := range result.Cells {
			switch string(cell.Qualifier()) {
			case headCell: // copied, since callers keep it longer than the entries
				head = bytes.Clone(cell.Value())
			case slotName(from + uint64(len(entries))):
				entries = append(entries, cell.Value())
			}
		}
	}
	if head == nil && (found || !end) {
		head, err = l.head(ctx, log)
	}
	if head == nil || err != nil {
		return nil, nil, err
	}
	return head, entries[:min(len(entries), max)], nil
}

// scan reads the cells of a row from a slot on. The head's cell sorts after those of all slots,
// so one more cell than the requested slots reaches it at the end of the log. (Two filters, for
// a few slots and the head, make HBase step through the slots between them: 180 ms in a row of
// 300,000.) A get would do as well if it could be limited in bytes.
func (l *Logs) scan(ctx context.Context, log string, from uint64, max int) (*hrpc.Scan, error) {
	cells := filter.NewColumnRangeFilter([]byte(slotName(from)), []byte(headCell), true, true)
	return hrpc.NewScanRange(ctx, l.regions.table, []byte(log), []byte(log),
		hrpc.Families(map[string][]string{family: nil}), hrpc.Filters(cells),
		hrpc.MaxResultsPerColumnFamily(uint32(min(max, math.MaxInt32-1))+1),
		hrpc.MaxResultSize(readBytes), hrpc.NumberOfRows(1), hrpc.CloseScanner())
}

// Heads implements ledger.Logs. Each head is read at its own moment.
func (l *Logs) Heads(ctx context.Context, logs []string) ([][]byte, error) {
	if err := l.begin(); err != nil {
		return nil, err
	}
	defer l.busy.Done()
	heads := make([][]byte, len(logs))
	err := l.getRows(ctx, logs, map[string][]string{family: {headCell}}, func(i int, answer proto.Message) {
		heads[i] = headOf(answer)
	})
	if err != nil && !errors.Is(err, ledger.ErrNoTable) {
		return nil, l.failed("read heads", err)
	}
	return heads, nil
}

func (l *Logs) head(ctx context.Context, log string) ([]byte, error) {
	get, err := l.getHead(ctx, []byte(log))
	if err != nil {
		return nil, err
	}
	answer, err := l.once(ctx, get)
	if err != nil {
		return nil, err
	}
	return headOf(answer), nil
}

func (l *Logs) getHead(ctx context.Context, row []byte) (*hrpc.Get, error) {
	return hrpc.NewGet(ctx, l.regions.table, row, hrpc.Families(map[string][]string{family: {headCell}}))
}

func headOf(answer proto.Message) []byte {
	cells := answer.(*pb.GetResponse).GetResult().GetCell()
	if len(cells) == 0 {
		return nil
	}
	return bytes.Clone(cells[0].GetValue())
}
