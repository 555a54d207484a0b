// Package shard decides the claims of one shard of a sale: who gets its units, in
// which order, and which answer each request gets. It makes no call and starts no
// goroutine; package executor does both.
//
// # The life of a claim
//
//  1. AnswerClaim and request.Pending.Refuse answer from memory the requests that need no commit.
//     Any other request becomes a request.Ticket, which Offer queues. It enters the table
//     request.Underway, so that no repetition of its key gets an answer that denies it. With engine ledger
//     it waits in the shard's inbox (inbox.go), with engine redis in the queue of the node that has the
//     shard's list (enginelists.go, package listengine).
//  2. Engine ledger: when the outcome of the shard's last commit is known, its sequencer takes
//     all queued requests and decides them in order against the ledger's state (commit.go,
//     requests.go, engine.go). Requests that get nothing are answered. Requests
//     that are short of units wait while other shards are requested to send some (transfer.go,
//     saletotals.go), and get a part at last if the sale allows it. All others go into one
//     commit, which is appended to the shard's log.
//     Engine redis: a call of the node has a whole batch of requests, and its list grants
//     each user a unit (package listengine). The sequencer drains the grabs into the
//     log (listEngine in enginelists.go). With ack redis a request is answered when the node
//     has replied, up to a bound; with ack ledger when the log has the grab.
//  3. When an append is known to be in the log, its tickets get their answers. When its outcome stays
//     unknown, they are in request.Doubts until the log has been read behind it.
//  4. request.Pending.Conclude checks each answer that denies a claim once more, and removes the tickets
//     from the table Underway. The shard then completes them. A request that earlier rules had admitted
//     stays in the table until the rules in force have decided it (request.Ticket.Repeat).
//
// # How a shard is run
//
// The sequencer is a step machine: events, which are values (event.go), change it. Act (act.go)
// passes on the calls that it needs; the goroutine that runs the shard makes them, and their
// replies become events. A shard whose units are in a list has a listEngine in its sequencer and a
// NodeQueue beside its inbox.
//
// The design follows two patent applications. In 一种基于Redis和HBase的分锁方法 (2016) each claim locks a shard;
// here one owner holds the lock over many claims. 管理分布式锁的方法和计算机可读存储介质 (2018) orders requests into
// a serial queue.
package shard

import (
	"cmp"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/executor/request"
)

// Config is the configuration of a Shard. Bounds, Underway, Forward, Applied, Follows and ObserveWait may
// be zero. Node is used only with engine redis. All other fields are required.
type Config struct {
	Shard       int
	Log         string // the name of the shard's log
	Writer      []byte // identifies this process in commits
	Address     string // of this process, for other processes; recorded in commits
	UID         string // of the run
	Node        int    // index of the node that keeps the shard's list, among the nodes that keep lists
	Totals      *SaleTotals
	Doubts      *request.Doubts
	Clock       clock.Clock
	Queue       int                        // maximum number of requests that wait
	Bounds      ledger.Bounds              // of a commit; 0: the defaults
	Post        func(Message)              // sends a message to another shard
	Underway    *request.Underway          // table of undecided tickets, shared with peers.Remote; nil: it is not shared
	Forward     func([]*request.Ticket)    // queues tickets, in their order, for another process to decide; nil: the shard refuses them
	Applied     uint64                     // a generation that the log of every shard has: a log that ends before it is an older copy
	Follows     bool                       // read the log repeatedly until there are rights to append
	ObserveWait func(waited time.Duration) // receives how long the first request of each answered batch waited; may be nil
}

// Shard is one shard in the process that serves it: its inbox, the sequencer that decides, the requests
// without an answer, and the state that other goroutines read. One goroutine runs the shard in a loop: it calls
// Act, and then Apply with the next event or calls.Call.Took with the next reply. No other goroutine calls these
// three, Loading, Ended, TakeAnsweredCount or TakeTally. All other methods are safe for concurrent use.
type Shard struct {
	ledgerView
	published
	inbox
	*request.Pending

	nodeQueue   NodeQueue // nil: the sequencer decides all requests
	forward     func([]*request.Ticket)
	post        func(Message)
	observeWait func(time.Duration)
	node        int // see Config

	answeredCount int // see TakeAnsweredCount
}

// New returns a shard. Its first Act begins to read its log.
func New(config Config) *Shard {
	seq := newSequencer(config.Shard, config.Log, config.Writer, config.Address, config.Totals)
	seq.follows, seq.minGeneration, seq.bounds = config.Follows, config.Applied, config.Bounds
	seq.transfers.maxNamed = cmp.Or(config.Bounds.Ranges, maxNamedUnits)
	shard := &Shard{
		ledgerView: ledgerView{seq: seq},
		inbox:      inbox{bound: config.Queue, wake: make(chan struct{}, 1)},
		forward:    config.Forward, post: config.Post, observeWait: config.ObserveWait, node: config.Node,
	}
	shard.Pending = &request.Pending{
		Decider: shard, Number: config.Shard, UID: config.UID, Underway: cmp.Or(config.Underway, new(request.Underway)), Doubts: config.Doubts, Clock: config.Clock, Forwards: config.Forward != nil,
	}
	return shard
}

// Number returns the shard's number, from 0.
func (shard *Shard) Number() int { return shard.seq.shard }

// Loading reports whether the shard's log is being read.
func (shard *Shard) Loading() bool { return shard.seq.mode == loading }

// Ended reports whether the shard has ended, and why. An ended shard makes no more calls. It ignores events,
// and the reply to a call under way.
func (shard *Shard) Ended() (why error, ended bool) { return shard.seq.why, shard.seq.mode == stopped }

// TakeTally returns the counters of the shard and resets them.
func (shard *Shard) TakeTally() Tally {
	t := shard.seq.tally
	shard.seq.tally = Tally{}
	return t
}

// AnswerClaim sets the answer to a claim, which must be zero, if that needs no commit. It returns false if the
// caller must queue the claim.
//
// The answers of a final claim (Claim.IsFinal) and of a reused key are certain even if little of the log is read.
// Any other answer is certain only while this process may append and the shard has read its log to the end: a
// generation that is not read yet may change it.
func (shard *Shard) AnswerClaim(now clock.Now, claim *request.Request, answer *request.Answer) bool {
	serves := shard.Serves() // before the lookup: the state may be read to its end only after it
	// One lookup of the state and one of the requests under way suffice, because the state does not change between
	// them: a request leaves the table only after the state has its outcome.
	shard.state.RLock()
	ok := shard.recall(now, claim, answer)
	switch {
	case ok && (answer.Accepted() && answer.Claim.IsFinal() || answer.Outcome == api.KeyReused):
	case !shard.May(now):
		*answer, ok = request.Refusal(api.NoQuorum), true
	case !serves:
		ok = false
	case !ok && shard.seq.totals.AllSold(now):
		answer.Outcome, ok = api.SoldOut, true
	}
	ok = ok && !shard.ListMayContradict(answer)
	contradicted := ok && shard.Contradicted(claim, answer)
	shard.state.RUnlock()
	switch {
	case contradicted && answer.Outcome == api.SoldOut:
		return false // the earlier request may yet get units: this one is answered after it
	case contradicted:
		shard.KeepInDoubt(claim.User, claim.Key)
		*answer = request.Undecided
	case ok && shard.Listed && !shard.EndsDoubts(answer):
		*answer = shard.Refuse(*claim, *answer) // the list may have given a unit, which the log may have by now
	}
	return ok
}

// Offer queues a ticket and returns "". If the shard cannot queue it, Offer returns the outcome that is the
// reason, and the caller retains the ticket.
func (shard *Shard) Offer(now clock.Now, t *request.Ticket) api.Outcome {
	if shard.Listed && t.Quantity == 1 { // a list grants no more than one
		return shard.nodeQueue.Offer(now, t)
	}
	return shard.inbox.offer(t, shard.Pending)
}

// MayHave reports whether the shard's list may have granted a user a unit that the log lacks.
func (shard *Shard) MayHave(user string) bool { return shard.Listed && shard.nodeQueue.MayHave(user) }

// SetRights sets the rights of this process to append to the shard.
func (shard *Shard) SetRights(r Rights) {
	shard.rights.Store(&r)
	shard.Post(r)
}

// Apply changes the sequencer, and the ledger's state in it, by events in their order.
func (shard *Shard) Apply(events ...Event) {
	shard.state.Lock()
	defer shard.state.Unlock()
	for _, e := range events {
		e.happen(shard.Clock(), shard.seq)
	}
}

// collect moves the events and the queued requests from the inbox to the sequencer. While a commit is under way,
// requests stay in the inbox, from which a requester can withdraw them.
func (shard *Shard) collect() {
	events, queue := shard.inbox.take(shard.seq.sent == nil, len(shard.seq.requests.waiting))
	if len(events) > 0 {
		shard.Apply(events...)
	}
	shard.seq.addRequests(queue)
}

// ConcludeAndDeliver checks the answers of tickets by Conclude, and completes or forwards the tickets by Deliver.
// mayHave is as in Conclude.
func (shard *Shard) ConcludeAndDeliver(tickets []*request.Ticket, mayHave func(user string) bool) {
	shard.Conclude(tickets, mayHave)
	shard.Deliver(tickets)
}

// Deliver completes tickets after Conclude, or forwards those that another process is to decide. The functions
// that it calls may take locks that their owners hold when they queue a ticket on this shard. So the caller must
// hold no lock of the shard or of its node.
func (shard *Shard) Deliver(tickets []*request.Ticket) {
	var moved []*request.Ticket
	for _, t := range tickets {
		if shard.NeedsForwarding(t) {
			moved = append(moved, t)
			continue
		}
		t.Complete()
	}
	if len(moved) > 0 {
		shard.forward(moved)
	}
}

// deliverAnswered concludes and delivers tickets that the sequencer has answered, and reports to observeWait
// the longest time for which one of them waited.
func (shard *Shard) deliverAnswered(tickets []*request.Ticket) {
	if len(tickets) == 0 {
		return
	}
	oldest := tickets[0].QueuedAt
	shard.inbox.decided(len(tickets))
	for _, t := range tickets {
		oldest = min(oldest, t.QueuedAt)
	}
	shard.ConcludeAndDeliver(tickets, shard.MayHave)
	if shard.observeWait != nil {
		shard.observeWait(shard.Clock().Mono - oldest)
	}
}
