package sim

import (
	"context"
	"fmt"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/memory"
	"salectl/sim/check"
	"salectl/spec"
)

// listed is what a sale of engine redis is like: its units lie in lists on the
// lock nodes.
type listed struct {
	ack     spec.Ack
	backlog int64
	packet  *spec.RedPacket // nil: units are numbers
}

// drawLists makes some scenarios those of a sale with lists. All else stays as
// it was drawn, but for what such a sale has otherwise: any number of nodes, one
// unit a user, and so more users.
func (s *scenario) drawLists(r random, clients int) {
	if !r.chance(1. / 3) {
		return
	}
	s.stock += r.Int64N(pick(r, int64(1), 1, 60, 150))
	s.lists = &listed{ack: pick(r, spec.AckLedger, spec.AckRedis), backlog: pick(r, int64(3), 30, 1000)}
	if r.chance(0.5) {
		s.lists.packet = newPacket(r, s.stock)
	}
	s.nodes, s.perUser, s.users = pick(r, 1, 2, 3, 3, 3, 4, 5, 5), 1, clients*pick(r, 2, 8, 20)
	for i := range listAmbushes {
		if r.chance(0.35) {
			s.listAmbushes = append(s.listAmbushes, i)
		}
	}
}

// drawSizes makes the calls about lists small in half of the worlds that have some,
// so that all that is done in parts is done in several.
func (s *scenario) drawSizes(r random) {
	if s.lists != nil && r.chance(0.5) {
		s.sizes = lists.Sizes{Read: pick(r, 1, 3, 10), Put: pick(r, 3, 10, 30), Move: pick(r, 1, 3, 10)}
	}
}

// newPacket draws a red packet that can be dealt to a stock.
func newPacket(r random, stock int64) *spec.RedPacket {
	p := &spec.RedPacket{Currency: "CNY", Scale: 2, Min: 1 + r.Int64N(3), Split: pick(r, spec.SplitRandom, spec.SplitEven, spec.SplitFixed)}
	p.Total = stock * (p.Min + r.Int64N(100))
	if p.Split != spec.SplitFixed {
		p.Total += r.Int64N(stock)
	}
	return p
}

// dealt reports whether the units are packets of money, whose number is fixed.
func (s *scenario) dealt() bool { return s.lists != nil && s.lists.packet != nil }

// declare adds the settings of lists to a sale's file.
func (l *listed) declare(s *spec.Sale, nodes []string) {
	s.Engine, s.Ack, s.Backlog, s.RedPacket = spec.EngineRedis, l.ack, l.backlog, l.packet
	s.Redis = &spec.Redis{Nodes: nodes}
}

// listNode is the part of a node that keeps lists, in memory, with the node's
// clock. It writes down what it gave and what it lost.
type listNode struct {
	*memory.Lists
	node    *node
	index   int // of the node
	saved   memory.ListsSnapshot
	savedAt uint64 // by the history's count
}

var _ lists.Node = (*listNode)(nil)

func newListNode(n *node, index int) *listNode {
	return &listNode{
		Lists: memory.NewLists(n.Name(), func() time.Time { return n.clock.now(n.w.now).Wall }),
		node:  n, index: index,
	}
}

// save writes what the node has to its disk.
func (l *listNode) save() { l.saved, l.savedAt = l.Snapshot(), l.node.w.history.Count() }

// restart brings the node back in one of the ways of a crash.
func (l *listNode) restart(how int) {
	switch how {
	case comesBackEmpty:
		l.RestartEmpty()
		l.lost(0)
	case comesBackOld:
		l.RestartFrom(l.saved)
		l.lost(l.savedAt)
	case comesBackWhole:
		l.Restart()
	}
}

// flush takes all lists from the node while it runs.
func (l *listNode) flush() {
	l.Flush()
	l.lost(0)
}

func (l *listNode) lost(since uint64) { l.node.w.history.Lost(l.node.w.now, l.index, since) }

// Grab is lists.Node's.
func (l *listNode) Grab(ctx context.Context, batches []lists.Batch) ([]lists.Given, error) {
	given, err := l.Lists.Grab(ctx, batches)
	for i, g := range given {
		b := &batches[i]
		for j, u := range g.Units {
			if u.Number != 0 && !u.Before {
				l.node.w.history.Granted(l.node.w.now, l.index, b.List.UID, b.List.Shard, b.Users[j], b.Keys[j], u.Number, b.At)
			}
		}
		l.recordState(b.List)
	}
	return given, err
}

// Start is lists.Node's.
func (l *listNode) Start(ctx context.Context, name lists.List, fill uint64, runID string, s lists.Start) error {
	err := l.Lists.Start(ctx, name, fill, runID, s)
	l.recordState(name)
	return err
}

// Take is lists.Node's.
func (l *listNode) Take(ctx context.Context, name lists.List, fill uint64, n int) (ledger.Units, error) {
	units, err := l.Lists.Take(ctx, name, fill, n)
	l.recordState(name)
	return units, err
}

// Add is lists.Node's.
func (l *listNode) Add(ctx context.Context, name lists.List, fill uint64, units ledger.Units) error {
	err := l.Lists.Add(ctx, name, fill, units)
	l.recordState(name)
	return err
}

// recordState records the state of a list that gives.
func (l *listNode) recordState(name lists.List) {
	s, err := l.Inspect(context.Background(), name)
	if err == nil && s.On {
		l.node.w.history.ListRead(l.node.w.now, l.index, name.UID, name.Shard, s.Fill, s.Units)
	}
}

// has reports whether the node has anything of a list.
func (l *listNode) has(name lists.List) bool {
	s, err := l.Inspect(context.Background(), name)
	return err == nil && s.Exists
}

// listDisasters are what befalls worlds with lists besides.
var listDisasters = []disaster{
	{"lists flushed", func(w *world, r random) { w.anyNode(r).lists.flush() }},
	{"node fails over", func(w *world, r random) { w.anyNode(r).failOver(r.spread(50*time.Millisecond, 12*time.Second)) }},
	{"node starts again", func(w *world, r random) {
		w.anyNode(r).crash(r.spread(time.Millisecond, 100*time.Millisecond), comesBackWhole)
	}},
	{"node's clock set back", func(w *world, r random) { w.anyNode(r).setClock(-r.spread(10*time.Millisecond, 3*time.Second)) }},
	{"node cut off", func(w *world, r random) {
		n := r.IntN(len(w.nodes))
		w.net.isolate(firstNode+host(n), r.spread(100*time.Millisecond, 8*time.Second))
	}},
}

func (w *world) anyNode(r random) *node { return w.nodes[r.IntN(len(w.nodes))] }

// failOver replaces the node in a while by a replica that has what it has now.
func (n *node) failOver(lag time.Duration) {
	n.save()
	n.w.after(lag, func() {
		if !n.w.calm {
			n.crash(time.Millisecond, comesBackOld)
		}
	})
}

// isolate cuts a host off from all others.
func (n *network) isolate(h host, d time.Duration) {
	n.w.after(d, n.heal)
	for to := range n.cut {
		n.cut[h][to], n.cut[to][h] = true, true
	}
}

// listAmbushes are ambushes in worlds with lists.
var listAmbushes = []ambush{
	// A fill arrives at another run of the server, or a list that is older than its token.
	{"node starts again amid a fill", landed, []string{"append rebuild", "rebuild", "list stop", "stop list", "list put", "fill list"}, 0.04,
		func(w *world, r random, _ *process) {
			n := w.anyNode(r)
			n.save()
			n.crash(r.spread(time.Millisecond, 300*time.Millisecond), r.IntN(comebacks))
		}},
	// What was given is in the stream alone, or not even there.
	{"node starts again amid grabs", landed, []string{"grab", "list read"}, 0.02, func(w *world, r random, _ *process) {
		w.anyNode(r).crash(r.spread(time.Millisecond, time.Second), r.IntN(comebacks))
	}},
	{"node fails over amid a drain", landed, []string{"list read", "append claims", "drain"}, 0.05, func(w *world, r random, _ *process) {
		w.anyNode(r).failOver(r.spread(time.Millisecond, 200*time.Millisecond))
	}},
	// The replica has what the node had before many came.
	{"node fails over amid a rush", landed, []string{"list start", "start list"}, 0.2, func(w *world, r random, _ *process) {
		w.rush(r)
		w.anyNode(r).failOver(r.spread(100*time.Millisecond, 3*time.Second))
	}},
	// Whoever rebuilds a list is late, and finds that somebody else does.
	{"process paused amid a fill", landed, []string{"list stop", "list put", "list read", "stop list", "fill list", "read stream"}, 0.05,
		func(w *world, r random, p *process) { p.pause(r.spread(w.scenario.ttl/2, 4*w.scenario.ttl), false) }},
	// The list is to be turned off while its owner turns it on.
	{"closed or paused amid a fill", landed, []string{"append rebuild", "list stop", "list put"}, 0.15, func(w *world, r random, _ *process) {
		w.operators.run(command{kind: pick(r, pause, pause, pause, closes), runs: 3}, func() {})
		w.rush(r)
	}},
	{"destroyed amid a fill", landed, []string{"list stop", "list put", "list start", "fill list"}, 0.02, func(w *world, r random, _ *process) {
		w.operators.destroyNow()
		w.rush(r)
	}},
	// Two planners beside an owner, or beside none.
	{"a second command amid a stop", landed, []string{"stop list", "read stream", "rebuild"}, 0.08, func(w *world, r random, _ *process) {
		if w.operators.ending {
			w.operators.run(command{kind: destroy, runs: 5}, func() {})
			return
		}
		w.operators.run(command{kind: pick(r, pause, resume), runs: 3}, func() {})
	}},
	// Units are in no list, and in the log as if they were.
	{"killed amid a take", landed, []string{"list take", "append out", "append in"}, 0.7, func(w *world, r random, p *process) {
		p.kill(w.comeback(r))
	}},
	{"node starts again amid a take", landed, []string{"list take", "list add"}, 0.5, func(w *world, r random, _ *process) {
		w.anyNode(r).crash(r.spread(time.Millisecond, 500*time.Millisecond), r.IntN(comebacks))
	}},
	{"lists flushed amid grabs", landed, []string{"grab"}, 0.02, func(w *world, r random, _ *process) { w.anyNode(r).lists.flush() }},
	{"a rush amid a fill", landed, []string{"list start", "start list"}, 0.3, func(w *world, r random, _ *process) { w.rush(r) }},
}

// deal is check.Deal.
func deal(declaration, seed []byte) (*check.Packets, error) {
	sale, err := spec.FromJSON(declaration)
	if err != nil {
		return nil, err
	}
	if sale.RedPacket == nil || len(seed) != 32 {
		return nil, fmt.Errorf("no red packet, or a seed of %d bytes", len(seed))
	}
	r, dealt := sale.RedPacket, sale.RedPacket.Deal(sale.Stock, [32]byte(seed))
	p := &check.Packets{Currency: r.Currency, Split: string(r.Split), Total: r.Total, Min: r.Min, Format: r.Format}
	for unit := range sale.Stock {
		p.Amounts = append(p.Amounts, dealt.Amount(unit+1))
	}
	return p, nil
}
