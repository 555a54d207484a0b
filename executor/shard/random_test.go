package shard

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/memory"
	"salectl/executor/request"
	"salectl/executor/saletest"
)

// chaos is a world in which anything happens that may, drawn from a seed.
// Several processes believe that they may write, at the same time; they die and
// lose their rights; the store fails in all the ways that stores do; messages
// are lost, doubled and overtake each other; buyers click twice, give up and
// ask again; the stock is changed. One goroutine does it all, so a seed gives
// the same run each time.
type chaos struct {
	*world
	r       *rand.Rand
	faults  memory.Faults
	hosts   int // started so far
	luck    int // one in so many misfortunes happens
	buyers  []string
	wishes  []*wish
	replans int
	chooses bool          // buyers choose units
	outage  time.Duration // monotonic: until then no call of the store is answered
}

// wish is what one buyer wants under one key, and asks for until there is a
// final answer.
type wish struct {
	request.Request
	last *asked // nil: not asked yet
}

// over reports whether the answer will not change by asking again.
func (x *wish) over() bool {
	return x.last != nil && x.last.answered && slices.Contains([]api.Outcome{api.Sold, api.LimitReached, api.KeyReused}, x.last.answer.Outcome)
}

func newChaos(t testing.TB, seed uint64) *chaos {
	r := rand.New(rand.NewPCG(seed, 1))
	shares := make([]int64, 1+r.IntN(4))
	stock := int64(0)
	for i := range shares {
		if r.IntN(3) > 0 {
			shares[i] = r.Int64N(16)
		}
		stock += shares[i]
	}
	shares[0] += max(0, int64(len(shares))-stock)
	perUser := 1 + r.Int64N(4)
	settings := &pb.Settings{PerUserLimit: perUser, Phase: pb.Phase_OPEN}
	choice := rand.New(rand.NewPCG(seed, 2)) // beside the other, so that each world without choice is what it was
	if choice.IntN(2) == 0 {
		settings.Choose, settings.Rows = true, rowsOf(stock+3, choice)
	}
	c := &chaos{world: newWorldAs(t, settings, shares...), r: r, luck: 1 + r.IntN(16), chooses: settings.Choose}
	rate := 0.1 * r.Float64()
	faults := memory.Random(seed, memory.Rates{
		memory.ErrorBefore: rate, memory.LostReply: rate, memory.OwnTaken: rate,
		memory.Late: rate, memory.Twice: rate, memory.Stale: rate,
	})
	c.faults = func(call memory.Call) memory.Fault {
		switch {
		case c.now.Mono >= c.outage:
			return faults(call)
		case call.Op == memory.OpAppend && r.IntN(2) == 0:
			return memory.Fault{Kind: memory.LostReply}
		}
		return memory.Fault{Kind: memory.ErrorBefore}
	}
	c.mail = func(Message) int {
		switch c.r.IntN(20) {
		case 0:
			return 0
		case 1:
			return 2
		}
		return 1
	}
	for i := range 4 + r.IntN(20) {
		c.buyers = append(c.buyers, fmt.Sprintf("buyer-%d", i))
	}
	for range 10 + r.IntN(50) {
		w := &wish{Request: request.Request{
			User: c.buyers[r.IntN(len(c.buyers))], Key: fmt.Sprint(r.IntN(3)), Quantity: 1 + r.Int64N(perUser+1),
		}}
		if c.chooses {
			w.choose(stock, choice)
		}
		c.wishes = append(c.wishes, w)
	}
	return c
}

// rowsOf cuts so many units into rows.
func rowsOf(units int64, r *rand.Rand) (rows []*pb.Range) {
	for next := int64(1); next <= units; {
		row := &pb.Range{First: next + r.Int64N(2), Count: 1 + r.Int64N(7)}
		rows, next = append(rows, row), row.First+row.Count
	}
	return rows
}

// choose has a buyer want particular units, low ones rather, or adjacent ones.
func (x *wish) choose(stock int64, r *rand.Rand) {
	switch r.IntN(4) {
	case 0:
		x.Adjacent = true
	case 1, 2:
		for len(x.Units) < int(x.Quantity) {
			unit := 1 + min(r.Int64N(stock+5), r.Int64N(stock+5))
			if at, has := slices.BinarySearch(x.Units, unit); !has {
				x.Units = slices.Insert(x.Units, at, unit)
			}
		}
	}
}

// act lets one thing happen.
func (c *chaos) act() {
	actors := slices.DeleteFunc(c.alive(), func(a *actor) bool { return a.q.mode == stopped && len(a.queue) == 0 })
	if len(actors) == 0 || c.r.IntN(60*c.luck) == 0 {
		c.start()
		return
	}
	a := actors[c.r.IntN(len(actors))]
	switch c.r.IntN(16) {
	case 0, 1, 2, 3, 4:
		if a.under != nil {
			a.call()
		}
	case 5, 6, 7, 8:
		if n := len(a.inbox); n > 0 {
			if at := c.r.IntN(n); c.r.IntN(4) == 0 { // one overtakes others
				a.inbox[0], a.inbox[at] = a.inbox[at], a.inbox[0]
			}
			a.hear(1 + c.r.IntN(n))
		}
	case 9, 10, 11:
		c.want(a.h)
	case 12:
		a.step(nil)
	case 13, 14:
		most := 100
		if c.now.Mono < c.outage || c.r.IntN(30) == 0 {
			most = 2000
		}
		c.move(time.Duration(c.r.IntN(most)) * time.Millisecond)
		c.tick()
	case 15:
		if c.r.IntN(c.luck) == 0 {
			c.misfortune(a.h)
		}
	}
}

// start starts a process; one that has stopped altogether is forgotten.
func (c *chaos) start() {
	for _, h := range c.world.hosts {
		if !h.dead && !slices.ContainsFunc(h.actors, func(a *actor) bool { return a.q.mode != stopped }) {
			c.bury(h)
		}
	}
	c.hosts++
	c.host(fmt.Sprint("host", c.hosts), func(call memory.Call) memory.Fault { return c.faults(call) })
}

// bury takes a process out of the world after it has stopped properly: all
// that asked it have their answers.
func (c *chaos) bury(h *host) {
	for _, a := range h.actors {
		a.step(nil)
	}
	for _, x := range c.asked {
		if x.actor.h == h && !x.answered && !x.withdrawn {
			c.t.Fatalf("%v has stopped and left %v without an answer", h.name, x.Request)
		}
	}
	h.die()
}

func (c *chaos) want(h *host) {
	x := c.wishes[c.r.IntN(len(c.wishes))]
	switch {
	case x.last != nil && !x.last.answered && c.r.IntN(3) == 0:
		x.last.withdraw()
	case !x.over() || c.r.IntN(10) == 0:
		x.last = h.request(x.Request)
	}
}

func (c *chaos) misfortune(h *host) {
	switch c.r.IntN(9) {
	case 0:
		c.tell("%s dies", h.name)
		h.die()
	case 1, 2:
		h.leased = !h.leased || c.r.IntN(2) == 0
		h.permit()
	case 3:
		h.halt(Halt{Why: errEnd, Refusal: api.Draining, Gentle: c.r.IntN(2) == 0})
	case 4:
		if c.replans < 2 {
			c.replans++
			c.replan()
		}
	case 5:
		// The planner tries to bring a shard to its next generation beside the
		// owner. Somebody may be faster.
		if w, e := saletest.Taking(c.t, c.logs, c.sale, c.r.IntN(c.shards)); e != nil {
			err := w.Append(e).Send.Do(context.Background(), c.logs).Err
			c.tell("the planner appends: %v", err)
		}
	case 6, 7:
		h.plans()
	case 8:
		c.outage = c.now.Mono + time.Duration(c.r.IntN(6000))*time.Millisecond
	}
}

func (c *chaos) replan() {
	saletest.Replan(c.t, c.logs, c.sale, func(p *pb.Planned) {
		shard := c.r.IntN(c.shards)
		if c.r.IntN(2) == 0 {
			saletest.Deal(p, shard, 1+c.r.Int64N(5))
		} else {
			p.Shards[shard].Remove = c.r.Int64N(3)
		}
		p.Settings.PerUserLimit += c.r.Int64N(2)
	})
}

// calm lets all faults end and a last process sell what is left: one buyer after
// the other asks until nothing can change any more.
func (c *chaos) calm() {
	for _, h := range c.world.hosts {
		if !h.dead {
			h.halt(Halt{Why: errEnd, Refusal: api.Draining})
		}
	}
	c.faults = func(memory.Call) memory.Fault { return memory.Fault{} }
	c.mail = nil
	c.pass(5 * time.Second)
	c.store.Land()
	h := c.serving("last")
	c.pass(5 * time.Second)
	for _, x := range c.wishes {
		for range 3 {
			var free ledger.Units
			if x.Chooses() {
				free = c.free()
			}
			if x.last = h.request(x.Request); true {
				c.pass(2 * time.Second)
			}
			if x.over() {
				break
			}
			c.rightly(x, free)
		}
	}
	left := int64(0)
	for i := range c.shards {
		s := saletest.LoadShard(c.t, c.logs, i, c.shards)
		left += s.Available
		if s.InFlight != 0 {
			c.t.Errorf("shard %d has %d units in flight in the end", i, s.InFlight)
		}
	}
	for _, x := range c.wishes {
		switch o := x.last.answer.Outcome; {
		case x.over():
		case o == api.SoldOut && left == 0:
		case o == api.NoneNow && left < x.Quantity: // left was more for those before
		case o == api.UnitsTaken && x.Units != nil, o == api.NotAdjacent && x.Adjacent: // see rightly
		default:
			c.t.Errorf("%v ends with %+v, %d units are left", x.Request, x.last.answer, left)
		}
	}
	// A buyer under his limit who wants one unit gets it, while there are any.
	if left > 0 {
		x := h.ask("one-more", "1", 1)
		c.pass(2 * time.Second)
		x.want(c.t, "sold")
	}
}

// free returns the units that are available, on whichever shard. None is in flight.
func (c *chaos) free() (free ledger.Units) {
	for i := range c.shards {
		for _, r := range saletest.LoadShard(c.t, c.logs, i, c.shards).AvailableUnits() {
			if err := free.Add(r); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	return free
}

// rightly holds that somebody who chooses, and whom nobody disturbs, was refused for want of
// the units. Adjacent ones may be free on two shards.
func (c *chaos) rightly(x *wish, free ledger.Units) {
	switch x.last.answer.Outcome {
	case api.UnitsTaken:
		if !slices.ContainsFunc(x.Units, func(unit int64) bool {
			return !slices.ContainsFunc(free, func(r ledger.Range) bool { return r.First <= unit && unit < r.First+r.Count })
		}) {
			c.t.Errorf("%v is told that not all of %v are free; %v are", x.Request, x.Units, free)
		}
	case api.NotAdjacent:
		for i := range c.shards {
			s := saletest.LoadShard(c.t, c.logs, i, c.shards)
			if s.AvailableUnits().HasRun(x.Quantity, s.Settings()) {
				c.t.Errorf("%v is told that no %d adjacent units are free; shard %d has %v", x.Request, x.Quantity, i, s.AvailableUnits())
			}
		}
	}
}

// perUser holds the buyers to the limit, by the answers that they got.
func (c *chaos) perUser(limit int64) {
	units := make(map[int64]*asked)
	had := make(map[string]int64)
	for _, x := range c.asked {
		if !x.answer.Accepted() {
			continue
		}
		for _, unit := range x.answer.Claim.Units {
			if y := units[unit]; y != nil && (y.User != x.User || y.Key != x.Key) {
				c.t.Errorf("unit %d went to %v and %v", unit, y.Request, x.Request)
			} else if y == nil {
				had[x.User]++
			}
			units[unit] = x
		}
	}
	for user, n := range had {
		if n > limit {
			c.t.Errorf("%s has %d units, the limit is %d", user, n, limit)
		}
	}
}

// run runs a seed and returns a hash of all that happened.
func run(t testing.TB, seed uint64) uint64 {
	c := newChaos(t, seed)
	trace := fnv.New64a()
	c.log = func(format string, args ...any) { fmt.Fprintf(trace, format+"\n", args...) }
	for range 300 + c.r.IntN(500) {
		c.act()
	}
	c.calm()
	c.perUser(saletest.LoadShard(t, c.logs, 0, c.shards).Settings().GetPerUserLimit())
	for i := range c.shards {
		root := saletest.LoadShard(t, c.logs, i, c.shards).Root()
		trace.Write(root[:])
	}
	return trace.Sum64()
}

func TestChaos(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			first := run(t, seed)
			if seed%10 == 0 && run(t, seed) != first {
				t.Error("a second run of the seed took another course")
			}
		})
	}
}
