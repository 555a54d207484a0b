package shard

import (
	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor/request"
)

// nodeQueue is the queue of the requests that a shard's list node serves without the sequencer. All its
// methods but applyEffects are safe for concurrent use.
type nodeQueue interface {
	// accepts reports whether a request waits in this queue, and not in the shard's inbox.
	accepts(t *request.Ticket) bool
	// offer queues a ticket, or returns why it cannot.
	offer(now clock.Now, t *request.Ticket) api.Outcome
	// waiting returns how many requests wait.
	waiting() int
	// applyEffects applies the effects of the sequencer, and its present condition.
	applyEffects(now clock.Now, e Effects)
	// shutDown refuses all requests from now on.
	shutDown(refusal request.Answer)

	// mayHave reports whether a user has, or may have, a unit that the log lacks. mayLack reports
	// whether the log may lack anything.
	mayHave(user string) bool
	mayLack() bool
	// drain has all grabs so far appended to the log, and returns a channel that is closed when
	// the log has them.
	drain() <-chan struct{}
	// ready reports whether the list gives units, or is off as it should be.
	ready() bool
	// stall returns since when and why no units are given although they should be; nil: they are.
	stall(now clock.Now) *Stall
	// addStatus sets the list's fields of a status.
	addStatus(v *Status)
}

// closedChan is always closed.
var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// noNodeQueue is the nodeQueue of a shard without a list: the sequencer decides all its requests.
type noNodeQueue struct{}

func (noNodeQueue) accepts(*request.Ticket) bool                 { return false }
func (noNodeQueue) offer(clock.Now, *request.Ticket) api.Outcome { return api.Standby }
func (noNodeQueue) waiting() int                                 { return 0 }
func (noNodeQueue) applyEffects(clock.Now, Effects)              {}
func (noNodeQueue) shutDown(request.Answer)                      {}
func (noNodeQueue) mayHave(string) bool                          { return false }
func (noNodeQueue) mayLack() bool                                { return false }
func (noNodeQueue) drain() <-chan struct{}                       { return closedChan }
func (noNodeQueue) ready() bool                                  { return true }
func (noNodeQueue) stall(clock.Now) *Stall                       { return nil }
func (noNodeQueue) addStatus(*Status)                            {}
