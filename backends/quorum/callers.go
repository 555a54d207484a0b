package quorum

import (
	"context"
	"sync"
)

// Callers carries the calls of machines to real nodes. It gives up on each
// call after a while. A node that hangs delays no other, and no call of another
// machine: each call has a goroutine for itself, which then waits for the next
// call of its node.
type Callers struct {
	nodes  []Node
	idle   []chan job // of each node: unbuffered, so that only who waits gets a job
	ctx    context.Context
	cancel context.CancelFunc

	// mu guards closed, and that no call begins once it is set.
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// job is a call and where its reply goes.
type job struct {
	call    Call
	deliver func(Reply)
}

// NewCallers returns callers for some nodes; Close ends their goroutines.
func NewCallers(nodes []Node) *Callers {
	c := &Callers{nodes: nodes, idle: make([]chan job, len(nodes))}
	for i := range nodes {
		c.idle[i] = make(chan job)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Names returns the names of nodes, whatever they keep: Config.Nodes wants them.
func Names[N interface{ Name() string }](nodes []N) (names []string) {
	for _, n := range nodes {
		names = append(names, n.Name())
	}
	return names
}

// Do makes the calls of one Effects. It does not wait for them: deliver gets one
// reply for each, from other goroutines, and several may come at once. After
// Close nothing is called.
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

// spawn starts a goroutine that Close waits for, unless it is closed.
func (c *Callers) spawn(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.running.Go(do)
	}
}

// Close cancels the calls under way and returns when all goroutines have ended.
// What was not answered by then has no reply. It waits for deliver to return, so
// deliver must not wait for whoever calls Close.
func (c *Callers) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.running.Wait()
}

// run makes a call, and then those that come for the same node.
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

// ask makes one call.
func (c *Callers) ask(call Call) Reply {
	ctx, cancel := context.WithTimeout(c.ctx, call.Timeout)
	defer cancel()
	return call.Do(ctx, c.nodes[call.Node])
}
