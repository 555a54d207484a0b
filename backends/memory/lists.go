package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/lists"
)

// Lists implements lists.Node in memory. It keeps every promise of that interface, apart
// from its faults. The same calls in the same order get the same replies: it starts no
// goroutine, and reads only its clock. All users share one *Lists: it is the server, not a
// handle.
type Lists struct {
	name string
	now  func() time.Time

	// mu guards everything below.
	mu       sync.Mutex
	faults   Faults
	late     lateWrites
	runs     int // the run id is made of it
	settings lists.Settings
	memory   map[lists.List]*list
}

// ListsSnapshot is what a node has of all its lists at some time.
type ListsSnapshot struct{ memory map[lists.List]*list }

var _ lists.Node = (*Lists)(nil)

// NewLists returns a node without lists and with the clock now. Its settings report that it
// stores everything, synced before each reply.
func NewLists(name string, now func() time.Time) *Lists {
	return &Lists{
		name: name, now: now, runs: 1, memory: make(map[lists.List]*list),
		settings: lists.Settings{AOF: true, Fsync: "always"},
	}
}

// SetFaults makes the calls from here on suffer the faults; nil for none.
func (n *Lists) SetFaults(f Faults) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = f
}

// SetSettings changes the settings that the node reports, not its behaviour.
func (n *Lists) SetSettings(s lists.Settings) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.settings = s
}

// Land lets in all writes that are held back, in the order in which they were
// sent, and returns how many that were.
func (n *Lists) Land() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.late.landAll()
}

// Snapshot returns what the node has now.
func (n *Lists) Snapshot() ListsSnapshot {
	n.mu.Lock()
	defer n.mu.Unlock()
	return ListsSnapshot{cloneLists(n.memory)}
}

// Restart starts the node again with another run id and all that it has.
func (n *Lists) Restart() { n.RestartFrom(n.Snapshot()) }

// RestartEmpty starts the node again with another run id and without lists.
func (n *Lists) RestartEmpty() { n.RestartFrom(ListsSnapshot{}) }

// RestartFrom starts the node again with another run id and what it had at some
// time before. Writes held back are lost with its connections.
func (n *Lists) RestartFrom(old ListsSnapshot) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.runs++
	n.memory = cloneLists(old.memory)
	n.late = lateWrites{}
}

// Flush takes all lists from the node while it runs.
func (n *Lists) Flush() {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.memory)
}

func cloneLists(memory map[lists.List]*list) map[lists.List]*list {
	clone := make(map[lists.List]*list, len(memory))
	for name, l := range memory {
		c := *l
		c.units, c.taken, c.entries = slices.Clone(l.units), maps.Clone(l.taken), slices.Clone(l.entries)
		clone[name] = &c
	}
	return clone
}

// serveLists makes one call.
func serveLists[T any](ctx context.Context, n *Lists, op Op, do func() (T, error)) (answer T, err error) {
	if err := ctx.Err(); err != nil {
		return answer, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.late.call()
	if answer, err = write(&n.late, n.faults.decide(Call{Op: op}), do); err != nil {
		var none T
		return none, fmt.Errorf("%s: %w", n.name, err)
	}
	return answer, nil
}

// change makes one call that returns only an error.
func (n *Lists) change(ctx context.Context, op Op, do func() error) error {
	_, err := serveLists(ctx, n, op, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

// Name implements lists.Node.
func (n *Lists) Name() string { return n.name }

// RunID implements lists.Node.
func (n *Lists) RunID(ctx context.Context) (string, error) {
	return serveLists(ctx, n, OpRunID, func() (string, error) { return n.runID(), nil })
}

// Settings implements lists.Node.
func (n *Lists) Settings(ctx context.Context) (lists.Settings, error) {
	return serveLists(ctx, n, OpSettings, func() (lists.Settings, error) { return n.settings, nil })
}

// most is the number of users that a call may name.
const most = 1000

// Grab implements lists.Node. It refuses more than a thousand users, and a batch that has no
// time or no users, names a user twice, or has another number of keys than users.
func (n *Lists) Grab(ctx context.Context, batches []lists.Batch) ([]lists.Given, error) {
	users := 0
	batches = slices.Clone(batches)
	for i := range batches {
		b := &batches[i]
		b.Users, b.Keys = slices.Clone(b.Users), slices.Clone(b.Keys)
		named := make(map[string]bool)
		for _, user := range b.Users {
			named[user] = true
		}
		if users += len(b.Users); users > most || b.At <= 0 || len(b.Users) == 0 || len(b.Keys) != len(b.Users) || len(named) != len(b.Users) {
			return nil, fmt.Errorf("%s: a batch of %d users, %d of them different, and %d keys, at %d us, and %d users in all so far",
				n.name, len(b.Users), len(named), len(b.Keys), b.At, users)
		}
	}
	return serveLists(ctx, n, OpGrab, func() (all []lists.Given, err error) {
		for _, b := range batches {
			all = append(all, n.grab(b))
		}
		return all, nil
	})
}

// Stop implements lists.Node.
func (n *Lists) Stop(ctx context.Context, l lists.List, fill uint64, runID string) error {
	return n.change(ctx, OpStop, func() error { return n.stop(l, fill, runID) })
}

// Read implements lists.Node.
func (n *Lists) Read(ctx context.Context, l lists.List, fill uint64, after, drained string, max int) ([]lists.Entry, error) {
	return serveLists(ctx, n, OpReadStream, func() ([]lists.Entry, error) {
		return n.read(l, fill, after, drained, max)
	})
}

// Put implements lists.Node.
func (n *Lists) Put(ctx context.Context, l lists.List, fill uint64, runID string, p lists.Part) error {
	p.Add, p.Taken = slices.Clone(p.Add), slices.Clone(p.Taken)
	return n.change(ctx, OpPut, func() error { return n.put(l, fill, runID, p) })
}

// Start implements lists.Node.
func (n *Lists) Start(ctx context.Context, l lists.List, fill uint64, runID string, s lists.Start) error {
	return n.change(ctx, OpStart, func() error { return n.start(l, fill, runID, s) })
}

// Take implements lists.Node. It refuses a count below 1.
func (n *Lists) Take(ctx context.Context, l lists.List, fill uint64, count int) (ledger.Units, error) {
	if count <= 0 {
		return nil, fmt.Errorf("%s: take %d units; take at least one", n.name, count)
	}
	return serveLists(ctx, n, OpTake, func() (ledger.Units, error) { return n.take(l, fill, count) })
}

// Add implements lists.Node.
func (n *Lists) Add(ctx context.Context, l lists.List, fill uint64, units ledger.Units) error {
	units = slices.Clone(units)
	return n.change(ctx, OpAdd, func() error { return n.add(l, fill, units) })
}

// Inspect implements lists.Node.
func (n *Lists) Inspect(ctx context.Context, l lists.List) (lists.State, error) {
	return serveLists(ctx, n, OpInspect, func() (lists.State, error) { return n.inspect(l), nil })
}

// Forget implements lists.Node.
func (n *Lists) Forget(ctx context.Context, l lists.List) error {
	return n.change(ctx, OpForgetList, func() error {
		delete(n.memory, l)
		return nil
	})
}
