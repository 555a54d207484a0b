package redis

import (
	"context"
	"errors"
	"sync"

	goredis "github.com/redis/go-redis/v9"
)

// watches is the connection on which a server notifies of freed keys. All watchers share it; it
// is made for the first and kept. Each waiter has a channel per key, so that only the next one
// is woken.
type watches struct {
	wire sync.Mutex // held while topics change, so that commands are sent in the order of the changes

	mu     sync.Mutex
	sub    *goredis.PubSub   // nil: no connection
	topics map[string]*topic // by channel
}

// topic is a channel with listeners.
type topic struct {
	confirmed bool // the server has confirmed the subscription
	listeners map[*listener]bool
}

type listener struct {
	freed func()
	ended chan error // receives the error that ended the connection, at most once
}

// Watch implements quorum.Node.
func (n *Node) Watch(ctx context.Context, key, waiter string, freed func()) error {
	l := &listener{freed: freed, ended: make(chan error, 1)}
	over := make(chan struct{})
	defer close(over)
	// Connecting ignores the cancellation of a context.
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

// listen adds a listener, and subscribes to the channel for its first one.
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

// unlisten removes a listener, and unsubscribes from the channel after its last one.
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

// receive passes on the server's notifications until the connection ends.
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
				n.watches.notify(m.Channel, true)
			}
		case *goredis.Message:
			n.watches.notify(m.Channel, false)
		}
	}
}

// notify calls the listeners of a channel.
func (w *watches) notify(channel string, confirmed bool) {
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

// drop closes the connection, which ends all watches on it. go-redis would reconnect by itself,
// without reporting that it missed something.
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
