package process_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"salectl/api"
	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/backends/memory"
	"salectl/backends/quorum"
	"salectl/executor/ownership"
	"salectl/executor/saletest"
	"salectl/sim/stepped"
	"salectl/spec"
)

// listedWorld is processes that serve a sale, whose units may lie in lists, on a store
// and nodes in memory, with a clock that moves by hand. Calls take no time, unless a
// test keeps them.
type listedWorld struct {
	t      testing.TB
	store  *memory.Store
	logs   ledger.Logs
	lock   *memory.Node
	nodes  []*memory.Lists
	shards int
	ack    spec.Ack
	queue  int // as process.Config has it
	sizes  lists.Sizes
	now    clock.Now
	first  *listedProcess
	all    []*listedProcess
	keys   int
}

// listedProcess is one process of the world.
type listedProcess struct {
	w    *listedWorld
	p    *stepped.Process
	keep func(calls.Call) bool // which calls stay under way; nil: none
	kept []*keptCall           // in the order of their making
	made []string              // the calls that were made, by what they are
	wake time.Duration
	gone bool
	dead bool
}

// keptCall is a call under way.
type keptCall struct {
	calls.Call
	until time.Duration // when nobody waits for it any more
	over  bool          // the process has its reply
}

// listedAsk is a request of one unit and what its user was told.
type listedAsk struct {
	user, key string
	answers   []Answer
	withdraw  func()
}

// newListedWorld has an applied sale with the shares given, each shard's list on a
// node of its own, and a process that serves it. Without an ack there are no lists.
func newListedWorld(t testing.TB, ack spec.Ack, shares ...int64) *listedWorld {
	return newListedWorldAs(t, ack, nil, shares...)
}

// newListedWorldAs is newListedWorld with a declaration and settings that change has
// changed.
func newListedWorldAs(t testing.TB, ack spec.Ack, change func(*spec.Sale, *pb.Settings), shares ...int64) *listedWorld {
	t.Helper()
	w := newListedStores(t, ack, change, shares...)
	w.first = w.process("first")
	w.first.run()
	return w
}

// newListedStores is newListedWorldAs without a process.
func newListedStores(t testing.TB, ack spec.Ack, change func(*spec.Sale, *pb.Settings), shares ...int64) *listedWorld {
	t.Helper()
	w := &listedWorld{
		t: t, store: memory.NewStore(), shards: len(shares), ack: ack,
		now: clock.Now{Mono: time.Hour, Wall: time.Unix(1_800_000_000, 0)},
	}
	w.provision(change, shares)
	return w
}

// provision applies the sale.
func (w *listedWorld) provision(change func(*spec.Sale, *pb.Settings), shares []int64) {
	w.t.Helper()
	w.logs = w.store.Handle(nil)
	w.lock = memory.NewNode("lock", w.now.Wall)
	saletest.Mark(w.t, w.lock)
	stock := int64(0)
	for _, n := range shares {
		stock += n
	}
	sale := saletest.Declared("listed", stock, len(shares), 1)
	if w.ack != "" {
		sale.Engine, sale.Ack, sale.Backlog, sale.Redis = spec.EngineRedis, w.ack, spec.DefaultBacklog, &spec.Redis{}
	}
	for i := range shares {
		if w.ack == "" {
			break
		}
		name := fmt.Sprint("node", i)
		w.nodes = append(w.nodes, memory.NewLists(name, func() time.Time { return w.now.Wall }))
		sale.Redis.Nodes = append(sale.Redis.Nodes, name)
	}
	settings := &pb.Settings{PerUserLimit: 1, Phase: pb.Phase_OPEN}
	if change != nil {
		change(&sale, settings)
	}
	saletest.ProvisionAs(w.t, w.logs, sale, shares, settings)
}

// process starts one.
func (w *listedWorld) process(name string) *listedProcess {
	mint := func(kind string) func() string {
		return func() string { w.keys++; return fmt.Sprint(name, kind, w.keys) }
	}
	var nodes []string
	for _, n := range w.nodes {
		nodes = append(nodes, n.Name())
	}
	p := &listedProcess{w: w, p: stepped.New(stepped.Config{
		Config: ownership.Config{
			Sale: "listed", Address: name + ":1", Nodes: []string{"lock"}, Lists: nodes, Token: mint("token"), Jitter: func() float64 { return 0.5 },
		},
		Me: fmt.Appendf(nil, "%-8.8s", name), Key: mint("key"), Queue: w.queue, Sizes: w.sizes,
	})}
	w.all = append(w.all, p)
	return p
}

// run does what the process wants done until time must pass, or all calls are kept.
func (p *listedProcess) run() {
	p.w.t.Helper()
	for range 10_000 {
		if p.dead || p.gone {
			return
		}
		calls, wake, gone := p.p.Next(p.w.now)
		p.wake, p.gone = wake, gone
		if len(calls) == 0 {
			return
		}
		for _, c := range calls {
			k := &keptCall{Call: c, until: p.w.now.Mono + c.Timeout}
			p.kept = append(p.kept, k)
			if p.keep == nil || !p.keep(c) {
				p.let(k)
			}
		}
	}
	p.w.t.Fatal("it goes on for ever")
}

// let makes a call, and brings its reply back.
func (p *listedProcess) let(k *keptCall) {
	p.reply(k, p.make(k), nil)
}

// make makes a call. Its reply stays away.
func (p *listedProcess) make(k *keptCall) any {
	var node quorum.Node
	var list lists.Node
	switch {
	case k.List:
		list = p.w.nodes[k.Node]
	case k.Node != calls.Store:
		node = p.w.lock
	}
	p.made = append(p.made, k.What)
	return k.Make(context.Background(), p.w.logs, node, list)
}

// reply brings a reply, or what is said in place of one.
func (p *listedProcess) reply(k *keptCall, reply any, err error) {
	p.kept = slices.DeleteFunc(p.kept, func(other *keptCall) bool { return other == k })
	if !k.over {
		k.over = true
		k.Took(p.w.now, reply, err)
	}
}

// the returns the only call under way of that name.
func (p *listedProcess) the(what string) *keptCall {
	p.w.t.Helper()
	var found []*keptCall
	for _, k := range p.kept {
		if k.What == what {
			found = append(found, k)
		}
	}
	if len(found) != 1 {
		p.w.t.Fatalf("%d calls %q are under way", len(found), what)
	}
	return found[0]
}

// keeps has calls kept whose names begin so.
func (p *listedProcess) keeps(what ...string) {
	p.keep = func(c calls.Call) bool {
		return slices.ContainsFunc(what, func(s string) bool { return strings.HasPrefix(c.What, s) })
	}
}

// lets has all calls made that are kept, and none kept any more.
func (p *listedProcess) lets() {
	p.w.t.Helper()
	p.keep = nil
	for len(p.kept) > 0 {
		p.let(p.kept[0])
	}
	p.run()
}

// fails lets a call fail as if it had not been made.
func (p *listedProcess) fails(k *keptCall) {
	p.reply(k, nil, errors.New("the node is off"))
	p.run()
}

// count returns how often a call was made.
func (p *listedProcess) count(what string) (n int) {
	for _, made := range p.made {
		if made == what {
			n++
		}
	}
	return n
}

// pass lets time pass, and everybody act in it.
func (w *listedWorld) pass(d time.Duration) {
	w.t.Helper()
	for end := w.now.Mono + d; w.now.Mono < end; {
		next := end
		for _, p := range w.all {
			if p.dead || p.gone {
				continue
			}
			if p.wake != 0 {
				next = min(next, max(p.wake, w.now.Mono+1))
			}
			for _, k := range p.kept {
				next = min(next, max(k.until, w.now.Mono+1))
			}
		}
		w.lock.Advance(next - w.now.Mono)
		w.now = clock.Now{Mono: next, Wall: w.now.Wall.Add(next - w.now.Mono)}
		for _, p := range w.all {
			if p.dead || p.gone {
				continue
			}
			for _, k := range slices.Clone(p.kept) {
				if k.until <= w.now.Mono {
					p.reply(k, nil, context.DeadlineExceeded)
				}
			}
			p.p.Tick(w.now)
			p.run()
		}
	}
}

// ask has a user ask the process for a unit.
func (p *listedProcess) ask(user, key string) *listedAsk { return p.askFor(user, key, 1) }

func (p *listedProcess) askFor(user, key string, quantity int64) *listedAsk {
	x := p.queue(user, key, quantity)
	p.run()
	return x
}

// queue has a user ask, and the process not act yet.
func (p *listedProcess) queue(user, key string, quantity int64) *listedAsk {
	x := &listedAsk{user: user, key: key}
	x.withdraw = p.p.Begin(p.w.now, Request{User: user, Key: key, Quantity: quantity}, func(a Answer) { x.answers = append(x.answers, a) })
	return x
}

// want holds what a user was told against what is right: "" is nothing yet.
func (x *listedAsk) want(t testing.TB, want api.Outcome) Answer {
	t.Helper()
	switch {
	case want == "" && len(x.answers) == 0:
		return Answer{}
	case len(x.answers) != 1 || x.answers[0].Outcome != want:
		t.Errorf("%s/%s was told %+v, want %q", x.user, x.key, x.answers, want)
		return Answer{Claim: Claim{Units: []int64{0}}}
	}
	return x.answers[0]
}

// buyers returns the first n users whose home is a shard.
func (w *listedWorld) buyers(shard, n int) (users []string) {
	for i := 0; len(users) < n; i++ {
		if user := fmt.Sprint("buyer-", i); spec.HomeShard(user, w.shards) == shard {
			users = append(users, user)
		}
	}
	return users
}

// shard returns a shard as the ledger has it.
func (w *listedWorld) shard(i int) *ledger.State { return saletest.LoadShard(w.t, w.logs, i, w.shards) }

// has reports whether the ledger has a user's unit.
func (w *listedWorld) has(user string) bool {
	return w.shard(spec.HomeShard(user, w.shards)).UserUnits(user) > 0
}

// list returns what a node has of its shard's list.
func (w *listedWorld) list(shard int) lists.State {
	w.t.Helper()
	s, err := w.nodes[shard].Inspect(context.Background(), lists.List{UID: saletest.UID, Shard: shard})
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// has returns a user's claims, which the process is to know without a peer.
func (p *listedProcess) has(user string) ([]Claim, api.Outcome) {
	return userClaims(p.p, p.w.now, user)
}

// userClaims returns a user's claims, which the process is to know without a peer.
func userClaims(p *stepped.Process, now clock.Now, user string) (claims []Claim, why api.Outcome) {
	why = "no answer"
	page := api.Page{Limit: api.MaxPage}
	p.Begin(now, Request{Query: &Query{User: user, Page: page}}, func(a Answer) { claims, why = a.Claims, a.Outcome })
	return claims, why
}

// findClaim returns a claim, which the process is to know without a peer.
func findClaim(p *stepped.Process, now clock.Now, id ClaimID) (c Claim, why api.Outcome) {
	why = "no answer"
	p.Begin(now, Request{Query: &Query{Claim: id}}, func(a Answer) { c, why = a.Claim, a.Outcome })
	return c, why
}

// metric returns the value of a counter.
func (p *listedProcess) metric(name string) uint64 {
	p.w.t.Helper()
	to := make(chan prometheus.Metric, 1<<12)
	p.p.Collect(p.w.now, to)
	close(to)
	for m := range to {
		if strings.Contains(m.Desc().String(), `"`+name+`"`) {
			var d dto.Metric
			if err := m.Write(&d); err != nil {
				p.w.t.Fatal(err)
			}
			return uint64(d.GetCounter().GetValue())
		}
	}
	p.w.t.Fatalf("there is no metric %s", name)
	return 0
}
