package redis

import (
	"context"
	"errors"
	"sync"

	goredis "github.com/redis/go-redis/v9"
)

// watches is the connection on which a server says that keys were freed: one for
// all who watch, made for the first of them and kept. Each waiter has a channel
// of its own for each key, so that only who is next is woken.
type watches struct {
	wire sync.Mutex // what is sent over it goes in the order in which it was decided

	mu     sync.Mutex
	sub    *goredis.PubSub   // nil: no connection
	topics map[string]*topic // by channel
}

// topic is a channel that somebody listens to.
type topic struct {
	confirmed bool // the server has
	listeners map[*listener]bool
}

type listener struct {
	freed func()
	ended chan error // the connection has; gets one error at most
}

// Watch is quorum.Node's.
func (n *Node) Watch(ctx context.Context, key, waiter string, freed func()) error {
	l := &listener{freed: freed, ended: make(chan error, 1)}
	over := make(chan struct{})
	defer close(over)
	// Connecting does not heed the end of a context.
	begun := n.begin(func() {
		channel := key + ":" + waiter
		n.listen(ctx, channel, l)
		<-over
		n.unlisten(channel, l)
	})
	if !begun {
		return n.explain(ErrClosed)
	}
	select {
	case <-ctx.Done():
		return n.explain(ctx.Err())
	case <-n.life.Done():
		return n.explain(ErrClosed)
	case err := <-l.ended:
		return n.explain(err)
	}
}

// listen adds a listener, and asks the server for the channel if it is the first.
func (n *Node) listen(ctx context.Context, channel string, l *listener) {
	w := &n.watches
	w.wire.Lock()
	defer w.wire.Unlock()
	w.mu.Lock()
	if w.sub == nil {
		w.topics = make(map[string]*topic)
		sub := n.client.Subscribe(n.life)
		w.sub = sub
		n.calls.Go(func() { n.receive(sub) })
	}
	t, sub := w.topics[channel], w.sub
	first := t == nil
	if first {
		t = &topic{listeners: make(map[*listener]bool)}
		w.topics[channel] = t
	}
	t.listeners[l] = true
	confirmed := t.confirmed
	w.mu.Unlock()
	switch {
	case first:
		if err := sub.Subscribe(ctx, channel); err != nil {
			w.drop(sub, err)
		}
	case confirmed:
		l.freed()
	}
}

// unlisten takes a listener out, and the channel if it was the last.
func (n *Node) unlisten(channel string, l *listener) {
	w := &n.watches
	w.wire.Lock()
	defer w.wire.Unlock()
	w.mu.Lock()
	t, sub := w.topics[channel], w.sub
	if t == nil || !t.listeners[l] { // its connection is gone
		w.mu.Unlock()
		return
	}
	delete(t.listeners, l)
	last := len(t.listeners) == 0
	if last {
		delete(w.topics, channel)
	}
	w.mu.Unlock()
	if last {
		if err := sub.Unsubscribe(n.life, channel); err != nil {
			w.drop(sub, err)
		}
	}
}

// receive passes on what the server says, until the connection ends.
func (n *Node) receive(sub *goredis.PubSub) {
	stop := context.AfterFunc(n.life, func() { sub.Close() })
	defer stop()
	for {
		got, err := sub.Receive(n.life)
		if err != nil {
			n.watches.drop(sub, err)
			return
		}
		switch m := got.(type) {
		case *goredis.Subscription:
			if m.Kind == "subscribe" {
				n.watches.tell(m.Channel, true)
			}
		case *goredis.Message:
			n.watches.tell(m.Channel, false)
		}
	}
}

// tell calls the listeners of a channel.
func (w *watches) tell(channel string, confirmed bool) {
	var listeners []*listener
	w.mu.Lock()
	if t := w.topics[channel]; t != nil {
		t.confirmed = t.confirmed || confirmed
		for l := range t.listeners {
			listeners = append(listeners, l)
		}
	}
	w.mu.Unlock()
	for _, l := range listeners {
		l.freed()
	}
}

// drop ends a connection, and with it all that is watched over it. go-redis
// would connect again by itself, and not say that it missed something.
func (w *watches) drop(sub *goredis.PubSub, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sub != sub {
		return
	}
	if errors.Is(err, goredis.ErrClosed) {
		err = ErrHungUp
	}
	for _, t := range w.topics {
		for l := range t.listeners {
			l.ended <- err
		}
	}
	w.sub, w.topics = nil, nil
	sub.Close()
}
