package main

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestTwoHolders has two contend for a lock that keeps nobody out.
func TestTwoHolders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := func(context.Context, string) (func() error, error) { return func() error { return nil }, nil }
		var c contest
		errs := make([]error, 2)
		var all sync.WaitGroup
		for who := range errs {
			all.Go(func() { errs[who] = c.take(t.Context(), who, open, "open", time.Second) })
		}
		all.Wait()
		if !errors.Is(errors.Join(errs...), errWrong) {
			t.Error("nobody noticed the other")
		}
	})
}

func TestCounting(t *testing.T) {
	began := time.Now()
	c := contest{last: -1, began: began}
	for _, e := range []struct {
		who               int
		requested, waited time.Duration
	}{
		{1, 0, time.Hour}, // from the first second, when not all were there
		{1, unsettled, 2 * time.Second},
		{2, unsettled, 4 * time.Second},
		{1, unsettled, 3 * time.Second},
	} {
		c.entered(e.who, began.Add(e.requested), e.waited)
	}
	c.cutShort(began, time.Hour)
	c.cutShort(began.Add(unsettled), 5*time.Second)
	if c.had != 4 || c.changes != 3 || c.mean() != 3*time.Second || c.longest != 5*time.Second {
		t.Errorf("had %d times, %d changes, a mean of %v, the longest %v; not 4, 3, 3s, 5s", c.had, c.changes, c.mean(), c.longest)
	}
}
