package sim

import (
	"fmt"
	"time"

	"salectl/api"
	"salectl/executor"
	"salectl/sim/check"
	"salectl/spec"
)

// client is somebody who buys. While there are faults it sends requests now and then, in
// every way that a client can; afterwards it buys what is left, unit by unit.
type client struct {
	w *world
	n int
	random
	made  int  // requests minted
	last  want // that it requested, to be requested again
	payer      // of what it is given

	awaited map[string]bool           // keys of entries that it queries
	taken   map[executor.ClaimID]bool // units of entries that it knows
}

// want is one thing that a client wants. It may request it several times.
type want struct {
	user     string
	key      string
	quantity int64
	units    []int64 // by their numbers; nil: any
	adjacent bool
	tries    int
}

// request is a request to a process.
func (x want) request() executor.Request {
	return executor.Request{User: x.user, Key: x.key, Quantity: x.quantity, Units: x.units, Adjacent: x.adjacent}
}

// invoked is the request as the history has it.
func (x want) invoked(e *server) check.Event {
	return check.Event{
		Kind: check.ClaimInvoked, Process: e.n, User: x.user, Key: x.key, Quantity: x.quantity, Units: x.units, Adjacent: x.adjacent,
	}
}

func (w *world) newClient(n int) *client {
	c := &client{w: w, n: n, random: w.Options.random(forClients, n)}
	returns := w.Options.random(forReturns, 1+n)
	c.payer = payer{c: c, random: w.Options.random(forPayments, 1+n), waits: c.random, bookkeeper: &payer{c: c, random: returns, waits: returns}}
	return c
}

// user draws a user. They are few, so that several clients act for one and limits
// are met. In some worlds most are at home on the last shard, which then lives on
// what the others have.
func (c *client) user() string {
	s := &c.w.scenario
	crowd := c.chance(s.crowd)
	for {
		name := fmt.Sprintf("user-%d", c.IntN(s.users))
		if !crowd || spec.HomeShard(name, s.shards) == s.shards-1 || c.chance(0.05) {
			return name
		}
	}
}

// live sends requests until the faults stop.
func (c *client) live() {
	if c.w.calm {
		c.finish()
		return
	}
	c.w.after(c.spread(20*time.Millisecond, 2*c.w.thinking), func() {
		if c.w.calm || c.w.operations >= c.w.Ops {
			c.finish()
			return
		}
		c.act(c.live)
	})
}

// act does one thing, and goes on.
func (c *client) act(then func()) {
	x := want{user: c.user(), quantity: 1 + c.Int64N(c.w.scenario.perUser) + c.w.more(), tries: 1 + c.IntN(6)}
	c.w.choose(&x)
	c.made++
	key := fmt.Sprintf("key-%d-%d", c.n, c.made)
	switch draw := c.IntN(100); {
	case draw < 22: // without a key: asking again is another request
		x.tries = 1
	case draw < 60:
		x.key = key
	case draw < 68 && c.last.key != "": // the same again, perhaps elsewhere
		x = c.last
		x.tries = 2
	case draw < 72 && c.last.key != "": // a key for something else
		x = c.last
		x.change()
	case draw < 80: // twice at once
		x.key = key
		c.send(x, func(executor.Answer, bool) {})
	case draw < 86:
		x.key = key
		c.vanish(x)
		then()
		return
	default:
		c.read(x.user, then)
		return
	}
	c.last = x
	c.insist(x, then)
}

// insist repeats a request until it is answered for good or has tried often enough.
func (c *client) insist(x want, then func()) {
	x.tries--
	c.send(x, func(a executor.Answer, received bool) {
		if x.tries <= 0 || received && forGood(a.Outcome) {
			then()
			return
		}
		c.w.after(a.RetryAfter/2+c.between(0, 500*time.Millisecond), func() { c.insist(x, then) })
	})
}

// forGood reports whether asking again is of no use.
func forGood(o api.Outcome) bool { return o.Row().Retry == api.Final }

// patience is how long a client waits for an answer.
func (c *client) patience() time.Duration { return c.w.waitsFor(c.random) }

// waitsFor draws the time for which a client waits for an answer.
func (w *world) waitsFor(r random) time.Duration {
	if w.calm {
		return 20 * time.Second
	}
	return r.spread(300*time.Millisecond, 10*time.Second)
}

// send sends a request to one of the executors. It receives the answer, or that
// there is none.
func (c *client) send(x want, then func(a executor.Answer, received bool)) {
	c.sendTo(c.w.executors[c.IntN(len(c.w.executors))], x, then)
}

// sendTo is send for one executor.
func (c *client) sendTo(e *server, x want, then func(a executor.Answer, received bool)) {
	op := c.w.recordInvocation(x.invoked(e))
	over := false
	done := func(a executor.Answer, received bool) {
		if over {
			return
		}
		over = true
		if received {
			c.w.recordResult(op, check.ClaimReturned, answerOf(a))
			c.w.hit("claim " + string(a.Outcome))
			if a.Claim.Requested != 0 {
				c.w.hit("claim given a part")
			}
			if a.Accepted() {
				switch {
				case x.units != nil:
					c.w.hit("claim given chosen units")
				case x.adjacent:
					c.w.hit("claim given adjacent units")
				}
			}
			switch a.Outcome {
			case api.SoldOut:
				c.w.operators.soldOut()
			case api.Held:
				c.decide(a.Claim)
				c.won(a.Claim)
			case api.Entered:
				c.settleEntry(a.Claim)
				c.await(x)
			case api.Sold:
				c.won(a.Claim)
			}
		} else {
			c.w.hit("claim without answer")
			c.w.vanished[op] = true
		}
		then(a, received)
	}
	calm := c.w.calm
	c.w.net.send(message{from: atClients, to: e.host, what: "claim"}, func() {
		life := e.life
		c.w.unanswered[op] = func() bool { return e.life == life || e.drained[life] }
		c.w.nag(e, x)
		e.claim(op, x.request(), func(a executor.Answer, received bool) {
			delete(c.w.unanswered, op)
			c.w.net.send(message{from: e.host, to: atClients, what: "answer"}, func() { done(a, received) })
		})
	})
	c.w.after(c.patience(), func() {
		alive := c.w.unanswered[op]
		if !over && calm && (alive == nil || alive()) { // nothing excuses it
			over = true
			then(executor.Answer{}, false)
			return
		}
		done(executor.Answer{}, false)
	})
}

// vanish sends a request and goes away: the executor notices soon, or late.
func (c *client) vanish(x want) {
	e := c.w.executors[c.IntN(len(c.w.executors))]
	op := c.w.recordInvocation(x.invoked(e))
	c.w.vanished[op] = true
	c.w.hit("client vanished")
	noticed := c.spread(100*time.Microsecond, time.Second)
	c.w.net.send(message{from: atClients, to: e.host, what: "claim"}, func() {
		c.w.nag(e, x)
		withdraw := e.claim(op, x.request(), func(a executor.Answer, received bool) {
			if received { // by nobody, but the process has answered so
				delete(c.w.vanished, op)
				c.w.recordResult(op, check.ClaimReturned, answerOf(a))
			}
		})
		c.w.after(noticed, func() {
			c.w.history.Withdrew(op)
			withdraw()
		})
	})
}

// nag has a client send a process the same request again, and again, whether or not it
// has answered: a page that is reloaded, a client with a short patience. Neither
// the network nor the count of operations knows of it.
func (w *world) nag(e *server, x want) {
	r := w.random.nags
	if w.calm || !w.scenario.nags || x.key == "" || !r.chance(0.5) {
		return
	}
	for range 1 + r.IntN(4) {
		w.after(r.spread(20*time.Millisecond, 10*time.Second), func() {
			if w.calm || !e.alive {
				return
			}
			op := w.history.Op()
			invoked := x.invoked(e)
			invoked.Op = op
			w.history.Record(w.now, invoked)
			w.vanished[op] = true
			e.claim(op, x.request(), func(a executor.Answer, received bool) {
				if received {
					delete(w.vanished, op)
					w.recordResult(op, check.ClaimReturned, answerOf(a))
					w.hit("asked again at once: " + string(a.Outcome))
				}
			})
		})
	}
}

// rush is a crowd of new users who all want units of one shard within a moment.
func (w *world) rush(r random) {
	shard, crowd := r.IntN(w.scenario.shards), 30
	if w.scenario.lists != nil {
		crowd = 60 // of whom each gets one
	}
	for came := 0; came < crowd; w.rushed++ {
		user := fmt.Sprintf("rush-%d", w.rushed)
		if spec.HomeShard(user, w.scenario.shards) != shard {
			continue
		}
		came++
		c := w.clients[came%len(w.clients)]
		x := want{user: user, key: "key", quantity: w.scenario.perUser + w.more(), tries: 3}
		w.choose(&x)
		w.after(r.between(0, 1500*time.Millisecond), func() { c.insist(x, func() {}) })
	}
}

// read queries a user's claims.
func (c *client) read(user string, then func()) {
	e := c.w.executors[c.IntN(len(c.w.executors))]
	op := c.w.recordInvocation(check.Event{Kind: check.ReadInvoked, Process: e.n, User: user})
	over := false
	done := func(a check.Answer, received bool) {
		if over {
			return
		}
		over = true
		if received {
			c.w.recordResult(op, check.ReadReturned, a)
			c.w.hit("read " + string(a.Outcome))
		} else {
			c.w.vanished[op] = true
		}
		then()
	}
	c.w.net.send(message{from: atClients, to: e.host, what: "read"}, func() {
		e.read(user, func(a check.Answer, received bool) {
			c.w.net.send(message{from: e.host, to: atClients, what: "claims"}, func() { done(a, received) })
		})
	})
	c.w.after(c.patience(), func() { done(check.Answer{}, false) })
}

// finish buys for one user after another, until all is sold or it is closed.
func (c *client) finish() { c.w.onceSettled(c.finishNow) }

func (c *client) finishNow() {
	if c.w.operations < c.w.Ops {
		c.act(c.finishNow) // the run is to have its operations
		return
	}
	c.made++
	x := want{user: fmt.Sprintf("late-%d-%d", c.n, c.made), key: "key", quantity: 1}
	c.buy(x, func(o api.Outcome) {
		// One that was read long ago may be reported not to exist.
		if o == api.SoldOut || o == api.Closed && (c.w.operators.closing || c.w.operators.over()) || o == api.NoSuchSale && c.w.operators.ending {
			c.w.rest()
			return
		}
		if c.w.scenario.drawn != nil { // anybody may enter
			c.w.after(c.between(500*time.Millisecond, 2*time.Second), c.finishNow)
			return
		}
		c.finishNow()
	})
}

// buy repeats a claim until there is an answer for good.
func (c *client) buy(x want, then func(api.Outcome)) {
	c.send(x, func(a executor.Answer, received bool) {
		if received && forGood(a.Outcome) {
			then(a.Outcome)
			return
		}
		c.w.after(max(a.RetryAfter/4, 20*time.Millisecond)+c.between(0, 100*time.Millisecond), func() {
			if c.w.over {
				return
			}
			c.buy(x, then)
		})
	})
}

// answerOf is an answer as the history has it.
func answerOf(a executor.Answer) check.Answer {
	return check.Answer{
		Outcome: a.Outcome, Claim: claimOf(a.Claim), Replayed: a.Replayed, Claims: claimsOf(a.Claims), Count: a.Count,
		RefundDue: a.RefundDue, RetryAfter: a.RetryAfter, Away: a.Message != "",
	}
}

func claimOf(c executor.Claim) check.Claim {
	if c.State == "" {
		return check.Claim{}
	}
	return check.Claim{ID: c.ID.String(), User: c.User, Units: c.Units, Requested: c.Requested, State: string(c.State)}
}

func claimsOf(all []executor.Claim) []check.Claim {
	var claims []check.Claim
	for _, c := range all {
		claims = append(claims, claimOf(c))
	}
	return claims
}
