package embedded

import (
	"context"
	"errors"
	"sync"

	"zombiezen.com/go/sqlite"
)

// maxReaders is the maximum number of concurrent reads of one handle; further reads wait.
const maxReaders = 4

// readers runs reads on their own connections, which no writer blocks.
type readers struct {
	db *database
	// places holds a token for each read under way.
	places  chan struct{}
	closing sync.Once

	// mu guards the fields below.
	mu     sync.Mutex
	idle   []*session
	closed bool
}

func newReaders(db *database) *readers {
	return &readers{db: db, places: make(chan struct{}, maxReaders)}
}

// do runs fn on one snapshot of the database. If there is no database it returns nil without
// calling fn. fn may be called again and must then start over: only its last call read a
// snapshot.
func (r *readers) do(ctx context.Context, fn func(*sqlite.Conn) error) error {
	select {
	case r.places <- struct{}{}:
		defer func() { <-r.places }()
	case <-ctx.Done():
		return ctx.Err()
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
		return ctx.Err() // SQLite reports an interrupt
	}
	return explain(r.db.path, err)
}

// try calls fn once. It returns errChanged if fn did not read a snapshot.
func (r *readers) try(ctx context.Context, fn func(*sqlite.Conn) error) error {
	s, err := r.get()
	if err != nil {
		return err
	}
	err = snapshot(ctx, s, fn)
	if s.frozen != nil && ctx.Err() == nil && !s.current(r.db.path) {
		err = errChanged
	}
	r.put(s, err == nil)
	return err
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

// get returns a connection to the file that is now at the path.
func (r *readers) get() (*session, error) {
	for {
		r.mu.Lock()
		if r.closed {
			r.mu.Unlock()
			return nil, ErrClosed
		}
		if len(r.idle) == 0 {
			r.mu.Unlock()
			return r.db.openRead()
		}
		s := r.idle[len(r.idle)-1]
		r.idle = r.idle[:len(r.idle)-1]
		r.mu.Unlock()
		if s.current(r.db.path) {
			return s, nil
		}
		s.Close()
	}
}

func (r *readers) put(s *session, good bool) {
	if !good {
		s.Close()
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idle = append(r.idle, s)
}

// close waits for the reads under way and prevents later ones.
func (r *readers) close() {
	r.closing.Do(func() {
		r.mu.Lock()
		r.closed = true
		r.mu.Unlock()
		for range maxReaders {
			r.places <- struct{}{}
		}
		for _, s := range r.idle { // no read can be using it
			s.Close()
		}
		for range maxReaders {
			<-r.places
		}
	})
}
