package quorum

import (
	"context"
	"sync"
)

// Callers makes the calls of groups to real nodes, each with the call's timeout and in its own
// goroutine. A node that hangs delays neither the other nodes nor other groups' calls.
type Callers struct {
	nodes  []Node
	ctx    context.Context
	cancel context.CancelFunc

	// mu guards closed; no call begins once closed is set.
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// NewCallers returns Callers for nodes. Close ends their goroutines.
func NewCallers(nodes []Node) *Callers {
	c := &Callers{nodes: nodes}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Names returns the names of nodes of any kind, for Config.Nodes.
func Names[N interface{ Name() string }](nodes []N) (names []string) {
	for _, n := range nodes {
		names = append(names, n.Name())
	}
	return names
}

// Do starts calls and returns without waiting for them. Each call gets one reply through
// deliver, which is called from other goroutines, possibly concurrently. After Close, Do makes
// no calls.
func (c *Callers) Do(calls []Call, deliver func(Reply)) {
	for _, call := range calls {
		c.spawn(func() {
			ctx, cancel := context.WithTimeout(c.ctx, call.Timeout)
			defer cancel()
			if r := call.Do(ctx, c.nodes[call.Node]); c.ctx.Err() == nil {
				deliver(r)
			}
		})
	}
}

// spawn runs do in a goroutine that Close waits for; after Close it does nothing.
func (c *Callers) spawn(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.running.Go(do)
	}
}

// Close cancels the calls under way and waits for all goroutines. A call that is unanswered by
// then gets no reply. Close waits for deliver to return, so deliver must not wait for the
// caller of Close.
func (c *Callers) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.running.Wait()
}
