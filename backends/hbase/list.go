package hbase

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"

	"salectl/backends/ledger"
)

var _ ledger.Lister = (*Logs)(nil)

// listedAtOnce is the maximum number of rows that one call of a list returns.
const listedAtOnce = 500

// List implements ledger.Lister. It reads only the cells of heads, region by region.
func (l *Logs) List(ctx context.Context, prefix string) (names []string, err error) {
	if err := l.begin(); err != nil {
		return nil, err
	}
	defer l.busy.Done()
	end := behind([]byte(prefix))
	for from := []byte(prefix); from != nil; {
		err := l.again(ctx, func() error {
			some, next, err := l.listFrom(ctx, from, end)
			if err == nil {
				names, from = append(names, some...), next
			}
			return err
		})
		switch {
		case errors.Is(err, ledger.ErrNoTable):
			return nil, nil
		case err != nil:
			return nil, l.failed(fmt.Sprintf("list what begins with %s", prefix), err)
		}
	}
	return names, nil
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
		answer, err := l.regions.askAt(ctx, p, scan)
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
