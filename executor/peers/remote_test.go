package peers

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"salectl/api"
	"salectl/api/streampb"
	"salectl/backends/clock"
	"salectl/executor/ownership"
	"salectl/executor/request"
)

// remoteWorld is a Remote, the processes that it may ask, and those who wait.
type remoteWorld struct {
	notices int
	t       *testing.T
	r       *Remote
	now     clock.Now
	doubts  request.Doubts
	pool    sync.Pool
	queue   int

	full    map[string]bool   // who takes nothing
	sent    []sentRequest     // in order
	home    []*request.Ticket // that this process's shard has queued
	noHome  api.Outcome       // why it does not
	waiting map[*request.Ticket]*waiter
	keys    int
}

type sentRequest struct {
	to string
	forwarded
}

// forwarded is what a message of EncodeRequest or encodeCancel has.
type forwarded struct {
	ID     uint64
	UID    string
	Cancel bool
	request.Request
}

func decoded(m *streampb.Request) forwarded {
	r, _ := DecodeRequest(m)
	return forwarded{m.GetId(), m.GetRun(), m.GetCancel() != nil, r}
}

// waiter is a request and what it was told.
type waiter struct {
	*remoteWorld
	ticket  *request.Ticket
	answers []request.Answer
}

const meanwhile = api.Standby // the answer to requests that no owner could be sent

func newRemoteWorld(t *testing.T) *remoteWorld {
	w := &remoteWorld{
		t: t, now: clock.Now{Mono: time.Hour, Wall: time.Unix(1_800_000_000, 0)}, queue: 100,
		full: map[string]bool{}, waiting: map[*request.Ticket]*waiter{},
	}
	w.r = NewRemote(RemoteConfig{
		Shard: 3, UID: "run", Doubts: &w.doubts, Clock: func() clock.Now { return w.now }, Me: "me", IDBase: 1000,
		MaxQueue: func() int { return w.queue },
		Send: func(owner string, m *streampb.Request) bool {
			if w.full[owner] {
				return false
			}
			w.sent = append(w.sent, sentRequest{owner, decoded(m)})
			return true
		},
		OfferLocal: func(_ clock.Now, t *request.Ticket) bool {
			switch {
			case w.noHome != "":
			case t.Query != nil:
				t.Answer = request.Answer{Claim: request.Claim{User: t.Query.User}}
			default:
				w.home = append(w.home, t)
			}
			return w.noHome == ""
		},
		Refusal: func() request.Answer { return request.Answer{Outcome: meanwhile, RetryAfter: time.Second} },
		Notify:  func() { w.notices++ },
	})
	return w
}

func (w *remoteWorld) mint() string { w.keys++; return fmt.Sprint("minted-", w.keys) }

// ticket is a request that nobody was asked for yet.
func (w *remoteWorld) ticket(user, key string) *waiter {
	return w.ticketFor(request.Request{User: user, Key: key, Quantity: 1})
}

func (w *remoteWorld) ticketFor(r request.Request) *waiter {
	x := &waiter{remoteWorld: w, ticket: request.NewTicket(&w.pool, r, w.mint, w.now.Mono)}
	x.ticket.OnAnswer(request.WaiterFunc(func() {
		a := x.ticket.Answer
		x.answers = append(x.answers, a)
		if len(x.answers) > 1 {
			w.t.Errorf("%+v got the answers %+v", r, x.answers)
		}
	}))
	return x
}

// offers has a request come.
func (w *remoteWorld) offers(user, key string) *waiter {
	w.t.Helper()
	x := w.ticket(user, key)
	if refused := w.r.Offer(w.now, x.ticket); refused != "" {
		w.t.Fatalf("%s is refused: %s", user, refused)
	}
	return x
}

func (w *remoteWorld) owner(id string, epoch uint64) ownership.Route {
	return ownership.Route{Owner: id, Address: id + ":1", Epoch: epoch}
}

// asked holds who was asked for whom since the last look, and returns the requests.
func (w *remoteWorld) asked(to string, users ...string) []forwarded {
	w.t.Helper()
	var got []string
	var requests []forwarded
	for _, e := range w.sent {
		if e.to != to {
			w.t.Errorf("%s is asked for %s, want %s", e.to, e.User, to)
		}
		got, requests = append(got, e.User), append(requests, e.forwarded)
	}
	if w.sent = nil; !slices.Equal(got, users) {
		w.t.Fatalf("asked for %v, want %v", got, users)
	}
	return requests
}

func (w *remoteWorld) pass(d time.Duration) {
	for end := w.now.Mono + d; ; {
		wake := w.r.Tick(w.now)
		if w.now.Mono >= end {
			return
		}
		next := end
		if wake != 0 {
			if wake <= w.now.Mono {
				w.t.Fatalf("Tick is due at %v, now is %v", wake, w.now.Mono)
			}
			next = min(next, wake)
		}
		d := next - w.now.Mono
		w.now = clock.Now{Mono: next, Wall: w.now.Wall.Add(d)}
	}
}

func (w *remoteWorld) answers(e forwarded, a request.Answer) {
	w.r.HandleReply(w.now, e.ID, a, ownership.Route{})
}

func (w *remoteWorld) bounces(to ownership.Route, es ...forwarded) {
	for _, e := range es {
		w.r.HandleReply(w.now, e.ID, request.Answer{Elsewhere: true}, to)
	}
}

// hears holds what a request was told: "" is nothing yet.
func (x *waiter) hears(want api.Outcome) request.Answer {
	x.t.Helper()
	switch {
	case want == "" && len(x.answers) == 0:
		return request.Answer{}
	case len(x.answers) != 1 || x.answers[0].Outcome != want:
		x.t.Errorf("%s got the answers %+v, want %q", x.ticket.User, x.answers, want)
		return request.Answer{}
	}
	return x.answers[0]
}

var (
	remoteSold    = request.Answer{Outcome: api.Sold, Claim: request.Claim{Units: []int64{1}}}
	remoteDenied  = request.Answer{Outcome: api.SoldOut}
	remoteStopped = func() request.Answer { a := request.Undecided; a.Elsewhere = true; return a }()
)

// TestRemoteNotifies says so when requests begin to wait: Tick, which was not due, is now.
func TestRemoteNotifies(t *testing.T) {
	w := newRemoteWorld(t)
	notified := func(what string, want int) {
		t.Helper()
		if w.notices != want {
			t.Errorf("%s: it notifies %d times, want %d", what, w.notices, want)
		}
		w.notices = 0
	}
	a := w.offers("a", "1")
	notified("nobody knows the owner", 1)
	w.offers("b", "2")
	w.r.Tick(w.now)
	notified("another one waits as well", 0)
	w.r.SetOwner(w.now, w.owner("p", 4))
	requests := w.asked("p", "a", "b")
	w.offers("c", "3")
	requests = append(requests, w.asked("p", "c")...)
	w.answers(requests[0], remoteSold)
	a.hears(api.Sold)
	notified("the owner is known", 0)
	w.bounces(ownership.Route{}, requests[1:]...)
	notified("the owner does not take them", 1)
	w.r.OfferFirst(w.now, []*request.Ticket{w.ticket("d", "4").ticket})
	notified("one more comes", 0)
}

// TestRemotePassesOn sends requests to the owner in their order, and its answers back.
func TestRemotePassesOn(t *testing.T) {
	w := newRemoteWorld(t)
	a, b := w.offers("a", "1"), w.offers("b", "")
	w.asked("")
	if !w.r.Busy() {
		t.Error("two wait, and it is not busy")
	}
	w.r.SetOwner(w.now, w.owner("p", 4))
	c := w.offers("c", "1")
	es := w.asked("p", "a", "b", "c")
	for i, e := range es {
		if ShardOf(e.ID) != 3 || i > 0 && e.ID <= es[i-1].ID || e.Quantity != 1 {
			t.Errorf("%+v", e)
		}
	}
	if es[0].Key != "1" || es[1].Key == "" {
		t.Error("a request goes without a key: asked for twice, it would be two")
	}
	if queued, sent := len(w.r.queue), len(w.r.sent); queued != 0 || sent != 3 {
		t.Errorf("%d wait, %d are sent", queued, sent)
	}
	w.answers(es[1], request.Answer{Outcome: api.Sold, Replayed: true, Claim: request.Claim{Units: []int64{7}}})
	w.answers(es[0], request.Answer{Outcome: api.Sold, Replayed: true, Claim: request.Claim{Units: []int64{8}}})
	w.answers(es[2], remoteDenied)
	w.answers(es[2], remoteSold) // which was answered
	if got := b.hears(api.Sold); got.Replayed || got.Claim.Units[0] != 7 {
		t.Errorf("a request without a key gets %+v", got) // nobody else can have asked
	}
	if got := a.hears(api.Sold); !got.Replayed || got.Claim.Units[0] != 8 {
		t.Errorf("%+v", got)
	}
	c.hears(api.SoldOut)
	if w.r.Busy() {
		t.Error("it is busy with nothing")
	}
}

// TestRemoteLearns believes the newest owner by the epoch of the log.
func TestRemoteLearns(t *testing.T) {
	w := newRemoteWorld(t)
	for _, step := range []struct {
		hears ownership.Route
		want  string
	}{
		{w.owner("p", 4), "p"}, {w.owner("q", 4), "p"}, {w.owner("q", 3), "p"}, {ownership.Route{}, "p"}, {w.owner("q", 5), "q"},
	} {
		w.r.SetOwner(w.now, step.hears)
		if got := w.r.Route(); got.Owner != step.want {
			t.Errorf("after %+v the owner is %+v, want %s", step.hears, got, step.want)
		}
	}
	w.r.ClearOwner("p")
	if got := w.r.Route(); got.Owner != "q" {
		t.Errorf("another was forgotten, and the owner is %+v", got)
	}
	w.r.ClearOwner("q")
	w.r.SetOwner(w.now, w.owner("p", 4)) // who says so itself
	if got := w.r.Route(); got.Owner != "p" || got.Epoch != 4 {
		t.Errorf("the owner is %+v", got)
	}
}

// TestRemoteKeepsOrder has the shard move while requests are sent: nothing is asked of the
// next owner before all that was asked of the last has come back, and then in the order of
// coming.
func TestRemoteKeepsOrder(t *testing.T) {
	w := newRemoteWorld(t)
	w.r.SetOwner(w.now, w.owner("p", 4))
	a, b, c := w.offers("a", "1"), w.offers("b", "1"), w.offers("c", "1")
	es := w.asked("p", "a", "b", "c")
	w.r.SetOwner(w.now, w.owner("q", 5))
	w.offers("d", "1")
	w.bounces(w.owner("q", 5), es[1]) // it stopped in the midst
	w.asked("")
	w.answers(es[0], remoteSold)
	a.hears(api.Sold)
	w.asked("")
	w.bounces(w.owner("q", 5), es[2])
	es = w.asked("q", "b", "c", "d")
	w.answers(es[0], remoteSold)
	w.answers(es[1], remoteDenied)
	b.hears(api.Sold)
	c.hears(api.SoldOut)
	w.bounces(ownership.Route{}, es[2]) // q does not know either who has it
	w.asked("")
	w.pass(ownerPause)
	w.asked("q", "d")
}

// TestRemoteForsaken has those who wait go away: the owner receives which requests are given up,
// and what comes back undecided goes to nobody else.
func TestRemoteForsaken(t *testing.T) {
	for _, key := range []string{"1", ""} {
		w := newRemoteWorld(t)
		w.r.SetOwner(w.now, w.owner("p", 4))
		a, b, c := w.offers("a", key), w.offers("b", key), w.offers("c", key)
		es := w.asked("p", "a", "b", "c")
		for i, x := range []*waiter{a, b} {
			if got := x.ticket.Cancel(); got.Outcome != api.Unknown {
				t.Errorf("who gives up hears %+v", got)
			}
			if len(w.sent) != 1 || w.sent[0].to != "p" || !reflect.DeepEqual(w.sent[0].forwarded, forwarded{ID: es[i].ID, UID: "run", Cancel: true, Request: request.Request{User: x.ticket.User, Key: x.ticket.Key}}) {
				t.Errorf("the owner hears %+v, want that request %d is given up", w.sent, es[i].ID)
			}
			w.sent = nil
		}
		w.bounces(w.owner("q", 5), es[0]) // before it heard
		w.answers(es[1], request.Answer{Outcome: api.Overloaded, RetryAfter: time.Second})
		w.bounces(w.owner("q", 5), es[2])
		es = w.asked("q", "c")
		w.answers(es[0], remoteSold)
		c.hears(api.Sold)
		a.hears("")
		if w.r.Busy() || w.r.Underway.Len() != 0 {
			t.Errorf("those that nobody waits for are still under way: %d", w.r.Underway.Len())
		}

		d := w.offers("d", key)
		w.asked("q", "d")
		d.ticket.Cancel()
		w.sent = nil
		w.r.HandleLinkEnd(w.now, "q") // it may have been decided
		w.r.SetOwner(w.now, w.owner("p", 6))
		w.asked("p")
		w.offers("e", key)
		w.asked("p", "e")
		if w.doubts.Has("d", "1") != (key != "") {
			t.Error("what nobody heard the answer of is in doubt, if it can be asked for again")
		}
	}
}

// TestRemoteBounces asks an owner that does not take the shard yet from time to time, by one
// request, and for all when it does.
func TestRemoteBounces(t *testing.T) {
	w := newRemoteWorld(t)
	w.r.SetOwner(w.now, w.owner("p", 4))
	a, b := w.offers("a", "1"), w.offers("b", "1")
	es := w.asked("p", "a", "b")
	w.bounces(w.owner("o", 3), es...)
	w.asked("")
	for range 3 {
		w.pass(ownerPause - 1)
		w.asked("")
		w.pass(1)
		es = w.asked("p", "a")
		w.offers("late", "")
		w.bounces(w.owner("p", 4), es...)
	}
	w.pass(ownerPause)
	es = w.asked("p", "a")
	w.answers(es[0], remoteSold)
	a.hears(api.Sold)
	w.asked("p", "b", "late", "late", "late")
	b.hears("")
}

// TestRemotePatience refuses those that have waited for too long, each by itself. One that
// is asked for waits for its answer as long as it takes.
func TestRemotePatience(t *testing.T) {
	w := newRemoteWorld(t)
	a := w.offers("a", "1")
	w.pass(OwnerTimeout / 2)
	b := w.offers("b", "1")
	w.pass(OwnerTimeout/2 - 1)
	a.hears("")
	w.pass(1)
	if got := a.hears(meanwhile); got.RetryAfter == 0 {
		t.Errorf("%+v", got)
	}
	w.r.SetOwner(w.now, w.owner("p", 4))
	es := w.asked("p", "b")
	w.pass(10 * OwnerTimeout)
	b.hears("")
	w.answers(es[0], remoteSold)
	b.hears(api.Sold)
}

// TestRemoteBouncesLate has the owner stop that had a request for longer than those wait
// who know nobody to ask: the next owner is known, and is asked.
func TestRemoteBouncesLate(t *testing.T) {
	w := newRemoteWorld(t)
	w.r.SetOwner(w.now, w.owner("p", 4))
	a := w.offers("a", "1")
	es := w.asked("p", "a")
	w.pass(2 * OwnerTimeout)
	w.bounces(w.owner("q", 5), es...)
	es = w.asked("q", "a")
	a.hears("")
	w.bounces(w.owner("q", 5), es...) // which does not take it after all
	w.pass(ownerPause)
	a.hears(meanwhile)
}

// TestRemoteCut has a link be cut with requests sent: each may have been decided. They are
// asked for again by their keys, in their order, and nobody is told that a claim failed
// which may have been accepted.
func TestRemoteCut(t *testing.T) {
	w := newRemoteWorld(t)
	w.r.SetOwner(w.now, w.owner("p", 4))
	a, b := w.offers("a", "1"), w.offers("b", "1")
	first := w.asked("p", "a", "b")
	w.r.HandleLinkEnd(w.now, "another")
	w.r.ClearOwner("p")
	w.r.HandleLinkEnd(w.now, "p")
	c := w.offers("c", "1")
	w.asked("")
	w.answers(first[0], remoteSold) // too late to count: it is asked for again
	w.r.SetOwner(w.now, w.owner("q", 5))
	again := w.asked("q", "a", "b", "c")
	if again[0].Key != first[0].Key || again[0].ID == first[0].ID {
		t.Errorf("asked for %+v, and then for %+v", first[0], again[0])
	}
	w.answers(again[0], request.Answer{Outcome: api.Sold, Replayed: true, Claim: request.Claim{Units: []int64{1}}})
	a.hears(api.Sold)

	// Nobody takes the others: of b it is not known, and c was never asked for by anybody.
	w.r.ClearOwner("q")
	w.bounces(ownership.Route{}, again[1], again[2])
	w.pass(OwnerTimeout)
	b.hears(api.Unknown)
	c.hears(meanwhile)
	if !w.doubts.Has("b", "1") || w.doubts.Has("c", "1") {
		t.Error("what is in doubt is not what was asked of who is gone")
	}
}

// TestRemoteKeyless sends a request without a key to the next owner under the key that the first
// owner received: that owner may have accepted the request.
func TestRemoteKeyless(t *testing.T) {
	w := newRemoteWorld(t)
	w.r.SetOwner(w.now, w.owner("p", 4))
	w.offers("a", "")
	first := w.asked("p", "a")[0]
	w.r.ClearOwner("p")
	w.r.HandleLinkEnd(w.now, "p")
	w.r.SetOwner(w.now, w.owner("q", 5))
	if again := w.asked("q", "a")[0]; first.Key == "" || again.Key != first.Key || again.ID == first.ID {
		t.Errorf("sent %+v, and then %+v", first, again)
	}
}

// TestRemoteStopped has the owner stop without knowing what became of a request: it is asked
// for again elsewhere.
func TestRemoteStopped(t *testing.T) {
	w := newRemoteWorld(t)
	w.r.SetOwner(w.now, w.owner("p", 4))
	a, b := w.offers("a", "1"), w.offers("b", "1")
	es := w.asked("p", "a", "b")
	w.answers(es[0], remoteStopped)
	a.hears("")
	w.r.SetOwner(w.now, w.owner("q", 5))
	w.bounces(w.owner("q", 5), es[1])
	es = w.asked("q", "a", "b")
	w.answers(es[1], remoteSold)
	b.hears(api.Sold)
	w.answers(es[0], remoteDenied)
	a.hears(api.SoldOut) // by who has read all of the log
}

// TestRemoteTriedBefore has the next owner refuse without a look what the one before may
// have accepted. What it has looked at stands.
func TestRemoteTriedBefore(t *testing.T) {
	for name, test := range map[string]struct {
		key   string
		says  request.Answer
		want  api.Outcome
		doubt bool
	}{
		"not looked at":                {"1", request.Refusal(api.NoQuorum), api.Unknown, true},
		"not looked at, without a key": {"", request.Refusal(api.Overloaded), api.Unknown, false},
		"looked at":                    {"1", request.Refusal(api.Paused), api.Paused, false},
		"looked at, by other rules":    {"1", request.Answer{Outcome: api.NotChecked, OtherRules: true}, api.NotChecked, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRemoteWorld(t)
			w.r.SetOwner(w.now, w.owner("p", 4))
			x := w.offers("a", test.key)
			w.answers(w.asked("p", "a")[0], remoteStopped)
			w.r.SetOwner(w.now, w.owner("q", 5))
			w.answers(w.asked("q", "a")[0], test.says)
			x.hears(test.want)
			if w.doubts.Has("a", "1") != test.doubt {
				t.Errorf("in doubt: %v", !test.doubt)
			}
		})
	}
}

// TestRemoteOtherRules denies nobody what an earlier request of the same key may yet get that is
// to be decided by other rules.
func TestRemoteOtherRules(t *testing.T) {
	w := newRemoteWorld(t)
	w.r.SetOwner(w.now, w.owner("p", 4))
	first, second := w.offers("a", "1"), w.offers("a", "1")
	es := w.asked("p", "a", "a")
	w.answers(es[0], request.Answer{Outcome: api.NotChecked, OtherRules: true})
	w.answers(es[1], remoteDenied)
	second.hears(api.Unknown)
	if got := w.r.Refuse(request.Request{User: "a", Key: "1"}, request.Answer{Outcome: api.Overloaded}); got.Outcome != api.Unknown {
		t.Errorf("turned away while one is to be decided again, it gets %+v", got)
	}
	if got := w.r.Refuse(first.ticket.Repeat(), request.Answer{Outcome: api.Overloaded}); got.Outcome != api.Overloaded {
		t.Errorf("turned away itself, it gets %+v", got)
	}
	first.hears(api.NotChecked)
	first.ticket.Finish()
	gone := w.offers("a", "1")
	es = w.asked("p", "a")
	gone.ticket.Cancel()
	w.answers(es[0], request.Answer{Outcome: api.NotChecked, OtherRules: true})
	if n := w.r.Underway.Len(); n != 0 {
		t.Errorf("%d are under way", n)
	}
}

// TestRemoteKeys denies nobody what an earlier request of the same key may yet get.
func TestRemoteKeys(t *testing.T) {
	w := newRemoteWorld(t)
	w.r.SetOwner(w.now, w.owner("p", 4))
	first, second, other := w.offers("a", "1"), w.offers("a", "1"), w.offers("a", "2")
	es := w.asked("p", "a", "a", "a")
	if got := w.r.Refuse(request.Request{User: "a", Key: "1"}, request.Answer{Outcome: api.Overloaded}); got.Outcome != api.Unknown {
		t.Errorf("turned away while one is under way, it gets %+v", got)
	}
	for _, q := range []request.Request{{User: "a", Key: "3"}, {User: "b", Key: "1"}, {User: "a"}} {
		if got := w.r.Refuse(q, request.Answer{Outcome: api.Overloaded}); got.Outcome != api.Overloaded {
			t.Errorf("%+v gets %+v", q, got)
		}
	}
	if got := w.r.Refuse(request.Request{User: "a", Key: "1"}, request.Answer{Outcome: api.KeyReused}); got.Outcome != api.KeyReused {
		t.Errorf("what denies nothing became %+v", got)
	}
	w.answers(es[1], remoteDenied)
	second.hears(api.Unknown)
	w.answers(es[2], remoteDenied)
	other.hears(api.SoldOut)
	w.answers(es[0], remoteSold)
	first.hears(api.Sold)
	third := w.offers("a", "1")
	es = w.asked("p", "a")
	w.answers(es[0], remoteDenied)
	third.hears(api.SoldOut) // none is before it

	// One that ended with Unknown stays in doubt, until somebody says who has looked.
	fourth := w.offers("a", "1")
	w.answers(w.asked("p", "a")[0], request.Undecided)
	fourth.hears(api.Unknown)
	for want, a := range map[api.Outcome]request.Answer{
		api.Unknown: {Outcome: api.NoQuorum, RetryAfter: time.Second}, // who says so has not looked
		api.SoldOut: remoteDenied,
	} {
		x := w.offers("a", "1")
		w.answers(w.asked("p", "a")[0], a)
		x.hears(want)
	}
	if got := w.r.Refuse(request.Request{User: "a", Key: "1"}, request.Answer{Outcome: api.Overloaded}); got.Outcome != api.Unknown {
		t.Errorf("turned away while it is in doubt, it gets %+v", got)
	}
}

// TestRemoteGivesUp lets those who wait give up: surely not accepted while nobody was asked
// for them, and nobody knows once somebody was.
func TestRemoteGivesUp(t *testing.T) {
	w := newRemoteWorld(t)
	a, b := w.offers("a", "1"), w.offers("b", "1")
	if got := a.ticket.Cancel(); got.Outcome != api.Overloaded {
		t.Errorf("while it waits: %+v", got)
	}
	w.r.SetOwner(w.now, w.owner("p", 4))
	es := w.asked("p", "b")
	if got := b.ticket.Cancel(); got.Outcome != api.Unknown || !w.doubts.Has("b", "1") {
		t.Errorf("while it is asked for: %+v", got)
	}
	w.sent = nil // TestRemoteForsaken holds what the owner hears
	w.answers(es[0], remoteSold)

	// One that came back unseen may be withdrawn again, and is not sent anew.
	c := w.offers("c", "1")
	w.bounces(ownership.Route{}, w.asked("p", "c")...)
	if got := c.ticket.Cancel(); got.Outcome != api.Overloaded {
		t.Errorf("when it came back: %+v", got)
	}
	w.pass(ownerPause)
	w.asked("")
	if w.r.Busy() {
		t.Error("it is busy with what nobody waits for")
	}

	// One whose answer is there has it.
	d := w.offers("d", "1")
	d.ticket.OnAnswer(nil)
	w.answers(w.asked("p", "d")[0], remoteSold)
	if got := d.ticket.Cancel(); got.Outcome != api.Sold {
		t.Errorf("with its answer there: %+v", got)
	}

	// Of one that was cut off nobody knows.
	e := w.offers("e", "1")
	w.asked("p", "e")
	w.r.ClearOwner("p")
	w.r.HandleLinkEnd(w.now, "p")
	if got := e.ticket.Cancel(); got.Outcome != api.Unknown {
		t.Errorf("when the link was cut: %+v", got)
	}
}

// TestRemoteIsFull refuses what comes beyond the bound, and sends on when the owner takes
// more.
func TestRemoteIsFull(t *testing.T) {
	w := newRemoteWorld(t)
	w.queue, w.full["p"] = 2, true
	w.r.SetOwner(w.now, w.owner("p", 4))
	a := w.offers("a", "1")
	w.offers("b", "1")
	if got := w.r.Offer(w.now, w.ticket("c", "1").ticket); got != api.Overloaded {
		t.Errorf("a third: %q", got)
	}
	if got := w.r.Refuse(request.Request{User: "c", Key: "1"}, request.Answer{Outcome: api.Overloaded}); got.Outcome != api.Overloaded {
		t.Errorf("who was turned away is under way: %+v", got)
	}
	w.full["p"] = false
	w.pass(0)
	es := w.asked("p", "a", "b")
	w.answers(es[0], remoteSold)
	a.hears(api.Sold)
}

// TestRemoteHome has this process get the shard: what waits is queued on it, in order, and
// what has come home no longer waits here.
func TestRemoteHome(t *testing.T) {
	w := newRemoteWorld(t)
	w.r.SetOwner(w.now, w.owner("p", 4))
	w.offers("sent", "1")
	es := w.asked("p", "sent")
	w.r.SetOwner(w.now, w.owner("me", 5))
	w.offers("a", "1")
	if len(w.home) != 0 {
		t.Fatal("one overtakes another that is sent")
	}
	w.noHome = api.Overloaded
	w.bounces(w.owner("me", 5), es...)
	if queued, sent := len(w.r.queue), len(w.r.sent); queued != 2 || sent != 0 || !w.r.Busy() {
		t.Errorf("%d wait, %d are sent", queued, sent)
	}
	if got := w.r.Refuse(request.Request{User: "a", Key: "1"}, request.Answer{Outcome: api.Standby}); got.Outcome != api.Unknown {
		t.Errorf("another of its key is told %+v", got)
	}
	w.noHome = ""
	w.pass(0)
	if len(w.home) != 2 || w.home[0].User != "sent" || w.home[1].User != "a" || w.r.Busy() {
		t.Fatalf("%d have come home, busy: %v", len(w.home), w.r.Busy())
	}
	if got := w.r.Refuse(request.Request{User: "a", Key: "1"}, request.Answer{Outcome: api.Standby}); got.Outcome != api.Unknown {
		t.Errorf("another of the key of one that has come home, and is under way, is told %+v", got)
	}
}

// TestRemoteMoved takes over what a shard of this process had: before all that came since,
// and what may have been decided is not denied.
func TestRemoteMoved(t *testing.T) {
	w := newRemoteWorld(t)
	w.r.SetOwner(w.now, w.owner("me", 4))
	a, b, c := w.ticket("a", "1"), w.ticket("b", "1"), w.ticket("c", "1")
	a.ticket.Answer = remoteStopped // it was being appended
	a.ticket.Take()
	b.ticket.Answer = request.Answer{Outcome: api.NoQuorum, Elsewhere: true}
	b.ticket.Take()
	c.ticket.Answer = request.Answer{Outcome: api.NoQuorum, Elsewhere: true}
	w.noHome = api.Standby
	late := w.offers("late", "1")
	w.r.OfferFirst(w.now, []*request.Ticket{a.ticket, b.ticket})
	w.r.OfferFirst(w.now, []*request.Ticket{c.ticket})
	if got := w.r.Route(); got.Owner != "" {
		t.Errorf("the owner is still %+v", got)
	}
	w.r.SetOwner(w.now, w.owner("p", 5))
	es := w.asked("p", "a", "b", "c", "late")
	w.r.HandleLinkEnd(w.now, "another")
	w.r.ClearOwner("p")
	w.bounces(ownership.Route{}, es...)
	w.pass(OwnerTimeout)
	a.hears(api.Unknown)
	b.hears(meanwhile)
	c.hears(meanwhile)
	late.hears(meanwhile)
}

// TestRemoteCloses refuses all that waits, and what comes then; of what was asked for it is
// not known.
func TestRemoteCloses(t *testing.T) {
	w := newRemoteWorld(t)
	w.r.SetOwner(w.now, w.owner("p", 4))
	sent := w.offers("sent", "1")
	es := w.asked("p", "sent")
	w.r.ClearOwner("p")
	waits, gone := w.offers("waits", "1"), w.offers("gone", "1")
	gone.ticket.Cancel()
	w.r.Close(request.Answer{Outcome: api.Closed})
	sent.hears(api.Unknown)
	waits.hears(api.Closed)
	gone.hears("")
	if got := w.r.Offer(w.now, w.ticket("late", "1").ticket); got != api.Closed {
		t.Errorf("what comes then: %q", got)
	}
	moved := w.ticket("moved", "1")
	moved.ticket.Answer = request.Answer{Outcome: api.NoQuorum, Elsewhere: true}
	w.r.OfferFirst(w.now, []*request.Ticket{moved.ticket})
	moved.hears(api.Closed)
	w.answers(es[0], remoteSold)
	w.bounces(ownership.Route{}, es...)
	if w.r.Busy() || w.r.Tick(w.now) != 0 {
		t.Error("it is busy")
	}
}

// TestRemoteSettles passes on what is asked of a claim.
func TestRemoteSettles(t *testing.T) {
	w := newRemoteWorld(t)
	w.r.SetOwner(w.now, w.owner("p", 4))
	x := w.ticketFor(request.Request{Settle: &request.Settlement{Claim: request.ClaimID{Shard: 3, Slot: 7}, How: api.Confirm}})
	if refused := w.r.Offer(w.now, x.ticket); refused != "" {
		t.Fatal(refused)
	}
	if len(w.sent) != 1 || w.sent[0].Settle == nil || w.sent[0].Settle.Claim.Slot != 7 {
		t.Fatalf("%+v", w.sent)
	}
	w.r.HandleLinkEnd(w.now, "p") // it may have been done
	w.r.ClearOwner("p")
	w.pass(OwnerTimeout)
	w.r.Tick(w.now)
	if len(x.answers) == 0 {
		w.r.Close(request.Answer{Outcome: api.Closed})
	}
	x.hears(api.Unknown)
}

// query has a query of a user come.
func (w *remoteWorld) query(user string) *waiter {
	w.t.Helper()
	x := w.ticketFor(request.Request{Query: &request.Query{User: user}})
	if refused := w.r.Offer(w.now, x.ticket); refused != "" {
		w.t.Fatalf("the query of %s is refused: %s", user, refused)
	}
	return x
}

// TestRemoteQueries sends queries to the owner, behind the claims that came before. A query changes
// nothing: it is sent again without a doubt, and waits for OwnerTimeout in all.
func TestRemoteQueries(t *testing.T) {
	w := newRemoteWorld(t)
	a, b := w.offers("a", "1"), w.query("b")
	w.r.SetOwner(w.now, w.owner("p", 4))
	if len(w.sent) != 2 || w.sent[0].User != "a" || w.sent[1].Query.User != "b" {
		t.Fatalf("sent %+v", w.sent)
	}
	w.answers(w.sent[1].forwarded, request.Answer{Claims: []request.Claim{{User: "b"}}})
	if len(b.answers) != 1 || b.answers[0].Outcome != "" || len(b.answers[0].Claims) != 1 {
		t.Errorf("the query is answered with %+v", b.answers)
	}
	w.answers(w.sent[0].forwarded, remoteSold)
	a.hears(api.Sold)

	w.sent = nil
	cut := w.query("c")
	w.r.ClearOwner("p")
	w.r.HandleLinkEnd(w.now, "p")
	w.r.SetOwner(w.now, w.owner("q", 5))
	if len(w.sent) != 2 || w.sent[1].to != "q" {
		t.Fatalf("sent %+v", w.sent)
	}
	w.pass(OwnerTimeout / 2)
	cut.hears("")
	w.pass(OwnerTimeout) // q does not answer
	cut.hears(meanwhile)
	w.answers(w.sent[1].forwarded, request.Answer{})
	cut.hears(meanwhile)
}

// TestRemoteQueryComesHome: a query that waits is answered by this process once that owns the shard.
func TestRemoteQueryComesHome(t *testing.T) {
	w := newRemoteWorld(t)
	x := w.query("a")
	w.noHome = api.Standby
	w.r.SetOwner(w.now, w.owner("me", 4))
	x.hears("")
	w.noHome = ""
	w.r.Tick(w.now)
	if len(x.answers) != 1 || x.answers[0].Claim.User != "a" || w.r.Busy() {
		t.Errorf("it is answered with %+v", x.answers)
	}
}

// TestRemoteEndsQueries: a query that is given up, or on which the session ends, is never in doubt.
func TestRemoteEndsQueries(t *testing.T) {
	w := newRemoteWorld(t)
	waits := w.query("a")
	w.r.SetOwner(w.now, w.owner("p", 4))
	sent := w.query("b")
	if got := sent.ticket.Cancel(); got.Outcome != api.Standby {
		t.Errorf("a query that is given up is answered with %+v", got)
	}
	w.r.Close(request.Answer{Outcome: api.NoQuorum})
	waits.hears(api.NoQuorum)
	if n := w.doubts.Len(); n != 0 {
		t.Errorf("%d requests are in doubt", n)
	}
}
