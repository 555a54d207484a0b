package shard

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/quorum"
	"salectl/executor/request"
	"salectl/executor/saletest"
)

// TestLimitReachedDecides tells a user at the limit so, though another request of
// theirs was in doubt: it would otherwise stay so until the shard is taken over.
func TestLimitReachedDecides(t *testing.T) {
	s := newUnread(t)
	s.Doubts.Add(saletest.UID, 0, "ann", "second")
	limit := request.Answer{Outcome: api.LimitReached, Claims: []request.Claim{{User: "ann", Units: []int64{1}}}}
	if a := s.Refuse(request.Request{User: "ann", Key: "second", Quantity: 1}, limit); a.Outcome != api.Unknown {
		t.Errorf("while the shard's log is being read: %q", a.Outcome)
	}
	s.serving.Store(true)
	if a := s.Refuse(request.Request{User: "ann", Key: "second", Quantity: 1}, limit); a.Outcome != api.LimitReached {
		t.Errorf("while the shard is served: %q", a.Outcome)
	}
	if a := s.Refuse(request.Request{User: "ann", Key: "second", Quantity: 2}, request.Answer{Outcome: api.LimitReached}); a.Outcome != api.Unknown {
		t.Errorf("more than anybody may have: %q", a.Outcome)
	}
	if a := s.Refuse(request.Request{User: "ann", Key: "second", Quantity: 1}, request.Answer{Outcome: api.NoQuorum}); a.Outcome != api.Unknown {
		t.Errorf("an answer about the server alone: %q", a.Outcome)
	}
}

// newUnread returns a shard that has not read its log.
func newUnread(testing.TB) *Shard {
	return New(Config{
		Log: "log", Writer: []byte("12345678"), Address: "a:1", UID: saletest.UID,
		Totals: NewSaleTotals(1), Doubts: new(request.Doubts), Clock: clock.System(),
	})
}

// TestGiveUp ends the waiting of one request: its place among those under way is free,
// and what it may have got of a list stays in doubt.
func TestGiveUp(t *testing.T) {
	s := newUnread(t)
	wait := func(user string, taken bool) *request.Ticket {
		x := request.NewTicket(new(sync.Pool), request.Request{User: user, Key: "key", Quantity: 1}, nil, 0)
		s.Enter(x)
		if taken {
			x.Take()
		}
		return x
	}
	if a := wait("ann", false).Cancel(); a.Outcome != api.Overloaded || s.Underway.Len() != 0 || s.Doubts.Has("ann", "key") {
		t.Errorf("nobody looked at it: %+v, %d are under way", a, s.Underway.Len())
	}
	if a := wait("bob", true).Cancel(); a.Outcome != api.Unknown || s.Underway.Len() != 1 || !s.Doubts.Has("bob", "key") {
		t.Errorf("it is being decided: %+v, %d are under way", a, s.Underway.Len())
	}
	s.ForgetDoubts(true, 0)
	if a := wait("cat", true).Cancel(); a.Outcome != api.Unknown || !s.Doubts.Has("cat", "key") { // which may move to another process undecided
		t.Errorf("it is being decided, and the log has all that the list gave: %+v", a)
	}
	told := wait("dan", true)
	told.Answer = request.Answer{Outcome: api.Sold}
	told.Complete()
	if a := told.Cancel(); a.Outcome != api.Sold {
		t.Errorf("it has its answer: %+v", a)
	}
}

// TestDecidedAgain denies nobody what an earlier request of the same key may yet get that is to
// be decided by other rules. That one keeps its turn, and may be refused all the same.
func TestDecidedAgain(t *testing.T) {
	otherRules, noneNow := request.Answer{Outcome: api.NotChecked, OtherRules: true}, request.Answer{Outcome: api.NoneNow}
	for name, next := range map[string]func(t *testing.T, s *Shard, enter func(request.Request) *request.Ticket, first, second *request.Ticket){
		"it waits again": func(t *testing.T, s *Shard, enter func(request.Request) *request.Ticket, first, second *request.Ticket) {
			again := enter(first.Repeat())
			first.Finish()
			if n := s.Underway.Len(); n != 2 {
				t.Errorf("%d are under way", n)
			}
			second.Answer, again.Answer = noneNow, noneNow
			s.Conclude([]*request.Ticket{second}, func(string) bool { return false })
			s.Conclude([]*request.Ticket{again}, func(string) bool { return false })
			if a := second.Finish(); a.Outcome != api.Unknown {
				t.Errorf("the second is told %+v", a)
			}
			if a := again.Finish(); a.Outcome != api.NoneNow {
				t.Errorf("the first is told %+v", a)
			}
		},
		"it is refused": func(t *testing.T, s *Shard, _ func(request.Request) *request.Ticket, first, second *request.Ticket) {
			s.Underway.Leave(second)
			if a := s.Refuse(first.Repeat(), noneNow); a.Outcome != api.NoneNow {
				t.Errorf("the first is told %+v", a)
			}
			if a := s.Refuse(request.Request{User: "ann", Key: "key"}, noneNow); a.Outcome != api.Unknown {
				t.Errorf("a third is told %+v", a)
			}
			first.Finish()
		},
		"nobody waits for it": func(_ *testing.T, s *Shard, _ func(request.Request) *request.Ticket, first, second *request.Ticket) {
			s.Underway.Leave(second)
			first.Cancel()
		},
		"nobody has waited for it": func(_ *testing.T, s *Shard, enter func(request.Request) *request.Ticket, first, second *request.Ticket) {
			s.Underway.Leave(second)
			first.Finish()
			gone := enter(request.Request{User: "ann", Key: "key", Quantity: 1})
			gone.Take()
			gone.Cancel()
			gone.Answer = otherRules
			s.Conclude([]*request.Ticket{gone}, func(string) bool { return false })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newUnread(t)
			enter := func(r request.Request) *request.Ticket {
				x := request.NewTicket(new(sync.Pool), r, nil, 0)
				s.Enter(x)
				return x
			}
			first, second := enter(request.Request{User: "ann", Key: "key", Quantity: 1}), enter(request.Request{User: "ann", Key: "key", Quantity: 1})
			denied := enter(request.Request{User: "ann", Key: "key", Quantity: 1})
			for _, x := range []*request.Ticket{first, second, denied} {
				x.Take()
			}
			first.Answer, denied.Answer = otherRules, noneNow
			s.Conclude([]*request.Ticket{first, denied}, func(string) bool { return false })
			if a := denied.Finish(); a.Outcome != api.Unknown {
				t.Errorf("another is told %+v", a)
			}
			if !first.Answer.OtherRules {
				t.Errorf("the first is told %+v", first.Answer)
			}
			next(t, s, enter, first, second)
			if n := s.Underway.Len(); n != 0 {
				t.Errorf("%d are under way", n)
			}
		})
	}
}

// TestTriedElsewhere refuses requests without a look on which another process may have
// decided: what that has accepted is not denied, whether this one knows it by now or not.
func TestTriedElsewhere(t *testing.T) {
	noQuorum, elsewhere := request.Refusal(api.NoQuorum), request.Elsewhere(api.NoQuorum)
	for name, test := range map[string]struct {
		user    string
		surely  bool // the log is read behind all that the other has sent there
		held    bool // what ann has waits for her payment
		untried bool
		visits  bool // another process has sent it
		minted  bool
		settles bool
		moves   bool // requests go on to the next owner
		says    request.Answer
		want    api.Outcome
		doubt   bool
	}{
		"not read yet":                         {user: "ann", says: noQuorum, want: api.Unknown, doubt: true},
		"not read yet, asked of nobody":        {user: "bob", untried: true, says: noQuorum, want: api.NoQuorum},
		"not read yet, without a key":          {user: "bob", minted: true, says: noQuorum, want: api.Unknown},
		"not read yet, at the end of the sale": {user: "ann", says: request.Refusal(api.Closed), want: api.Unknown, doubt: true},
		"not read yet, and it goes on":         {user: "ann", moves: true, says: elsewhere, want: api.NoQuorum},
		"not read yet, and nobody takes it on": {user: "ann", says: elsewhere, want: api.Unknown, doubt: true},
		"not read yet, of a claim":             {user: "ann", settles: true, says: noQuorum, want: api.Unknown},
		"accepted":                             {user: "ann", surely: true, says: noQuorum, want: api.Sold},
		"accepted, without a key":              {user: "ann", surely: true, minted: true, says: noQuorum, want: api.Sold},
		"accepted, at the end of the sale":     {user: "ann", surely: true, says: request.Refusal(api.Closed), want: api.Sold},
		"held, perhaps paid":                   {user: "ann", surely: true, held: true, says: noQuorum, want: api.Unknown, doubt: true},
		"held, by who has looked":              {user: "ann", surely: true, held: true, says: request.Refusal(api.Closed), want: api.Held},
		"not accepted":                         {user: "bob", surely: true, says: noQuorum, want: api.NoQuorum},
		"accepted or not, of a claim":          {user: "ann", surely: true, settles: true, says: noQuorum, want: api.Unknown},
		"looked at, of a claim":                {user: "ann", surely: true, settles: true, says: request.Answer{Outcome: api.NoSuchClaim}, want: api.NoSuchClaim},
		"at the end, accepted here":            {user: "ann", surely: true, untried: true, says: request.Refusal(api.Closed), want: api.Sold},
		"at the end, held here":                {user: "ann", surely: true, untried: true, held: true, says: request.Refusal(api.Closed), want: api.Held},
		"at the end, not accepted":             {user: "bob", surely: true, untried: true, says: request.Refusal(api.Closed), want: api.Closed},
		"after the end, accepted here":         {user: "ann", untried: true, says: request.Refusal(api.Closed), want: api.Sold},
		"after the end, held, perhaps paid":    {user: "ann", untried: true, held: true, says: request.Refusal(api.Closed), want: api.Unknown, doubt: true},
		"after the end, not accepted":          {user: "bob", untried: true, says: request.Refusal(api.Closed), want: api.Closed},
		"at the end, of a claim, tried":        {user: "ann", surely: true, settles: true, says: request.Refusal(api.Closed), want: api.Unknown},
		"at the end, of a claim, by a peer":    {user: "ann", surely: true, untried: true, visits: true, settles: true, says: request.Refusal(api.Closed), want: api.Unknown},
		"at the end, of a claim":               {user: "ann", surely: true, untried: true, settles: true, says: request.Refusal(api.Closed), want: api.Closed},
		"accepted now":                         {user: "bob", surely: true, says: request.Answer{Outcome: api.Sold}, want: api.Sold},
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

			c := Config{Log: "log", UID: saletest.UID, Totals: NewSaleTotals(1), Doubts: new(request.Doubts), Clock: func() clock.Now { return w.now }}
			if test.moves {
				c.Forward = func([]*request.Ticket) {}
			}
			s := New(c)
			if s.seq.state = saletest.LoadShard(t, w.logs, 0, 1); test.surely {
				s.serving.Store(true)
				s.ForgetDoubts(false, 1)
			}
			x := request.NewTicket(new(sync.Pool), request.Request{User: test.user, Key: "1", Quantity: 1}, nil, w.now.Mono)
			switch {
			case test.minted:
				x = keyless(test.user, "1", w.now.Mono)
			case test.settles:
				x = request.NewTicket(new(sync.Pool), request.Request{Settle: &request.Settlement{How: api.Cancel}}, nil, w.now.Mono)
			}
			s.Enter(x)
			if x.MaybeDecided, x.Answer = !test.untried, test.says; test.visits {
				x.MarkFromPeer(1, new(atomic.Bool))
			}
			s.Conclude([]*request.Ticket{x}, s.MayHave)
			got := x.Answer
			if got.Outcome != test.want || s.Doubts.Has(test.user, "1") != test.doubt {
				t.Errorf("it is told %+v, want %q; in doubt: %v", got, test.want, s.Doubts.Has(test.user, "1"))
			}
			if test.user == "ann" && got.Accepted() && (got.Claim.Units == nil || got.Replayed == test.minted) {
				t.Errorf("it is told %+v of what was accepted before", got)
			}
			if s.Underway.Has(&request.Request{User: test.user, Key: "1"}) != test.moves {
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
			s := New(Config{Log: "log", UID: saletest.UID, Totals: NewSaleTotals(1), Doubts: new(request.Doubts), Clock: func() clock.Now { return w.now }})
			s.seq.state = saletest.LoadShard(t, w.logs, 0, 1)
			s.serving.Store(c.serves)
			if c.may {
				s.SetRights(Rights{Lease: saletest.Lease(t, w.now), ReadAt: w.now, TTL: quorum.DefaultTTL})
			}
			if a := s.Refuse(request.Request{User: "ann", Key: "1", Quantity: 1}, request.Answer{Outcome: c.says}); a.Outcome != c.want {
				t.Errorf("%q, want %q", a.Outcome, c.want)
			}
		})
	}
}

// keyless returns a ticket for a request without a key, for which the process makes a key.
func keyless(user, key string, now time.Duration) *request.Ticket {
	return request.NewTicket(new(sync.Pool), request.Request{User: user, Quantity: 1}, func() string { return key }, now)
}

// TestAnswerClaim answers claims from memory before and after the close of a sale in which ann has a unit. It
// denies no claim while an earlier one of its key is under way or in doubt, or may have a unit of a list.
func TestAnswerClaim(t *testing.T) {
	closes := time.Unix(1_800_003_600, 0)
	w := newWorldAs(t, &pb.Settings{PerUserLimit: 2, Phase: pb.Phase_OPEN, ClosesAtUs: closes.UnixMicro()}, 9)
	h := w.serving("first")
	h.ask("ann", "1", 1)
	w.settle()
	before := saletest.LoadShard(t, w.logs, 0, 1)
	h.ask("bob", "1", 1)
	w.settle()
	after := saletest.LoadShard(t, w.logs, 0, 1)

	underway := func(s *Shard) {
		s.Enter(request.NewTicket(new(sync.Pool), request.Request{User: "bob", Key: "1", Quantity: 1}, nil, 0))
	}
	inDoubt := func(s *Shard) { s.Doubts.Add(saletest.UID, 0, "bob", "1") }
	soldOut := func(s *Shard) { s.seq.totals.Set(0, 9, ledger.Totals{Limit: 9, Sold: 9}, time.Time{}, true) }
	listed := func(mayHave func(*Shard) bool) func(*Shard) {
		return func(s *Shard) { s.nodeQueue, s.Listed = mayHaveQueue{mayHave: func() bool { return mayHave(s) }}, true }
	}
	filled := func(s *Shard) { s.ForgetDoubts(false, 1) }
	empty, given := listed(func(*Shard) bool { return false }), listed(func(*Shard) bool { return true })
	logged := listed(func(s *Shard) bool {
		s.seq.state = after
		return false
	})
	for name, c := range map[string]struct {
		user   string
		closed bool
		want   api.Outcome // "": the claim is queued
		set    []func(*Shard)
	}{
		"who has a unit":                       {"ann", true, api.Sold, []func(*Shard){underway, inDoubt}},
		"while the sale is open":               {"bob", false, "", nil},
		"closed":                               {"bob", true, api.Closed, nil},
		"closed, one under way":                {"bob", true, api.Unknown, []func(*Shard){underway}},
		"closed, one in doubt":                 {"bob", true, api.Unknown, []func(*Shard){inDoubt}},
		"closed, another user":                 {"eve", true, api.Closed, []func(*Shard){underway, inDoubt}},
		"sold out":                             {"bob", false, api.SoldOut, []func(*Shard){soldOut}},
		"sold out, one under way":              {"bob", false, "", []func(*Shard){soldOut, underway}},
		"sold out, one in doubt":               {"bob", false, api.SoldOut, []func(*Shard){soldOut, inDoubt}},
		"closed, the list not read yet":        {"bob", true, "", []func(*Shard){empty}},
		"closed, no unit of the list":          {"bob", true, api.Closed, []func(*Shard){empty, filled}},
		"closed, perhaps a unit of the list":   {"bob", true, api.Unknown, []func(*Shard){given, filled}},
		"closed, a unit that the log gets now": {"bob", true, api.Sold, []func(*Shard){logged, filled}},
	} {
		t.Run(name, func(t *testing.T) {
			now := w.now
			if c.closed {
				now = clock.Now{Mono: now.Mono + 2*time.Hour, Wall: now.Wall.Add(2 * time.Hour)}
			}
			s := New(Config{Log: "log", UID: saletest.UID, Totals: NewSaleTotals(1), Doubts: new(request.Doubts), Clock: func() clock.Now { return now }})
			s.seq.state = before
			s.serving.Store(true)
			s.SetRights(Rights{Lease: saletest.Lease(t, now), ReadAt: now, TTL: quorum.DefaultTTL})
			for _, set := range c.set {
				set(s)
			}
			var a request.Answer
			ok := s.AnswerClaim(now, &request.Request{User: c.user, Key: "1", Quantity: 1}, &a)
			if ok != (c.want != "") || ok && a.Outcome != c.want {
				t.Errorf("answered %v: %+v, want %q", ok, a, c.want)
			}
			if s.Listed && c.want == api.Unknown && !s.Doubts.Has(c.user, "1") {
				t.Error("the claim is not in doubt afterwards")
			}
		})
	}
}

// mayHaveQueue is a NodeQueue of which only MayHave is called.
type mayHaveQueue struct {
	NodeQueue
	mayHave func() bool
}

func (q mayHaveQueue) MayHave(string) bool { return q.mayHave() }
