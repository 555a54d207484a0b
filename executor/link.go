package executor

import (
	"context"
	"time"

	"salectl/executor/ownership"
	"salectl/executor/shard"
)

// Peer names a process of the sale.
type Peer struct {
	ID      string // of this start of the process
	Address string // where it answers
	Version string
}

// Link is a connection to one peer. Its methods do not wait. Messages arrive in order, or, once the
// link is cut, not at all. The methods return false if the link is cut or full.
type Link interface {
	// Forward sends a request for the peer to decide. Its LinkReceiver gets the reply.
	Forward(e shard.ForwardedRequest) bool
	// Update sends an update.
	Update(t *ownership.PeerUpdate) bool
}

// LinkReceiver receives the replies that come back by a link. Its methods are called in the
// order of arrival, and do not wait.
type LinkReceiver interface {
	Answered(id uint64, a Answer)
	Bounced(id uint64, to shard.Route)
	// Closed reports that the link is cut. It is called once, and nothing else after it.
	Closed(why error)
}

// Dial makes a link from one process to another. The link lives until it is cut or ctx
// ends; then receiver.Closed is called.
type Dial func(ctx context.Context, from, to Peer, receiver LinkReceiver) (Link, error)

// Replies sends the replies to a peer's requests. Its methods do not wait.
type Replies interface {
	Answered(id uint64, a Answer)
	Bounced(id uint64, to shard.Route)
}

// Inbound serves the requests and updates that arrive by a link of a peer. One goroutine
// calls its methods, in the order of arrival.
type Inbound struct {
	e    *Executor
	from string
	by   *inboundLink
	back Replies
}

// Accept begins to serve a link that a peer has made to the process with the id to; "": the
// peer names none. Replies go to back. Accept returns nil if another process is meant, one that
// had the address of this one before.
func (e *Executor) Accept(from Peer, to string, back Replies) *Inbound {
	by := e.inbound.enter(from.ID, to)
	if by == nil {
		return nil
	}
	return &Inbound{e: e, from: from.ID, by: by, back: back}
}

// Over reports whether another link of the peer has been accepted since. Requests of this one are
// not decided any more, so the caller cuts it. The peer has left it, unless the first message of an
// older link was held up until now: then the peer makes a new link, instead of waiting here for ever.
func (v *Inbound) Over() bool { return v.by.over.Load() }

// Gone takes in that the link has ended.
func (v *Inbound) Gone() { v.e.inbound.leave(v.from, v.by) }

// Serve takes in a forwarded request. ctx bounds the reads of the sale's rules.
func (v *Inbound) Serve(ctx context.Context, r shard.ForwardedRequest) {
	serve := func() {
		v.e.drained(ctx, &r.Request)
		v.e.servePeer(ctx, v.e.cfg.Clock(), v.by, r,
			func(a Answer) { v.back.Answered(r.ID, a) },
			func(to shard.Route) { v.back.Bounced(r.ID, to) })
	}
	if !r.GiveUp && !v.e.prompt(&r.Request) {
		v.by.begin(r.ID) // which may be given up meanwhile
		go serve()
		return
	}
	serve()
}

// Update takes in an update of the peer.
func (v *Inbound) Update(ctx context.Context, t *ownership.PeerUpdate) {
	select {
	case v.e.inbox <- func(r *runner) { r.owner.Receive(r.clock(), v.from, t) }:
	case <-ctx.Done():
	case <-v.e.ended:
	}
}

// Discover has this process read the list of members at once if it does not know the peer: the
// requests of a new process wait until it knows who owns which shard.
func (v *Inbound) Discover(ctx context.Context) {
	select {
	case v.e.inbox <- func(r *runner) { r.owner.Discover(r.clock(), v.from) }:
	case <-ctx.Done():
	case <-v.e.ended:
	}
}

// dialAgain is how long a peer is left alone after a link to it was cut, or not made.
const dialAgain = 100 * time.Millisecond

// dial keeps a link to a peer.
func (r *runner) dial(m ownership.Process) {
	if r.e.cfg.Dial == nil || r.dialing[m.ID] != nil {
		return
	}
	ctx, hang := context.WithCancel(r.calls)
	r.dialing[m.ID] = hang
	from := Peer{ID: idOf(r.cfg.Me), Address: r.cfg.Address, Version: r.cfg.Version}
	to := Peer{ID: m.ID, Address: m.Address, Version: m.Version}
	r.running.Go(func() {
		defer hang()
		for ctx.Err() == nil {
			h := &linkReceiver{r: r, closed: make(chan struct{})}
			link, err := r.e.cfg.Dial(ctx, from, to, h)
			if err == nil {
				r.do(func() { r.machine.linked(r.clock(), to.ID, link) })
				<-h.closed
				r.do(func() { r.machine.cut(r.clock(), to.ID) })
			}
			select {
			case <-time.After(dialAgain):
			case <-ctx.Done():
			}
		}
	})
}

// linkReceiver is the LinkReceiver of one link.
type linkReceiver struct {
	r      *runner
	closed chan struct{}
}

func (h *linkReceiver) Answered(id uint64, a Answer) { h.r.answered(h.r.clock(), id, a) }

func (h *linkReceiver) Bounced(id uint64, to shard.Route) { h.r.bounced(h.r.clock(), id, to) }

func (h *linkReceiver) Closed(error) { close(h.closed) }

// retireEvery is how often Retire looks what is left.
const retireEvery = 10 * time.Millisecond

// Retire has this process give its shards to its peers, and own none from here on. It
// returns how many it has left: none, unless ctx has ended or no peer can take them. tell
// hears how many there are, at first and then once a second.
func (e *Executor) Retire(ctx context.Context, tell func(left int)) (left int) {
	type stand struct {
		left   int
		takers bool
	}
	got, toldAt := make(chan stand, 1), time.Time{}
	for first := true; ; first = false {
		select {
		case e.inbox <- func(r *runner) {
			if first {
				r.owner.Retire(r.clock())
			}
			n, takers := r.owner.Retired(r.clock())
			got <- stand{n, takers}
		}:
		case <-ctx.Done():
			return left
		case <-e.ended:
			return 0
		}
		s := <-got
		if left = s.left; left == 0 || !s.takers {
			return left
		}
		if time.Since(toldAt) >= time.Second {
			toldAt = time.Now()
			tell(left)
		}
		select {
		case <-time.After(retireEvery):
		case <-ctx.Done():
			return left
		}
	}
}
