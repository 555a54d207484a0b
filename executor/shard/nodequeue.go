package shard

import (
	"salectl/api"
	"salectl/backends/clock"
	"salectl/executor/request"
)

// NodeQueue is the queue of the requests that a shard's list node serves without the sequencer. Package
// listengine implements it. All its methods but ApplyEffects are safe for concurrent use.
type NodeQueue interface {
	// Accepts reports whether a request waits in this queue, and not in the shard's inbox.
	Accepts(t *request.Ticket) bool
	// Offer queues a ticket, or returns why it cannot.
	Offer(now clock.Now, t *request.Ticket) api.Outcome
	// Waiting returns how many requests wait.
	Waiting() int
	// ApplyEffects applies the condition of the list, and the effects of the sequencer on the queue. The
	// goroutine that runs the shard calls it within each Act.
	ApplyEffects(now clock.Now, e ListEffects)
	// ShutDown refuses all requests from now on.
	ShutDown(refusal request.Answer)

	// MayHave reports whether a user has, or may have, a unit that the log lacks. MayLack reports
	// whether the log may lack anything.
	MayHave(user string) bool
	MayLack() bool
	// Drain has all grabs so far appended to the log, and returns a channel that is closed when
	// the log has them.
	Drain() <-chan struct{}
	// Busy reports whether requests wait for the node, or the log lacks grabs.
	Busy() bool
	// Ready reports whether the list gives units, or is off as it should be.
	Ready() bool
	// Stall returns since when and why no units are given although they should be; nil: they are.
	Stall(now clock.Now) *Stall
	// AddStatus sets the list's fields of a status.
	AddStatus(v *Status)
}

// ListEffects is the condition of a shard's list, and the effects of the sequencer on the requests that
// wait for it.
type ListEffects struct {
	Fill        uint64                               // under which the list gives units; 0: it gives none
	Drained     bool                                 // the list is off, and the log has all that it gave
	LoggedUsers []string                             // users whose grabs the log has now
	Requeued    []*request.Ticket                    // tickets that got no unit before, after units have been added to the list
	Refusal     func(*request.Ticket) request.Answer // answers a request with its claim, or the reason why it has none; nil unless Drained
}

// closedChan is always closed.
var closedChan = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// noNodeQueue is the NodeQueue of a shard without a list: the sequencer decides all its requests.
type noNodeQueue struct{}

func (noNodeQueue) Accepts(*request.Ticket) bool                 { return false }
func (noNodeQueue) Offer(clock.Now, *request.Ticket) api.Outcome { return api.Standby }
func (noNodeQueue) Waiting() int                                 { return 0 }
func (noNodeQueue) ApplyEffects(clock.Now, ListEffects)          {}
func (noNodeQueue) ShutDown(request.Answer)                      {}
func (noNodeQueue) MayHave(string) bool                          { return false }
func (noNodeQueue) MayLack() bool                                { return false }
func (noNodeQueue) Drain() <-chan struct{}                       { return closedChan }
func (noNodeQueue) Busy() bool                                   { return false }
func (noNodeQueue) Ready() bool                                  { return true }
func (noNodeQueue) Stall(clock.Now) *Stall                       { return nil }
func (noNodeQueue) AddStatus(*Status)                            {}
