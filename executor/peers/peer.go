package peers

import (
	"context"
	"sync"
	"sync/atomic"

	"salectl/executor/ownership"
	"salectl/executor/request"
)

// Link is a connection to one peer. Its methods do not wait. Messages arrive in order, or, once the
// link is cut, not at all. The methods return false if the link is cut or full.
type Link interface {
	// Forward sends a request for the peer to decide.
	Forward(e ForwardedRequest) bool
	// Update sends an update.
	Update(t *ownership.PeerUpdate) bool
}

// Replies sends the replies to a peer's requests. Its methods do not wait.
type Replies interface {
	// Answered has the answer to the request of that id.
	Answered(id uint64, a request.Answer)
	// Bounced reports that this process does not own the shard, and the owner as far as it is known.
	Bounced(id uint64, to ownership.Route)
}

// LinkReceiver receives the replies that come back by a link. Its methods are called in the order of arrival.
type LinkReceiver interface {
	Replies
	// Closed reports that the link is cut. It is called once, and nothing else after it.
	Closed(why error)
}

// Dial makes a link from one process to another. The link lives until it is cut or ctx
// ends; then receiver.Closed is called.
type Dial func(ctx context.Context, from, to ownership.Process, receiver LinkReceiver) (Link, error)

// Process is this process of a sale, as far as its peers need it.
type Process interface {
	// Sale returns the name of the sale.
	Sale() string
	// Accept begins to serve a link that the peer with the id from has made to the process with the id to;
	// "": the peer names none. Replies go to back. Accept returns nil if another process is meant, one that
	// had the address of this one before.
	Accept(from, to string, back Replies) Inbound
}

// Inbound serves the requests and updates that arrive by a link of a peer. One goroutine calls its methods,
// in the order of arrival.
type Inbound interface {
	// Discover has this process read the list of members at once if it does not know the peer: the
	// requests of a new process wait until it knows who owns which shard.
	Discover(ctx context.Context)
	// Serve decides a forwarded request. ctx bounds the reads of the sale's rules.
	Serve(ctx context.Context, r ForwardedRequest)
	// Update passes on an update of the peer.
	Update(ctx context.Context, t *ownership.PeerUpdate)
	// Over reports whether the peer has made another link since. Requests of this one are not decided any
	// more, so the caller cuts it.
	Over() bool
	// Gone ends the link.
	Gone()
}

// Links are the links that this process has made, by the id of the peer. All methods are safe for concurrent
// use.
type Links struct {
	// The results of forwarded claims and settlements. A request is answered once, however often it
	// is sent.
	Answered, Bounced, Lost atomic.Uint64

	mu   sync.RWMutex
	all  map[string]Link
	some atomic.Bool // all is not empty; each request reads it, without mu
}

// Set records the link to a peer; nil: it is cut.
func (l *Links) Set(id string, to Link) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = make(map[string]Link)
	}
	if to == nil {
		delete(l.all, id)
	} else {
		l.all[id] = to
	}
	l.some.Store(len(l.all) > 0)
}

// To returns the link to a peer; nil: there is none.
func (l *Links) To(id string) Link {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.all[id]
}

// Any reports whether any peer can be reached.
func (l *Links) Any() bool { return l.some.Load() }

// Forward sends a request to a peer. It returns false if it cannot.
func (l *Links) Forward(id string, e ForwardedRequest) bool {
	to := l.To(id)
	return to != nil && to.Forward(e)
}

// SendUpdate sends an update to a peer. It returns false if it cannot.
func (l *Links) SendUpdate(id string, t *ownership.PeerUpdate) bool {
	to := l.To(id)
	return to != nil && to.Update(t)
}
