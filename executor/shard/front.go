package shard

import (
	"salectl/api"
	"salectl/backends/clock"
)

// front is the outer part of a shard's engine: where requests wait that the engine
// serves without the sequencer, and what is known of those. All its methods but carry
// are safe for concurrent use.
type front interface {
	// takes reports whether a request waits here, and not in the shard's own queue.
	takes(t *Ticket) bool
	// offer queues a ticket, or says why not.
	offer(now clock.Now, t *Ticket) api.Outcome
	// waiting is how many requests wait.
	waiting() int
	// carry takes in what the sequencer has to say, and how it stands.
	carry(now clock.Now, e Effects)
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
	show(v *Status)
}

// closedChan is always closed.
var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// noFront is the front where the owner decides: all requests go to the sequencer.
type noFront struct{}

func (noFront) takes(*Ticket) bool                   { return false }
func (noFront) offer(clock.Now, *Ticket) api.Outcome { return api.Standby }
func (noFront) waiting() int                         { return 0 }
func (noFront) carry(clock.Now, Effects)             {}
func (noFront) shutDown(Answer)                      {}
func (noFront) mayHave(string) bool                  { return false }
func (noFront) mayLack() bool                        { return false }
func (noFront) drain() <-chan struct{}               { return closedChan }
func (noFront) ready() bool                          { return true }
func (noFront) stall(clock.Now) *Stall               { return nil }
func (noFront) show(*Status)                         {}
