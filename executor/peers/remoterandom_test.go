package peers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/backends/clock"
	"salectl/executor/ownership"
	"salectl/executor/request"
	"salectl/executor/shard"
)

// remoteCrowd is a Remote whose requests come, are given up, sent, decided, bounced and lost
// by many goroutines, and what is known of each.
type remoteCrowd struct {
	t     *testing.T
	r     *Remote
	shard *shard.Shard // of this process, which others decide for
	began time.Time
	ends  chan struct{}
	all   sync.WaitGroup
	doubt request.Doubts
	pool  sync.Pool

	mu     sync.Mutex
	random *rand.Rand
	owner  string // who decides, "": nobody does just now
	epoch  uint64
	links  map[string]*crowdLink // to the processes that can be reached
	log    map[identity]int      // accepted, by the number of the request
	last   int                   // the newest request that was decided
	asks   []*crowdAsk           // in the order of their coming
	home   []*request.Ticket
	order  int // of what was told and decided
}

// crowdLink is a way to a process: what it carries arrives in order, or not at all.
type crowdLink struct {
	to   string
	in   chan forwarded
	over chan struct{}
}

type crowdAsk struct {
	number  int
	user    string
	told    request.Answer
	toldAt  int
	decided int  // when it was accepted; 0: it was not
	seen    bool // somebody has decided on it, and the answer may have been lost
	moved   bool // this process's shard has had it
	bounced bool
}

func (c *remoteCrowd) now() clock.Now {
	return clock.Now{Mono: time.Hour + time.Since(c.began), Wall: time.Now()}
}

func (c *remoteCrowd) chance(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n) == 0
}

func (c *remoteCrowd) sleep(most time.Duration) {
	c.mu.Lock()
	d := time.Duration(c.random.Int64N(int64(most)))
	c.mu.Unlock()
	time.Sleep(d)
}

// send is the Remote's.
func (c *remoteCrowd) send(owner string, m *streampb.Request) bool {
	e := decoded(m)
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.links[owner]
	if l == nil {
		return false
	}
	if e.Cancel {
		return true // and is lost
	}
	select {
	case l.in <- e:
		return true
	default:
		return false // full
	}
}

// link makes a way to a process.
func (c *remoteCrowd) link(to string) {
	l := &crowdLink{to: to, in: make(chan forwarded, 16), over: make(chan struct{})}
	c.mu.Lock()
	c.links[to] = l
	c.mu.Unlock()
	c.all.Go(func() {
		for {
			select {
			case e := <-l.in:
				c.sleep(2 * time.Millisecond)
				c.servePeer(l, e)
			case <-l.over:
				return
			}
		}
	})
}

// cut ends a way: what was sent by it may have been decided.
func (c *remoteCrowd) cut(to string) {
	c.mu.Lock()
	l := c.links[to]
	delete(c.links, to)
	c.mu.Unlock()
	if l != nil {
		close(l.over)
		c.r.ClearOwner(to)
		c.r.HandleLinkEnd(c.now(), to)
	}
}

// servePeer is what a process does with a request. The reply is lost if the link is cut
// meanwhile.
func (c *remoteCrowd) servePeer(l *crowdLink, e forwarded) {
	a, mine := c.decide(l.to, e)
	c.sleep(time.Millisecond)
	select {
	case <-l.over:
		return
	default:
	}
	c.mu.Lock()
	known := ownership.Route{Owner: c.owner, Epoch: c.epoch}
	c.mu.Unlock()
	switch {
	case !mine:
		c.r.HandleReply(c.now(), e.ID, request.Answer{Elsewhere: true}, known)
	default:
		c.r.HandleReply(c.now(), e.ID, a, ownership.Route{})
	}
}

// decide is the owner's decision. One request in nine is refused, and after one in twenty
// the owner stops, and does not know what became of it.
func (c *remoteCrowd) decide(who string, e forwarded) (a request.Answer, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.asks[e.Quantity]
	if c.owner != who {
		x.bounced = true // and what was sent behind it may find the owner
		return request.Answer{}, false
	}
	id := identity{e.User, e.Key}
	if number, sold := c.log[id]; sold {
		return request.Answer{Outcome: api.Sold, Replayed: true, Claim: request.Claim{Units: []int64{int64(number)}}}, true
	}
	if !x.seen && !x.moved && !x.bounced {
		if x.number < c.last {
			c.t.Errorf("request %d is decided after request %d", x.number, c.last)
		}
		c.last = x.number
	}
	x.seen = true
	what := c.random.IntN(20)
	if what < 2 {
		return request.Answer{Outcome: api.NoneNow, RetryAfter: time.Second}, true
	}
	c.order++
	x.decided = c.order
	c.log[id] = x.number
	if what == 2 {
		c.owner = ""
		return remoteStopped, true
	}
	return request.Answer{Outcome: api.Sold, Claim: request.Claim{Units: []int64{int64(x.number)}}}, true
}

// homes is the Remote's: this process's shard queues a request.
func (c *remoteCrowd) homes(_ clock.Now, t *request.Ticket) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owner != "me" {
		return false
	}
	c.asks[t.Quantity].moved = true
	c.shard.Enter(t)
	c.home = append(c.home, t)
	return true
}

// decideHome is what this process's shard does.
func (c *remoteCrowd) decideHome() {
	c.mu.Lock()
	home := c.home
	c.home = nil
	c.mu.Unlock()
	var moved []*request.Ticket
	for _, t := range home {
		if !t.Take() {
			continue
		}
		c.sleep(time.Millisecond)
		a, mine := c.decide("me", forwarded{Request: t.Request})
		if !mine {
			a = request.Answer{Outcome: api.NoQuorum, Elsewhere: true}
		}
		t.Answer = a
		c.shard.Conclude([]*request.Ticket{t}, func(string) bool { return false })
		if !a.Elsewhere {
			t.Complete()
			continue
		}
		moved = append(moved, t)
	}
	if len(moved) > 0 {
		c.r.OfferFirst(c.now(), moved)
	}
}

// ask has a request come, and waits for its answer or gives up.
func (c *remoteCrowd) ask(offering *sync.Mutex, user string) {
	offering.Lock()
	c.mu.Lock()
	x := &crowdAsk{number: len(c.asks)}
	c.asks = append(c.asks, x)
	c.mu.Unlock()
	t := request.NewTicket(&c.pool, request.Request{User: user, Key: "1", Quantity: int64(x.number)}, nil, c.now().Mono)
	refused := c.r.Offer(c.now(), t)
	offering.Unlock()
	var a request.Answer
	switch {
	case refused != "":
		a = c.r.Refuse(request.Request{User: user, Key: "1", Quantity: 1}, request.Answer{Outcome: refused})
	case c.chance(4):
		ctx, cancel := context.WithTimeout(c.t.Context(), time.Duration(x.number%50)*time.Millisecond)
		a = wait(ctx, t)
		cancel()
	default:
		a = wait(context.Background(), t)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order++
	x.user, x.told, x.toldAt = user, a, c.order
}

// TestRemoteAtRandom has many ask while links are cut and the shard moves. Each is answered;
// who is accepted is so in the log; what goes to the owner at once is decided in the
// order of its coming; and nobody is told that a claim is denied which an earlier request
// of the same key gets later.
func TestRemoteAtRandom(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			c := &remoteCrowd{
				t: t, began: time.Now(), ends: make(chan struct{}), random: rand.New(rand.NewPCG(seed, 6)),
				links: map[string]*crowdLink{}, log: map[identity]int{}, last: -1,
			}
			c.r = NewRemote(RemoteConfig{
				Shard: 3, UID: "run", Doubts: &c.doubt, Clock: c.now, Me: "me", MaxQueue: func() int { return 200 },
				Send: c.send, OfferLocal: c.homes, Refusal: func() request.Answer { return request.Answer{Outcome: api.Standby, RetryAfter: time.Second} },
			})
			c.shard = shard.New(shard.Config{Shard: 3, UID: "run", Doubts: &c.doubt, Underway: c.r.Underway, Forward: func([]*request.Ticket) {}, Clock: c.now, Totals: shard.NewSaleTotals(4), Log: "log"})
			peers := []string{"p", "q"}
			forever := func(do func()) {
				c.all.Go(func() {
					for {
						select {
						case <-c.ends:
							return
						default:
							do()
						}
					}
				})
			}
			forever(func() { time.Sleep(time.Millisecond); c.r.Tick(c.now()) })
			forever(func() { time.Sleep(time.Millisecond); c.decideHome() })
			for _, p := range peers {
				forever(func() {
					c.link(p)
					c.sleep(300 * time.Millisecond)
					c.cut(p)
					c.sleep(30 * time.Millisecond)
				})
			}
			forever(func() { // the shard moves
				c.sleep(100 * time.Millisecond)
				c.mu.Lock()
				c.owner = ""
				c.mu.Unlock()
				c.sleep(30 * time.Millisecond)
				c.mu.Lock()
				c.epoch++
				c.owner = []string{"p", "q", "me"}[c.random.IntN(3)]
				c.mu.Unlock()
			})
			forever(func() { // and who has it says so
				c.sleep(20 * time.Millisecond)
				c.mu.Lock()
				to := ownership.Route{Owner: c.owner, Epoch: c.epoch}
				c.mu.Unlock()
				c.r.SetOwner(c.now(), to)
			})
			var inFlight sync.WaitGroup
			var one sync.Mutex
			for i := range 400 {
				inFlight.Go(func() {
					time.Sleep(time.Duration(i) * 3 * time.Millisecond)
					for range 2 {
						c.ask(&one, fmt.Sprint("user-", i/2))
					}
				})
			}
			inFlight.Wait()
			close(c.ends)
			for _, p := range peers {
				c.cut(p)
			}
			c.all.Wait()
			c.check()
		})
	}
}

// check holds what was told against the log.
func (c *remoteCrowd) check() {
	count := make(map[api.Outcome]int)
	byUser := make(map[string][]*crowdAsk)
	for _, x := range c.asks {
		count[x.told.Outcome]++
		byUser[x.user] = append(byUser[x.user], x)
		if number, sold := c.log[identity{x.user, "1"}]; x.told.Accepted() && (!sold || int64(number) != x.told.Claim.Units[0]) {
			c.t.Errorf("request %d was told %+v, and the log has %d", x.number, x.told, number)
		}
	}
	for user, all := range byUser {
		for _, x := range all {
			if !x.told.Denies() {
				continue
			}
			for _, earlier := range all {
				if earlier.number < x.number && earlier.decided > x.toldAt {
					c.t.Errorf("%s was told %+v, and then an earlier request was accepted", user, x.told)
				}
			}
		}
	}
	late := c.now()
	late.Mono += OwnerTimeout
	c.r.Tick(late) // which leaves out those that were given up
	if c.r.Busy() {
		c.t.Errorf("%d wait still, and %d are sent", len(c.r.queue), len(c.r.sent))
	}
	if count[api.Sold] == 0 || count[api.NoneNow] == 0 {
		c.t.Errorf("outcomes %v", count)
	}
	c.t.Logf("outcomes %v", count)
}

// identity names a request of the crowd.
type identity struct{ user, key string }

// wait returns the answer to a ticket, or gives up when ctx ends.
func wait(ctx context.Context, t *request.Ticket) request.Answer {
	if t.Await(ctx) {
		return t.Finish()
	}
	return t.Cancel()
}
