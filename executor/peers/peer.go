package peers

import (
	"context"
	"sync"
	"sync/atomic"

	"salectl/api/streampb"
	"salectl/executor/ownership"
	"salectl/executor/request"
)

// Link is a connection to one peer. Its methods do not wait. Messages arrive in order, or, once the
// link is cut, not at all. The methods return false if the link is cut or full.
type Link interface {
	// Forward sends a message of EncodeRequest, for the peer to decide the request.
	Forward(m *streampb.Request) bool
	// Update sends an update.
	Update(t *ownership.PeerUpdate) bool
}

// Replies receives the answers to forwarded requests, by their ids. An answer that is Elsewhere comes with the
// owner of the shard, if the peer has one. Replies does not wait, and is called in the order of arrival.
type Replies func(id uint64, a request.Answer, owner ownership.Route)

// Dial makes a link from one process to another. The link lives until it is cut or ctx ends; then closed is
// called, once, and replies no more.
type Dial func(ctx context.Context, from, to ownership.Process, replies Replies, closed func(why error)) (Link, error)

// Links are the links that this process has made, by the id of the peer. All methods are safe for concurrent
// use.
type Links struct {
	// The results of forwarded claims and settlements. A request is answered once, however often it
	// is sent.
	Answered, Bounced, Lost atomic.Uint64

	all   sync.Map     // of Link, by the id of the peer
	count atomic.Int64 // of all; each request reads it
}

// Set records the link to a peer; nil: it is cut.
func (l *Links) Set(id string, to Link) {
	if to == nil {
		if _, had := l.all.LoadAndDelete(id); had {
			l.count.Add(-1)
		}
	} else if _, had := l.all.Swap(id, to); !had {
		l.count.Add(1)
	}
}

// To returns the link to a peer; nil: there is none.
func (l *Links) To(id string) Link {
	x, _ := l.all.Load(id)
	to, _ := x.(Link)
	return to
}

// Any reports whether any peer can be reached.
func (l *Links) Any() bool { return l.count.Load() > 0 }

// Forward sends a message of EncodeRequest to a peer. It returns false if it cannot.
func (l *Links) Forward(id string, m *streampb.Request) bool {
	to := l.To(id)
	return to != nil && to.Forward(m)
}

// SendUpdate sends an update to a peer. It returns false if it cannot.
func (l *Links) SendUpdate(id string, t *ownership.PeerUpdate) bool {
	to := l.To(id)
	return to != nil && to.Update(t)
}
