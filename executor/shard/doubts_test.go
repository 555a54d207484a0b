package shard

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/executor/saletest"
)

// TestUnderway holds the table against a plain one.
func TestUnderway(t *testing.T) {
	var u underway
	var in []*Ticket
	count := func(user string) (n int) {
		for _, x := range in {
			if x.User == user {
				n++
			}
		}
		return n
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		if len(in) == 0 || r.IntN(100) < 51 {
			x := &Ticket{Request: Request{User: fmt.Sprint("user-", r.IntN(300)), Key: "key"}}
			before := count(x.User) > 0
			u.enter(x)
			in = append(in, x)
			if got := u.hasBefore(x.User, x.Key, x.hash, x.number); got != before {
				t.Fatalf("an earlier request of %s: %v, want %v", x.User, got, before)
			}
		} else {
			i := r.IntN(len(in))
			u.leave(in[i])
			in = append(in[:i], in[i+1:]...)
		}
		user := fmt.Sprint("user-", r.IntN(300))
		if got := u.has(&Request{User: user, Key: "key"}); got != (count(user) > 0) {
			t.Fatalf("%s is under way: %v, with %d requests", user, got, count(user))
		}
		if u.has(&Request{User: user, Key: "another"}) || int(u.size.Load()) != len(in) {
			t.Fatalf("another key is under way, or %d of %d are", u.size.Load(), len(in))
		}
	}
}

// TestLimitReachedDecides tells a user at the limit so, though another request of
// theirs was in doubt: it would otherwise stay so until the shard is taken over.
func TestLimitReachedDecides(t *testing.T) {
	c := newCounted(t, 10)
	s := c.g.shards[0].shard
	s.doubts.Add(saletest.UID, 0, "ann", "second")
	limit := Answer{Outcome: api.LimitReached, Claims: []Claim{{User: "ann", Units: []int64{1}}}}
	if a := s.Refuse(Request{User: "ann", Key: "second", Quantity: 1}, limit); a.Outcome != api.Unknown {
		t.Errorf("while the shard's log is being read: %q", a.Outcome)
	}
	s.serving.Store(true)
	if a := s.Refuse(Request{User: "ann", Key: "second", Quantity: 1}, limit); a.Outcome != api.LimitReached {
		t.Errorf("while the shard is served: %q", a.Outcome)
	}
	if a := s.Refuse(Request{User: "ann", Key: "second", Quantity: 2}, Answer{Outcome: api.LimitReached}); a.Outcome != api.Unknown {
		t.Errorf("more than anybody may have: %q", a.Outcome)
	}
	if a := s.Refuse(Request{User: "ann", Key: "second", Quantity: 1}, Answer{Outcome: api.NoQuorum}); a.Outcome != api.Unknown {
		t.Errorf("an answer about the server alone: %q", a.Outcome)
	}
}

// TestGivenInDoubtAfterTheSession has a process lose a shard while the ledger lacks what
// its list gave. Whoever heard sold must not hear that nothing was accepted.
func TestGivenInDoubtAfterTheSession(t *testing.T) {
	refused := Answer{Outcome: api.NoQuorum}
	for name, lose := range map[string]func(c *counted, ask func(users ...string) *GrabCall){
		"after the answer": func(c *counted, ask func(users ...string) *GrabCall) {
			c.gives(ask("ann"), false)
			c.queues[0].shutDown(refuseHere(api.Standby))
		},
		"before the answer": func(c *counted, ask func(users ...string) *GrabCall) {
			call := ask("ann")
			c.queues[0].shutDown(refuseHere(api.Standby))
			c.gives(call, false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCounted(t, 10)
			s := c.g.shards[0].shard
			lose(c, func(users ...string) *GrabCall {
				c.offer(users...)
				return c.asks(users...)
			})
			for user, want := range map[string]api.Outcome{"ann": api.Unknown, "bob": api.NoQuorum} {
				if a := s.Refuse(Request{User: user, Key: "key", Quantity: 1}, refused); a.Outcome != want {
					t.Errorf("%s hears %q, want %q", user, a.Outcome, want)
				}
			}
			s.doubts.forget(saletest.UID, 0)
			if a := s.Refuse(Request{User: "ann", Key: "key", Quantity: 1}, refused); a.Outcome != api.NoQuorum {
				t.Errorf("ann hears %q when the shard was read", a.Outcome)
			}
		})
	}
}

// TestClosedListTellsWhatItGave has somebody ask again whose answer was lost, when
// the list has closed.
func TestClosedListTellsWhatItGave(t *testing.T) {
	c := newCounted(t, 10)
	tickets := make(map[string]*Ticket)
	for _, user := range []string{"has", "has under another key", "has nothing"} {
		tickets[user] = NewTicket(new(sync.Pool), Request{User: user, Key: "key", Quantity: 1}, nil, c.now.Mono)
		if o := c.queues[0].offer(c.now, tickets[user]); o != "" {
			t.Fatal(o)
		}
	}
	call := c.asks("has", "has under another key", "has nothing")
	c.g.HandleReply(c.now, call, []lists.Given{{Why: lists.ErrClosed, Units: []lists.Unit{
		{Number: 1, Before: true, Key: "key", At: 5}, {Number: 2, Before: true, Key: "first", At: 5}, {},
	}}}, nil)
	for user, want := range map[string]api.Outcome{"has": api.Sold, "has under another key": api.Closed, "has nothing": api.Closed} {
		if got := tickets[user].answer; got.Outcome != want {
			t.Errorf("who %s hears %+v, want %s", user, got, want)
		}
	}
	if got := tickets["has"].answer; !got.Replayed || got.Claim.ID != (ClaimID{Unit: 1}) || got.Claim.At != time.UnixMicro(5) {
		t.Errorf("who has a unit hears %+v", got)
	}
}

// TestDoubts bounds what is remembered: beyond that everything on the shard is in
// doubt, until it is settled.
func TestDoubts(t *testing.T) {
	var d Doubts
	d.Add("run-1", 1, "ann", "a")
	d.Add("run-1", 2, "bob", "a")
	if !d.Has("ann", "a") || d.Has("ann", "b") || !d.Has("bob", "a") {
		t.Error("it does not know what it was told")
	}
	d.Add("run-1", 1, "cat", AnyKey)
	if !d.Has("cat", "a") || !d.Has("cat", "b") || d.Has("dan", "a") {
		t.Error("all of cat's is in doubt, and nothing of dan's")
	}
	d.forget("run-1", 1)
	if d.Has("cat", "a") {
		t.Error("cat's was settled")
	}
	if d.Has("ann", "a") || !d.Has("bob", "a") {
		t.Error("shard 1 was settled, not shard 2")
	}
	d.drop(2, "bob", "a")
	if d.Has("bob", "a") || d.n.Load() != 0 {
		t.Error("bob's is known")
	}
	for i := range maxDoubts + 5 {
		d.Add("run-1", 3, fmt.Sprint("user-", i), "a")
	}
	d.drop(3, "user-0", "a")
	if !d.Has("user-0", "a") || !d.Has("somebody", "else") || d.n.Load() != maxDoubts {
		t.Errorf("with %d in doubt somebody is sure", d.n.Load())
	}
	d.forget("run-1", 3)
	if d.Has("user-0", "a") || d.n.Load() != 0 {
		t.Error("shard 3 was settled")
	}
	d.Add("run-1", 3, "ann", "a")
	d.forget("run-2", 0)
	if d.Has("ann", "a") || d.n.Load() != 0 {
		t.Error("another run has begun")
	}
	d.Add("run-1", 3, "bob", "a")
	d.Add("run-1", 3, "cat", "a")
	d.drop(3, "cat", "a")
	d.drop(3, "cat", "a") // nothing is known of it any more
	d.drop(3, "dan", "a")
	if d.Has("ann", "a") || !d.Has("bob", "a") || d.Has("cat", "a") || d.n.Load() != 1 {
		t.Errorf("bob's alone is in doubt, and not %d", d.n.Load())
	}
	d.Add("run-2", 3, "eve", "a")
	if d.Has("bob", "a") || !d.Has("eve", "a") || d.n.Load() != 1 {
		t.Errorf("eve's alone is in doubt, of another run, and not %d", d.n.Load())
	}
}

// TestGiveUp ends the waiting of one request: its place among those under way is free,
// and what it may have got of a list stays in doubt.
func TestGiveUp(t *testing.T) {
	c := newCounted(t, 10)
	s := c.queues[0].shard
	wait := func(user string, taken bool) *Ticket {
		x := NewTicket(new(sync.Pool), Request{User: user, Key: "key", Quantity: 1}, nil, c.now.Mono)
		x.enter(&s.pending)
		if taken {
			x.take()
		}
		return x
	}
	if a := wait("ann", false).GiveUp(); a.Outcome != api.Overloaded || s.underway.size.Load() != 0 || s.doubts.Has("ann", "key") {
		t.Errorf("nobody looked at it: %+v, %d are under way", a, s.underway.size.Load())
	}
	if a := wait("bob", true).GiveUp(); a.Outcome != api.Unknown || s.underway.size.Load() != 1 || !s.doubts.Has("bob", "key") {
		t.Errorf("it is being decided: %+v, %d are under way", a, s.underway.size.Load())
	}
	s.drained.Store(true)
	if a := wait("cat", true).GiveUp(); a.Outcome != api.Unknown || !s.doubts.Has("cat", "key") { // which may move to another process undecided
		t.Errorf("it is being decided, and the log has all that the list gave: %+v", a)
	}
	told := wait("dan", true)
	told.answer = Answer{Outcome: api.Sold}
	told.complete()
	if a := told.GiveUp(); a.Outcome != api.Sold {
		t.Errorf("it has its answer: %+v", a)
	}
}

// TestDecidedAgain denies nobody what an earlier request of the same key may yet get that is to
// be decided by other rules. That one keeps its turn, and may be refused all the same.
func TestDecidedAgain(t *testing.T) {
	otherRules, noneNow := Answer{Outcome: api.NotChecked, OtherRules: true}, Answer{Outcome: api.NoneNow}
	for name, next := range map[string]func(t *testing.T, s *Shard, enter func(Request) *Ticket, first, second *Ticket){
		"it waits again": func(t *testing.T, s *Shard, enter func(Request) *Ticket, first, second *Ticket) {
			again := enter(first.Repeat())
			first.Finish()
			if again.number >= second.number || s.underway.size.Load() != 2 {
				t.Errorf("it is number %d, behind %d, of %d", again.number, second.number, s.underway.size.Load())
			}
			second.answer, again.answer = noneNow, noneNow
			s.conclude([]*Ticket{second}, func(string) bool { return false })
			s.conclude([]*Ticket{again}, func(string) bool { return false })
			if a := second.Finish(); a.Outcome != api.Unknown {
				t.Errorf("the second is told %+v", a)
			}
			if a := again.Finish(); a.Outcome != api.NoneNow {
				t.Errorf("the first is told %+v", a)
			}
		},
		"it is refused": func(t *testing.T, s *Shard, _ func(Request) *Ticket, first, second *Ticket) {
			s.underway.leave(second)
			if a := s.Refuse(first.Repeat(), noneNow); a.Outcome != api.NoneNow {
				t.Errorf("the first is told %+v", a)
			}
			if a := s.Refuse(Request{User: "ann", Key: "key"}, noneNow); a.Outcome != api.Unknown {
				t.Errorf("a third is told %+v", a)
			}
			first.Finish()
		},
		"nobody waits for it": func(_ *testing.T, s *Shard, _ func(Request) *Ticket, first, second *Ticket) {
			s.underway.leave(second)
			first.GiveUp()
		},
		"nobody has waited for it": func(_ *testing.T, s *Shard, enter func(Request) *Ticket, first, second *Ticket) {
			s.underway.leave(second)
			first.Finish()
			gone := enter(Request{User: "ann", Key: "key", Quantity: 1})
			gone.take()
			gone.GiveUp()
			gone.answer = otherRules
			s.conclude([]*Ticket{gone}, func(string) bool { return false })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCounted(t, 10).queues[0].shard
			enter := func(r Request) *Ticket {
				x := NewTicket(new(sync.Pool), r, nil, 0)
				x.enter(&s.pending)
				return x
			}
			first, second := enter(Request{User: "ann", Key: "key", Quantity: 1}), enter(Request{User: "ann", Key: "key", Quantity: 1})
			denied := enter(Request{User: "ann", Key: "key", Quantity: 1})
			for _, x := range []*Ticket{first, second, denied} {
				x.take()
			}
			first.answer, denied.answer = otherRules, noneNow
			s.conclude([]*Ticket{first, denied}, func(string) bool { return false })
			if a := denied.Finish(); a.Outcome != api.Unknown {
				t.Errorf("another is told %+v", a)
			}
			if !first.OtherRules() {
				t.Errorf("the first is told %+v", first.answer)
			}
			next(t, s, enter, first, second)
			if n := s.underway.size.Load(); n != 0 {
				t.Errorf("%d are under way", n)
			}
		})
	}
}

// TestTriedElsewhere refuses requests without a look on which another process may have
// decided: what that has accepted is not denied, whether this one knows it by now or not.
func TestTriedElsewhere(t *testing.T) {
	noQuorum, elsewhere := refuseHere(api.NoQuorum), refuseElsewhere(api.NoQuorum)
	for name, test := range map[string]struct {
		user    string
		surely  bool // the log is read behind all that the other has sent there
		held    bool // what ann has waits for her payment
		untried bool
		visits  bool // another process has sent it
		minted  bool
		settles bool
		moves   bool // requests go on to the next owner
		says    Answer
		want    api.Outcome
		doubt   bool
	}{
		"not read yet":                         {user: "ann", says: noQuorum, want: api.Unknown, doubt: true},
		"not read yet, asked of nobody":        {user: "bob", untried: true, says: noQuorum, want: api.NoQuorum},
		"not read yet, without a key":          {user: "bob", minted: true, says: noQuorum, want: api.Unknown},
		"not read yet, at the end of the sale": {user: "ann", says: refuseHere(api.Closed), want: api.Unknown, doubt: true},
		"not read yet, and it goes on":         {user: "ann", moves: true, says: elsewhere, want: api.NoQuorum},
		"not read yet, and nobody takes it on": {user: "ann", says: elsewhere, want: api.Unknown, doubt: true},
		"not read yet, of a claim":             {user: "ann", settles: true, says: noQuorum, want: api.Unknown},
		"accepted":                             {user: "ann", surely: true, says: noQuorum, want: api.Sold},
		"accepted, without a key":              {user: "ann", surely: true, minted: true, says: noQuorum, want: api.Sold},
		"accepted, at the end of the sale":     {user: "ann", surely: true, says: refuseHere(api.Closed), want: api.Sold},
		"held, perhaps paid":                   {user: "ann", surely: true, held: true, says: noQuorum, want: api.Unknown, doubt: true},
		"held, by who has looked":              {user: "ann", surely: true, held: true, says: refuseHere(api.Closed), want: api.Held},
		"not accepted":                         {user: "bob", surely: true, says: noQuorum, want: api.NoQuorum},
		"accepted or not, of a claim":          {user: "ann", surely: true, settles: true, says: noQuorum, want: api.Unknown},
		"looked at, of a claim":                {user: "ann", surely: true, settles: true, says: Answer{Outcome: api.NoSuchClaim}, want: api.NoSuchClaim},
		"at the end, accepted here":            {user: "ann", surely: true, untried: true, says: refuseHere(api.Closed), want: api.Sold},
		"at the end, held here":                {user: "ann", surely: true, untried: true, held: true, says: refuseHere(api.Closed), want: api.Held},
		"at the end, not accepted":             {user: "bob", surely: true, untried: true, says: refuseHere(api.Closed), want: api.Closed},
		"after the end, accepted here":         {user: "ann", untried: true, says: refuseHere(api.Closed), want: api.Sold},
		"after the end, held, perhaps paid":    {user: "ann", untried: true, held: true, says: refuseHere(api.Closed), want: api.Unknown, doubt: true},
		"after the end, not accepted":          {user: "bob", untried: true, says: refuseHere(api.Closed), want: api.Closed},
		"at the end, of a claim, tried":        {user: "ann", surely: true, settles: true, says: refuseHere(api.Closed), want: api.Unknown},
		"at the end, of a claim, by a peer":    {user: "ann", surely: true, untried: true, visits: true, settles: true, says: refuseHere(api.Closed), want: api.Unknown},
		"at the end, of a claim":               {user: "ann", surely: true, untried: true, settles: true, says: refuseHere(api.Closed), want: api.Closed},
		"accepted now":                         {user: "bob", surely: true, says: Answer{Outcome: api.Sold}, want: api.Sold},
	} {
		t.Run(name, func(t *testing.T) {
			settings, first := &pb.Settings{PerUserLimit: 1, Phase: pb.Phase_OPEN}, api.Sold
			if test.held {
				settings.Payment, first = &pb.Payment{HoldForUs: 60e6, Late: pb.Payment_REFUSE}, api.Held
			}
			w := newWorldAs(t, settings, 9)
			had := w.serving("first").ask("ann", "1", 1)
			w.settle()
			had.want(t, string(first))

			c := Config{Log: "log", UID: saletest.UID, Totals: NewSaleTotals(1), Doubts: new(Doubts), Clock: func() clock.Now { return w.now }}
			if test.moves {
				c.Forward = func([]*Ticket) {}
			}
			s := New(c)
			if s.seq.state = saletest.LoadShard(t, w.logs, 0, 1); test.surely {
				s.serving.Store(true)
				s.logCompletePeriod.Store(1)
			}
			x := NewTicket(new(sync.Pool), Request{User: test.user, Key: "1", Quantity: 1}, nil, w.now.Mono)
			if x.keyless = test.minted; test.settles {
				x = NewTicket(new(sync.Pool), Request{Settle: &Settlement{How: api.Cancel}}, nil, w.now.Mono)
			}
			x.enter(&s.pending)
			x.maybeDecided, x.fromPeer, x.answer = !test.untried, test.visits, test.says
			s.conclude([]*Ticket{x}, s.nodeQueue.mayHave)
			got := x.answer
			if got.Outcome != test.want || s.doubts.Has(test.user, "1") != test.doubt {
				t.Errorf("it is told %+v, want %q; in doubt: %v", got, test.want, s.doubts.Has(test.user, "1"))
			}
			if test.user == "ann" && got.Accepted() && (got.Claim.Units == nil || got.Replayed == test.minted) {
				t.Errorf("it is told %+v of what was accepted before", got)
			}
			if s.underway.has(&Request{User: test.user, Key: "1"}) != test.moves {
				t.Errorf("it is under way: %v", !test.moves)
			}
		})
	}
}

// TestRefuseHeld refuses for good whoever has something to hold under the same key: what
// became of it is said by a process that has read the log and may append, and no other.
func TestRefuseHeld(t *testing.T) {
	w := newWorldAs(t, &pb.Settings{
		PerUserLimit: 1, Phase: pb.Phase_OPEN, Payment: &pb.Payment{HoldForUs: 60e6, Late: pb.Payment_REFUSE},
	}, 9)
	w.serving("first").ask("ann", "1", 1)
	w.settle()
	for name, c := range map[string]struct {
		serves, may bool
		says, want  api.Outcome
	}{
		"while the log is read":          {false, true, api.NotEligible, api.Unknown},
		"without a lease":                {true, false, api.NotEligible, api.Unknown},
		"by the owner":                   {true, true, api.NotEligible, api.Held},
		"by the owner, for the time":     {true, true, api.Overloaded, api.Overloaded},
		"while the log is read, for now": {false, true, api.NoQuorum, api.NoQuorum},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(Config{Log: "log", UID: saletest.UID, Totals: NewSaleTotals(1), Doubts: new(Doubts), Clock: func() clock.Now { return w.now }})
			s.seq.state = saletest.LoadShard(t, w.logs, 0, 1)
			s.serving.Store(c.serves)
			if c.may {
				s.SetRights(Rights{Lease: leaseFrom(t, w.now), ReadAt: w.now, TTL: quorum.DefaultTTL})
			}
			if a := s.Refuse(Request{User: "ann", Key: "1", Quantity: 1}, Answer{Outcome: c.says}); a.Outcome != c.want {
				t.Errorf("%q, want %q", a.Outcome, c.want)
			}
		})
	}
}
