package hbase

import (
	"bytes"
	"context"
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
	err = l.call(fmt.Sprintf("read %s from slot %d", log, from), func() error {
		return orEmpty(l.again(ctx, func() (err error) {
			head, entries, err = l.readRow(ctx, log, from, max)
			return err
		}))
	})
	return head, entries, err
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
	heads := make([][]byte, len(logs))
	err := l.call("read heads", func() error {
		return orEmpty(l.getRows(ctx, logs, map[string][]string{family: {headCell}}, func(i int, answer proto.Message) {
			heads[i] = headOf(answer)
		}))
	})
	if err != nil {
		return nil, err
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

var _ ledger.Lister = (*Logs)(nil)

// listedAtOnce is the maximum number of rows that one call of a list returns.
const listedAtOnce = 500

// List implements ledger.Lister. It reads only the cells of heads, region by region.
func (l *Logs) List(ctx context.Context, prefix string) (names []string, err error) {
	end := behind([]byte(prefix))
	err = l.call(fmt.Sprintf("list what begins with %s", prefix), func() (err error) {
		for from := []byte(prefix); from != nil && err == nil; {
			err = l.again(ctx, func() error {
				some, next, err := l.listFrom(ctx, from, end)
				if err == nil {
					names, from = append(names, some...), next
				}
				return err
			})
		}
		return orEmpty(err)
	})
	return names, err
}

// listFrom returns some of the rows from one on, and the row to continue from; nil: no more
// rows.
func (l *Logs) listFrom(ctx context.Context, from, end []byte) (names []string, next []byte, err error) {
	p, err := l.regions.find(ctx, from)
	if err != nil {
		return nil, nil, err
	}
	var scan *hrpc.Scan
	var reply *pb.ScanResponse
	call := func(options ...func(hrpc.Call) error) (err error) {
		if scan, err = hrpc.NewScanRange(ctx, l.regions.table, from, end, options...); err != nil {
			return err
		}
		answer, err := l.regions.callPlace(ctx, p, scan)
		if err == nil {
			reply = answer.(*pb.ScanResponse)
		}
		return err
	}
	rows := hrpc.NumberOfRows(listedAtOnce)
	if err := call(hrpc.Families(map[string][]string{family: {headCell}}), rows); err != nil {
		return nil, nil, err
	}
	// The server may reach its limit of bytes or of time before the first row, inside a long
	// log. The open scanner continues from there; a new scan would start over.
	scanner := hrpc.ScannerID(reply.GetScannerId())
	for len(scan.Response.Results) == 0 && reply.GetHeartbeatMessage() {
		if err := call(scanner, rows); err != nil {
			return nil, nil, err
		}
	}
	for _, result := range scan.Response.Results {
		if len(result.Cells) > 0 {
			names = append(names, string(result.Cells[0].Row()))
		}
	}
	if reply.GetMoreResultsInRegion() {
		_ = call(scanner, hrpc.CloseScanner()) // otherwise it expires with its lease
	}
	switch {
	case len(names) > 0: // HBase may have stopped anywhere after them
		return names, append([]byte(names[len(names)-1]), 0), nil
	case len(p.StopKey()) == 0 || end != nil && bytes.Compare(p.StopKey(), end) >= 0:
		return nil, nil, nil
	}
	return nil, bytes.Clone(p.StopKey()), nil
}

// behind returns the first row after all that begin with a prefix; nil if there is none.
func behind(prefix []byte) []byte {
	end := bytes.Clone(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}
