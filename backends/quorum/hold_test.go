package quorum_test

import (
	"context"
	"errors"
	"testing"

	"salectl/backends/quorum"
)

// The context of a lease has the cause of its end, also if it is first used afterwards.
func TestContextFirstUsedLate(t *testing.T) {
	locks, err := quorum.NewLocks([]quorum.Node{yesNode{name: "a"}, yesNode{name: "b"}, yesNode{name: "c"}},
		quorum.Config{Marker: "marker", Address: "here:1"}, quorum.Fifo)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	why := errors.New("it is not wanted any more")
	for name, test := range map[string]struct {
		end  func(*quorum.Lease, context.CancelCauseFunc)
		want error
	}{
		"released, then called off": {func(l *quorum.Lease, cancel context.CancelCauseFunc) {
			l.Release(t.Context())
			cancel(why)
		}, quorum.ErrReleased},
		"called off, then released": {func(l *quorum.Lease, cancel context.CancelCauseFunc) {
			cancel(why)
			l.Release(t.Context())
		}, why},
		"called off": {func(l *quorum.Lease, cancel context.CancelCauseFunc) {
			cancel(why)
			<-l.Done()
		}, why},
	} {
		for _, early := range []bool{true, false} {
			ctx, cancel := context.WithCancelCause(t.Context())
			l, err := locks.Acquire(ctx, name, quorum.Wait{Timeout: quorum.Forever})
			if err != nil {
				t.Fatal(err)
			}
			used := context.Background()
			if early {
				used = l.Context()
			}
			if used.Err() != nil {
				t.Errorf("%s: the context of a lease that lasts has ended", name)
			}
			test.end(l, cancel)
			if early && used != l.Context() {
				t.Errorf("%s: the context is another each time", name)
			}
			if got := context.Cause(l.Context()); !errors.Is(got, test.want) || l.Valid() {
				t.Errorf("%s, early: %t: ended by %v, valid: %t; want %v", name, early, got, l.Valid(), test.want)
			}
		}
	}
}
