package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"salectl/backends/clock"
	"salectl/spec"
)

// ErrGone reports that a log does not exist (any more).
var ErrGone = errors.New("the store has no such log")

// NoSale is the error of a sale without a ledger. It is ErrGone.
type NoSale struct {
	Sale string // name
	Fate string // a clause without its subject; "": the sale was never applied
}

func (n NoSale) Error() string { return "sale " + n.Sale + " " + cmp.Or(n.Fate, "does not exist") }
func (NoSale) Unwrap() error   { return ErrGone }

// ReadTries is the number of consecutive reads without progress after which Load
// fails. The pauses between them add up to more than a second.
const ReadTries = 8

// Since reads may lag, a shard that lacks what the sale's own log implies is read up to
// MissingTries times, MissingPause apart, before that counts as missing.
const (
	MissingTries = 4
	MissingPause = 50 * time.Millisecond
)

// loadAtOnce is the maximum number of shards read at a time: enough for remote
// stores, and few enough for the memory of both sides.
const loadAtOnce = 16

// EachShard calls read for every shard, for several at a time unless the logs are Paced. It
// returns the first error, which cancels the context of the other calls.
func EachShard(ctx context.Context, logs Logs, shards int, read func(ctx context.Context, shard int) error) error {
	if _, paced := logs.(Paced); paced {
		for shard := range shards {
			if err := read(ctx, shard); err != nil {
				return err
			}
		}
		return nil
	}
	reading, ctx := errgroup.WithContext(ctx)
	reading.SetLimit(loadAtOnce)
	for shard := range shards {
		reading.Go(func() error { return read(ctx, shard) })
	}
	return reading.Wait()
}

// Load reads a log to its end into fold and returns its writer, ready to append. An
// absent log is not an error: fold.Next returns 0, and the writer may create it. Load
// repeats a failed read a few times, unless the store does not permit it
// (fs.ErrPermission). It also repeats a read whose head and slots do not match, since
// reads may lag; in the end that is ErrCorrupt.
func Load(ctx context.Context, logs Logs, log string, fold Folder) (*Writer, error) {
	w := NewWriter(log, fold)
	now := clock.System()
	if paced, ok := logs.(Paced); ok {
		now = paced.Now
	}
	var reply Reply
	idle := 0
	for do := w.CatchUp(); ; {
		switch {
		case do.Event == CaughtUp:
			return w, nil
		case do.Event == Gone:
			return nil, fmt.Errorf("log %s: %w", log, ErrGone)
		case do.Event != Nothing:
			return nil, do.Err
		case do.Send != nil:
			before := fold.Next()
			if reply = do.Send.Do(ctx, logs); errors.Is(reply.Err, fs.ErrPermission) {
				return nil, Stuck(log, fold, reply)
			}
			do = w.Done(now(), reply)
			if idle++; fold.Next() != before {
				idle = 0
			}
		case idle >= ReadTries:
			return nil, Stuck(log, fold, reply)
		default:
			if err := Wait(ctx, logs, do.Wake-now().Mono); err != nil {
				return nil, fmt.Errorf("reading log %s: %w", log, err)
			}
			do = w.Tick(now())
		}
	}
}

// LoadUntil is like Load but stops before the first slot at which enough returns true. Reading
// live shards to their ends would show new transfers each time, and a cut of them would
// never close.
func LoadUntil(ctx context.Context, logs Logs, log string, fold Folder, enough func() bool) error {
	_, err := Load(ctx, logs, log, untilEnough{fold, enough})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

type untilEnough struct {
	Folder
	enough func() bool
}

var errEnough = errors.New("enough slots")

func (u untilEnough) Fold(entry []byte) error {
	if u.enough() {
		return errEnough
	}
	return u.Folder.Fold(entry)
}

// Stuck returns the reason why a log cannot be read on into fold, given the last reply.
func Stuck(log string, fold Folder, last Reply) error {
	if last.Err != nil {
		return fmt.Errorf("reading log %s: %w", log, last.Err)
	}
	head, _ := ParseHead(last.Head) // the Writer has parsed it
	return fmt.Errorf("%w: log %s: it ends before slot %d, but its head is of slot %d: a slot was lost", ErrCorrupt, log, fold.Next(), head.Slot)
}

// LoadSale folds a sale's own log, and every shard of its present run as LoadShards does.
func LoadSale(ctx context.Context, logs Logs, name string) (*Sale, []*State, error) {
	sale := NewSale(spec.SaleLog(name))
	if _, err := Load(ctx, logs, sale.log, sale); err != nil {
		return nil, nil, err
	}
	switch {
	case sale.UID() == "":
		return nil, nil, NoSale{Sale: name}
	case sale.Destroyed():
		return nil, nil, NoSale{Sale: name, Fate: "is destroyed, its ledger is in the export that destroy wrote"}
	}
	shards, err := LoadShards(ctx, logs, sale)
	return sale, shards, err
}

// LoadShards folds every shard of a sale's present run to the end of its log. Beside a
// live sale it reads on to a cut in which no shard has received a transfer, or seen one
// acknowledged, that its peer is not seen to have sent or received. Every unit is then
// in exactly one place of the states.
func LoadShards(ctx context.Context, logs Logs, sale *Sale) ([]*State, error) {
	shards := make([]*State, sale.Shards())
	for i := range shards {
		shards[i] = NewState(spec.ShardLog(sale.UID(), i, len(shards)))
	}
	for _, err := range FoldTogether(ctx, logs, shards) {
		if err != nil {
			return nil, err
		}
	}
	return shards, ReadOn(ctx, logs, shards)
}

// ReadOn reads shards on to the ends of their logs, and to a cut as LoadShards does.
func ReadOn(ctx context.Context, logs Logs, shards []*State) error {
	err := EachShard(ctx, logs, len(shards), func(ctx context.Context, i int) error {
		_, err := Load(ctx, logs, shards[i].log, shards[i])
		return err
	})
	if err != nil {
		return err
	}
	for again := true; again; {
		again = false
		for i, s := range shards {
			for _, other := range slices.Sorted(maps.Keys(s.transfers)) {
				p := s.transfers[other]
				if other >= len(shards) || shards[other].covers(i, p) {
					continue
				}
				behind, before := shards[other], shards[other].next
				enough := func() bool { return behind.covers(i, p) }
				if err := LoadUntil(ctx, logs, behind.log, behind, enough); err != nil {
					return err
				}
				again = again || behind.next != before
			}
		}
	}
	return nil
}

// Behind reports whether the sale's own log was read without data that a shard with totals t
// requires: a generation, or the ranks of a draw, without which no entry has a unit.
func (s *Sale) Behind(t Totals) bool {
	return t.Generation > s.Generation() || s.Draw() != nil && !s.Ranked() && t.Sold+t.Held+t.Lapsed() > 0
}

// MissingData returns what is missing of each shard, "" if nothing, given the newest applied
// generation and the other shards. No shard has an owner before all have their logs, and none
// is sealed before all are closed, by one generation. While a sale is being sealed, or if shards
// were read long after each other, Lacks may report data as missing that is in their logs.
func MissingData(applied uint64, shards []*State) []string {
	most, end, begun := 0, -1, applied > 0
	for i, s := range shards {
		if s.Generation > shards[most].Generation {
			most = i
		}
		if s.Sealed() {
			end = i
		}
		begun = begun || s.Epoch > 0 || s.Sealed()
	}
	lacks := make([]string, len(shards))
	for i, s := range shards {
		switch newest := shards[most].Generation; {
		case s.next == 0 && begun:
			lacks[i] = "has no log"
		case s.Generation < applied:
			lacks[i] = fmt.Sprintf("ended at generation %d, and %d were applied", s.Generation, applied)
		case end >= 0 && s.Generation < newest:
			lacks[i] = fmt.Sprintf("ended at generation %d, shard %d has %d", s.Generation, most, newest)
		case end >= 0 && !s.Sealed():
			lacks[i] = fmt.Sprintf("is not sealed, and shard %d is", end)
		}
	}
	return lacks
}

// NamedFolder is the Folder of one of several logs that are read at once.
type NamedFolder interface {
	Folder
	Log() string // the log's name
}

// FoldTogether folds the entries that a Scanner returns of many logs, in as many goroutines as
// there are processors. It returns the error of each fold. The rest is left to Load: it reads
// the entries that the scan omitted, compares each log with its head, and reports errors of the
// store. Without a Scanner, or for a single log, FoldTogether folds nothing.
func FoldTogether[F NamedFolder](ctx context.Context, logs Logs, folds []F) (failed []error) {
	failed = make([]error, len(folds))
	store, can := logs.(Scanner)
	if !can || len(folds) < 2 {
		return failed
	}
	names := make([]string, len(folds))
	for i, fold := range folds {
		names[i] = fold.Log()
	}
	var folding sync.WaitGroup
	queues := make([]chan []handed, runtime.GOMAXPROCS(0))
	for i := range queues {
		queue := make(chan []handed, 2)
		queues[i] = queue
		folding.Go(func() {
			for some := range queue {
				for _, s := range some {
					if failed[s.log] == nil { // no other goroutine accesses this one
						failed[s.log] = folds[s.log].Fold(s.entry)
					}
				}
			}
		})
	}
	gathered := make([][]handed, len(queues))
	_ = store.Scan(ctx, names, func(log int, entry []byte) error {
		to := log % len(queues)
		gathered[to] = append(gathered[to], handed{log, entry})
		if len(gathered[to]) < handedTogether && len(entry) < readPage/handedTogether {
			return nil
		}
		queues[to] <- gathered[to]
		gathered[to] = make([]handed, 0, handedTogether)
		return nil
	})
	for i, queue := range queues {
		queue <- gathered[i]
		close(queue)
	}
	folding.Wait()
	return failed
}

// handedTogether is the number of entries sent to a folding goroutine at a time: sending each
// alone would cost more than folding it.
const handedTogether = 256

// handed is an entry from a Scanner.
type handed struct {
	log   int
	entry []byte
}

// Paced is a Logs with its own clock, such as the virtual time of a simulation. Its readers
// use no goroutines, so that all calls are sequential.
type Paced interface {
	Logs

	// Now returns the time that schedules repeated reads.
	Now() clock.Now
	// Wait blocks for d. If ctx ends earlier, Wait returns the error of ctx.
	Wait(ctx context.Context, d time.Duration) error
}

// Wait blocks for d before logs are read again. If ctx ends earlier, it returns the result of Ended.
func Wait(ctx context.Context, logs Logs, d time.Duration) error {
	if paced, ok := logs.(Paced); ok {
		return paced.Wait(ctx, d)
	}
	select {
	case <-ctx.Done():
		return Ended(ctx)
	case <-time.After(d):
		return nil
	}
}

// Ended returns why ctx has ended: of a deadline the cause, which states the time.
func Ended(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return ctx.Err()
}
