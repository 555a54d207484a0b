// Package shop is a sale as one would build it on PostgreSQL: an HTTP server that gathers
// claims into batches and decides each batch by one transaction, in which the database
// keeps the limit of one unit a user by a unique index, and the stock by one row a shard.
//
// Its answers promise what salectl's do: a claim that is accepted is durable, the same
// request under the same key gets the same unit again, and nothing is sold twice, however
// many such servers share the database.
package shop

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"salectl/spec"
)

//go:embed schema.sql
var schema string

//go:embed sell.sql
var sell string

// lock keeps other batches of the same shards away until the transaction has ended. The
// statement behind it sees all that they have committed.
const lock = "SELECT FROM shards WHERE shard = ANY($1) ORDER BY shard FOR UPDATE"

// MostAtOnce is how many claims a batch has at most.
const MostAtOnce = 1000

// Options are a sale.
type Options struct {
	Stock  int64 // of each shard
	Shards int
	// Connections to the database, each with batches of its own. A shard's claims always
	// go the same way, so that they do not wait for each other's locks.
	Connections int
}

// Shop sells.
type Shop struct {
	shards  int
	queues  []chan *claim
	stop    context.CancelFunc
	batches sync.WaitGroup
	conns   []*pgx.Conn
}

// Answer is what became of a claim.
type Answer struct {
	Outcome Outcome
	Shard   int16
	Unit    int64
	At      time.Time
	Again   bool // it was accepted before
	Err     error
}

// Outcome reports whether a claim was accepted, and why not.
type Outcome string

// The outcomes, in the words of salectl.
const (
	Sold         Outcome = "sold"
	SoldOut      Outcome = "sold_out"
	LimitReached Outcome = "limit_reached"
	Unknown      Outcome = "unknown"
)

// claim is one that waits for its batch.
type claim struct {
	user, key string
	shard     int16
	answer    chan Answer // with room for one
	next      *claim      // another one of the same user in the same batch
}

// Open makes a new sale in a database, in place of what was there, and sells it.
func Open(ctx context.Context, url string, o Options) (*Shop, error) {
	if err := create(ctx, url, o); err != nil {
		return nil, err
	}
	return Join(ctx, url, o)
}

func create(ctx context.Context, url string, o Options) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, schema); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "INSERT INTO shards (shard, stock) SELECT n, $2 FROM generate_series(0, $1 - 1) AS n", o.Shards, o.Stock)
	return err
}

// Join sells a sale that is in a database, beside others who do.
func Join(ctx context.Context, url string, o Options) (*Shop, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	// The statement is planned once: for a batch of any size each claim is looked up in the
	// index. A plan made anew for each batch takes as long as the batch.
	config.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &Shop{shards: o.Shards, stop: stop}
	for range o.Connections {
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		queue := make(chan *claim, 4*MostAtOnce)
		s.conns, s.queues = append(s.conns, conn), append(s.queues, queue)
		s.batches.Go(func() { serve(running, conn, queue) })
	}
	return s, nil
}

// Close ends the batches and the connections. Nobody may wait for an answer.
func (s *Shop) Close() error {
	s.stop()
	s.batches.Wait()
	var errs []error
	for _, conn := range s.conns {
		errs = append(errs, conn.Close(context.Background()))
	}
	return errors.Join(errs...)
}

// Claim claims a unit for a user and waits for the answer.
func (s *Shop) Claim(ctx context.Context, user, key string) Answer {
	c := &claim{user: user, key: key, shard: int16(spec.HomeShard(user, s.shards)), answer: make(chan Answer, 1)}
	select {
	case s.queues[int(c.shard)%len(s.queues)] <- c:
	case <-ctx.Done():
		return Answer{Outcome: Unknown, Err: ctx.Err()}
	}
	select {
	case a := <-c.answer:
		return a
	case <-ctx.Done():
		return Answer{Outcome: Unknown, Err: ctx.Err()}
	}
}

// serve decides the claims of a queue, batch by batch: all that gathered while the batch
// before was decided.
func serve(ctx context.Context, conn *pgx.Conn, queue chan *claim) {
	b := newBatch(conn)
	for {
		select {
		case c := <-queue:
			b.add(c)
		case <-ctx.Done():
			return
		}
		for more := true; more && len(b.users) < MostAtOnce; {
			select {
			case c := <-queue:
				b.add(c)
			default:
				more = false
			}
		}
		b.decide(ctx)
	}
}

// Check fails unless the database has exactly the claims that were accepted, each with a
// unit of its own that there was, and counted.
func (s *Shop) Check(ctx context.Context, accepted int64) error {
	var claims, units, wrong, counted int64
	err := s.conns[0].QueryRow(ctx, `
		SELECT count(*), count(DISTINCT (c.shard, c.unit)), count(*) FILTER (WHERE c.unit NOT BETWEEN 1 AND s.sold OR s.sold > s.stock),
			(SELECT sum(sold) FROM shards)
		FROM claims c LEFT JOIN shards s USING (shard)`).Scan(&claims, &units, &wrong, &counted)
	if err == nil && (claims != accepted || units != claims || wrong != 0 || counted != claims) {
		err = fmt.Errorf("the shop accepted %d claims; the database has %d, of %d units, of which %d are none of the sale's, and has counted %d",
			accepted, claims, units, wrong, counted)
	}
	return err
}

// Processes are those of the database that work for this shop and stay: of its connections,
// and who writes the log and the pages.
func (s *Shop) Processes(ctx context.Context) ([]int, error) {
	rows, err := s.conns[0].Query(ctx, "SELECT pid FROM pg_stat_activity WHERE backend_type IN ('walwriter', 'background writer', 'checkpointer')")
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[int])
	for _, conn := range s.conns {
		all = append(all, int(conn.PgConn().PID()))
	}
	return all, err
}
