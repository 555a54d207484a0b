package process

import (
	"salectl/executor/ownership"
	"salectl/executor/peers"
	"salectl/executor/request"
	"salectl/executor/shard"
	"salectl/spec"
)

// What tests outside of the package see of it.

const (
	HoldsAtOnce = holdsAtOnce
	NotRead     = ownership.Unread
)

var (
	Check        = check
	CompileRules = compileRules
	NodeProblems = nodeProblems
)

// KeepsOut reports whether a shard that stalls refuses claims.
func KeepsOut(ack spec.Ack, stall *shard.Stall) bool {
	return (&session{ack: ack}).refusesWhileStalled(stall)
}

// Local returns a shard that the process has the lease of; nil: it is another's.
func (m *Machine) Local(i int) *shard.Shard { return m.serving.Load().local(i) }

// Running returns a shard whose machine runs.
func (m *Machine) Running(i int) *shard.Shard {
	if m.session == nil {
		return nil
	}
	return m.session.running[i]
}

// Doubts returns the requests whose outcomes are unknown.
func (m *Machine) Doubts() *request.Doubts { return &m.doubts }

// Remotes returns the remotes of the session.
func (m *Machine) Remotes() []*peers.Remote { return m.session.remotes }

// UID returns the run of the session.
func (m *Machine) UID() string { return m.session.uid }

// SetUID changes the run of the session.
func (m *Machine) SetUID(uid string) { m.session.uid = uid }

// Recall answers a request from memory.
func (m *Machine) Recall(i int, r request.Request) (a request.Answer, ok bool) {
	t := m.serving.Load()
	ok = t.local(i).AnswerClaim(m.clock(), &r, &a)
	return a, ok
}

// Intercept has carry deliver the messages between shards, by next.
func (m *Machine) Intercept(carry func(x shard.Message, next func(shard.Message))) {
	t := m.serving.Load()
	t.post = func(x shard.Message) { carry(x, t.deliverMessage) }
}

// KeepRules returns a function that puts the present rules in force again.
func (m *Machine) KeepRules() (restore func()) {
	rules := m.serving.Load().eligibility.Load()
	return func() { m.serving.Load().eligibility.Store(rules) }
}

// RulesProblem returns why no decision could be taken.
func (m *Machine) RulesProblem() string {
	return m.serving.Load().eligibility.Load().problem.Load().Why
}
