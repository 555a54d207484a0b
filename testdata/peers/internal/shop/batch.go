package shop

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// batch is claims that one transaction decides.
type batch struct {
	conn    *pgx.Conn
	waiting map[string]*claim // by user; requests that came meanwhile follow

	// The first claim of each user.
	users  []string
	keys   []string
	shards []int16
}

func newBatch(conn *pgx.Conn) *batch {
	return &batch{conn: conn, waiting: make(map[string]*claim)}
}

func (b *batch) add(c *claim) {
	if first := b.waiting[c.user]; first != nil {
		c.next, first.next = first.next, c
		return
	}
	b.users, b.keys, b.shards = append(b.users, c.user), append(b.keys, c.key), append(b.shards, c.shard)
	b.waiting[c.user] = c
}

// decide sells to whom it can, answers all, and leaves the batch empty.
func (b *batch) decide(ctx context.Context) {
	err := b.transact(ctx)
	for _, first := range b.waiting { // who got no unit
		for c := first; c != nil; c = c.next {
			if err != nil {
				c.answer <- Answer{Outcome: Unknown, Err: err}
			} else {
				c.answer <- Answer{Outcome: SoldOut}
			}
		}
	}
	clear(b.waiting)
	b.users, b.keys, b.shards = b.users[:0], b.keys[:0], b.shards[:0]
}

// transact runs the transaction, which goes to the database and back in one piece, and
// answers those who have a unit when it has committed.
func (b *batch) transact(ctx context.Context) error {
	var q pgx.Batch // without a BEGIN of its own it is one transaction
	q.Queue(lock, b.shards)
	var sold []row
	q.Queue(sell, b.users, b.keys, b.shards).Query(func(rows pgx.Rows) (err error) {
		sold, err = pgx.CollectRows(rows, scan)
		return err
	})
	if err := b.conn.SendBatch(ctx, &q).Close(); err != nil {
		return err
	}
	for _, r := range sold {
		again := !r.fresh
		for c := b.waiting[r.user]; c != nil; c = c.next {
			if c.key != r.key {
				c.answer <- Answer{Outcome: LimitReached}
				continue
			}
			c.answer <- Answer{Outcome: Sold, Shard: r.shard, Unit: r.unit, At: r.at, Again: again}
			again = true
		}
		delete(b.waiting, r.user)
	}
	return nil
}
