package embedded

import (
	"context"
	"errors"
	"sync"

	"zombiezen.com/go/sqlite"

	"salectl/backends/ledger"
)

// maxReaders is the maximum number of concurrent reads of one handle; further reads wait.
const maxReaders = 4

// readers runs reads on their own connections, which no writer blocks.
type readers struct {
	db      *database
	places  chan struct{} // holds a token for each read under way
	idle    chan *session
	calls   sync.RWMutex // read-locked by each call; close locks it for good
	closing sync.Once
}

func newReaders(db *database) *readers {
	return &readers{db: db, places: make(chan struct{}, maxReaders), idle: make(chan *session, maxReaders)}
}

// do runs fn on one snapshot of the database. If there is no database it returns nil without
// calling fn. fn may be called again and must then start over: only its last call read a
// snapshot.
func (r *readers) do(ctx context.Context, fn func(*sqlite.Conn) error) error {
	if !r.calls.TryRLock() {
		return explain(r.db.path, ErrClosed)
	}
	defer r.calls.RUnlock()
	select {
	case r.places <- struct{}{}:
		defer func() { <-r.places }()
	case <-ctx.Done():
		return ledger.Ended(ctx)
	}
	again := false
	err := untilFrozen(func() error {
		err := r.try(ctx, fn)
		if errors.Is(err, errAbsent) && again {
			return errChanged // fn has read something, which must not turn into nothing
		}
		again = true
		return err
	})
	if errors.Is(err, errAbsent) {
		return nil
	}
	if ctx.Err() != nil && err != nil {
		return ledger.Ended(ctx) // SQLite reports an interrupt
	}
	return explain(r.db.path, err)
}

// try calls fn once. It returns errChanged if fn did not read a snapshot.
func (r *readers) try(ctx context.Context, fn func(*sqlite.Conn) error) (err error) {
	s := r.connected()
	if s == nil {
		if s, err = r.db.openRead(); err != nil {
			return err
		}
	}
	err = snapshot(ctx, s, fn)
	if s.frozen != nil && ctx.Err() == nil && !s.current(r.db.path) {
		err = errChanged
	}
	if err != nil {
		s.Close()
		return err
	}
	r.idle <- s
	return nil
}

// connected returns a connection to the file that is now at the path; nil if there is none.
func (r *readers) connected() *session {
	for {
		select {
		case s := <-r.idle:
			if s.current(r.db.path) {
				return s
			}
			s.Close()
		default:
			return nil
		}
	}
}

// snapshot calls fn inside a transaction, so that its queries see one state.
func snapshot(ctx context.Context, s *session, fn func(*sqlite.Conn) error) (err error) {
	s.SetInterrupt(ctx.Done())
	defer s.SetInterrupt(nil)
	if err := execute(s.Conn, "BEGIN"); err != nil {
		return err
	}
	if err := fn(s.Conn); err != nil {
		return err // the connection is not used again
	}
	return execute(s.Conn, "COMMIT")
}

// close waits for the reads under way and prevents later ones.
func (r *readers) close() {
	r.closing.Do(func() {
		r.calls.Lock()
		close(r.idle)
		for s := range r.idle {
			s.Close()
		}
	})
}
