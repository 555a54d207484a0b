package process_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"salectl/api"
	"salectl/backends/calls"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/backends/quorum"
	"salectl/executor/listengine"
	"salectl/executor/request"
	"salectl/executor/saletest"
	"salectl/executor/shard"
	"salectl/spec"
)

// tell has a shard hear of an event.
func (p *listedProcess) tell(shard int, e shard.Event) {
	p.w.t.Helper()
	p.p.Running(shard).Post(e)
	p.run()
}

// loses has a process hear that a list is not what it was.
func (p *listedProcess) loses(i int) {
	p.w.t.Helper()
	p.tell(i, shard.FillLost{Fill: p.w.shard(i).Fill})
	p.w.pass(100 * time.Millisecond)
}

// setBack sets the clock back, by more than a log's time may be ahead, and has shards
// believe it: who owns one then sets its log's time back.
func (p *listedProcess) setBack() {
	p.w.t.Helper()
	p.w.now.Wall = p.w.now.Wall.Add(-ledger.MaxAhead - time.Second)
	p.p.Tick(p.w.now)
	for i := range p.w.shards {
		p.tell(i, p.rights())
	}
}

// ended reports whether the machine of a shard has ended.
func ended(s *shard.Shard) bool {
	_, over := s.Ended()
	return over
}

// rights are valid from now on.
func (p *listedProcess) rights() shard.Rights {
	return shard.Rights{Lease: saletest.Lease(p.w.t, p.w.now), ReadAt: p.w.now, TTL: quorum.DefaultTTL}
}

// nextRead returns the time until the process reads the sale's log, which it last did so long before.
func (p *listedProcess) nextRead(every time.Duration) time.Duration {
	return p.p.Health().Logged.ReadAt.Add(every).Sub(p.w.now.Wall)
}

// tooLarge has the store refuse the append under way for its size.
func (p *listedProcess) tooLarge(what string) {
	p.w.t.Helper()
	p.reply(p.the(what), ledger.Reply{Err: ledger.ErrTooLarge}, nil)
	p.run()
}

// appends returns how many ops the append under way of that name has.
func (p *listedProcess) appends(what string) int {
	p.w.t.Helper()
	var logs taken
	p.the(what).Make(p.w.t.Context(), &logs, nil, nil)
	var c pb.Commit
	if err := proto.Unmarshal(logs.commit, &c); err != nil {
		p.w.t.Fatal(err)
	}
	return len(c.GetOps())
}

// taken is a store that keeps what was to be appended last, and appends nothing.
type taken struct {
	ledger.Logs
	commit []byte
}

func (s *taken) Append(_ context.Context, _ string, _ uint64, _, _, commit []byte) error {
	s.commit = commit
	return ledger.ErrTaken
}

// units fails the test unless the log and the list of each shard have so many.
func (w *listedWorld) units(want ...int64) {
	w.t.Helper()
	for i, n := range want {
		if s, l := w.shard(i), w.list(i); s.Available != n || l.Units != n || s.InFlight != 0 {
			w.t.Errorf("shard %d is at %+v, its list at %+v; want %d units", i, s.Totals, l, n)
		}
	}
}

// TestListedTooLarge halves a commit that the store finds too large, until it is not;
// another one may come before it: what that has not appended is not taken for appended.
func TestListedTooLarge(t *testing.T) {
	for name, test := range map[string]struct {
		between func(p *listedProcess)
		claims  []int
	}{
		"at once":                          {func(*listedProcess) {}, []int{8, 4, 2}},
		"after the log's time is set back": {(*listedProcess).setBack, []int{8, 8, 4}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newListedWorld(t, spec.AckLedger, 20)
			p := w.first
			var asked []*listedAsk
			for _, user := range w.buyers(0, 8) {
				asked = append(asked, p.queue(user, "1", 1))
			}
			p.keeps("append claims")
			p.run()
			test.between(p)
			for _, want := range test.claims {
				if n := p.appends("append claims"); n != want {
					t.Errorf("%d claims are appended together, want %d", n, want)
				}
				p.tooLarge("append claims")
			}
			p.lets()
			for _, x := range asked {
				x.want(t, api.Sold)
			}
			if s := w.shard(0); s.Sold != 8 {
				t.Errorf("the shard is at %+v", s.Totals)
			}
			w.units(12)
		})
		t.Run(name+", of units for another shard", func(t *testing.T) {
			w := newListedWorld(t, spec.AckLedger, 10, 1)
			p := w.first
			p.keeps("append out")
			p.tell(0, shard.Message{Kind: shard.Want, From: 1, To: 0, Lacks: 1})
			test.between(p)
			p.tooLarge("append out")
			p.lets() // what the other shard has asked for is decided again
			w.units(5, 6)
		})
	}
}

// TestListedTakesInParts keeps the units that one call has taken out of a list for
// another shard until the last call has, whatever else happens.
func TestListedTakesInParts(t *testing.T) {
	w := newListedStores(t, spec.AckLedger, nil, 10, 1)
	w.sizes.Move = 2
	p := w.process("first")
	p.run()
	p.keeps("list take")
	p.tell(0, shard.Message{Kind: shard.Want, From: 1, To: 0, Lacks: 1})
	p.let(p.the("list take"))
	p.run()
	p.the("list take")
	p.tell(0, shard.DrainRequested{})
	p.lets()
	w.units(5, 6)
	if n := p.count("append out"); n != 1 {
		t.Errorf("%d transfers", n)
	}
}

// TestListedWithoutRights makes no call of the list's node and appends nothing while the
// process may not, and goes on when it may again.
func TestListedWithoutRights(t *testing.T) {
	w := newListedWorld(t, spec.AckLedger, 9)
	p := w.first
	may := p.rights()
	p.keeps("grab")
	x := p.ask("ann", "1")
	p.tell(0, shard.Rights{})
	p.lets()
	if x.want(t, ""); w.has("ann") {
		t.Error("it appends")
	}
	p.tell(0, may)
	x.want(t, api.Sold)
	p.tell(0, shard.Rights{})
	before := p.count("list run id")
	p.loses(0)
	if p.count("list run id") != before {
		t.Error("it makes calls")
	}
	p.tell(0, may)
	p.lets()
	w.pass(100 * time.Millisecond)
	p.ask("bob", "1").want(t, api.Sold)
}

// TestListedPausedBefore takes a sale over that is paused: nothing is asked of the list's
// node until it is resumed, and then all goes on.
func TestListedPausedBefore(t *testing.T) {
	w := newListedStores(t, spec.AckRedis, func(_ *spec.Sale, s *pb.Settings) { s.Phase = pb.Phase_PAUSED }, 9, 9)
	p := w.process("first")
	p.run()
	w.pass(time.Second)
	p.ask("ann", "1").want(t, api.Paused)
	if slices.ContainsFunc(p.made, func(what string) bool { return strings.HasPrefix(what, "list") }) {
		t.Errorf("it makes the calls %q", p.made)
	}
	if err := p.p.Ready(w.now); err != nil {
		t.Error(err)
	}
	w.plan(pb.Phase_OPEN)
	w.pass(quorumRead)
	p.ask("ann", "2").want(t, api.Sold)
}

// TestListedTakesOverOneByOne has a process take over two shards, one of which takes
// its time. Who is at home there waits; the others are sold to, since each shard has its own
// part of what the ledger may lack.
func TestListedTakesOverOneByOne(t *testing.T) {
	for name, keep := range map[string]func(calls.Call) bool{
		"the list cannot be read": func(c calls.Call) bool { return c.List && c.Node == 1 },
		"the log cannot be read":  func(c calls.Call) bool { return c.What == "append own" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newListedStores(t, spec.AckRedis, nil, 9, 9)
			p := w.process("first")
			n := 0
			p.keep = func(c calls.Call) bool {
				if !keep(c) {
					return false
				}
				n++
				return c.List || n == 2 // the other shard's
			}
			p.run()
			w.pass(100 * time.Millisecond)
			here, there := p.ask(w.buyers(0, 1)[0], "1"), p.ask(w.buyers(1, 1)[0], "1")
			p.tell(1, shard.DrainRequested{})
			here.want(t, api.Sold)
			there.want(t, "")
			if name == "the list cannot be read" {
				return
			}
			p.lets()
			w.pass(time.Second)
			there.want(t, api.Sold)
		})
	}
}

// over reports whether a channel is closed.
func over(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestListedHurries brings into the log at once what somebody waits for there.
func TestListedHurries(t *testing.T) {
	w := newListedWorld(t, spec.AckRedis, 9)
	p := w.first
	p.ask("ann", "1").want(t, api.Sold)
	wait := p.p.Running(0).Drain()
	if over(wait) {
		t.Fatal("it is drained at once")
	}
	p.run()
	if !over(wait) || !w.has("ann") {
		t.Error("it is not drained")
	}
}

// TestListedLateReply has the reply to a grab come when the list was filled anew: the node
// has lost what it gave, which its user hears at once. Those who were given something
// since do not hear that.
func TestListedLateReply(t *testing.T) {
	begin := func(t *testing.T) (w *listedWorld, p *listedProcess, ann *listedAsk, late func()) {
		w = newListedWorld(t, spec.AckLedger, 9)
		p = w.first
		p.keeps("grab")
		ann = p.ask("ann", "1")
		k := p.the("grab")
		landed := p.make(k)
		w.nodes[0].RestartEmpty()
		p.loses(0)
		if s := w.shard(0); s.Fill != 2 {
			t.Fatalf("the shard is at %+v", s.Totals)
		}
		return w, p, ann, func() { p.reply(k, landed, nil) }
	}
	ends := func(t *testing.T, w *listedWorld, p *listedProcess) {
		t.Helper()
		p.p.Drain(w.now)
		p.run()
		w.pass(2 * time.Second)
		if !p.gone {
			t.Error("it does not end")
		}
	}
	hears := func(t *testing.T, ann *listedAsk) {
		t.Helper()
		if a := ann.want(t, api.NoQuorum); a.Message != "the node has lost it; repeat the request" {
			t.Errorf("%+v", a)
		}
	}
	t.Run("alone", func(t *testing.T) {
		w, p, ann, late := begin(t)
		late()
		p.run()
		hears(t, ann)
		ends(t, w, p)
	})
	t.Run("with another's, who has the same unit now", func(t *testing.T) {
		for _, lateFirst := range []bool{true, false} {
			w, p, ann, late := begin(t)
			bob := p.ask("bob", "1")
			reply := p.kept[len(p.kept)-1]
			p.keeps("append")
			if lateFirst {
				late()
			}
			p.let(reply)
			if !lateFirst {
				p.run()
				bob.want(t, "")
				late()
			}
			p.run()
			hears(t, ann)
			bob.want(t, "")
			p.lets()
			if a := bob.want(t, api.Sold); a.Claim.Units[0] != 1 {
				t.Errorf("%+v", a)
			}
			ends(t, w, p)
		}
	})
	t.Run("while an append is under way", func(t *testing.T) {
		w, p, ann, late := begin(t)
		p.keeps("append")
		bob := p.ask("bob", "1")
		p.the("append claims")
		late()
		p.run()
		hears(t, ann)
		bob.want(t, "")
		p.lets()
		bob.want(t, api.Sold)
		ends(t, w, p)
	})
	t.Run("of a process that is to end", func(t *testing.T) {
		w, p, ann, late := begin(t)
		p.p.Drain(w.now)
		p.run()
		late()
		p.run()
		hears(t, ann)
		ends(t, w, p)
	})
	t.Run("of a process that is to end and has no rights now", func(t *testing.T) {
		w, p, ann, late := begin(t)
		p.p.Drain(w.now)
		p.run()
		p.tell(0, shard.Rights{})
		late()
		p.run()
		hears(t, ann)
		ends(t, w, p)
	})
}

// TestListedLost has a list be lost while its users wait for the ledger. They hear what
// became of their grabs when the list gives again, and nothing before.
func TestListedLost(t *testing.T) {
	t.Run("and nothing of it", func(t *testing.T) {
		w := newListedWorld(t, spec.AckLedger, 9)
		p := w.first
		p.keeps("append")
		p.ask("first", "1")
		x := p.ask("ann", "1") // behind the commit under way
		w.nodes[0].Restart()
		p.tell(0, shard.FillLost{Fill: 1})
		p.keeps("list") // it is rebuilt
		w.pass(100 * time.Millisecond)
		x.want(t, "")
		p.lets()
		w.pass(100 * time.Millisecond)
		x.want(t, api.Sold)
	})
	t.Run("with all that it gave", func(t *testing.T) {
		w := newListedWorld(t, spec.AckLedger, 9)
		p := w.first
		p.keeps("append")
		first := p.ask("first", "1")
		x := p.ask("ann", "") // behind the commit under way
		w.nodes[0].RestartEmpty()
		p.tell(0, shard.FillLost{Fill: 1})
		p.lets()
		x.want(t, "")
		w.pass(100 * time.Millisecond)
		first.want(t, api.Sold)
		x.want(t, api.NoQuorum)
		w.units(8)
	})
	t.Run("while it is appended", func(t *testing.T) {
		w := newListedWorld(t, spec.AckLedger, 9)
		p := w.first
		p.keeps("append")
		x := p.ask("ann", "1")
		w.nodes[0].RestartEmpty()
		p.tell(0, shard.FillLost{Fill: 1})
		p.lets()
		w.pass(100 * time.Millisecond)
		x.want(t, api.Sold)
	})
}

// TestListedOvertaken has grabs be in the log before the reply comes to the call that made
// them.
func TestListedOvertaken(t *testing.T) {
	w := newListedWorld(t, spec.AckLedger, 9)
	p := w.first
	p.keeps("grab")
	var asked []*listedAsk
	for _, user := range w.buyers(0, 3) {
		asked = append(asked, p.queue(user, "1", 1))
	}
	p.run()
	k := p.the("grab")
	landed := p.make(k)
	w.pass(700 * time.Millisecond)
	if s := w.shard(0); s.Sold != 3 {
		t.Fatalf("the shard is at %+v", s.Totals)
	}
	p.reply(k, landed, nil)
	p.run()
	for _, x := range asked {
		x.want(t, api.Sold)
	}
}

// TestListedTwoKeysUndrained has a user ask with a second key, while the log lacks what
// the first got: it waits for the log, too.
func TestListedTwoKeysUndrained(t *testing.T) {
	w := newListedWorld(t, spec.AckLedger, 9)
	p := w.first
	p.keeps("append")
	first, second := p.ask("ann", "1"), p.ask("ann", "2")
	first.want(t, "")
	second.want(t, "")
	p.lets()
	first.want(t, api.Sold)
	second.want(t, api.LimitReached)
}

// TestListedAnotherUnit has a node say that it gave a user a unit whose user has another
// one by the log. The user does not hear of it.
func TestListedAnotherUnit(t *testing.T) {
	w := newListedWorld(t, spec.AckLedger, 9)
	p := w.first
	x, again := p.queue("ann", "1", 1), p.queue("ann", "1", 1)
	p.keeps("grab")
	p.run()
	p.let(p.the("grab"))
	p.run()
	x.want(t, api.Sold)
	p.reply(p.the("grab"), listengine.Reply{Given: []lists.Given{{Units: []lists.Unit{{Number: 7}}}}}, nil)
	p.run()
	again.want(t, "")
	p.loses(0)
	again.want(t, api.NoQuorum)
}

// TestListedHasOneByNow has somebody find a list empty who has got a unit in the log
// meanwhile, by the same key: that is the answer, also where all is sold.
func TestListedHasOneByNow(t *testing.T) {
	w := newListedWorld(t, spec.AckLedger, 1)
	p := w.first
	p.ask("ann", "1").want(t, api.Sold)
	x := request.NewTicket(new(sync.Pool), Request{User: "ann", Key: "1", Quantity: 1}, nil, w.now.Mono)
	p.tell(0, shard.GrabsDone{At: w.now, Fill: 1, Short: []*request.Ticket{x}})
	x.Await(t.Context())
	if a := x.Finish(); a.Outcome != api.Sold || !a.Replayed {
		t.Errorf("%+v", a)
	}
}

// TestListedHasNone tells a shard that asks for units at once that there are none for it.
func TestListedHasNone(t *testing.T) {
	for name, test := range map[string]struct {
		shares []int64
		begin  func(w *listedWorld, p *listedProcess)
	}{
		"the log has none": {[]int64{0, 2}, func(*listedWorld, *listedProcess) {}},
		"the list has none, which the log does not know": {[]int64{1, 1}, func(w *listedWorld, p *listedProcess) {
			p.ask(w.buyers(0, 1)[0], "1").want(w.t, api.Sold)
		}},
		"others wait here": {[]int64{1, 1}, func(w *listedWorld, p *listedProcess) {
			p.keeps("list")
			p.ask(w.buyers(0, 1)[0], "1")
			p.ask(w.buyers(0, 2)[1], "1")
		}},
		"the sale is closed": {[]int64{9, 9}, func(w *listedWorld, p *listedProcess) {
			w.plan(pb.Phase_CLOSED)
			w.pass(quorumRead)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newListedWorld(t, spec.AckRedis, test.shares...)
			p := w.first
			test.begin(w, p)
			var said []string
			p.p.Intercept(func(m shard.Message, next func(shard.Message)) {
				said = append(said, fmt.Sprint(m.Kind, " from shard ", m.From))
				next(m)
			})
			p.tell(0, shard.Message{Kind: shard.Want, From: 1, To: 0, Lacks: 1})
			if !slices.Contains(said, "none from shard 0") {
				t.Errorf("it says %q", said)
			}
		})
	}
}

// TestListedDoesNotFit ends a sequencer that is to append what its log cannot have.
func TestListedDoesNotFit(t *testing.T) {
	t.Run("units of the list that the log does not have", func(t *testing.T) {
		w := newListedWorld(t, spec.AckLedger, 5, 1)
		p := w.first
		list, x := lists.List{UID: saletest.UID}, p.p.Running(0)
		if err := w.nodes[0].Add(t.Context(), list, w.list(0).Fill, ledger.Units{{First: 97, Count: 3}}); err != nil {
			t.Fatal(err)
		}
		p.tell(0, shard.Message{Kind: shard.Want, From: 1, To: 0, Lacks: 1})
		if s := w.shard(0); !ended(x) || s.Available != 5 || s.InFlight != 0 {
			t.Errorf("the shard is at %+v", s.Totals)
		}
		w.pass(20 * time.Second)
		w.units(5, 1)
	})
	t.Run("units from another shard that the log has already", func(t *testing.T) {
		w := newListedWorld(t, spec.AckLedger, 5, 1)
		p := w.first
		x := p.p.Running(0)
		p.tell(0, shard.Message{Kind: shard.Sent, From: 1, To: 0, Transfer: 1, Units: ledger.Units{{First: 1, Count: 2}}})
		if s := w.shard(0); !ended(x) || s.Available != 5 {
			t.Errorf("the shard is at %+v", s.Totals)
		}
	})
}

// TestListedComesWhileFilled leaves units of another shard where they are until the list
// that they go into gives: it is filled from the log as it is.
func TestListedComesWhileFilled(t *testing.T) {
	w := newListedWorld(t, spec.AckLedger, 10, 1)
	p := w.first
	p.keep = func(c calls.Call) bool { return c.List && c.Node == 1 }
	p.loses(1)
	p.tell(0, shard.Message{Kind: shard.Want, From: 1, To: 0, Lacks: 1})
	if s := w.shard(0); s.InFlight != 5 || p.count("append in") != 0 {
		t.Errorf("the shard is at %+v, %d transfers have come", s.Totals, p.count("append in"))
	}
	p.lets()
	w.pass(time.Second)
	w.units(5, 6)
}

// TestListedFilledAnew begins to fill a list anew when the log has changed meanwhile.
func TestListedFilledAnew(t *testing.T) {
	w := newListedWorld(t, spec.AckLedger, 9)
	p := w.first
	w.nodes[0].RestartEmpty()
	p.keeps("list put")
	p.loses(0)
	before := p.count("list inspect")
	p.setBack()
	p.lets()
	w.pass(100 * time.Millisecond)
	if n := p.count("list inspect") - before; n != 1 {
		t.Errorf("it was begun %d times anew", n)
	}
	w.units(9)
}

// TestListedRepeats tells of a transfer again until the other shard has it, also while
// the sale is paused.
func TestListedRepeats(t *testing.T) {
	w := newListedWorld(t, spec.AckLedger, 10, 1)
	p := w.first
	p.keep = func(c calls.Call) bool { return c.List && c.Node == 1 }
	p.loses(1)
	p.tell(0, shard.Message{Kind: shard.Want, From: 1, To: 0, Lacks: 1})
	w.plan(pb.Phase_PAUSED)
	w.pass(quorumRead)
	if s := w.shard(0); s.Generation != 2 || s.InFlight != 5 {
		t.Fatalf("the shard is at %+v", s.Totals)
	}
	said, lost := 0, true
	p.p.Intercept(func(m shard.Message, next func(shard.Message)) {
		if !lost {
			next(m)
		} else if m.Kind == shard.Sent {
			said++
		}
	})
	w.pass(3*shard.ReplyTimeout + time.Millisecond)
	if said != 3 {
		t.Errorf("it tells of the transfer %d times", said)
	}
	lost = false
	p.lets()
	w.pass(time.Second)
	if a, b := w.shard(0), w.shard(1); a.InFlight != 0 || b.Available != 6 {
		t.Errorf("the shards are at %+v and %+v", a.Totals, b.Totals)
	}
}

// TestListedWaitsForUnits asks nobody again who waits for units until they are in the
// list.
func TestListedWaitsForUnits(t *testing.T) {
	w := newListedWorld(t, spec.AckLedger, 0, 5)
	p := w.first
	p.keeps("list add")
	x := p.ask(w.buyers(0, 1)[0], "1")
	p.the("list add")
	before := p.count("grab")
	p.tell(0, shard.DrainRequested{})
	if n := p.count("grab"); n != before {
		t.Errorf("%d calls for who waits", n-before)
	}
	p.lets()
	x.want(t, api.Sold)
}

// TestListedStallsSince counts from when a list went off, and not from an earlier time.
func TestListedStallsSince(t *testing.T) {
	filled := "the list of shard 0 is being filled"
	for name, earlier := range map[string]func(w *listedWorld, p *listedProcess){
		"off before": func(w *listedWorld, p *listedProcess) {
			p.loses(0)
			w.pass(shard.StallAfter - 300*time.Millisecond)
			p.lets()
			w.pass(time.Second)
		},
		"paused before": func(w *listedWorld, p *listedProcess) {
			p.lets()
			w.plan(pb.Phase_PAUSED)
			w.pass(quorumRead + 2*shard.StallAfter)
			w.plan(pb.Phase_OPEN)
			w.pass(p.nextRead(quorumRead) - time.Millisecond)
		},
		"never before": func(w *listedWorld, p *listedProcess) { w.pass(3 * shard.StallAfter) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newListedWorld(t, spec.AckLedger, 9)
			p := w.first
			p.keeps("list run id")
			earlier(w, p)
			if err := p.p.Ready(w.now); err != nil {
				t.Fatal(err)
			}
			p.keeps("list")
			p.loses(0)
			for range 10 {
				w.pass(150 * time.Millisecond)
				if err := p.p.Ready(w.now); err == nil || err.Error() != filled {
					t.Fatalf("ready: %v", err)
				}
			}
			w.pass(shard.StallAfter)
			if err := p.p.Ready(w.now); err == nil || !strings.HasPrefix(err.Error(), "lock nodes: shards 0 of 1 are stalled since ") {
				t.Errorf("ready: %v", err)
			}
		})
	}
}
