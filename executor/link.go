package executor

import (
	"context"
	"time"

	"salectl/executor/ownership"
	"salectl/executor/peers"
	"salectl/executor/process"
)

// inbound serves the requests and updates that arrive by a link of a peer. One goroutine
// calls its methods, in the order of arrival.
type inbound struct {
	*process.Inbound
	e    *Executor
	from string
}

// Accept is peers.Process's.
func (e *Executor) Accept(from, to string, back peers.Replies) peers.Inbound {
	in := e.machine.Accept(from, to, back)
	if in == nil {
		return nil
	}
	return &inbound{in, e, from}
}

// Serve is peers.Inbound's.
func (v *inbound) Serve(ctx context.Context, r peers.ForwardedRequest) {
	if r.Cancel || !v.e.machine.Blocks(&r.Request) {
		v.Inbound.Serve(ctx, r)
		return
	}
	v.Register(r.ID)
	go func() {
		v.e.drained(ctx, &r.Request)
		v.Inbound.Serve(ctx, r)
	}()
}

// Update is peers.Inbound's.
func (v *inbound) Update(ctx context.Context, t *ownership.PeerUpdate) {
	v.e.inLoop(ctx, func(r *runner) { r.Ownership.Receive(r.clock(), v.from, t) })
}

// Discover is peers.Inbound's.
func (v *inbound) Discover(ctx context.Context) {
	v.e.inLoop(ctx, func(r *runner) { r.Ownership.Discover(r.clock(), v.from) })
}

// dialAgain is how long a peer is left alone after a link to it was cut, or not made.
const dialAgain = 100 * time.Millisecond

// dial keeps a link to a peer.
func (r *runner) dial(to ownership.Process) {
	if r.e.cfg.Dial == nil || r.dialing[to.ID] != nil {
		return
	}
	ctx, hang := context.WithCancel(r.calls)
	r.dialing[to.ID] = hang
	from := r.Me()
	r.running.Go(func() {
		defer hang()
		for ctx.Err() == nil {
			h := &linkReceiver{r.Machine, make(chan struct{})}
			link, err := r.e.cfg.Dial(ctx, from, to, h)
			if err == nil {
				r.do(func() { r.Linked(r.clock(), to.ID, link) })
				<-h.closed
				r.do(func() { r.Cut(r.clock(), to.ID) })
			}
			select {
			case <-time.After(dialAgain):
			case <-ctx.Done():
			}
		}
	})
}

// do has the loop call a function between two events, unless the loop has ended.
func (r *runner) do(what func()) {
	select {
	case r.replies <- what:
	case <-r.calls.Done():
	}
}

// linkReceiver is the LinkReceiver of one link.
type linkReceiver struct {
	*process.Machine
	closed chan struct{}
}

func (h *linkReceiver) Closed(error) { close(h.closed) }
