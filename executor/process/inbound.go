package process

import (
	"context"
	"sync/atomic"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/executor/ownership"
	"salectl/executor/peers"
	"salectl/executor/request"
)

// Inbound serves the requests that arrive by a link of a peer. Its requests are decided as long as the
// peer has made no other link. On a new one the peer repeats the requests that have no answer, and a
// copy that is decided after the repetition might be granted what that was denied. All methods are safe
// for concurrent use.
type Inbound struct {
	d    *Admission
	from string
	back peers.Replies
	over atomic.Bool
}

// Accept begins to serve a link that the peer with the id from has made to the process with the id to;
// "": the peer names none. Replies go to back. Accept ends the link that the peer made before. It
// returns nil if the link was made to another process. A process that was killed is among the members
// until its lease has run out, and one that was started at its address meanwhile is reached by either
// id. If it took both links, the later would end the earlier, on which the peer goes on waiting for
// answers.
func (m *Machine) Accept(from, to string, back peers.Replies) *Inbound {
	if to != "" && to != m.me.ID {
		return nil
	}
	fresh := &Inbound{d: &m.Admission, from: from, back: back}
	if before, ok := m.inbound.Swap(from, fresh); ok {
		before.(*Inbound).over.Store(true)
	}
	return fresh
}

// Over reports whether another link of the peer has been accepted since. Requests of this one are
// not decided any more, so the caller cuts it. The peer has left it, unless the first message of an
// older link was held up until now: then the peer makes a new link, instead of waiting here for ever.
func (v *Inbound) Over() bool { return v.over.Load() }

// Gone ends the link.
func (v *Inbound) Gone() { v.d.inbound.CompareAndDelete(v.from, v) }

// Serve decides a forwarded request. If this process owns the shard it is answered, otherwise it comes back as
// Elsewhere: a forwarded request is not forwarded again. It has one reply, before Serve returns or later; none,
// if the peer has made another link since. A message with Cancel has the id of the one that it withdraws,
// and is answered in place of that or not at all. The end of ctx ends the reads of the sale's rules, and
// withdraws the request. r is the request of the message m, as peers.DecodeRequest returns it.
func (v *Inbound) Serve(ctx context.Context, m *streampb.Request, r *request.Request) {
	d, now, id, cancel := v.d, v.d.clock(), m.GetId(), m.GetCancel() != nil
	t := d.serving.Load()
	// A process that has not read yet that a sale was begun anew would take a decision here for one
	// of the run before: an entry for one that was not drawn then.
	if run := m.GetRun(); t == nil || run != "" && run != t.uid {
		if !cancel {
			v.back(id, request.Answer{Elsewhere: true}, ownership.Route{})
		}
		return
	}
	i, ok := r.Home(len(t.shards))
	withdraw := func() {
		if ticket := t.remotes[i].Underway.Withdraw(r.User, r.Key, id, &v.over); ticket != nil {
			v.back(id, ticket.WithdrawnAnswer(), ownership.Route{})
		}
	}
	if cancel {
		withdraw()
		return
	}
	reply := func(a request.Answer) {
		var owner ownership.Route
		if a.Elsewhere {
			owner = t.remotes[i].Route()
		}
		v.back(id, a, owner)
	}
	if !ok {
		reply(request.Answer{Outcome: api.NoSuchClaim})
		return
	}
	if v.over.Load() {
		return // the peer has sent it again
	}
	s := t.local(i)
	switch {
	case s == nil || !s.Serves() || !s.May(now):
		reply(request.Answer{Elsewhere: true})
		return
	case r.Query != nil:
		a, ok := t.lookup(now, i, r.Query)
		a.Elsewhere = !ok
		reply(a)
		return
	}
	var a request.Answer
	ticket := d.admitLocal(ctx, now, t, s, r, &a)
	if ticket == nil {
		reply(a)
		return
	}
	ticket.MarkFromPeer(id, &v.over)
	ticket.OnAnswer(request.WaiterFunc(func() {
		a := ticket.Finish()
		t.completeAnswer(&a)
		reply(a)
	}))
	switch refused := s.Offer(now, ticket); {
	case refused == api.Standby:
		ticket.Free()
		reply(request.Answer{Elsewhere: true})
	case refused != "":
		received := ticket.Received()
		ticket.Free()
		reply(t.refuse(s.Pending, &received, request.Refusal(refused)))
	case ctx.Err() != nil:
		withdraw()
	}
}
