package process_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/calls"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/quorum"
	"salectl/executor/ownership"
	"salectl/executor/peers"
	"salectl/executor/process"
	"salectl/executor/request"
	"salectl/executor/saletest"
	"salectl/executor/shard"
	"salectl/spec"
)

// The longest user and key and the largest quantity are answered, and nothing
// beyond them.
func TestCheckAtTheBounds(t *testing.T) {
	for name, test := range map[string]struct {
		request Request
		bad     string
	}{
		"the least":                    {Request{User: "u", Quantity: 1}, ""},
		"the most":                     {Request{User: strings.Repeat("u", api.MaxUser), Key: strings.Repeat("k", api.MaxKey), Quantity: api.MaxQuantity}, ""},
		"no user":                      {Request{Quantity: 1}, "a user is named by 1 to 255 bytes"},
		"a longer user":                {Request{User: strings.Repeat("u", api.MaxUser+1), Quantity: 1}, "a user is named by 1 to 255 bytes"},
		"no text":                      {Request{User: "\xff", Quantity: 1}, "a user is named by UTF-8 text"},
		"a longer key":                 {Request{User: "u", Key: strings.Repeat("k", api.MaxKey+1), Quantity: 1}, "a key has at most 255 bytes"},
		"no quantity":                  {Request{User: "u"}, "quantity: must be from 1 to 1000"},
		"a larger quantity":            {Request{User: "u", Quantity: api.MaxQuantity + 1}, "quantity: must be from 1 to 1000"},
		"a key of any bytes":           {Request{User: "u", Key: "\xff\x00", Quantity: 1}, ""},
		"units":                        {Request{User: "u", Quantity: 3, Units: []int64{1, 2, 9}}, ""},
		"adjacent units":               {Request{User: "u", Quantity: 3, Adjacent: true}, ""},
		"more units than one asks for": {Request{User: "u", Quantity: 1, Units: []int64{1, 2}}, "a request that names units has their number as its quantity, and is not for adjacent ones"},
		"no units":                     {Request{User: "u", Quantity: 1, Units: []int64{}}, "a request that names units has their number as its quantity, and is not for adjacent ones"},
		"both":                         {Request{User: "u", Quantity: 1, Units: []int64{1}, Adjacent: true}, "a request that names units has their number as its quantity, and is not for adjacent ones"},
		"no unit":                      {Request{User: "u", Quantity: 2, Units: []int64{0, 1}}, "units are named by their numbers, from 1 on, in ascending order and each once"},
		"out of order":                 {Request{User: "u", Quantity: 2, Units: []int64{2, 1}}, "units are named by their numbers, from 1 on, in ascending order and each once"},
		"one unit twice":               {Request{User: "u", Quantity: 2, Units: []int64{2, 2}}, "units are named by their numbers, from 1 on, in ascending order and each once"},
	} {
		if got := process.Check(&test.request); got != test.bad {
			t.Errorf("%s: %q, want %q", name, got, test.bad)
		}
	}
}

// TestAdmission holds what a process tells those who ask, from its start to its end.
func TestAdmission(t *testing.T) {
	opens := time.Unix(1_700_000_000, 0)
	w := newListedWorldAs(t, "", func(s *spec.Sale, settings *pb.Settings) {
		s.PerUserLimit, settings.PerUserLimit = 2, 2
		settings.OpensAtUs = opens.UnixMicro()
	}, 5, 5)
	users := w.buyers(0, 9)
	ready := func(p *listedProcess, want string) {
		t.Helper()
		if got := fmt.Sprint(p.p.Ready(w.now)); !strings.HasPrefix(got, want) {
			t.Errorf("ready: %s, want %s", got, want)
		}
	}
	claims := func(p *listedProcess, user string, n int, want api.Outcome) {
		t.Helper()
		if got, o := p.has(user); len(got) != n || o != want {
			t.Errorf("%s has %v, %q; want %d claims, %q", user, got, o, n, want)
		}
	}
	p := w.process("next") // a standby
	if a := p.queue(users[0], "1", 1).want(t, api.Standby); a.Message != "starting" || a.RetryAfter != time.Second {
		t.Errorf("%+v", a)
	}
	ready(p, "standby: starting")
	claims(p, users[0], 0, api.Standby)
	if s := p.p.Status(); s.Outcome != api.Standby || s.Sale != "listed" || s.Shards != nil {
		t.Errorf("%+v", s)
	}
	p.dead = true

	p = w.first
	ready(p, "<nil>")
	sold := p.ask(users[0], "1").want(t, api.Sold)
	claims(p, users[0], 1, "")
	claims(p, users[1], 0, "")
	if sold.Claim.Packets != nil {
		t.Error("units that are no packets have amounts")
	}
	s := p.p.Status()
	if s.Packets != nil || s.UID != saletest.UID || s.Generation != 1 || s.Phase != ledger.PhaseOpen || s.PerUser != 2 || len(s.Shards) != 2 ||
		!s.OpensAt.Equal(opens) || !s.ClosesAt.IsZero() || s.Shards[0].Sold != 1 || s.Shards[0].Listed {
		t.Errorf("%+v", s)
	}
	p.askFor(users[0], "1", 2).want(t, api.KeyReused)
	p.askFor(users[0], "2", 2).want(t, api.LimitReached)
	p.ask(users[0], "").want(t, api.Sold)
	p.ask(users[0], "").want(t, api.LimitReached)

	sells := func(when string, want bool) {
		t.Helper()
		if s := p.p.Status(); s.Outcome == "" && s.Sells != want {
			t.Errorf("%s it sells: %v", when, s.Sells)
		}
	}
	sells("while all is well", true)

	// The store does not answer for one shard.
	p.keeps("append claims", "read back")
	stuck := p.ask(users[1], "1")
	w.pass(shard.StallAfter - 100*time.Millisecond)
	p.ask(users[2], "1").want(t, "")
	w.pass(time.Second)
	if a := p.ask(users[3], "1").want(t, api.NoQuorum); a.Message != process.NotRead {
		t.Errorf("%+v", a)
	}
	p.ask(users[1], "1").want(t, api.Unknown)
	p.ask(users[0], "1").want(t, api.Sold)
	p.ask(w.buyers(1, 1)[0], "1").want(t, "")
	ready(p, "ledger: shards 0 of 2 are stalled since 20")
	sells("while one of two shards stalls", true)
	stuck.want(t, "")
	p.lets()
	w.pass(time.Second)
	stuck.want(t, api.Sold)
	ready(p, "<nil>")

	// The lock node does not answer, and then the sale's log cannot be read.
	p.keeps("vote", "renew", "release")
	w.pass(quorum.DefaultTTL)
	ready(p, "lock nodes: no majority of the lock nodes votes: ")
	claims(p, users[0], 0, api.NoQuorum)
	p.ask(users[4], "1").want(t, api.NoQuorum)
	p.lets()
	w.pass(quorum.DefaultTTL)
	ready(p, "<nil>")
	p.keeps("read sale")
	w.pass(quorum.DefaultTTL + time.Second)
	ready(p, "ledger: the sale's log ")
	sells("while the sale's log cannot be read", false)
	claims(p, users[0], 0, api.NoQuorum)
	p.ask(users[4], "1").want(t, api.NoQuorum)
	if a := p.ask(users[0], "1").want(t, api.Sold); !a.Replayed || a.Claim.ID != sold.Claim.ID {
		t.Errorf("%+v", a) // what was accepted is certain
	}
	p.askFor(users[0], "1", 2).want(t, api.KeyReused)
	p.lets()
	w.pass(quorum.DefaultTTL)
	ready(p, "<nil>")

	// Another takes over, and has not appended Own yet.
	p.dead = true
	p = w.process("second")
	p.keeps("append own")
	w.pass(20 * time.Second)
	ready(p, "shard 0 is being taken over")
	claims(p, users[0], 0, api.Standby)
	if s := p.p.Status(); s.Outcome != api.Standby || s.UID != saletest.UID || len(s.Nodes) != 1 ||
		len(s.Shards) != 2 || !s.Shards[0].Unknown || s.Shards[0].Shard != 0 {
		t.Errorf("%+v", s)
	}
	if a := p.ask(users[0], "1").want(t, api.Sold); !a.Replayed {
		t.Errorf("%+v", a)
	}
	p.askFor(users[0], "1", 2).want(t, api.KeyReused)
	limit := p.ask(users[0], "2")
	limit.want(t, "") // a generation that it has not read may say otherwise
	p.lets()
	limit.want(t, api.LimitReached)

	// All is sold, and the process goes down.
	for _, user := range append(users[4:], w.buyers(1, 3)...) {
		p.askFor(user, "1", 2)
	}
	for _, user := range w.buyers(1, 9)[3:] {
		p.ask(user, "1")
	}
	x := p.queue("late", "1", 1) // nothing is queued for it
	x.want(t, api.SoldOut)
	p.askFor(users[0], "3", 1).want(t, api.LimitReached)
	p.p.Drain(w.now)
	ready(p, ownership.ErrDraining.Error())
	p.queue("later", "1", 1).want(t, api.SoldOut)
	p.run()
	p.queue("later", "1", 1).want(t, api.Draining)
}

// TestAdmissionBounds refuses what comes beyond the queue's bound.
func TestAdmissionBounds(t *testing.T) {
	for _, ack := range []spec.Ack{"", spec.AckLedger} {
		t.Run(string(ack), func(t *testing.T) {
			w := newListedWorld(t, ack, 1)
			w.queue = 3
			w.first.dead = true
			p := w.process("second")
			w.pass(20 * time.Second)
			p.keeps("append claims", "grab")
			var asked []*listedAsk
			for i := range 6 {
				asked = append(asked, p.ask(fmt.Sprint("user-", i), "1"))
			}
			refused := 0
			for _, x := range asked {
				if len(x.answers) > 0 {
					refused++
					if a := x.want(t, api.Overloaded); a.RetryAfter != time.Second {
						t.Errorf("%+v", a)
					}
				}
			}
			if refused != 3 {
				t.Errorf("%d were refused", refused)
			}
			asked[2].withdraw()
			asked[2].want(t, api.Overloaded)
			p.lets()
			w.pass(time.Second)
			asked[0].want(t, api.Sold)
			if n := len(asked[1].answers); n != 1 {
				t.Errorf("answered %d times", n)
			}
		})
	}
}

// TestAdmissionDamaged has a process find that it cannot follow the sale: before it serves,
// and while a claim is under way.
func TestAdmissionDamaged(t *testing.T) {
	damage := func(w *listedWorld) {
		log := spec.SaleLog("listed")
		head, entries, err := w.logs.Read(t.Context(), log, 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.logs.Append(t.Context(), log, uint64(len(entries)), head, []byte("no head"), []byte("no entry")); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("before it serves", func(t *testing.T) {
		w := newListedWorld(t, "", 5)
		damage(w)
		w.first.dead = true
		p := w.process("second")
		p.run()
		if !p.gone || p.p.Err() == nil {
			t.Errorf("gone: %v, %v", p.gone, p.p.Err())
		}
		if a := p.queue("ann", "1", 1).want(t, api.NoQuorum); a.Message != "the sale's log cannot be followed" || a.RetryAfter != time.Second {
			t.Errorf("%+v", a)
		}
	})
	t.Run("while a claim is under way", func(t *testing.T) {
		w := newListedWorld(t, "", 5)
		p := w.first
		p.keeps("append claims")
		x := p.ask("ann", "1")
		damage(w)
		w.pass(quorum.DefaultTTL / ownership.ReadsPerTTL)
		if p.gone || p.p.Err() == nil {
			t.Fatalf("gone: %v, %v", p.gone, p.p.Err())
		}
		p.queue("ann", "1", 1).want(t, api.Unknown)
		p.queue("ann", "2", 1).want(t, api.NoQuorum)
		p.queue("ann", "", 1).want(t, api.NoQuorum)
		p.queue("bob", "1", 1).want(t, api.NoQuorum)
		x.want(t, "")
		if err := p.p.Ready(w.now); err == nil || !strings.HasPrefix(err.Error(), "ledger: the sale's log cannot be followed") {
			t.Errorf("ready: %v", err)
		}
		p.lets()
		x.want(t, api.Sold)
		if !p.gone {
			t.Error("it is not gone when the claim has its answer")
		}
	})
}

// TestAdmissionInDoubt has a process give a shard up whose claim it does not know the
// outcome of, and nobody else take it. Whoever waits for the claim does so for a little
// longer, and is told that it is not known; meanwhile it is denied to nobody.
func TestAdmissionInDoubt(t *testing.T) {
	w := newListedWorld(t, "", 5)
	p := w.first
	p.keep = func(c calls.Call) bool { return c.What == "append claims" || c.What == "read back" }
	x := p.ask("ann", "1")
	for p.p.Local(0) != nil {
		w.pass(100 * time.Millisecond)
	}
	x.want(t, "")
	p.ask("ann", "1").want(t, api.Unknown)
	p.keeps("append claims", "read back", "vote") // it does not get the shard again
	w.pass(peers.OwnerTimeout)
	x.want(t, api.Unknown)
	p.ask("ann", "1").want(t, api.Unknown)
	if p.p.Local(0) != nil {
		t.Fatal("it serves")
	}
	p.ask("ann", "2").want(t, api.Standby)
	p.ask("ann", "").want(t, api.Standby)
	p.ask("bob", "1").want(t, api.Standby)
	if a := p.p.Refuse(Request{User: "ann", Key: "1", Quantity: 1}, request.Refusal(api.Draining)); a.Outcome != api.Unknown {
		t.Errorf("declined: %+v", a)
	}
	if a := p.p.Refuse(Request{User: "bob", Key: "1", Quantity: 1}, request.Refusal(api.SoldOut)); a.Outcome != api.SoldOut || a.RetryAfter != time.Second {
		t.Errorf("declined: %+v", a)
	}
	if err := p.p.Ready(w.now); err == nil || !strings.HasPrefix(err.Error(), "standby: ") {
		t.Errorf("ready: %v", err)
	}
	p.lets()
	w.pass(5 * time.Second)
	p.ask("ann", "1").want(t, api.Sold)
	if n := p.p.Doubts().Len(); n != 0 {
		t.Errorf("%d requests are in doubt", n)
	}
}

// TestAdmissionStalls lets claims in on a shard that stalls, where they do not wait for what
// does.
func TestAdmissionStalls(t *testing.T) {
	for name, test := range map[string]struct {
		ack  spec.Ack // "": the owner decides
		node bool     // the list's node fails, and not the ledger
		in   bool
	}{
		"the owner decides, the ledger fails":  {"", false, false},
		"ack ledger, the ledger fails":         {spec.AckLedger, false, false},
		"ack ledger, the node fails":           {spec.AckLedger, true, true}, // it is asked all the same
		"ack redis, the ledger fails":          {spec.AckRedis, false, true}, // up to the backlog
		"ack redis, the node fails":            {spec.AckRedis, true, true},
		"the owner decides, and no such thing": {"", true, true},
	} {
		if out := process.KeepsOut(test.ack, &shard.Stall{Node: test.node}); out == test.in {
			t.Errorf("%s: it is kept out: %v", name, out)
		}
	}
	if process.KeepsOut("", nil) {
		t.Error("a shard that does not stall keeps claims out")
	}
	// A claim meets a stall of the ledger, and is not looked at.
	w := newListedWorld(t, "", 3)
	p := w.first
	p.keeps("append")
	p.ask("ann", "1")
	w.pass(shard.StallAfter)
	if a := p.ask("bob", "1").want(t, api.NoQuorum); a.Message != process.NotRead {
		t.Errorf("bob is told %+v", a)
	}
}

// TestAdmissionRefuses says unknown, while nobody serves, to whoever may have been
// accepted, and to nobody else.
func TestAdmissionRefuses(t *testing.T) {
	d := process.New(process.Config{Config: ownership.Config{Sale: "sale"}, Me: []byte("me"), Key: func() string { return "new" }})
	d.Doubts().Add(saletest.UID, 0, "ann", "1")
	d.Doubts().Add(saletest.UID, 0, "bob", request.AnyKey)
	for name, test := range map[string]struct {
		user, key string
		a, want   api.Outcome
	}{
		"in doubt":              {"ann", "1", api.Standby, api.Unknown},
		"another key":           {"ann", "2", api.Standby, api.Standby},
		"another user":          {"eve", "1", api.Standby, api.Standby},
		"any key of a user":     {"bob", "7", api.Standby, api.Unknown},
		"without a key":         {"bob", "", api.Standby, api.Standby},
		"what denies no claim":  {"ann", "1", api.KeyReused, api.KeyReused},
		"a request that is bad": {"ann", "1", api.BadRequest, api.BadRequest},
	} {
		if a := d.Refuse(Request{User: test.user, Key: test.key, Quantity: 1}, Answer{Outcome: test.a}); a.Outcome != test.want {
			t.Errorf("%s: %+v, want %s", name, a, test.want)
		}
	}
}

// TestAdmissionWithoutRights tells nothing that another process may have changed, before
// the first rights have come and when they have ended.
func TestAdmissionWithoutRights(t *testing.T) {
	w := newListedWorld(t, "", 3)
	p := w.first
	sold := p.ask("ann", "1").want(t, api.Sold)
	s, valid := p.p.Local(0), p.rights()
	for name, r := range map[string]shard.Rights{"none yet": {}, "ended": {Lease: valid.Lease, ReadAt: valid.ReadAt}} {
		s.SetRights(r)
		if s.May(w.now) {
			t.Errorf("%s: it may append", name)
		}
		if _, o := p.has("ann"); o != api.NoQuorum {
			t.Errorf("%s: claims are told: %q", name, o)
		}
		part := map[string]string{"none yet": "lock nodes: ", "ended": "ledger: the sale's log cannot be read: the last read is too long ago"}[name]
		if err := p.p.Ready(w.now); err == nil || !strings.HasPrefix(err.Error(), part) {
			t.Errorf("%s: ready: %v", name, err)
		}
		if a, known := p.p.Recall(0, Request{User: "ann", Key: "1", Quantity: 1}); !known || a.Claim.ID != sold.Claim.ID {
			t.Errorf("%s: who has a unit is told %+v", name, a) // which is certain
		}
		for _, user := range []string{"ann", "bob"} {
			if a, known := p.p.Recall(0, Request{User: user, Key: "2", Quantity: 1}); !known || a.Outcome != api.NoQuorum {
				t.Errorf("%s: %s is told %+v", name, user, a)
			}
		}
	}
	s.SetRights(valid)
	if !s.May(w.now) {
		t.Error("it may not append any more")
	}
}
