package process

import (
	"sync"
	"sync/atomic"

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
	// Forward sends a request for the peer to decide.
	Forward(e shard.ForwardedRequest) bool
	// Update sends an update.
	Update(t *ownership.PeerUpdate) bool
}

// Me names this process to its peers.
func (d *Admission) Me() Peer { return d.me }

// links are the links that this process has made, by the id of the peer. It is safe for concurrent
// use.
type links struct {
	// The results of forwarded claims and settlements. A request is answered once, however often it
	// is sent.
	answered, bounced, lost atomic.Uint64

	mu   sync.RWMutex
	all  map[string]Link
	some atomic.Bool // there are any; each request reads it
}

func (l *links) set(id string, to Link) {
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

func (l *links) to(id string) Link {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.all[id]
}

// any reports whether any peer can be reached.
func (l *links) any() bool { return l.some.Load() }

// forward sends a request to a peer.
func (l *links) forward(id string, e shard.ForwardedRequest) bool {
	to := l.to(id)
	return to != nil && to.Forward(e)
}

func (l *links) sendUpdate(id string, t *ownership.PeerUpdate) bool {
	to := l.to(id)
	return to != nil && to.Update(t)
}
