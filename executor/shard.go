package executor

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/backends/lists"
)

// callTimeout is how long one call of the store may take. An append that takes
// longer is in doubt, and asked about.
const callTimeout = 2 * time.Second

// shard is the shell of one sequencer: the door through which claims come, and
// a goroutine that feeds the sequencer, makes its calls and carries its answers
// back.
type shard struct {
	// seq belongs to run, but for its ledger state: see state.
	seq   *sequencer
	logs  ledger.Logs
	clock clock.Clock
	post  func(message) // to another shard
	turns chan struct{} // has a place for each shard that may be loaded at a time
	stats *shardMetrics
	bound int // requests that may wait

	front front
	// Where the shard's units lie in a list: the node that has it.
	node int
	kept lists.Node

	// state guards the ledger's state of seq, which only events change. Claims
	// are looked up under it while the next commit is decided and appended.
	state sync.RWMutex

	// underway and doubts are the requests of which it is not known what becomes of
	// them: let in and not answered, and answered with Unknown.
	underway underway
	doubts   *doubts
	uid      string // of the run

	// mu guards the mail and is held for no longer than it takes to copy it.
	mu     sync.Mutex
	queue  []*ticket
	inside int // requests that the sequencer has and that wait for units
	closed bool
	events []event

	wake    chan struct{}     // holds one signal: there is mail
	replies chan ledger.Reply // has a place for the one call under way
	listed  chan lists.Reply  // the same, of the list's node
	serving atomic.Bool
	certain uint64                // the fill that has settled the doubts; 1 without lists. Only run touches it
	drained atomic.Bool           // the list is off, and the log has all that it gave
	stall   atomic.Pointer[Stall] // nil: it does not stall
	setBack atomic.Int64          // see sequencer
}

func newShard(seq *sequencer, cfg *Config, stats *shardMetrics) *shard {
	return &shard{
		seq: seq, logs: cfg.Logs, clock: cfg.Clock, bound: cfg.Queue, stats: stats,
		wake: make(chan struct{}, 1), replies: make(chan ledger.Reply, 1),
		listed: make(chan lists.Reply, 1), doubts: new(doubts), front: noFront{},
	}
}

// offer queues a ticket, or says why not.
func (s *shard) offer(now clock.Now, t *ticket) Outcome {
	if s.front.takes(t) {
		return s.front.offer(now, t)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return Standby
	case len(s.queue)+s.inside >= s.bound:
		return Overloaded
	}
	t.enter()
	if s.queue = append(s.queue, t); len(s.queue) == 1 {
		s.rouse()
	}
	return ""
}

// tryPost queues an event for the sequencer. It returns false if that has ended, and
// will not hear of it.
func (s *shard) tryPost(e event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.events = append(s.events, e)
	s.rouse()
	return true
}

func (s *shard) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// waiting returns how many requests wait.
func (s *shard) waiting() int {
	n := s.front.waiting()
	s.mu.Lock()
	defer s.mu.Unlock()
	return n + len(s.queue) + s.inside
}

// run is the event loop. It returns why the sequencer has stopped, after the
// last call has returned. ctx bounds the calls; only stop ends the loop.
func (s *shard) run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var calls sync.WaitGroup
	defer calls.Wait()
	for {
		s.perform(ctx, s.next(), timer, &calls)
		if s.seq.mode == stopped {
			s.close()
			return s.seq.why
		}
		select {
		case <-s.wake:
		case r := <-s.replies:
			s.gather(s.replied(r))
		case r := <-s.listed:
			s.happens(listReplied{r})
		case <-timer.C:
			s.happens(ticked{})
		}
	}
}

// largeBatch is a commit whose own cost is nothing against that of its claims.
const largeBatch = 64

// gather lets those run whom a small commit has answered: they are about to ask
// again. With 200 callers and 5 shards a commit then has 31 claims instead of
// 21, and a sixth more are sold.
func (s *shard) gather(answered int) {
	if answered > 0 && answered < largeBatch {
		letAskAgain()
	}
}

// letAskAgain lets those run who have just been answered.
func letAskAgain() {
	runtime.Gosched()
	runtime.Gosched() // the first may have gone to others who were there before
}

// replied takes in the reply to the call under way. It hands back what that has
// answered, before the next commit is decided, and returns how many those were.
func (s *shard) replied(r ledger.Reply) int {
	s.happens(replied{r})
	answered := s.seq.requests.taken()
	s.handBack(answered)
	return len(answered)
}

// next takes the mail in and returns what the sequencer then wants done.
func (s *shard) next() effects {
	s.collect()
	return s.seq.next(s.clock())
}

// happens lets events change the sequencer, and with it the ledger's state.
func (s *shard) happens(events ...event) {
	s.state.Lock()
	defer s.state.Unlock()
	for _, e := range events {
		e.happen(s.clock(), s.seq)
	}
}

// collect takes the mail in. While a commit is under way requests stay in the
// queue, where whoever gives up can withdraw them.
func (s *shard) collect() {
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
		s.happens(events...)
	}
	s.seq.claims(queue)
}

// close turns the door's late comers away.
func (s *shard) close() {
	s.serving.Store(false)
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.front.shutDown(s.seq.refusal)
	s.collect()
	s.handBack(s.seq.next(s.clock()).answered)
}

// perform does what the sequencer wants done.
func (s *shard) perform(ctx context.Context, e effects, timer *time.Timer, calls *sync.WaitGroup) {
	if e.send != nil {
		loads := s.seq.mode == loading
		calls.Go(func() { s.call(ctx, e.send, loads) })
	}
	if e.list != nil {
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			s.listed <- e.list.Do(ctx, s.kept)
		})
	}
	now := s.carry(e)
	wait := time.Hour
	if e.wake != 0 {
		wait = max(e.wake-now.Mono, 0)
	}
	timer.Reset(wait)
}

// carry delivers what the sequencer has to say, and shows how it stands.
func (s *shard) carry(e effects) clock.Now {
	s.handBack(e.answered)
	for _, m := range e.messages {
		s.post(m)
	}
	now := s.clock()
	stall := s.seq.stall(now)
	s.settleDoubts() // before anybody is asked under a new fill
	s.front.carry(now, e, stall != nil)
	if stall == nil {
		stall = s.front.stall(now)
	}
	s.setBack.Store(int64(s.seq.setBack))
	s.serving.Store(s.seq.mode == serving)
	s.stall.Store(stall)
	s.stats.tally(&s.seq.tally)
	return now
}

// call makes a call of the store. One that loads the log takes its turn first:
// its time counts from then.
func (s *shard) call(ctx context.Context, r *ledger.Request, loads bool) {
	if loads {
		s.turns <- struct{}{}
		defer func() { <-s.turns }()
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	began := s.clock().Mono
	reply := r.Do(ctx, s.logs)
	if r.Kind == ledger.AppendRequest {
		s.stats.append.Observe((s.clock().Mono - began).Seconds())
	}
	s.replies <- reply
}

func (s *shard) handBack(ts []*ticket) {
	if len(ts) == 0 {
		return
	}
	oldest := ts[0].queuedAt
	s.mu.Lock()
	s.inside -= min(len(ts), s.inside)
	s.mu.Unlock()
	s.conclude(ts, s.front.mayHave)
	for _, t := range ts {
		oldest = min(oldest, t.queuedAt)
		t.tell()
	}
	s.stats.answered(s.clock().Mono - oldest)
}

// conclude takes requests that are about to be told their answers out of those
// under way. What they are told must not deny a claim that an earlier request of
// the same key may yet get, or may have got. mayHave says whether a user may have
// been given something by a list that the log lacks.
func (s *shard) conclude(ts []*ticket, mayHave func(user string) bool) {
	var refused []*ticket
	s.underway.mu.Lock()
	for _, t := range ts {
		if t.home == nil {
			continue
		}
		s.underway.remove(t)
		switch {
		case t.answer.Outcome == Unknown:
			s.doubt(t)
		case t.answer.denies():
			refused = append(refused, t)
		}
	}
	for _, t := range refused {
		if s.underway.hasBefore(t.User, t.Key, t.hash, t.number) {
			t.answer = undecided
		}
	}
	s.underway.mu.Unlock()
	for _, t := range refused {
		if !s.decides(t.answer) && (s.doubts.has(t.User, t.Key) || mayHave(t.User)) {
			t.answer = undecided
			s.keepInDoubt(t.User, t.Key)
		}
	}
}

// doubt remembers that a request may have been accepted, or may be yet. Where the
// log has all that a list gave it would say so.
func (s *shard) doubt(t *ticket) {
	if t.home != nil && !s.drained.Load() {
		s.doubts.add(s.uid, s.seq.shard, t.User, t.Key)
	}
}

// refuse returns the answer to a request that is refused without a look at it:
// a, unless the claim was accepted, or may yet be, under an earlier request of the
// same key.
func (s *shard) refuse(r Request, a Answer) Answer {
	if r.Key == "" || !a.denies() {
		return a
	}
	inDoubt := s.underway.has(r.User, r.Key) ||
		!s.decides(a) && (s.doubts.has(r.User, r.Key) || s.front.mayHave(r.User))
	// An earlier one may just have been answered.
	if again, ok := s.recall(s.clock(), r); ok && again.Accepted() {
		return again
	}
	if inDoubt {
		s.keepInDoubt(r.User, r.Key)
		return undecided
	}
	return a
}

// decides says whether an answer also is the answer to whatever is in doubt of its
// user: whoever has what a user may have, by the log or the list that this process
// serves, gets nothing by any other request, nor does anybody where all is sold. That a
// request asks for more than anybody may have says nothing of the others.
func (s *shard) decides(a Answer) bool {
	return a.Outcome == SoldOut || a.Outcome == LimitReached && len(a.Claims) > 0 && s.serving.Load()
}

// keepInDoubt keeps a request in doubt, or with anyKey all of a user's, whose user may
// have something of the list which the log lacks: what else is known of that ends with
// the tenure.
func (s *shard) keepInDoubt(user, key string) {
	if s.front.mayLack() {
		s.doubts.add(s.uid, s.seq.shard, user, key)
	}
}

// settleDoubts forgets what was in doubt before this process took the shard over,
// or before its list was filled anew: the log has it, or never will.
func (s *shard) settleDoubts() {
	drained, since := s.seq.engine.drained(), s.seq.engine.certain()
	s.drained.Store(drained)
	if drained || since != 0 && since != s.certain {
		s.doubts.settle(s.uid, s.seq.shard)
	}
	if since != 0 {
		s.certain = since
	}
}

// recall answers a request from memory, if what is in the ledger decides it.
func (s *shard) recall(now clock.Now, r Request) (Answer, bool) {
	s.state.RLock()
	defer s.state.RUnlock()
	state := s.seq.state
	if state.Settings() == nil {
		return Answer{}, false
	}
	v, ok := state.Recall(r.User, r.Key, r.Quantity, now.Wall.UnixMicro())
	if !ok {
		return Answer{}, false
	}
	return answerOf(s.seq.shard, state, r.User, v, now), true
}

// user returns a user's claims.
func (s *shard) user(user string) []Claim {
	s.state.RLock()
	defer s.state.RUnlock()
	return claimsOf(s.seq.shard, s.seq.state, user)
}

// status returns the shard as it stands.
func (s *shard) status() ShardStatus {
	s.state.RLock()
	defer s.state.RUnlock()
	st := s.seq.state
	v := ShardStatus{
		Shard: s.seq.shard, Epoch: st.Epoch, Generation: st.Generation, Limit: st.Limit,
		Available: st.Available, Held: st.Held, Sold: st.Sold, InFlight: st.InFlight,
		Bytes: st.Bytes(), Queue: s.waiting(), Owned: s.serving.Load(), Stall: s.stall.Load(),
	}
	if st.Next() > 0 {
		v.Slot = st.Next() - 1
	}
	s.front.show(&v)
	return v
}

// bytes returns the size of the shard's log.
func (s *shard) bytes() int64 {
	s.state.RLock()
	defer s.state.RUnlock()
	return s.seq.state.Bytes()
}
