// Package shard decides the claims of one shard of a sale: who gets its units, in
// which order, and what each request is told. It makes no call and starts no
// goroutine; package executor does both.
//
// # The life of a claim
//
//  1. Recall and Refuse answer from memory what needs no commit (decided.go,
//     undecided.go). Any other request becomes a Ticket (ticket.go), which Offer queues.
//     It enters the requests under way (underway.go), so that a repetition of the same
//     key hears nothing that denies it. With engine ledger it waits in the shard's own
//     queue (shard.go), with engine redis in that of the node which has the shard's
//     list (grabs.go).
//  2. Engine ledger: when the shard's last commit is known, its sequencer takes all that
//     has queued and decides it in order against the ledger's state (sequencer.go,
//     requests.go, ownerDecides in engine.go). Whoever gets nothing is answered; whoever
//     is short of units waits while other shards are asked for some (transfer.go,
//     saletotals.go), and gets a part at last if the sale allows it; all others go into one
//     commit, which is appended to the shard's log.
//     Engine redis: the node is asked for a whole batch at a time, and its list gives
//     each user a unit (grabs.go, grabanswers.go). The sequencer drains what was given
//     into the log (listGives in enginelists.go). With ack redis the answer is there when
//     the node has said so, up to a bound (backlog.go); with ack ledger when the log has
//     it.
//  3. When an append is known to be in the log, its tickets get their answers; when it
//     stays unknown, they are in doubt (doubts.go) until the log has been read behind it.
//  4. Shard.conclude looks once more at each answer that denies a claim, takes the tickets
//     from those under way and tells whoever waits. One that the rules of before had let in
//     stays under way until the rules in force have decided on it (Ticket.Again).
//
// # How a shard is run
//
// The sequencer is a step machine: events, which are values (event.go), change it, and
// Act (act.go) lets it act: whoever runs a shard makes the calls that it then wants, and
// brings their replies back, which become events; the answers are handed out. What
// differs between the engines is behind two seams: engine within a sequencer, front at
// the shard's queue.
//
// After 一种基于Redis和HBase的分锁方法 (a patent application of 2016), whose lock on
// a shard is held here by one owner over many claims, and 管理分布式锁的方法和计算机
// 可读存储介质 (2018), which orders requests into a serial queue.
package shard

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
)

// Config is what a shard is made of. All but Answered is required.
type Config struct {
	Shard    int
	Log      string // the name of its log
	Me       []byte // this process, as commits name it
	Address  string // where it answers, as commits name it
	UID      string // of the run
	Node     int    // that keeps the shard's list, as an index into those that keep lists
	Totals   *SaleTotals
	Doubts   *Doubts
	Clock    clock.Clock
	Queue    int                        // requests that may wait
	Bounds   ledger.Bounds              // of a commit; 0: as usual
	Post     func(Message)              // to another shard
	Remote   *Remote                    // the shard's stand-in while another process owns it; nil: there is none
	Moved    func([]*Ticket)            // takes over, in their order, requests that came to this process and that another is to decide on; nil: they are refused
	Applied  uint64                     // the generation that every shard had before the log is read
	Follows  bool                       // read the log on while there are no rights to append
	Answered func(waited time.Duration) // after a batch is answered: how long its first request waited; nil: nobody counts
}

// Shard is one shard as the process that serves it has it: the queue of its requests,
// the sequencer that decides them, and what is known of those that have no answer yet.
// One goroutine calls Act, Happens, Loading, Ended, Answered, Counted and the Took of the
// shard's calls, in a loop: Act, and then whatever comes first. All other methods are safe
// for concurrent use.
type Shard struct {
	// seq belongs to whoever runs the shard, but for its ledger state: see state.
	seq   *sequencer
	clock clock.Clock
	post  func(Message)
	told  func(time.Duration)
	moved func([]*Ticket)
	self  holder // itself, for its tickets

	front front

	// state guards the ledger's state of seq, which only events change. Claims
	// are looked up under it while the next commit is decided and appended.
	state sync.RWMutex

	// underway and doubts are the requests of which it is not known what becomes of
	// them: let in and not answered, and answered with Unknown.
	underway *underway
	doubts   *Doubts
	uid      string // of the run

	holds holdTally

	// mu guards the mail and is held for no longer than it takes to copy it.
	mu      sync.Mutex
	bound   int // requests that may wait
	queue   []*Ticket
	inside  int // requests that the sequencer has and that wait for units
	closed  bool
	refusal Answer // what it told whom it had not decided on, once it is closed
	events  []Event

	wake             chan struct{} // holds one signal: there is mail
	serving          atomic.Bool
	follows          atomic.Bool            // it has read its log to the end, and reads it on
	rights           atomic.Pointer[Rights] // nil: there never were any
	logCompleteEpoch atomic.Uint64          // the fill that has settled the doubts; 1 without lists. Only whoever runs it writes it
	drained          atomic.Bool            // the list is off, and the log has all that it gave
	stall            atomic.Pointer[Stall]  // nil: it does not stall
	setBack          atomic.Int64           // see sequencer
	node             int
	decided          atomic.Uint64 // requests that were answered, in all
	replied          int           // requests that replies of the store have answered; see Answered
}

// New returns a shard that begins, with Next, by reading its log.
func New(c Config) *Shard {
	seq := newSequencer(c.Shard, c.Log, c.Me, c.Address, c.Totals)
	seq.follows, seq.applied, seq.bounds = c.Follows, c.Applied, c.Bounds
	seq.transfers.names = cmp.Or(c.Bounds.Ranges, mostNamed)
	s := &Shard{
		seq:   seq,
		clock: c.Clock, post: c.Post, moved: c.Moved, told: c.Answered, bound: c.Queue, uid: c.UID, node: c.Node, doubts: c.Doubts,
		wake: make(chan struct{}, 1), front: noFront{},
	}
	s.self, s.underway = s, new(underway)
	if c.Remote != nil {
		s.underway = &c.Remote.underway
	}
	return s
}

// Number is the shard's, from 0.
func (s *Shard) Number() int { return s.seq.shard }

// Mail holds a signal while there is mail for Next.
func (s *Shard) Mail() <-chan struct{} { return s.wake }

// Loading reports whether the shard's log is being read.
func (s *Shard) Loading() bool { return s.seq.mode == loading }

// Ended reports whether the shard has, and why. It wants no call any more, and hears of
// nothing; the reply to one that is under way is not waited for.
func (s *Shard) Ended() (why error, over bool) { return s.seq.why, s.seq.mode == stopped }

// Counted returns what the shard has counted since it was last asked.
func (s *Shard) Counted() Tally {
	t := s.seq.tally
	s.seq.tally = Tally{}
	return t
}

// Offer queues a ticket, or says why not.
func (s *Shard) Offer(now clock.Now, t *Ticket) api.Outcome {
	if s.front.takes(t) {
		return s.front.offer(now, t)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return api.Standby
	case len(s.queue)+s.inside >= s.bound:
		return api.Overloaded
	}
	t.enter(s)
	if s.queue = append(s.queue, t); len(s.queue) == 1 {
		s.rouse()
	}
	return ""
}

// Bound sets how many requests may wait from here on. Those that wait stay.
func (s *Shard) Bound(requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bound = requests
}

// Post queues an event for the sequencer. It returns false if that has ended, and
// will not hear of it.
func (s *Shard) Post(e Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.events = append(s.events, e)
	s.rouse()
	return true
}

// Grant says what rights this process has to append to the shard, from here on.
func (s *Shard) Grant(r Rights) {
	s.rights.Store(&r)
	s.Post(r)
}

// May reports whether this process may append to the shard.
func (s *Shard) May(now clock.Now) bool {
	r := s.rights.Load()
	return r != nil && r.Valid(now)
}

// Leased reports whether this process has the shard's lease, and until when by its
// monotonic clock.
func (s *Shard) Leased(now clock.Now) (until time.Duration, ok bool) {
	if r := s.rights.Load(); r != nil && r.Lease.At(now) {
		return r.Lease.Until(), true
	}
	return 0, false
}

func (s *Shard) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Happens lets events change the sequencer, and with it the ledger's state.
func (s *Shard) Happens(events ...Event) {
	s.state.Lock()
	defer s.state.Unlock()
	for _, e := range events {
		e.happen(s.clock(), s.seq)
	}
}

// collect takes the mail in. While a commit is under way requests stay in the
// queue, where whoever gives up can withdraw them.
func (s *Shard) collect() {
	s.mu.Lock()
	events, queue := s.events, s.queue
	s.events = nil
	if s.seq.sent != nil {
		queue = nil
	} else {
		s.queue = nil
		s.inside = len(s.seq.requests.waiting) + len(queue)
	}
	s.mu.Unlock()
	if len(events) > 0 {
		s.Happens(events...)
	}
	s.seq.claims(queue)
}

// tell tells requests their answers, and hands over those that another process is to
// decide on.
func (s *Shard) tell(ts []*Ticket, mayHave func(user string) bool) {
	s.conclude(ts, mayHave)
	s.deliver(ts)
}

// deliver is the part of tell that others hear: they may take locks that are held while a
// ticket is queued here.
func (s *Shard) deliver(ts []*Ticket) {
	var moved []*Ticket
	for _, t := range ts {
		if s.moves(t) {
			moved = append(moved, t)
			continue
		}
		t.complete()
	}
	if len(moved) > 0 {
		s.moved(moved)
	}
}

func (s *Shard) handBack(ts []*Ticket) {
	if len(ts) == 0 {
		return
	}
	oldest := ts[0].queuedAt
	s.mu.Lock()
	s.inside -= min(len(ts), s.inside)
	s.mu.Unlock()
	for _, t := range ts {
		oldest = min(oldest, t.queuedAt)
	}
	s.tell(ts, s.front.mayHave)
	if s.told != nil {
		s.told(s.clock().Mono - oldest)
	}
}
