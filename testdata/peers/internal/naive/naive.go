// Package naive is the protocol that salectl grew out of, as fast as its text allows.
package naive

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/go-redsync/redsync/v4"
	lockredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/hrpc"

	"salectl/spec"
	"salectl/testdata/peers/internal/sales"
)

// Sale is a sale by the protocol of 一种基于Redis和HBase的分锁方法 (a patent
// application of 2016): each claim takes its shard's lock on a majority of the
// Redis nodes, reads the shard's row, checks it, writes it, and gives the lock
// back. Payment and rules are left out.
//
// Where the text leaves room, this takes what is fastest: it reads the two cells
// that the check needs and not the whole row, and tries for a lock that is taken
// again after naiveRetry. The write is a compare-and-set, so that a holder who
// slept through the end of the lock sells nothing twice; it costs no more than
// a plain one.
type Sale struct {
	client gohbase.Client
	locks  *redsync.Redsync
	table  string
	run    string // in the row keys and the locks' names, as a uid is in salectl's
	shards int
	limit  int64 // units that a shard has
}

// The lock's ttl is salectl's. The mean pause before it is tried for again was
// found by trying pauses from 0.25 to 20 ms and redsync's own of 50 to 250 ms: the
// best rate over all numbers of callers is that of 5 callers with this one.
// Longer pauses serve 200 callers better, and never reach that rate.
const (
	naiveTTL   = 3 * time.Second
	naiveRetry = time.Millisecond
)

// jittered is a pause around naiveRetry, so that those who lost do not come back
// together.
func jittered(int) time.Duration { return naiveRetry/2 + rand.N(naiveRetry) }

// Family is the one column family of the table.
const Family = "s"

// New returns a sale of so many units a shard in a table, with its locks on some nodes. No
// other sale has the name run.
func New(client gohbase.Client, nodes []*redis.Client, table, run string, shards int, limit int64) *Sale {
	n := &Sale{client: client, table: table, run: run, shards: shards, limit: limit}
	var pools []lockredis.Pool
	for _, node := range nodes {
		pools = append(pools, goredis.NewPool(node))
	}
	n.locks = redsync.New(pools...)
	return n
}

// Claim sells a unit to a user, at most one each. False: the user has one, or
// the shard has none left.
func (n *Sale) Claim(ctx context.Context, user string) (bool, error) {
	shard := spec.HomeShard(user, n.shards)
	lock := n.locks.NewMutex(n.lockKey(shard), redsync.WithExpiry(naiveTTL),
		redsync.WithTries(math.MaxInt), redsync.WithRetryDelayFunc(jittered))
	if err := lock.LockContext(ctx); err != nil {
		return false, fmt.Errorf("locking shard %d: %w", shard, err)
	}
	// A lock that cannot be given back, or ran out meanwhile, does not undo what
	// the row has.
	defer lock.UnlockContext(ctx)
	return n.sell(ctx, shard, user)
}

// sell is what the lock is held for.
func (n *Sale) sell(ctx context.Context, shard int, user string) (bool, error) {
	row, mine := n.row(shard), userCell+user
	get, err := hrpc.NewGetStr(ctx, n.table, row, hrpc.SkipBatch(),
		hrpc.Families(map[string][]string{Family: {soldCell, mine}}))
	if err != nil {
		return false, err
	}
	result, err := n.client.Get(get)
	if err != nil {
		return false, err
	}
	cells := cellsOf(result)
	sold, err := number(cells[soldCell])
	if err != nil {
		return false, err
	}
	if cells[mine] != nil || sold >= n.limit {
		return false, nil
	}
	put, err := hrpc.NewPutStr(ctx, n.table, row, map[string]map[string][]byte{
		Family: {soldCell: strconv.AppendInt(nil, sold+1, 10), mine: []byte("1")},
	})
	if err != nil {
		return false, err
	}
	return n.client.CheckAndPut(put, Family, soldCell, cells[soldCell])
}

// The cells of a naive row: units sold, and one for each user who has a unit.
const (
	soldCell = "sold"
	userCell = "user/"
)

func (n *Sale) row(shard int) string     { return spec.ShardLog(n.run, shard, n.shards) }
func (n *Sale) lockKey(shard int) string { return fmt.Sprintf("naive:%s:%d", n.run, shard) }

// Check counts the users who have a unit, in the table: sales.ErrWrong if a shard sold
// more than it had or its counter is off, or if a claim that was accepted is not
// there.
func (n *Sale) Check(ctx context.Context, accepted int64) error {
	var all int64
	for shard := range n.shards {
		get, err := hrpc.NewGetStr(ctx, n.table, n.row(shard), hrpc.SkipBatch())
		if err != nil {
			return err
		}
		result, err := n.client.Get(get)
		if err != nil {
			return err
		}
		cells := cellsOf(result)
		counted, err := number(cells[soldCell])
		if err != nil {
			return err
		}
		delete(cells, soldCell)
		if users := int64(len(cells)); users != counted || users > n.limit {
			return fmt.Errorf("%w: shard %d of %s has %d users with a unit, counted %d, and had %d units",
				sales.ErrWrong, shard, n.run, users, counted, n.limit)
		}
		all += counted
	}
	if all < accepted {
		return fmt.Errorf("%w: %s accepted %d claims and has %d", sales.ErrWrong, n.run, accepted, all)
	}
	return nil
}

func cellsOf(r *hrpc.Result) map[string][]byte {
	cells := make(map[string][]byte, len(r.Cells))
	for _, c := range r.Cells {
		cells[string(c.Qualifier)] = c.Value
	}
	return cells
}

// number reads a counter, of which none is 0.
func number(cell []byte) (int64, error) {
	if cell == nil {
		return 0, nil
	}
	return strconv.ParseInt(string(cell), 10, 64)
}
