package sim

import (
	"context"
	"fmt"
	"time"

	"salectl/api"
	"salectl/backends/calls"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/executor"
	"salectl/executor/ownership"
	"salectl/executor/payments"
	"salectl/sim/check"
	"salectl/sim/stepped"
	"salectl/spec"
)

// server is one place where an executor runs, and runs again when it has died.
type server struct {
	process
	n int
	random
	s       *stepped.Process // of the present run
	drained map[int]bool     // the runs, by life, that ended by themselves, when all was answered

	// Of the present run: its name, and what befell the host's clocks.
	run                string
	me                 []byte // as commits name it
	suspended, setBack bool

	tokens map[string]string // of the present run: by key, the last under which it requested a lease

	version string           // of the next run
	links   map[string]*link // that it has made, by the id of the peer

	checker *checker // of the present run; nil: there is no payment service
	webhook *payments.Webhook
	counted map[string]float64 // what checker did, by the names of metrics

	keeper *keeper // of the present run, where it reads a folder
	kept   int     // how many there were
}

func (w *world) newServer(n int) *server {
	e := &server{n: n, random: w.Options.random(forTokens, n), drained: make(map[int]bool), version: w.fleet.version(w.random.work)}
	e.process = process{w: w, name: fmt.Sprintf("executor-%d", n), host: firstNode + host(len(w.nodes)+n)}
	e.died = func(back time.Duration) {
		w.history.Killed(w.now, e.name)
		e.keeper = nil
		e.unlink()
		w.after(back, e.begin)
	}
	e.ended = func() {
		e.keeper = nil
		e.unlink()
		e.drained[e.life] = true
		w.after(w.comeback(e.random), e.begin)
	}
	return e
}

// open has it serve the sale.
func (e *server) open() {
	me := make([]byte, 8)
	e.Read(me)
	e.me = me
	e.s = stepped.New(stepped.Config{
		Config: ownership.Config{
			Sale: saleName, Address: e.name, Nodes: e.w.nodeNames, Lists: e.w.listNames,
			Version: e.version, Standby: e.w.fleet.standby == e.n,
			Token:  func() string { return e.letters(16) },
			Jitter: e.Float64,
		},
		Queue: e.w.scenario.queue, Me: me,
		Key:    func() string { return e.letters(16) },
		Sizes:  e.w.scenario.sizes,
		Bounds: e.w.peering.bounds,
		Users:  e.users,
	})
	if w := e.w; w.service != nil {
		e.counted = make(map[string]float64)
		sale := checkedSale{e.s, e.counted}
		e.checker = newChecker(sale, w.service.Float64)
		e.webhook = payments.NewWebhook(sale, environment, discard)
	}
	e.links, e.tokens = make(map[string]*link), make(map[string]string)
	e.run, e.suspended, e.setBack = fmt.Sprintf("%s, run %d", e.name, e.life+1), false, false
	e.start(&serverMachine{e}, e.w.clock(e.random))
}

// serverMachine is an executor as a process.
type serverMachine struct{ *server }

func (m *serverMachine) tick(now clock.Now) { m.s.Tick(now) }

func (m *serverMachine) next(now clock.Now) (made []calls.Call, wake time.Duration, gone bool) {
	made, wake, gone = m.s.Next(now)
	if m.checker != nil && !gone {
		made, wake, gone = m.check(now, made, wake)
	}
	for i, c := range made {
		switch c.What {
		case "vote":
			c.Make(context.Background(), nil, tokenRecorder{tokens: m.tokens}, nil)
		case "release":
			made[i].Make = m.observeRelease(m.run, c.Make)
		}
	}
	m.holds(m.s.Leases(now))
	m.connect()
	return made, wake, gone
}

// check lets the payment checker act beside the executor, whose calls and wake are given.
func (m *serverMachine) check(now clock.Now, made []calls.Call, wake time.Duration) (_ []calls.Call, _ time.Duration, gone bool) {
	for {
		queries, next, settles := m.checker.next(now)
		for _, x := range queries {
			made = append(made, m.w.service.call(x, m.counted))
		}
		if !settles {
			return made, clock.Soonest(wake, next), gone
		}
		var more []calls.Call
		more, wake, gone = m.s.Next(now)
		made = append(made, more...)
	}
}

// tokenRecorder records the tokens of a ballot when it is sent: those that arrive late are in no
// order. The lease that a process has of a shard is under the last that it requested.
type tokenRecorder struct {
	quorum.Node
	tokens map[string]string
}

func (n tokenRecorder) Vote(_ context.Context, b quorum.Ballot) (none quorum.BallotReply, _ error) {
	for _, a := range b.Requests {
		n.tokens[a.Key] = a.Token
	}
	return none, nil
}

// freeing reports the shards whose leases a release gives back, and their tokens.
type freeing struct {
	quorum.Node
	freed func(shard int, token string)
}

func (n freeing) Release(ctx context.Context, releases []quorum.LeaseRequest) (int, error) {
	for _, a := range releases {
		if _, shard, ok := spec.ParseLeaseKey(a.Key); ok {
			n.freed(shard, a.Token)
		}
	}
	return n.Node.Release(ctx, releases)
}

// observeRelease records that a release landed.
func (e *server) observeRelease(run string, release makeCall) makeCall {
	return func(ctx context.Context, logs ledger.Logs, node quorum.Node, list lists.Node) any {
		return release(ctx, logs, freeing{node, func(shard int, token string) { e.w.history.Freed(e.w.now, run, shard, token) }}, list)
	}
}

type makeCall = func(context.Context, ledger.Logs, quorum.Node, lists.Node) any

// claim takes the request of an operation in. Nobody is there: answered gets that
// at once.
func (e *server) claim(op int, r executor.Request, answered func(a executor.Answer, received bool)) (withdraw func()) {
	if !e.alive {
		outcome, received := e.away()
		answered(executor.Answer{Outcome: outcome}, received)
		return func() {}
	}
	life, s := e.life, e.s
	back := func() {}
	e.eventOr("claim", func(now clock.Now) {
		e.w.note(e.name, "is asked", r.User+" "+r.Key, nil)
		ended := e.w.history.RequestReceived(e.w.now, op, e.run)
		back = s.Begin(now, r, func(a executor.Answer) {
			ended(a.Outcome)
			if e.life == life {
				e.w.note(e.name, "answers", r.User+" "+r.Key+" "+string(a.Outcome), nil)
				answered(a, true)
			}
		})
	}, func() { answered(executor.Answer{}, false) })
	return func() {
		if e.life == life {
			e.event("client gone", func(clock.Now) { back() })
		}
	}
}

// settle takes in a settlement of a claim. Nobody is there: answered gets that at once.
func (e *server) settle(x executor.Settlement, answered func(a executor.Answer, received bool)) {
	if !e.alive {
		outcome, received := e.away()
		answered(executor.Answer{Outcome: outcome}, received)
		return
	}
	life, s := e.life, e.s
	e.eventOr("settle", func(now clock.Now) {
		s.Begin(now, executor.Request{Settle: &x}, func(a executor.Answer) {
			if e.life == life {
				e.w.note(e.name, "settles", x.Claim.String()+" "+string(a.Outcome), nil)
				answered(a, true)
			}
		})
	}, func() { answered(executor.Answer{}, false) })
}

// read reads a user's claims.
func (e *server) read(user string, answered func(a check.Answer, received bool)) {
	if !e.alive {
		outcome, received := e.away()
		answered(check.Answer{Outcome: outcome}, received)
		return
	}
	e.eventOr("read", func(now clock.Now) {
		life := e.life
		page := api.Page{Limit: api.MaxPage}
		e.s.Begin(now, executor.Request{Query: &executor.Query{User: user, Page: page}}, func(a executor.Answer) {
			if e.life == life {
				answered(check.Answer{Outcome: a.Outcome, Claims: claimsOf(a.Claims)}, true)
			}
		})
	}, func() { answered(check.Answer{}, false) })
}

// drain ends the process as SIGTERM does.
func (e *server) drain() {
	if e.alive {
		e.event("SIGTERM", e.s.Drain)
	}
}

// pause is process's; the server keeps in mind what it does to its clocks.
func (e *server) pause(d time.Duration, suspended bool) {
	e.suspended = e.suspended || suspended
	e.process.pause(d, suspended)
}

// shift is process's.
func (e *server) shift(jump time.Duration, rate float64) {
	e.setBack = e.setBack || jump < 0
	e.process.shift(jump, rate)
}
