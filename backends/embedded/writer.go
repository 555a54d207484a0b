package embedded

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"zombiezen.com/go/sqlite"

	"salectl/backends/ledger"
)

// pollEvery is how often a writer retries to begin a transaction while another process has the
// file.
const pollEvery = 500 * time.Microsecond

// maxTogether is the number of bytes at which a transaction takes no further change, so that a
// long queue does not occupy the file, or delay the first change, for long.
const maxTogether = 8 << 20

// step is one change inside a transaction. answer is its caller's result if the transaction
// commits; failed ends the transaction for all its steps.
type step func(conn *sqlite.Conn) (answer, failed error)

// change is a queued step.
type change struct {
	ctx  context.Context
	step step
	size int // approximate bytes
	// creates reports whether the change may create the file. Otherwise, without a file, its
	// result is ifAbsent.
	creates  bool
	ifAbsent error

	// err is set before done is closed, and not changed afterwards.
	err  error
	done chan struct{}
}

// writer makes the changes to a database. Changes queued during a transaction are made together
// in the next one.
type writer struct {
	db    *database
	queue chan *change
	ended chan struct{} // closed when run has returned

	calls   sync.RWMutex // read-locked by each call; close locks it for good
	closing sync.Once

	// The fields below belong to run.
	session   *session
	fileQueue *fileQueue
}

// newWriter returns a writer, whose goroutine ends with close.
func newWriter(db *database) *writer {
	w := &writer{db: db, queue: make(chan *change, 256), ended: make(chan struct{})}
	go w.run()
	return w
}

// do queues the change and waits for its result, or for the end of ctx; then the change may
// still be made.
func (w *writer) do(ctx context.Context, c *change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !w.calls.TryRLock() {
		return explain(w.db.path, ErrClosed)
	}
	defer w.calls.RUnlock()
	c.ctx, c.done = ctx, make(chan struct{})
	select {
	case w.queue <- c:
	case <-ctx.Done():
		return ledger.Ended(ctx)
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ledger.Ended(ctx)
	}
}

// close makes the queued changes, prevents later ones, and waits for run to return.
func (w *writer) close() {
	w.closing.Do(func() {
		w.calls.Lock()
		close(w.queue)
	})
	<-w.ended
}

// run makes the changes of the queue, until close.
func (w *writer) run() {
	defer close(w.ended)
	defer w.disconnect()
	for c := range w.queue {
		// Let the goroutines run that the last transaction has answered: they are about to
		// queue their next changes. Without this, five logs took turns in groups of two and
		// three, at two thirds of the speed.
		runtime.Gosched()
		batch, bytes := []*change{c}, c.size
		for bytes < maxTogether && len(w.queue) > 0 {
			c := <-w.queue
			batch, bytes = append(batch, c), bytes+c.size
		}
		w.commit(batch)
	}
}

// commit makes the changes of a batch and sets their results.
func (w *writer) commit(batch []*change) {
	answers := make([]error, len(batch))
	err := w.connect(batch)
	if err == nil {
		err = w.transact(batch, answers)
	}
	failed := explain(w.db.path, err)
	for i, c := range batch {
		switch {
		case err == nil:
			c.err = answers[i]
		case errors.Is(err, errAbsent):
			c.err = c.ifAbsent
		default:
			c.err = failed
		}
		close(c.done)
	}
}

// connect ensures that the session is connected to the file at the path.
func (w *writer) connect(batch []*change) error {
	if w.session != nil && w.session.current(w.db.path) {
		return nil
	}
	w.disconnect()
	s, err := w.db.open(slices.ContainsFunc(batch, func(c *change) bool { return c.creates }))
	if err != nil {
		return err
	}
	s.SetBusyTimeout(0) // transact polls by itself, and faster
	w.session, w.fileQueue = s, openFileQueue(w.db.path)
	return nil
}

func (w *writer) disconnect() {
	if w.session != nil {
		w.fileQueue.close()
		w.session.Close()
		w.session, w.fileQueue = nil, nil
	}
}

// transact runs the steps in one transaction, without those whose context has ended. After an
// error nothing is known to have changed.
func (w *writer) transact(batch []*change, answers []error) error {
	if err := w.begin(); err != nil {
		return err
	}
	err := func() error {
		for i, c := range batch {
			if answers[i] = ledger.Ended(c.ctx); answers[i] != nil {
				continue
			}
			var failed error
			if answers[i], failed = c.step(w.session.Conn); failed != nil {
				return failed
			}
		}
		return execute(w.session.Conn, "COMMIT")
	}()
	if err != nil {
		w.recover(err)
	}
	return err
}

// begin waits until this writer has the file, and begins a transaction.
func (w *writer) begin() error {
	defer w.fileQueue.enter()()
	_, err := untilFree(func() (struct{}, error) { return struct{}{}, execute(w.session.Conn, "BEGIN IMMEDIATE") })
	if err != nil {
		w.recover(err)
	}
	return err
}

// recover prepares the writer for its next transaction. Closing the connection rolls back, and
// the next transaction opens the file again. A connection that was merely busy is kept.
func (w *writer) recover(cause error) {
	if !isBusy(cause) || !w.session.AutocommitEnabled() {
		w.disconnect()
	}
}
