package quorum

import (
	"context"
	"sync"
)

// Callers makes the calls of machines to real nodes, each with the call's timeout. A node that
// hangs delays neither the other nodes nor other machines' calls: each call runs in its own
// goroutine, which then waits for the node's next call.
type Callers struct {
	nodes  []Node
	idle   []chan job // by node; unbuffered, so that a job is sent only to a waiting goroutine
	ctx    context.Context
	cancel context.CancelFunc

	// mu guards closed; no call begins once closed is set.
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// job is a call and the function that receives its reply.
type job struct {
	call    Call
	deliver func(Reply)
}

// NewCallers returns Callers for nodes. Close ends their goroutines.
func NewCallers(nodes []Node) *Callers {
	c := &Callers{nodes: nodes, idle: make([]chan job, len(nodes))}
	for i := range nodes {
		c.idle[i] = make(chan job)
	}
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
		j := job{call, deliver}
		select {
		case c.idle[call.Node] <- j:
		default:
			c.start(j)
		}
	}
}

func (c *Callers) start(j job) { c.spawn(func() { c.run(j) }) }

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

// run makes a call, then further calls to the same node.
func (c *Callers) run(j job) {
	node := j.call.Node
	for {
		r := c.ask(j.call)
		if c.ctx.Err() != nil {
			return
		}
		j.deliver(r)
		select {
		case j = <-c.idle[node]:
		case <-c.ctx.Done():
			return
		}
	}
}

func (c *Callers) ask(call Call) Reply {
	ctx, cancel := context.WithTimeout(c.ctx, call.Timeout)
	defer cancel()
	return call.Do(ctx, c.nodes[call.Node])
}
