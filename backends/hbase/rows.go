package hbase

import (
	"context"
	"slices"
	"sync"

	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/region"
	"google.golang.org/protobuf/proto"
)

// rowsAtOnce is the maximum number of rows in one call. HBase processes a call in one thread,
// so a few smaller calls are faster than one large one.
const rowsAtOnce = 128

// rowCall is a call about one row.
type rowCall struct {
	index int // in the caller's rows
	place *place
	call  hrpc.Call
	err   error
}

// getRows reads columns of many rows, with one call per server and rowsAtOnce rows. It calls
// take once for each row, with its index and a *pb.GetResponse, and concurrently for several
// rows. After an error rows may be missing. Each row is read at its own moment.
func (l *Logs) getRows(ctx context.Context, rows []string, columns map[string][]string, take func(i int, answer proto.Message)) error {
	return l.eachRow(ctx, rows, func(i int) (hrpc.Call, error) {
		return hrpc.NewGet(ctx, l.regions.table, []byte(rows[i]), hrpc.Families(columns))
	}, take)
}

// eachRow makes one call per row, in batches like getRows. A call may be made more than once.
func (l *Logs) eachRow(ctx context.Context, rows []string, of func(i int) (hrpc.Call, error), take func(i int, answer proto.Message)) error {
	rest := make([]int, len(rows))
	for i := range rest {
		rest[i] = i
	}
	return l.again(ctx, func() (err error) {
		rest, err = l.someRows(ctx, rows, rest, of, take)
		return err
	})
}

// someRows makes the calls of some rows. It returns the rows that failed, and the error of one
// of them.
func (l *Logs) someRows(ctx context.Context, rows []string, some []int, of func(int) (hrpc.Call, error), take func(int, proto.Message)) (rest []int, err error) {
	byServer := make(map[string][]*rowCall)
	for _, i := range some {
		p, err := l.regions.find(ctx, []byte(rows[i]))
		if err != nil {
			return some, err
		}
		call, err := of(i)
		if err != nil {
			return some, err
		}
		call.SetRegion(p.RegionInfo)
		byServer[p.addr] = append(byServer[p.addr], &rowCall{index: i, place: p, call: call})
	}
	var running sync.WaitGroup
	for addr, calls := range byServer {
		for chunk := range slices.Chunk(calls, rowsAtOnce) {
			running.Go(func() { l.callRows(ctx, addr, chunk, take) })
		}
	}
	running.Wait()
	for _, calls := range byServer {
		for _, c := range calls {
			if c.err != nil {
				l.regions.judge(c.place, c.err)
				rest, err = append(rest, c.index), c.err
			}
		}
	}
	return rest, err
}

// callRows sends calls to one server in one batch.
func (l *Logs) callRows(ctx context.Context, addr string, calls []*rowCall, take func(int, proto.Message)) {
	srv, err := l.servers.get(ctx, endpoint{addr, region.RegionClient})
	if err != nil {
		for _, c := range calls {
			c.err = err
		}
		return
	}
	batch := make([]hrpc.Call, len(calls))
	for i, c := range calls {
		batch[i] = c.call
	}
	l.servers.start(func() { srv.client.QueueBatch(ctx, batch) })
	for _, c := range calls {
		answer, err := l.servers.await(ctx, srv, c.call)
		if c.err = err; err == nil {
			take(c.index, answer)
		}
	}
}
