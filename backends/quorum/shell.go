package quorum

import (
	"context"
	"sync"
)

// Callers carries the calls of one machine to real nodes. Each node has a
// goroutine of its own, which makes the node's calls in the order given and
// gives up on each after a while, so that a node that hangs delays no other.
type Callers struct {
	nodes   []Node
	queues  []chan Call // one for each node
	deliver func(Reply)
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// NewCallers starts the goroutines; Close ends them. deliver gets one reply for
// each call, from the node's goroutine: several may come at once. Close waits
// for deliver to return, so it must not wait for whoever calls Close.
func NewCallers(nodes []Node, deliver func(Reply)) *Callers {
	ctx, cancel := context.WithCancel(context.Background())
	c := &Callers{nodes: nodes, deliver: deliver, cancel: cancel}
	for _, n := range nodes {
		// A machine has one call at a time under way for a node, and its next
		// may come from within deliver: one place is enough for Do never to block.
		queue := make(chan Call, 1)
		c.queues = append(c.queues, queue)
		c.running.Go(func() { c.run(ctx, n, queue) })
	}
	return c
}

// Names returns the nodes' names, for Config.Nodes.
func Names(nodes []Node) []string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name()
	}
	return names
}

// Do takes the calls of one Effects. It does not wait for them.
func (c *Callers) Do(calls []Call) {
	for _, call := range calls {
		c.queues[call.Node] <- call
	}
}

// Close cancels the calls under way and returns when all goroutines have ended.
// What was not answered by then has no reply. Do must not be called any more.
func (c *Callers) Close() {
	c.cancel()
	c.running.Wait()
}

func (c *Callers) run(ctx context.Context, n Node, queue <-chan Call) {
	for {
		select {
		case <-ctx.Done():
			return
		case call := <-queue:
			r := c.ask(ctx, n, call)
			if ctx.Err() != nil {
				return
			}
			c.deliver(r)
		}
	}
}

// ask makes one call.
func (c *Callers) ask(ctx context.Context, n Node, call Call) Reply {
	ctx, cancel := context.WithTimeout(ctx, call.Timeout)
	defer cancel()
	return call.Do(ctx, n)
}
