package redis

import (
	"context"
	"errors"

	goredis "github.com/redis/go-redis/v9"
)

// Watch implements quorum.Node. Each call has a connection of its own, on which the server
// notifies of the key. Each waiter has a channel per key, so that only the next one is woken.
func (n *Node) Watch(ctx context.Context, key, waiter string, freed func()) error {
	ended := make(chan error, 1)
	// Connecting ignores the cancellation of a context.
	if !n.begin(func() { ended <- n.subscribe(ctx, key+":"+waiter, freed) }) {
		return n.explain(ErrClosed)
	}
	select {
	case <-ctx.Done():
		return n.explain(ctx.Err())
	case <-n.life.Done():
		return n.explain(ErrClosed)
	case err := <-ended:
		return n.explain(err)
	}
}

// subscribe subscribes to a channel, and calls freed when the server has confirmed that and for
// each message, until ctx, the node's life or the connection ends. go-redis would reconnect by
// itself, without reporting that it missed something.
func (n *Node) subscribe(ctx context.Context, channel string, freed func()) error {
	sub := n.client.Subscribe(n.life)
	hangUp := func() { sub.Close() }
	defer hangUp()
	defer context.AfterFunc(ctx, hangUp)()
	defer context.AfterFunc(n.life, hangUp)()
	if err := sub.Subscribe(ctx, channel); err != nil {
		return err
	}
	for {
		got, err := sub.Receive(n.life)
		switch {
		case errors.Is(err, goredis.ErrClosed):
			return ErrHungUp
		case err != nil:
			return err
		}
		if _, pong := got.(*goredis.Pong); !pong {
			freed()
		}
	}
}
