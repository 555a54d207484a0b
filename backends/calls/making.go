package calls

import (
	"context"
	"sync"
	"time"

	"salectl/backends/clock"
)

// Making makes the calls of one step machine, each in a goroutine, and passes the replies to
// the goroutine that runs the machine, one by one.
type Making struct {
	clock   clock.Clock
	do      func(context.Context, Call) any
	ctx     context.Context // of the calls
	cancel  context.CancelFunc
	running sync.WaitGroup
	replies chan func()
	timer   *time.Timer
}

// NewMaking returns a Making whose calls are made by do, within ctx. Its End must be called.
func NewMaking(ctx context.Context, clock clock.Clock, do func(context.Context, Call) any) *Making {
	m := &Making{clock: clock, do: do, replies: make(chan func()), timer: time.NewTimer(time.Hour)}
	m.ctx, m.cancel = context.WithCancel(ctx)
	return m
}

// Make starts calls.
func (m *Making) Make(made []Call) {
	for _, c := range made {
		m.running.Go(func() {
			reply := m.do(m.ctx, c)
			select {
			case m.replies <- func() { c.Took(m.clock(), reply, nil) }:
			case <-m.ctx.Done():
			}
		})
	}
}

// Await passes the next reply to the machine. If the monotonic time wake comes first, it
// returns due as true; 0 means never. An error is the cause of the end of ctx.
func (m *Making) Await(ctx context.Context, wake time.Duration) (due bool, err error) {
	var ticks <-chan time.Time
	if wake > 0 {
		m.timer.Reset(max(0, wake-m.clock().Mono))
		ticks = m.timer.C
	}
	select {
	case took := <-m.replies:
		took()
		return false, nil
	case <-ticks:
		return true, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// End cancels the calls under way and waits for them. Their replies are dropped.
func (m *Making) End() {
	m.timer.Stop()
	m.cancel()
	m.running.Wait()
}
