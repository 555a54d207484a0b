package shard

import (
	"salectl/api"
	"salectl/backends/clock"
)

// front is the outer part of a shard's engine: where requests wait that the engine
// serves without the sequencer, and what is known of those. All its methods but carry
// are safe for concurrent use.
type nodeQueue interface {
	// takes reports whether a request waits here, and not in the shard's own queue.
	accepts(t *Ticket) bool
	// offer queues a ticket, or says why not.
	offer(now clock.Now, t *Ticket) api.Outcome
	// waiting is how many requests wait.
	waiting() int
	// carry takes in what the sequencer has to say, and how it stands.
	applyEffects(now clock.Now, e Effects)
	// shutDown refuses all requests from here on.
	shutDown(refusal Answer)

	// mayHave reports whether a user was given something, or may have been, that the log
	// lacks; mayLack whether it may lack anything.
	mayHave(user string) bool
	mayLack() bool
	// drain has all that was given so far come into the log, and returns a channel that
	// is closed when it is there.
	drain() <-chan struct{}
	// ready reports whether units are given, if they should be.
	ready() bool
	// stall says since when and why none are given though they should be; nil: they are.
	stall(now clock.Now) *Stall
	// show adds to a status.
	addStatus(v *Status)
}

// closedChan is always closed.
var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// noFront is the front where the owner decides: all requests go to the sequencer.
type noNodeQueue struct{}

func (noNodeQueue) accepts(*Ticket) bool                 { return false }
func (noNodeQueue) offer(clock.Now, *Ticket) api.Outcome { return api.Standby }
func (noNodeQueue) waiting() int                         { return 0 }
func (noNodeQueue) applyEffects(clock.Now, Effects)      {}
func (noNodeQueue) shutDown(Answer)                      {}
func (noNodeQueue) mayHave(string) bool                  { return false }
func (noNodeQueue) mayLack() bool                        { return false }
func (noNodeQueue) drain() <-chan struct{}               { return closedChan }
func (noNodeQueue) ready() bool                          { return true }
func (noNodeQueue) stall(clock.Now) *Stall               { return nil }
func (noNodeQueue) addStatus(*Status)                    {}
