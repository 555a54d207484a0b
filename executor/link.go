package executor

import (
	"context"
	"time"

	"salectl/executor/shard"
)

// Peer names a process of the sale.
type Peer struct {
	ID      string // of this start of the process
	Address string // where it answers
	Version string
}

// Hearing takes in what a peer says to the errands that it was asked by a link. Its methods
// are called in the order in which the peer says it, and do not wait.
type Hearing interface {
	Answered(errand uint64, a Answer)
	Bounced(errand uint64, to shard.Route)
	// Closed says that the link is cut. It is called once, and nothing else after it.
	Closed(why error)
}

// Dial makes a link from one process to another. The link lives until it is cut or ctx
// ends; then hear.Closed is called.
type Dial func(ctx context.Context, from, to Peer, hear Hearing) (Link, error)

// Replies takes the answers to what a peer asks. Its methods do not wait.
type Replies interface {
	Answered(errand uint64, a Answer)
	Bounced(errand uint64, to shard.Route)
}

// Visitor takes in what a peer asks and tells by its link. It is fed in the order of
// arrival, by one goroutine.
type Visitor struct {
	e    *Executor
	from string
	by   *visitor
	back Replies
}

// Accept begins to hear a peer that has made a link. What it is to hear goes to back. nil:
// the link was made to another process, whose id is to, that had this one's address before;
// "": the peer does not say to whom.
func (e *Executor) Accept(from Peer, to string, back Replies) *Visitor {
	by := e.visitors.enter(from.ID, to)
	if by == nil {
		return nil
	}
	return &Visitor{e: e, from: from.ID, by: by, back: back}
}

// Over says whether another link of the peer has been accepted since. Nothing that is asked by this
// one is decided, so whoever has it cuts it. The peer has left it, unless the first message of an
// older link was held up until now: then it makes a new one, where it would wait here for ever.
func (v *Visitor) Over() bool { return v.by.over.Load() }

// Gone says that the link has ended.
func (v *Visitor) Gone() { v.e.visitors.leave(v.from, v.by) }

// Ask takes in an errand. ctx bounds what the rules of the sale read.
func (v *Visitor) Ask(ctx context.Context, errand shard.Errand) {
	visit := func() {
		v.e.visit(ctx, v.e.cfg.Clock(), v.by, errand,
			func(a Answer) { v.back.Answered(errand.ID, a) },
			func(to shard.Route) { v.back.Bounced(errand.ID, to) })
	}
	if errand.Claim != nil && !v.e.prompt(errand.Claim.User) { // a store is asked about the user
		v.by.begin(errand.ID) // which may be given up meanwhile
		go visit()
		return
	}
	visit()
}

// Tell takes in what the peer tells.
func (v *Visitor) Tell(ctx context.Context, t *Tell) {
	select {
	case v.e.inbox <- func(r *runner) { r.owner.hear(r.clock(), v.from, t) }:
	case <-ctx.Done():
	case <-v.e.ended:
	}
}

// dialAgain is how long a peer is left alone after a link to it was cut, or not made.
const dialAgain = 100 * time.Millisecond

// dial keeps a link to a peer.
func (r *runner) dial(m memberNote) {
	if r.e.cfg.Dial == nil || r.hearing[m.ID] != nil {
		return
	}
	ctx, hang := context.WithCancel(r.calls)
	r.hearing[m.ID] = hang
	from := Peer{ID: r.owner.me, Address: r.cfg.Address, Version: r.cfg.Version}
	to := Peer{ID: m.ID, Address: m.Address, Version: m.Version}
	r.running.Go(func() {
		defer hang()
		for ctx.Err() == nil {
			h := &hearing{r: r, closed: make(chan struct{})}
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

// hearing is the Hearing of one link.
type hearing struct {
	r      *runner
	closed chan struct{}
}

func (h *hearing) Answered(errand uint64, a Answer) { h.r.answered(h.r.clock(), errand, a) }

func (h *hearing) Bounced(errand uint64, to shard.Route) { h.r.bounced(h.r.clock(), errand, to) }

func (h *hearing) Closed(error) { close(h.closed) }

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
				r.owner.retire(r.clock())
			}
			n, takers := r.owner.retired(r.clock())
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
		case <-time.After(lookWarm):
		case <-ctx.Done():
			return left
		}
	}
}
