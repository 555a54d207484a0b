package process_test

import (
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/backends/clock"
	"salectl/backends/quorum"
	"salectl/executor/ownership"
	"salectl/executor/peers"
	"salectl/executor/request"
	"salectl/executor/saletest"
	"salectl/spec"
)

// What a process knew, did or was sent before counts no more once its lease has run out, its link
// was made again, or the shard has moved on.

// userOf returns a user whose claims a process decides.
func (s *steppedProcess) userOf() string {
	s.w.t.Helper()
	for _, user := range []string{"ann", "bob", "cat", "dan", "eve", "fay", "gus", "hal"} {
		if s.p.Local(spec.HomeShard(user, s.w.shards)) != nil {
			return user
		}
	}
	s.w.t.Fatalf("%s decides for none of the users", s.name)
	return ""
}

// replies counts the replies to a peer's requests.
type replies struct{ answered, accepted, bounced int }

func (r *replies) reply(_ uint64, a Answer, _ ownership.Route) {
	if a.Elsewhere {
		r.bounced++
		return
	}
	r.answered++
	if a.Accepted() {
		r.accepted++
	}
}

// serve has the process serve a request of a peer by a link.
func (s *steppedProcess) serve(serve func(clock.Now, *streampb.Request), id uint64, r Request) {
	ticket := &request.Ticket{Request: r}
	ticket.ForwardID = id
	serve(s.now(), peers.EncodeRequest(s.p.UID(), ticket))
}

// TestPeerRequestUnderASpentLease: a process that was paused until its leases had run out returns what a
// peer has passed on, and answers nothing of it: the peer waits for the next owner.
func TestPeerRequestUnderASpentLease(t *testing.T) {
	w := newSteppedWorld(t, 1, 10, 10)
	a, b := w.process("first"), w.process("second")
	w.shared()
	user := b.userOf()
	home := spec.HomeShard(user, w.shards)
	b.asleep = true
	w.pass(2 * quorum.DefaultTTL)
	for what, r := range map[string]Request{
		"a claim":      {User: user, Key: "key", Quantity: 1},
		"a settlement": {Settle: &Settlement{Claim: ClaimID{Shard: home, Slot: 9}, How: api.Cancel}},
	} {
		var got replies
		if b.serve(b.p.Accept(a.p.Me().ID, "", got.reply), 1, r); got != (replies{bounced: 1}) {
			t.Errorf("%s comes back like this: %+v", what, got)
		}
	}
}

// TestRecallByASpentLease: a process whose leases have run out does not answer from memory what
// another owner may have changed since.
func TestRecallByASpentLease(t *testing.T) {
	w := newSteppedWorld(t, 1, 10)
	s := w.process("first")
	w.serving()
	claim := func(key string) (a Answer) {
		s.p.Begin(s.now(), Request{User: "ann", Key: key, Quantity: 1}, func(got Answer) { a = got })
		s.step()
		return a
	}
	claim("1")
	w.pass(time.Second)
	if a := claim("2"); a.Outcome != api.LimitReached {
		t.Fatalf("with its lease it answers %+v", a)
	}
	s.asleep = true
	w.pass(2 * quorum.DefaultTTL)
	if a := claim("2"); a.Outcome != api.NoQuorum {
		t.Errorf("without its lease it answers %+v", a)
	}
	if a := claim("1"); a.Outcome != api.Sold {
		t.Errorf("of what is certain it answers %+v", a)
	}
}

// TestLinkMadeAgain: once a peer has made another link, what it has asked on the one before is not
// decided any more, whether it waits already or comes late: it has asked again.
func TestLinkMadeAgain(t *testing.T) {
	w := newSteppedWorld(t, 1, 10)
	s := w.process("first")
	w.serving()
	var before, after replies
	claim := func(user string) Request { return Request{User: user, Key: "key", Quantity: 1} }
	one := s.p.Accept("peer", "", before.reply)
	s.serve(one, 1, claim("ann")) // waits: nothing acts before step
	two := s.p.Accept("peer", "", after.reply)
	s.serve(one, 2, claim("bob"))
	s.serve(two, 3, claim("cat"))
	s.step()
	w.pass(time.Second)
	if before.accepted != 0 || after != (replies{answered: 1, accepted: 1}) {
		t.Errorf("on the link before %+v, on the new one %+v", before, after)
	}
	if a := saletest.Audited(t, w.logs, "stepped"); a.Sold != 1 {
		t.Errorf("%d units are sold, want 1", a.Sold)
	}
}

// TestCutLinkEndsRoutes: nothing is passed on to a process whose link is cut, until that has said
// again what it owns.
func TestCutLinkEndsRoutes(t *testing.T) {
	w := newSteppedWorld(t, 1, 10, 10)
	a, b := w.process("first"), w.process("second")
	w.shared()
	routes := func() (n int) {
		for _, r := range a.p.Remotes() {
			if r.Route().Owner == b.p.Me().ID {
				n++
			}
		}
		return n
	}
	if routes() == 0 {
		t.Fatal("no shard is the other's")
	}
	a.p.Cut(a.now(), b.p.Me().ID)
	a.p.Next(a.now())
	if n := routes(); n != 0 {
		t.Errorf("%d shards are the other's still", n)
	}
}

// TestOwnerDiesUnheard: the owner of all shards dies after it took them, and before two processes on
// standby know of it. They do not go on naming the owners before it.
func TestOwnerDiesUnheard(t *testing.T) {
	w := newSteppedWorld(t, 1, 50, 50)
	a, b, last := w.process("first"), w.process("second"), w.process("third")
	w.shared()
	idle := []*steppedProcess{a, b}
	for _, s := range idle {
		s.input(func() { s.p.StandBy(s.now(), false) })
	}
	w.runUntil("one owns all", func() bool {
		_, owned := last.p.Leases(last.now())
		return len(owned) == 2
	})
	last.die()
	const later = 99 // than all epochs that the processes know
	for i, s := range idle {
		for shardNumber, owner := range []*steppedProcess{s, idle[1-i]} {
			me := owner.p.Me()
			s.p.Remotes()[shardNumber].SetOwner(s.now(), ownership.Route{Owner: me.ID, Address: me.Address, Epoch: later})
		}
	}
	for _, s := range idle {
		w.runUntil("no shard has an owner", func() bool {
			for i, r := range s.p.Remotes() {
				if r.Route().Owner != "" || s.p.Status().Shards[i].Owner != "" {
					return false
				}
			}
			err := s.p.Ready(s.now())
			return !s.p.Status().Sells && err != nil && strings.HasPrefix(err.Error(), "standby: all 2 processes are on standby")
		})
	}
	a.input(func() { a.p.StandBy(a.now(), true) })
	w.runUntil("the shards are served", func() bool { return a.isReady() && b.isReady() })
}

// TestForwardedOfAnotherRun has a process forward requests for the run that it knows, when the owner
// serves another one: nothing is decided or looked up for a run that was not requested.
func TestForwardedOfAnotherRun(t *testing.T) {
	w := newSteppedWorld(t, 1, 50, 50)
	a, b := w.process("first"), w.process("second")
	w.shared()
	user := b.userOf()
	request := func(r Request) (got Answer) {
		got.Outcome = "no answer"
		withdraw := func() {}
		a.input(func() { withdraw = a.p.Begin(a.now(), r, func(answer Answer) { got = answer }) })
		w.pass(200 * time.Millisecond)
		a.input(withdraw)
		return got
	}
	claim := Request{User: user, Key: "key", Quantity: 1}
	query := Request{Query: &Query{User: user, Page: api.Page{Limit: api.MaxPage}}}
	run := b.p.UID()
	b.p.SetUID("of the next run")
	if got := request(claim); got.Accepted() || got.Outcome.Row().Retry != api.Again {
		t.Errorf("a claim of another run: %+v", got)
	}
	if got := request(query); got.Outcome != api.Standby {
		t.Errorf("the claims of a user of another run: %+v", got)
	}
	b.p.SetUID(run)
	w.pass(time.Second)
	if got := request(query); got.Outcome != "" || len(got.Claims) > 0 {
		t.Errorf("after a claim of another run: %+v", got)
	}
	if got := request(claim); got.Outcome != api.Sold || got.Replayed {
		t.Errorf("a claim of the same run: %+v", got)
	}
}
