package sim

import (
	"fmt"
	"time"

	"salectl/backends/clock"
	"salectl/executor"
	"salectl/sim/check"
)

// server is one place where an executor runs, and runs again when it has died.
type server struct {
	process
	n int
	random
	s *executor.Stepped // of the present run
}

func (w *world) newServer(n int) *server {
	e := &server{n: n, random: w.Options.random(forTokens, n)}
	e.process = process{w: w, name: fmt.Sprintf("executor-%d", n), host: firstNode + host(len(w.nodes)+n)}
	e.died = func(back time.Duration) { w.after(back, e.begin) }
	e.ended = func() { w.after(w.comeback(e.random), e.begin) }
	return e
}

// begin starts a new process.
func (e *server) begin() {
	if e.w.over {
		return
	}
	me := make([]byte, 8)
	e.Read(me)
	e.s = executor.NewStepped(executor.SteppedConfig{
		Sale: saleName, Address: e.name, Nodes: e.w.nodeNames, Queue: e.w.scenario.queue, Me: me,
		Token:  func() string { return e.letters(16) },
		Key:    func() string { return e.letters(16) },
		Jitter: e.Float64,
	})
	e.start(&serverMachine{e.s}, e.w.scenario.clock(e.random, e.w.now))
}

// serverMachine is an executor as a process.
type serverMachine struct{ s *executor.Stepped }

func (m *serverMachine) tick(now clock.Now) { m.s.Tick(now) }

func (m *serverMachine) next(now clock.Now) (calls []call, wake time.Duration, gone bool) {
	made, wake, gone := m.s.Next(now)
	for _, c := range made {
		calls = append(calls, call(c))
	}
	return calls, wake, gone
}

// claim takes a request in. Nobody is there: answered hears that at once.
func (e *server) claim(r executor.Request, answered func(a executor.Answer, heard bool)) (withdraw func()) {
	if !e.alive {
		answered(executor.Answer{}, false)
		return func() {}
	}
	life, s := e.life, e.s
	back := func() {}
	e.eventOr("claim", func(now clock.Now) {
		e.w.note(e.name, "is asked", r.User+" "+r.Key, nil)
		back = s.Claim(now, r, func(a executor.Answer) {
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

// read tells a user's claims.
func (e *server) read(user string, answered func(a check.Answer, heard bool)) {
	if !e.alive {
		answered(check.Answer{}, false)
		return
	}
	e.eventOr("read", func(now clock.Now) {
		claims, outcome := e.s.User(now, user)
		answered(check.Answer{Outcome: string(outcome), Claims: claimsOf(claims)}, true)
	}, func() { answered(check.Answer{}, false) })
}

// drain ends the process as SIGTERM does.
func (e *server) drain() {
	if e.alive {
		e.event("SIGTERM", e.s.Drain)
	}
}
