// Package feed tells everything that the logs of a sale say, as it comes, to whoever wants to
// act on it: each event at least once, those of one shard in the order of its log, and from any
// position on.
//
// A Reader follows the logs of one run in the store, as a step machine, and hands out batches.
// Each ends with a position, before which nothing is left to come. It folds nothing: what an
// op means stands in the op, and who acts on events remembers claims anyway. So it begins
// anywhere in the logs at once, and has no more in memory than the batch that it hands out,
// which it goes on from when that was taken: a slow consumer slows nobody.
//
// Nobody tells a Reader that there is news: it asks for the heads of the logs, many times a
// second. An owner that had to tell would work for those who look on.
//
// What events may be proven by is the hash chain of the logs. Each slot names the hash of the
// one before; with Commits a Reader hands out the stored bytes, too, and each batch ends with
// the hashes that the logs were followed to.
package feed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/spec"
)

// Config says what a Reader reads.
type Config struct {
	Sale string
	// From is where to go on; nil: at the beginning of the present run.
	From *Position
	// Now begins at the ends of the logs, instead of at From.
	Now bool
	// Commits has the stored bytes of the slots handed out, too.
	Commits bool
}

// Batch is what was read together.
type Batch struct {
	Events   []Event // the last one of TypeResolved
	Position Position
	TimeUs   int64 // of the newest commit in it; 0: there is none
	Ended    bool  // nothing will ever follow: the sale is destroyed
}

// ErrGone says that the logs are deleted and what a feed still lacks is not in them any more.
var ErrGone = errors.New("the rest of the feed is deleted")

// How often heads are asked for: soon after there was news, then ever less often.
const (
	soon = 25 * time.Millisecond
	idle = 100 * time.Millisecond
	// callTimeout bounds a call of the store.
	callTimeout = 5 * time.Second
	// lastPause is how long a Reader waits at most before it asks a store again that failed.
	lastPause = time.Second
	// still is how often a position is told where nothing changes.
	still = 10 * time.Second
)

// How often in a row a log may lack something before that is believed, since reads may lag: as many
// rounds, idle apart. Rounds are counted, and not the time, since in a process that was paused time
// has passed in which nobody has read.
const (
	// patience is for the slots that a position names, for a sale that has one to be without
	// logs, and for a log of a sealed sale, which may be deleted.
	patience = int(3 * time.Second / idle)
	// goneFor is for a log that was there and is not, where nothing says that it is deleted: there is
	// nothing to go on with then.
	goneFor = int(15 * time.Second / idle)
)

// How much is read at once.
const (
	logsAtOnce = 8
	firstPage  = 4 // entries, of a log whose entries nobody has seen yet
	pageBytes  = 256 << 10
	pageMost   = 4096
)

// Reader follows the logs of a sale's run. It starts no goroutine, reads no clock and does no
// I/O: whoever has it makes the calls that Next asks for, tells the time, and takes the batches.
type Reader struct {
	cfg    Config
	source string
	sale   saleLog
	shards []*shardLog // none before the run is known

	due   time.Duration // monotonic: when to go on
	under int           // calls under way
	rounds
	unhanded

	batch *Batch
	calls []calls.Call
	done  bool
	err   error
}

// rounds counts the passes of a Reader over the logs.
type rounds struct {
	round   int   // counts the steps
	turn    int   // the shard to be read first in the next round
	broken  error // of a call of this round
	failed  error // of the last round, nil where none did
	tries   int   // rounds in a row that have failed
	lacking int   // rounds in a row in which a log lacked what it is to have
	lacked  int   // the last of them
}

// unhanded is what a Reader has read and not handed out.
type unhanded struct {
	first      []Event // of the sale's own log, but for its end
	events     []Event
	slots      int
	newest     int64         // microseconds: of the commits
	generation uint64        // that shards have: the sale's own log is read to there before
	told       time.Duration // monotonic: when the last batch was made; 0: none was
}

// New returns a reader that has read nothing.
func New(c Config) *Reader {
	log := spec.SaleLog(c.Sale)
	return &Reader{cfg: c, sale: saleLog{fold: ledger.NewSale(log), tail: ledger.NewTail(log)}}
}

// Take returns the next batch, nil if there is none yet. The reader goes on when it was taken.
func (r *Reader) Take() *Batch {
	b := r.batch
	r.batch = nil
	return b
}

// Trouble is why the store cannot be read at the moment; nil: it can.
func (r *Reader) Trouble() error { return r.failed }

// ExportDigest is the SHA-256 of the export that destroy has written; nil: the sale is not
// sealed.
func (r *Reader) ExportDigest() []byte { return r.sale.sealed.GetExportDigest() }

// Run is the sale's own log as far as it is read. It is that of the run that is followed once
// there was a batch.
func (r *Reader) Run() *ledger.Sale { return r.sale.fold }

// end ends the reader. What was read before is handed out still.
func (r *Reader) end(now clock.Now, err error) {
	if r.done {
		return
	}
	if r.slots > 0 && r.generation <= r.sale.fold.Generation() {
		r.make(now)
	}
	if !r.done {
		r.done, r.err = true, err
	}
}

// call asks for a call of the store.
func (r *Reader) call(what string, do func(ctx context.Context, logs ledger.Logs) (any, error), took func(now clock.Now, got any)) {
	type reply struct {
		got any
		err error
	}
	r.under++
	r.calls = append(r.calls, calls.Call{
		Node: calls.Store, What: what, Timeout: callTimeout,
		Make: func(ctx context.Context, logs ledger.Logs, _ quorum.Node, _ lists.Node) any {
			got, err := do(ctx, logs)
			return reply{got, err}
		},
		Took: func(now clock.Now, made any, err error) {
			r.under--
			if err == nil {
				err = made.(reply).err
			}
			switch {
			case r.done:
				return
			case errors.Is(err, fs.ErrPermission):
				r.end(now, err)
			case err != nil:
				r.broken = err
			default:
				took(now, made.(reply).got)
			}
			if r.under == 0 && !r.done {
				r.rounded(now)
			}
		},
	})
}

// lacks waits for what a log is to have, since reads may lag. If it has been missing in too many
// rounds it ends the reader.
func (r *Reader) lacks(now clock.Now, rounds int, err error) {
	if r.lacked != r.round {
		r.lacked, r.lacking = r.round, r.lacking+1
	}
	if r.lacking > rounds {
		r.end(now, err)
		return
	}
	r.due = now.Mono + idle
}

// gone says that what is left is not there any more.
func (r *Reader) gone() error {
	sealed := r.sale.sealed
	if sealed == nil {
		return fmt.Errorf("%w: the logs of sale %s are not there any more", ErrGone, r.cfg.Sale)
	}
	return fmt.Errorf("%w: sale %s was sealed and its logs were deleted; all that it ever said is in the export that destroy wrote, whose SHA-256 is %x",
		ErrGone, r.cfg.Sale, sealed.GetExportDigest())
}

// make makes a batch of what was read.
func (r *Reader) make(now clock.Now) {
	b := &Batch{Position: Position{UID: r.sale.fold.UID(), Sale: r.sale.place}, TimeUs: r.newest}
	b.Ended = r.sale.over && len(r.sale.queue) == 0
	resolved := Resolved{Logs: []End{{Log: r.sale.tail.Log(), Slots: r.sale.place.Slots, Hash: r.sale.end}}, Ended: b.Ended}
	slots := r.sale.place.Slots
	for _, s := range r.shards {
		place := placeOf(s.tail)
		slots += place.Slots
		b.Position.Shards = append(b.Position.Shards, place)
		resolved.Logs = append(resolved.Logs, End{s.tail.Log(), s.tell.number(), place.Slots, s.tail.Root()})
	}
	resolved.Position, resolved.Through = b.Position.String(), ledger.FormatTime(r.through())
	b.Events = append(append(r.first, r.events...), Event{
		SpecVersion: "1.0", Type: TypeResolved, Source: r.source, ID: resolved.Position, Time: now.Wall.UTC().Format(time.RFC3339Nano),
		Sequence: fmt.Sprintf("%015d", slots), PartitionKey: "resolved", ContentType: "application/json", Data: &resolved,
	})
	r.first, r.events, r.slots, r.newest, r.told, r.batch = nil, nil, 0, 0, max(now.Mono, 1), b
	r.due = now.Mono + soon
	switch {
	case b.Ended:
		r.end(now, nil)
	case !r.sale.read || slices.ContainsFunc(r.shards, func(s *shardLog) bool { return s.behind }):
		r.due = now.Mono
	}
}

// through is the time that no later commit of a shard is older than: that of the shard that has
// gone least far, among those that may have one.
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
