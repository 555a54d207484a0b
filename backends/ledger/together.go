package ledger

import (
	"context"
	"runtime"
	"sync"
)

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
