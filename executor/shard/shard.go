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
// After 一种基于Redis和HBase的分锁方法 (a patent application of 2016), whose lock on
// a shard is held here by one owner over many claims, and 管理分布式锁的方法和计算机
// 可读存储介质 (2018), which orders requests into a serial queue.
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
	Log         string // the name of its log
	Me          []byte // this process, as commits name it
	Address     string // where it answers, as commits name it
	UID         string // of the run
	Node        int    // index of the node that keeps the shard's list, among the nodes that keep lists
	Totals      *SaleTotals
	Doubts      *request.Doubts
	Clock       clock.Clock
	Queue       int                        // requests that may wait
	Bounds      ledger.Bounds              // of a commit; 0: as usual
	Post        func(Message)              // to another shard
	Underway    *request.Underway          // tickets of the shard and of its stand-in while another process owns it; nil: there is no stand-in
	Forward     func([]*request.Ticket)    // queues requests, in their order, for the process that is to decide them; nil: they are refused
	Applied     uint64                     // a generation that every shard has reached: a log that ends before it is an older copy
	Follows     bool                       // read the log on while there are no rights to append
	ObserveWait func(waited time.Duration) // after a batch is answered: how long its first request waited; nil: not called
}

// Shard is one shard in the process that serves it: its inbox, the sequencer that decides, the
// requests without an answer, and the state that other goroutines read meanwhile.
// One goroutine calls Act, Apply, Loading, Ended, TakeAnsweredCount, TakeTally and the Took of the
// shard's calls, in a loop: Act, and then the first event or reply that arrives. All other methods are
// safe for concurrent use.
type Shard struct {
	ledgerView
	published
	inbox
	*request.Pending

	nodeQueue   NodeQueue // nil: the sequencer decides all requests
	forward     func([]*request.Ticket)
	post        func(Message)
	observeWait func(time.Duration)
	node        int

	answeredCount int // requests that replies of the store have answered; see TakeAnsweredCount
}

// New returns a shard whose first Act begins to read its log.
func New(c Config) *Shard {
	seq := newSequencer(c.Shard, c.Log, c.Me, c.Address, c.Totals)
	seq.follows, seq.minGeneration, seq.bounds = c.Follows, c.Applied, c.Bounds
	seq.transfers.maxNamed = cmp.Or(c.Bounds.Ranges, maxNamedUnits)
	s := &Shard{
		ledgerView: ledgerView{seq: seq},
		inbox:      inbox{bound: c.Queue, wake: make(chan struct{}, 1)},
		forward:    c.Forward, post: c.Post, observeWait: c.ObserveWait, node: c.Node,
	}
	s.Pending = &request.Pending{
		Decider: s, Number: c.Shard, UID: c.UID, Underway: cmp.Or(c.Underway, new(request.Underway)), Doubts: c.Doubts, Clock: c.Clock, Forwards: c.Forward != nil,
	}
	return s
}

// Number returns the shard's number, from 0.
func (s *Shard) Number() int { return s.seq.shard }

// Loading reports whether the shard's log is being read.
func (s *Shard) Loading() bool { return s.seq.mode == loading }

// Ended reports whether the shard has ended, and why. An ended shard makes no more calls and ignores
// events; the reply to a call under way is not waited for.
func (s *Shard) Ended() (why error, over bool) { return s.seq.why, s.seq.mode == stopped }

// TakeTally returns what the shard has counted since its last call.
func (s *Shard) TakeTally() Tally {
	t := s.seq.tally
	s.seq.tally = Tally{}
	return t
}

// AnswerClaim answers a claim from memory if that needs no commit. It sets the answer in a, which is zero, or
// returns false: the claim is to be queued.
//
// A final claim (Claim.IsFinal) and a reused key are certain even if little of the log is read. Any other answer
// is certain only while this process may append and the shard has read its log to the end: generations that are
// not read yet may change the answer.
func (s *Shard) AnswerClaim(now clock.Now, r *request.Request, a *request.Answer) bool {
	serves := s.Serves() // before the lookup: the state may be read to its end only after it
	// One lookup of the state and one of the requests under way suffice, because the state does not change between
	// them: a request leaves the table only after the state has its outcome.
	s.state.RLock()
	ok := s.recall(now, r, a)
	switch {
	case ok && (a.Accepted() && a.Claim.IsFinal() || a.Outcome == api.KeyReused):
	case !s.May(now):
		*a, ok = request.Refusal(api.NoQuorum), true
	case !serves:
		ok = false
	case !ok && s.seq.totals.AllSold(now):
		a.Outcome, ok = api.SoldOut, true
	}
	ok = ok && !s.ListMayContradict(a)
	contradicted := ok && s.Contradicted(r, a)
	s.state.RUnlock()
	switch {
	case contradicted && a.Outcome == api.SoldOut:
		return false // the earlier request may yet get units: this one is answered after it
	case contradicted:
		s.KeepInDoubt(r.User, r.Key)
		*a = request.Undecided
	case ok && s.Listed && !s.EndsDoubts(a):
		*a = s.Refuse(*r, *a) // the list may have given a unit, which the log may have by now
	}
	return ok
}

// Offer queues a ticket and returns "". If it cannot, it returns the outcome that is the reason, and the
// ticket stays the caller's.
func (s *Shard) Offer(now clock.Now, t *request.Ticket) api.Outcome {
	if s.Listed && t.Quantity == 1 { // a list grants no more than one
		return s.nodeQueue.Offer(now, t)
	}
	return s.inbox.offer(t, s.Pending)
}

// MayHave reports whether the shard's list may have given a user a unit that the log lacks.
func (s *Shard) MayHave(user string) bool { return s.Listed && s.nodeQueue.MayHave(user) }

// SetRights sets the rights of this process to append to the shard.
func (s *Shard) SetRights(r Rights) {
	s.rights.Store(&r)
	s.Post(r)
}

// Apply applies events to the sequencer, and with it to the ledger's state.
func (s *Shard) Apply(events ...Event) {
	s.state.Lock()
	defer s.state.Unlock()
	for _, e := range events {
		e.happen(s.Clock(), s.seq)
	}
}

// collect takes the events and the queued requests from the inbox and passes them to the sequencer. While a
// commit is under way requests stay in the inbox, where a requester that stops waiting can withdraw them.
func (s *Shard) collect() {
	events, queue := s.inbox.take(s.seq.sent == nil, len(s.seq.requests.waiting))
	if len(events) > 0 {
		s.Apply(events...)
	}
	s.seq.addRequests(queue)
}

// ConcludeAndDeliver completes requests with their answers, and passes on those that another process is
// to decide.
func (s *Shard) ConcludeAndDeliver(ts []*request.Ticket, mayHave func(user string) bool) {
	s.Conclude(ts, mayHave)
	s.Deliver(ts)
}

// Deliver completes tickets after Conclude, or forwards them. It calls waiters and forward, which may take
// locks that their owners also hold when they queue a ticket on this shard. So the caller must hold no lock
// of the shard or of its node.
func (s *Shard) Deliver(ts []*request.Ticket) {
	var moved []*request.Ticket
	for _, t := range ts {
		if s.NeedsForwarding(t) {
			moved = append(moved, t)
			continue
		}
		t.Complete()
	}
	if len(moved) > 0 {
		s.forward(moved)
	}
}

// deliverAnswered completes the tickets that the sequencer has answered, and reports how long the first
// of them waited.
func (s *Shard) deliverAnswered(ts []*request.Ticket) {
	if len(ts) == 0 {
		return
	}
	oldest := ts[0].QueuedAt
	s.inbox.decided(len(ts))
	for _, t := range ts {
		oldest = min(oldest, t.QueuedAt)
	}
	s.ConcludeAndDeliver(ts, s.MayHave)
	if s.observeWait != nil {
		s.observeWait(s.Clock().Mono - oldest)
	}
}
