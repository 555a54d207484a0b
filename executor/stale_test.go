package executor

import (
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/quorum"
	"salectl/executor/saletest"
	"salectl/executor/shard"
	"salectl/spec"
)

// What a process knew, did or was sent before counts no more once its lease has run out, its link
// was made again, or the shard has moved on.

// userOf returns a user whose claims a process decides.
func (s *steppedProcess) userOf() string {
	s.w.t.Helper()
	for _, user := range []string{"ann", "bob", "cat", "dan", "eve", "fay", "gus", "hal"} {
		if s.p.session.local(spec.HomeShard(user, s.w.shards)) != nil {
			return user
		}
	}
	s.w.t.Fatalf("%s decides for none of the users", s.name)
	return ""
}

// replies counts what comes back for requests.
type replies struct{ answered, accepted, bounced int }

func (r *replies) serve(s *steppedProcess, serve func(clock.Now, shard.ForwardedRequest, func(Answer), func(shard.Route)), e shard.ForwardedRequest) {
	e.UID = s.p.session.uid
	serve(s.now(), e, func(a Answer) {
		r.answered++
		if a.Accepted() {
			r.accepted++
		}
	}, func(shard.Route) { r.bounced++ })
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
	serve := b.p.Accept(a.p.Me().ID, "")
	for what, e := range map[string]shard.ForwardedRequest{
		"a claim":      {ID: 1, Request: Request{User: user, Key: "key", Quantity: 1}},
		"a settlement": {ID: 2, Request: Request{Settle: &Settlement{Claim: ClaimID{Shard: home, Slot: 9}, How: api.Cancel}}},
	} {
		var got replies
		if got.serve(b, serve, e); got != (replies{bounced: 1}) {
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
	claim := func(id uint64, user string) shard.ForwardedRequest {
		return shard.ForwardedRequest{ID: id, Request: Request{User: user, Key: "key", Quantity: 1}}
	}
	one := s.p.Accept("peer", "")
	before.serve(s, one, claim(1, "ann")) // waits: nothing acts before step
	two := s.p.Accept("peer", "")
	before.serve(s, one, claim(2, "bob"))
	after.serve(s, two, claim(3, "cat"))
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
		for _, r := range a.p.session.remotes {
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
