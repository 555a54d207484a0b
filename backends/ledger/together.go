package ledger

import (
	"context"
	"runtime"
	"sync"
)

// NamedFolder is a fold of one of many logs that are read at once.
type NamedFolder interface {
	Folder
	Log() string // the log's name
}

// FoldTogether folds what a Scanner hands out of many logs, as many at a time as there are
// processors. It returns the error that each fold ended with. What was not handed out is left
// to Load, which reads each log on to its end and compares it with its head; so is whatever
// is wrong with the store.
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
					if failed[s.log] == nil { // no other goroutine looks at this one
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

// handedTogether is how many entries go to a folding goroutine at a time: to hand over each
// alone would cost more than to fold it.
const handedTogether = 256

// handed is an entry that a Scanner has handed out.
type handed struct {
	log   int
	entry []byte
}
