package executor

import (
	"context"
	"sync"
	"time"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor/ownership"
	"salectl/executor/peers"
)

// Accept is Service's.
func (e *Executor) Accept(hello *streampb.Hello, send func(*streampb.Reply) error) (handle func(*streampb.Request) bool, gone func()) {
	from := hello.GetPeerId()
	in := e.machine.Accept(from, hello.GetToId(), func(id uint64, a Answer, owner ownership.Route) {
		_ = send(peers.EncodeReply(id, a, owner)) // the peer notices the end of its link
	})
	if in == nil {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	// The requests of a new process wait until it is known who owns which shard.
	e.inLoop(ctx, func(r *runner) { r.Ownership.Discover(r.clock(), from) })
	var blocked sync.Map // of context.CancelFunc: requests that wait for a store or a node, by id
	serve := func(m *streampb.Request, r *Request) {
		cancel := m.GetCancel() != nil
		if stop, ok := blocked.Load(m.GetId()); ok && cancel {
			stop.(context.CancelFunc)()
		}
		if cancel || !e.machine.Blocks(r) {
			in.Serve(ctx, m, r)
			return
		}
		ctx, stop := context.WithCancel(ctx)
		blocked.Store(m.GetId(), stop)
		go func() {
			defer stop()
			e.drained(ctx, r)
			in.Serve(ctx, m, r)
			blocked.Delete(m.GetId())
		}()
	}
	update := func(t *ownership.PeerUpdate) {
		e.inLoop(ctx, func(r *runner) { r.Ownership.Receive(r.clock(), from, t) })
	}
	handle = func(r *streampb.Request) bool {
		if err := peers.ReceiveRequest(r, serve, update); err != nil {
			e.cfg.Logger.Warn("a peer sent an unreadable message", "sale", e.cfg.Sale, "peer", hello.GetAddress(), "why", err)
		}
		return !in.Over()
	}
	return handle, func() {
		cancel()
		in.Gone()
	}
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
			closed := make(chan struct{})
			link, err := r.e.cfg.Dial(ctx, from, to, r.Replied, func(error) { close(closed) })
			if err == nil {
				r.do(func() { r.Linked(r.clock(), to.ID, link) })
				<-closed
				r.do(func() { r.Cut(r.clock(), to.ID) })
			}
			_ = api.Sleep(ctx, dialAgain)
		}
	})
}

// do has the loop call a function between two events, unless the loop has ended.
func (r *runner) do(what func()) { r.e.inLoop(r.calls, func(*runner) { what() }) }
