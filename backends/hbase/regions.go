package hbase

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tsuna/gohbase/hrpc"
	"github.com/tsuna/gohbase/pb"
	"github.com/tsuna/gohbase/region"
	"github.com/tsuna/gohbase/zk"
	"golang.org/x/sync/singleflight"
	"google.golang.org/protobuf/proto"

	"salectl/backends/ledger"
)

// lookupPatience is the timeout of a lookup in hbase:meta, including ZooKeeper.
const lookupPatience = 2 * time.Second

// place is a region and the last known address of its server.
type place struct {
	hrpc.RegionInfo
	addr string
}

func (p *place) holds(row []byte) bool {
	return bytes.Compare(p.StartKey(), row) <= 0 && (len(p.StopKey()) == 0 || bytes.Compare(row, p.StopKey()) < 0)
}

// regions caches the places of the regions of one table. A place is cached until a call to it
// fails; lookups happen on demand.
type regions struct {
	table     []byte
	servers   *servers
	zookeeper *zookeeper
	lookups   singleflight.Group // by row

	// mu guards the fields below.
	mu    sync.Mutex
	known []*place // sorted by start key, without overlaps
	meta  *place   // nil: unknown
}

// find returns the place of a row; ledger.ErrNoTable if there is no table.
func (r *regions) find(ctx context.Context, row []byte) (*place, error) {
	r.mu.Lock()
	p := r.cached(row)
	r.mu.Unlock()
	if p != nil {
		return p, nil
	}
	return share(ctx, r.servers, &r.lookups, string(row), "querying hbase:meta for the region", func() (*place, error) { return r.lookup(row) })
}

// cached returns the known place of a row, or nil. mu is held.
func (r *regions) cached(row []byte) *place {
	i, ok := slices.BinarySearchFunc(r.known, row, func(p *place, row []byte) int { return bytes.Compare(p.StartKey(), row) })
	if !ok {
		i--
	}
	if i < 0 || !r.known[i].holds(row) {
		return nil
	}
	return r.known[i]
}

// cache caches a place and removes the places that it overlaps: regions that were split or
// merged since.
func (r *regions) cache(p *place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known = slices.DeleteFunc(r.known, func(q *place) bool {
		return q.holds(p.StartKey()) || p.holds(q.StartKey())
	})
	r.known = append(r.known, p)
	slices.SortFunc(r.known, func(p, q *place) int { return bytes.Compare(p.StartKey(), q.StartKey()) })
}

// uncache removes a place from the cache.
func (r *regions) uncache(p *place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.meta == p {
		r.meta = nil
	}
	r.known = slices.DeleteFunc(r.known, func(q *place) bool { return q == p })
}

// lookup queries hbase:meta for the region of a row: the last one that begins at or before it.
func (r *regions) lookup(row []byte) (*place, error) {
	ctx, cancel := context.WithTimeout(r.servers.life, lookupPatience)
	defer cancel()
	// Meta's keys are table,start,number. A colon is the byte after the digits.
	from := slices.Concat(r.table, []byte(","), row, []byte(",:"))
	scan, err := hrpc.NewScanRange(ctx, metaTable, from, r.table,
		hrpc.Families(map[string][]string{"info": nil}), hrpc.Reversed(), hrpc.NumberOfRows(1), hrpc.CloseScanner())
	if err != nil {
		return nil, err
	}
	answer, err := r.callMeta(ctx, scan)
	if err != nil {
		return nil, err
	}
	if len(scan.Response.Results) == 0 {
		if answer.(*pb.ScanResponse).GetHeartbeatMessage() {
			return nil, errors.New("hbase:meta did not answer in time")
		}
		return nil, ledger.ErrNoTable
	}
	found, addr, err := region.ParseRegionInfo(hrpc.ResultV2ToResult(scan.Response.Results[0]))
	if err != nil {
		return nil, &fault{kind: busy, server: "of hbase:meta", what: "the region has no server now: " + firstLine(err)}
	}
	p := &place{found, addr}
	if !p.holds(row) {
		return nil, fmt.Errorf("hbase:meta has no region for the row; the one before it is %s", found.Name())
	}
	r.cache(p)
	return p, nil
}

var metaTable = []byte("hbase:meta")

// callMeta sends a call to the server of hbase:meta.
func (r *regions) callMeta(ctx context.Context, call hrpc.Call) (proto.Message, error) {
	r.mu.Lock()
	meta := r.meta
	r.mu.Unlock()
	if meta == nil {
		addr, err := r.zookeeper.find(ctx, zk.Meta)
		if err != nil {
			return nil, err
		}
		meta = &place{region.NewInfo(0, []byte("hbase"), []byte("meta"), []byte("hbase:meta,,1"), nil, nil), addr}
		r.mu.Lock()
		r.meta = meta
		r.mu.Unlock()
	}
	return r.callPlace(ctx, meta, call)
}

// callPlace sends a call to the server of a place, once. If the error may mean that the place is
// wrong, it removes the place from the cache: the regions of a server that times out may be moving to
// others.
func (r *regions) callPlace(ctx context.Context, p *place, call hrpc.Call) (proto.Message, error) {
	srv, err := r.servers.get(ctx, endpoint{p.addr, region.RegionClient})
	if err == nil {
		call.SetRegion(p.RegionInfo)
		var answer proto.Message
		if answer, err = r.servers.call(ctx, srv, call); err == nil {
			return answer, nil
		}
	}
	r.judge(p, err)
	return nil, err
}

// judge removes a place from the cache after an error that may mean that it is wrong.
func (r *regions) judge(p *place, err error) {
	if isFault(err, moved, lost) || errors.Is(err, context.DeadlineExceeded) {
		r.uncache(p)
	}
}
