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

// watched caches what was read from files that may change. Changed files are read again before
// the cached value would be older than fresh. If that fails, the cached value stays valid until
// then.
type watched[T any] struct {
	files func() ([]string, error)  // their names; a missing file is reported by read
	read  func(before T) (T, error) // before is the zero value at first
	clock clock.Clock
	fresh time.Duration

	known atomic.Pointer[reading[T]]

	// turn is held by the lookup that checks the files or uses the fields below.
	turn chan struct{}
	// tried is the time of the last failed read, with err; err is nil after a success.
	tried clock.Now
	err   error
}

// reading is the result of a successful read.
type reading[T any] struct {
	value   T
	files   []string
	seen    []fs.FileInfo // as of the read; nil: the file did not exist
	checked clock.Now     // time of the last check that found no change
}

// tryAgain is the delay after a failure: a large file takes time to read, and a bad one stays
// bad until it is repaired.
const tryAgain = time.Second

// current returns the value of the files, at most fresh old.
func (w *watched[T]) current(ctx context.Context) (value T, err error) {
	if r := w.known.Load(); r != nil && w.clock().Since(r.checked) <= w.fresh {
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
	case r != nil && now.Since(r.checked) <= w.fresh: // checked by another lookup
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

// load checks the files, and reads them if they have changed. The age of the value counts from
// before the last check.
func (w *watched[T]) load() error {
	checked := w.clock()
	files, before, err := w.stat()
	if err != nil {
		return err
	}
	var value T
	if r := w.known.Load(); r != nil {
		if value = r.value; slices.Equal(r.files, files) && slices.EqualFunc(r.seen, before, unchanged) {
			w.known.Store(&reading[T]{value, files, before, checked})
			return nil
		}
	}
	if value, err = w.read(value); err != nil {
		return err
	}
	checked = w.clock()
	again, after, err := w.stat()
	if err != nil {
		return err
	}
	if !slices.Equal(files, again) || !slices.EqualFunc(before, after, unchanged) {
		return fmt.Errorf("%s changed while it was read: replace it by renaming a new file", strings.Join(again, ", "))
	}
	w.known.Store(&reading[T]{value, files, after, checked})
	return nil
}

func (w *watched[T]) stat() (all []string, seen []fs.FileInfo, err error) {
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

// unchanged reports whether a file is the same as before, as far as can be determined without
// reading it. A file that did not exist never counts as unchanged.
func unchanged(a, b fs.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
