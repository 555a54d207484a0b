package hbase

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/region"

	"salectl/backends/ledger"
)

// headsAtOnce is how many heads travel in one call. HBase works on one call
// with one thread, so a few smaller ones are faster than one that has all.
const headsAtOnce = 128

// headCall is a question for the head of one log.
type headCall struct {
	index int // in the caller's logs
	place *place
	get   *hrpc.Get
	err   error
}

// Heads is ledger.Logs's. Each head is of a moment of its own.
func (l *Logs) Heads(ctx context.Context, logs []string) ([][]byte, error) {
	if err := l.begin(); err != nil {
		return nil, err
	}
	defer l.busy.Done()
	heads := make([][]byte, len(logs))
	rest := make([]int, len(logs))
	for i := range rest {
		rest[i] = i
	}
	err := l.again(ctx, func() (err error) {
		rest, err = l.readHeads(ctx, logs, rest, heads)
		return err
	})
	if err != nil && !errors.Is(err, ledger.ErrNoTable) {
		return nil, l.failed("read heads", err)
	}
	return heads, nil
}

// readHeads asks for some of the heads and returns those that it did not get,
// with the error of one of them.
func (l *Logs) readHeads(ctx context.Context, logs []string, some []int, heads [][]byte) (rest []int, err error) {
	byServer := make(map[string][]*headCall)
	for _, i := range some {
		p, err := l.regions.find(ctx, []byte(logs[i]))
		if err != nil {
			return some, err
		}
		get, err := l.getHead(ctx, []byte(logs[i]))
		if err != nil {
			return some, err
		}
		get.SetRegion(p.RegionInfo)
		byServer[p.addr] = append(byServer[p.addr], &headCall{index: i, place: p, get: get})
	}
	var asking sync.WaitGroup
	for addr, calls := range byServer {
		for chunk := range slices.Chunk(calls, headsAtOnce) {
			asking.Go(func() { l.askHeads(ctx, addr, chunk, heads) })
		}
	}
	asking.Wait()
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

// askHeads asks one server in one call.
func (l *Logs) askHeads(ctx context.Context, addr string, calls []*headCall, heads [][]byte) {
	srv, err := l.servers.get(ctx, endpoint{addr, region.RegionClient})
	if err != nil {
		for _, c := range calls {
			c.err = err
		}
		return
	}
	gets := make([]hrpc.Call, len(calls))
	for i, c := range calls {
		gets[i] = c.get
	}
	l.servers.start(func() { srv.client.QueueBatch(ctx, gets) })
	for _, c := range calls {
		answer, err := l.servers.await(ctx, srv, c.get)
		if c.err = err; err == nil {
			heads[c.index] = headOf(answer)
		}
	}
}
