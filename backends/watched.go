package backends

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"salectl/backends/clock"
	"salectl/internal/files"
)

// watched is what is read of files that may change. When they have changed they are read
// again, before what is known would be older than fresh. While that fails, what is known
// counts no longer than fresh.
type watched[T any] struct {
	files func() ([]string, error) // which there are; one that is missing is for read to report
	read  func() (T, error)
	clock clock.Clock
	fresh time.Duration

	known atomic.Pointer[reading[T]]

	// turn has room for the one lookup that looks at the files, or at the fields below.
	turn chan struct{}
	// tried is when reading failed last, with err; nil: it has not since known was read.
	tried clock.Now
	err   error
}

// reading is what the files held.
type reading[T any] struct {
	value  T
	files  []string
	seen   []fs.FileInfo // as they were read; nil: there was no such file
	looked clock.Now     // when they were found to be so
}

// tryAgain is how long after a failure the files are left alone: a large one costs time
// to read, and a bad one stays bad until somebody mends it.
const tryAgain = time.Second

// current returns what the files have held within fresh.
func (w *watched[T]) current(ctx context.Context) (value T, err error) {
	if r := w.known.Load(); r != nil && w.clock().Since(r.looked) <= w.fresh {
		return r.value, nil
	}
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return value, ctx.Err()
	}
	defer func() { <-w.turn }()
	now := w.clock()
	switch r := w.known.Load(); {
	case r != nil && now.Since(r.looked) <= w.fresh: // somebody else has looked
		return r.value, nil
	case w.err != nil && now.Since(w.tried) < tryAgain:
		return value, w.err
	}
	w.err = w.load()
	if w.tried = w.clock(); w.err != nil {
		return value, w.err
	}
	return w.known.Load().value, nil
}

// load looks at the files, and reads them if they have changed. What is known ages from
// before the last look.
func (w *watched[T]) load() error {
	looked := w.clock()
	files, before, err := w.look()
	if err != nil {
		return err
	}
	if r := w.known.Load(); r != nil && slices.Equal(r.files, files) && slices.EqualFunc(r.seen, before, unchanged) {
		w.known.Store(&reading[T]{r.value, files, before, looked})
		return nil
	}
	value, err := w.read()
	if err != nil {
		return err
	}
	looked = w.clock()
	again, after, err := w.look()
	if err != nil {
		return err
	}
	if !slices.Equal(files, again) || !slices.EqualFunc(before, after, unchanged) {
		return fmt.Errorf("%s has changed while it was read: put a new file in its place at once, by renaming it", strings.Join(again, ", "))
	}
	w.known.Store(&reading[T]{value, files, after, looked})
	return nil
}

func (w *watched[T]) look() (all []string, seen []fs.FileInfo, err error) {
	if all, err = w.files(); err != nil {
		return nil, nil, err
	}
	for _, file := range all {
		info, err := files.Stat(file)
		switch {
		case errors.Is(err, files.ErrSlow):
			return nil, nil, err
		case err != nil:
			info = nil
		}
		seen = append(seen, info)
	}
	return all, seen, nil
}

// unchanged reports whether a file is the same as before, as far as can be told without
// reading it. One that was not there is no file to believe in.
func unchanged(a, b fs.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
