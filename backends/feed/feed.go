// Package feed streams the events of a sale, read from its logs. It delivers each event at least
// once, keeps the log order of the events of a shard, and resumes from any position.
//
// A Reader follows the logs of one run in the store and returns batches. It is a step machine. Each
// batch ends with a position; every event before that position has been delivered. A Reader folds
// no shard: an op carries its own meaning, and a consumer keeps its own state of claims. A Reader
// can therefore begin anywhere in the logs at once. It keeps one batch in memory and continues when
// the consumer has taken it, so a slow consumer delays nothing else.
//
// Nothing notifies a Reader of new commits. It polls the heads of the logs many times a second,
// since an owner that notified its observers would do their work.
//
// The hash chain of the logs proves the events. Each slot holds the hash of the previous slot. With
// Config.Commits a Reader also returns the stored bytes, and each batch ends with the hash of the
// last slot delivered from each log.
package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/spec"
)

// Config configures a Reader.
type Config struct {
	Sale string
	// From is the position to resume from. nil means the beginning of the current run.
	From *Position
	// Now starts at the ends of the logs and ignores From.
	Now bool
	// Commits adds an event with the stored bytes of each slot.
	Commits bool
}

// Batch is a group of events with the position after them.
type Batch struct {
	Events   []Event // the last one is of TypeResolved
	Position Position
	TimeUs   int64 // commit time of the newest commit in the batch; 0: it has none
	Ended    bool  // the sale is destroyed and no event follows
}

// ErrGone reports that the logs are deleted and no longer contain the rest of the feed.
var ErrGone = errors.New("the rest of the feed is deleted")

// Intervals of polling the heads of the logs: soon after a batch, idle without changes.
const (
	soon = 25 * time.Millisecond
	idle = 100 * time.Millisecond
	// callTimeout is the timeout of a call to the store.
	callTimeout = 5 * time.Second
	// lastPause is the longest pause before a failed call is retried.
	lastPause = time.Second
	// still is the interval between batches without commits.
	still = 10 * time.Second
)

// How many rounds in a row, idle apart, a log may lack an expected entry before the Reader believes
// it, since reads may lag. The limits count rounds, not time: in a paused process time passes
// without any read.
const (
	// patience applies to the slots of a position, to the logs of a sale that should exist, and to
	// a log of a sealed sale, which may be deleted.
	patience = int(3 * time.Second / idle)
	// goneFor applies to a log that has disappeared although no entry records its deletion. The
	// Reader cannot continue without it.
	goneFor = int(15 * time.Second / idle)
)

// Limits of a round of reads.
const (
	logsAtOnce = 8
	firstPage  = 4 // entries, of a log whose entry size is unknown
	pageBytes  = 256 << 10
	pageMost   = 4096
)

// Reader follows the logs of one run of a sale. It starts no goroutine, reads no clock and does no
// I/O. Its caller makes the calls that Next returns, supplies the time, and takes the batches.
type Reader struct {
	cfg    Config
	source string
	sale   saleLog
	shards []*shardLog // nil until the run is known

	round      round
	turn       int    // first shard to read in the next round
	generation uint64 // newest generation in the shards; the sale's own log must be read up to it first

	unsent  unsent
	batch   *Batch
	batchAt time.Duration // monotonic: time of the last batch; 0: none yet

	done bool
	err  error
}

// round is the present round of calls to the store, and what is known of the rounds before.
type round struct {
	due    time.Duration // monotonic: time of the next step
	number int           // of steps so far
	calls  []calls.Call  // to make now
	under  int           // calls under way
	broken error         // error of a call in this round
	failed error         // error of the last round; nil: it succeeded
	tries  int           // failed rounds in a row

	lacking int // rounds in a row in which a log lacked an expected entry
	lacked  int // the latest of those rounds
}

// end ends a round, after all its calls are answered. A failed round delays the next one.
func (o *round) end(now clock.Now) {
	o.failed, o.broken = o.broken, nil
	if o.failed == nil {
		o.tries = 0
		return
	}
	o.tries++
	o.due = now.Mono + min(soon<<min(o.tries, 10), lastPause)
}

// unsent is what was read of the logs and is in no batch yet.
type unsent struct {
	first  []Event // of the sale's own log, except for those of its end
	events []Event
	slots  int
	newest int64 // commit time of the newest commit, in microseconds
}

// New returns a Reader with the configuration c.
func New(c Config) *Reader {
	return &Reader{cfg: c, sale: saleLog{fold: ledger.NewSale(spec.SaleLog(c.Sale))}}
}

// Take returns the next batch, or nil if none is ready. The Reader continues after the batch is taken.
func (r *Reader) Take() *Batch {
	b := r.batch
	r.batch = nil
	return b
}

// Err returns the error of the last round of calls to the store, or nil if it succeeded.
func (r *Reader) Err() error { return r.round.failed }

// ExportDigest returns the SHA-256 of the export that destroy wrote, or nil if the sale is not
// sealed.
func (r *Reader) ExportDigest() []byte { return r.sale.sealed.GetExportDigest() }

// end ends the Reader. Commits that are already read are still delivered.
func (r *Reader) end(now clock.Now, err error) {
	if r.done {
		return
	}
	if r.unsent.slots > 0 && r.generation <= r.sale.fold.Generation() {
		r.make(now)
	}
	if !r.done {
		r.done, r.err = true, err
	}
}

// call queues a call to the store.
func (r *Reader) call(what string, do func(context.Context, ledger.Logs) ledger.Reply, took func(now clock.Now, got ledger.Reply)) {
	r.round.under++
	r.round.calls = append(r.round.calls, calls.Call{
		Node: calls.Store, What: what, Timeout: callTimeout,
		Make: func(ctx context.Context, logs ledger.Logs, _ quorum.Node, _ lists.Node) any { return do(ctx, logs) },
		Took: func(now clock.Now, made any, err error) {
			r.round.under--
			got, _ := made.(ledger.Reply)
			switch err = cmp.Or(err, got.Err); {
			case r.done:
				return
			case errors.Is(err, fs.ErrPermission):
				r.end(now, err)
			case err != nil:
				r.round.broken = err
			default:
				took(now, got)
			}
			if r.round.under == 0 && !r.done {
				r.endRound(now)
			}
		},
	})
}

// retryMissing schedules another round for an entry that a log should have, since reads may lag. After
// more than rounds such rounds in a row it ends the Reader with err.
func (r *Reader) retryMissing(now clock.Now, rounds int, err error) {
	o := &r.round
	if o.lacked != o.number {
		o.lacked, o.lacking = o.number, o.lacking+1
	}
	if o.lacking > rounds {
		r.end(now, err)
		return
	}
	o.due = now.Mono + idle
}

func (r *Reader) gone() error {
	sealed := r.sale.sealed
	if sealed == nil {
		return fmt.Errorf("%w: the logs of sale %s no longer exist", ErrGone, r.cfg.Sale)
	}
	return fmt.Errorf("%w: sale %s was sealed and its logs were deleted; all its events are in the export that destroy wrote, whose SHA-256 is %x",
		ErrGone, r.cfg.Sale, sealed.GetExportDigest())
}

// make makes a batch of the events that are read.
func (r *Reader) make(now clock.Now) {
	b := &Batch{Position: Position{UID: r.sale.fold.UID(), Sale: r.sale.place}, TimeUs: r.unsent.newest}
	b.Ended = r.sale.over && len(r.sale.queue) == 0
	resolved := Resolved{Logs: []End{{Log: r.sale.fold.Log(), Place: r.sale.place}}, Ended: b.Ended}
	slots := r.sale.place.Slots
	for _, s := range r.shards {
		place := Place{s.tail.Next(), s.tail.Root()}
		slots += place.Slots
		b.Position.Shards = append(b.Position.Shards, place)
		resolved.Logs = append(resolved.Logs, End{s.tail.Log(), s.maker.number(), place})
	}
	resolved.Position, resolved.Through = b.Position.String(), ledger.FormatTime(r.through())
	b.Events = append(append(r.unsent.first, r.unsent.events...), Event{
		SpecVersion: "1.0", Type: TypeResolved, Source: r.source, ID: resolved.Position, Time: now.Wall.UTC().Format(time.RFC3339Nano),
		Sequence: fmt.Sprintf("%015d", slots), PartitionKey: "resolved", ContentType: "application/json", Data: &resolved,
	})
	r.unsent, r.batchAt, r.batch = unsent{}, max(now.Mono, 1), b
	r.round.due = now.Mono + soon
	switch {
	case b.Ended:
		r.end(now, nil)
	case !r.sale.read || r.behind():
		r.round.due = now.Mono
	}
}

// through returns the time before which no later commit of a shard lies. It is the earliest of the
// last commit times of the unsealed shards, or the latest of all if every shard is sealed.
func (r *Reader) through() int64 {
	least, most, open := int64(0), int64(0), false
	for _, s := range r.shards {
		at := s.tail.TimeUs()
		most = max(most, at)
		if !s.sealed && (!open || at < least) {
			least, open = at, true
		}
	}
	if !open {
		return most
	}
	return least
}

// Next returns the calls to make now, and the monotonic time of the next call of Next, 0 for none
// before another input. Call it after every input. When done is true, Take returns at most one more
// batch. err is nil if the sale ended, or the reason why the feed cannot continue.
func (r *Reader) Next(now clock.Now) (made []calls.Call, wake time.Duration, done bool, err error) {
	o := &r.round
	for !r.done && o.under == 0 && r.batch == nil && now.Mono >= o.due {
		r.step(now)
	}
	made, o.calls = o.calls, nil
	if o.under > 0 || r.batch != nil || r.done {
		return made, 0, r.done, r.err
	}
	return made, o.due, false, nil
}

// step starts the next round: it queues calls or enters the next stage.
func (r *Reader) step(now clock.Now) {
	r.round.number++
	r.endShards()
	switch {
	case !r.sale.read:
		r.readSale()
	case r.shards == nil:
		r.open(now)
	case !r.placed():
		r.place(now)
	case r.behind():
		r.read()
	default:
		r.heads()
	}
}

// endRound ends a round, after all its calls are answered.
func (r *Reader) endRound(now clock.Now) {
	r.round.end(now)
	if r.shards == nil || !r.placed() {
		return
	}
	if r.generation > r.sale.fold.Generation() {
		r.sale.read = false
		return
	}
	ok := r.round.failed == nil
	if ok {
		r.addSaleEvents()
	}
	switch {
	case r.unsent.slots > 0, ok && (r.batchAt == 0 || now.Mono-r.batchAt >= still):
		r.make(now)
	case ok && r.sale.read && !r.behind():
		r.round.due = now.Mono + idle
	}
}
