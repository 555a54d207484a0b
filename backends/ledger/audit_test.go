package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

func mustAudit(t *testing.T, logs Logs) *Report {
	t.Helper()
	a, err := RunAudit(t.Context(), logs, "test", NewState, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m, plain := logs.(*memory); plain && m.before == nil {
		for _, most := range []uint64{3, 1000} { // as much of each log is handed out before it is read
			if b, err := RunAudit(t.Context(), scanned{m, rand.New(rand.NewPCG(most, 1)), most}, "test", NewState, nil); err != nil || !reflect.DeepEqual(a, b) {
				t.Errorf("with up to %d slots of each log handed out: %+v, %v\nwithout: %+v", most, b, err, a)
			}
		}
	}
	return a
}

// scanned is a Scanner that hands out no more than so many slots of each log, in a random
// order of the logs.
type scanned struct {
	*memory
	random *rand.Rand
	most   uint64
}

func (s scanned) Scan(_ context.Context, logs []string, each func(log int, entry []byte) error) error {
	next := make([]uint64, len(logs))
	for left := len(logs); left > 0; {
		if s.before != nil && s.random.IntN(20) == 0 {
			s.before()
		}
		log := s.random.IntN(len(logs))
		switch stored := s.logs[logs[log]]; {
		case next[log] == math.MaxUint64:
		case stored == nil, next[log] == min(uint64(len(stored.entries)), s.most):
			next[log] = math.MaxUint64
			left--
		default:
			if err := each(log, stored.entries[next[log]]); err != nil {
				return err
			}
			next[log]++
		}
	}
	return errBroken // which is for whoever reads on to find out
}

func TestAuditOfGoodLedgers(t *testing.T) {
	for name, test := range map[string]struct {
		world func(*testing.T) *world
		want  Report
	}{
		"new": {
			func(t *testing.T) *world { return newWorld(t) },
			Report{Stock: 30, Available: 30, Slots: 6},
		},
		"busy": {
			func(t *testing.T) *world { return busyWorld(t) },
			Report{Stock: 30, Sold: 8, Held: 8, Available: 10, InFlight: 4, Users: 10, Slots: 25, Outcomes: Outcomes{OpenHolds: 5, Confirmed: 5}},
		},
		"sealed": {
			func(t *testing.T) *world {
				w := busyWorld(t)
				w.end()
				w.say(w.roots())
				return w
			},
			Report{Stock: 30, Sold: 14, Available: 16, Users: 8, Slots: 39, Outcomes: Outcomes{Confirmed: 8, Cancelled: 2}},
		},
		"said twice": {
			func(t *testing.T) *world {
				w := newWorld(t)
				d := w.draft(1)
				user := w.buyer(1)
				for _, key := range []string{"k", "l"} {
					d.Claim(user, key, 1)
				}
				w.commit(1, d)
				w.move(1, 2, 2, 2)
				first, sent := w.sale.ShardGeneration(1, 1), w.shards[1].Open()[0]
				w.follow(1, claim(user, "k", 11), claim(user, "l", 5), &pb.Op{Op: &pb.Op_Generation{Generation: first}})
				w.follow(2, in(1, 1, sent.Units...))
				return w
			},
			Report{Stock: 30, Sold: 2, Available: 28, Users: 1, Slots: 11},
		},
		"with lists": {
			func(t *testing.T) *world {
				w := newWorld(t)
				w.follow(1, rebuild(1))
				w.follow(1, grabbed(w.buyer(1), "k", 1, w.timeUs, 15))
				return w
			},
			Report{Stock: 30, Sold: 1, Available: 29, Users: 1, Slots: 8},
		},
		"more removed than there is": {
			func(t *testing.T) *world {
				w := worldOf(t, held())
				w.sell(3, 1)
				w.plan(0, 9, held())
				return w
			},
			Report{Stock: 8, Sold: 3, Held: 3, Available: 2, Users: 2, Slots: 11, Outcomes: Outcomes{OpenHolds: 1, Confirmed: 1}},
		},
		"a user who was given units back": {
			func(t *testing.T) *world {
				w := worldOf(t, held())
				user := w.buyer(1)
				for _, key := range []string{"k", "l"} {
					d := w.draft(1)
					if v := d.Claim(user, key, 3); v.Kind != Granted {
						t.Fatalf("decision %d", v.Kind)
					}
					w.commit(1, d)
					if key == "k" {
						w.settle(1, settle(w.shards[1].next-1, 0, pb.Settle_CANCEL))
					}
				}
				return w
			},
			Report{Stock: 30, Held: 3, Available: 27, Users: 1, Slots: 9, Outcomes: Outcomes{OpenHolds: 1, Cancelled: 1}},
		},
		"planned, on no shard yet": {
			func(t *testing.T) *world {
				w := &world{t: t, logs: &memory{logs: make(map[string]*stored)}, sale: NewSale(spec.SaleLog("test"))}
				p := planned(1, pb.Phase_OPEN)
				p.Shards = append(p.Shards, &pb.ShardChange{})
				w.say(planOp(p))
				return w
			},
			Report{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := mustAudit(t, test.world(t).logs)
			want := test.want
			want.OK, want.Sale, want.UID, want.Shards, want.Problems, want.heads = true, "test", testUID, worldShards, []string{}, got.heads
			want.HoldTimes = got.HoldTimes // TestHoldTimes has them
			if fmt.Sprintf("%+v", *got) != fmt.Sprintf("%+v", want) {
				t.Errorf("audit\n%+v, want\n%+v", *got, want)
			}
		})
	}
}

// damages is what may be wrong with a busy world's ledger, and how an audit
// must name it.
var damages = map[string]struct {
	plant func(*world)
	want  []string
	count Report // Oversold and OverLimit
}{
	"a unit sold twice": {
		func(w *world) { w.plant(0, claim(w.buyer(0), "k", 1)) },
		[]string{"units [1] are in two places", "shard 0: the ledger is damaged"}, Report{Oversold: 1},
	},
	"a unit sold twice by one claim": {
		func(w *world) { w.plant(0, claim(w.buyer(0), "k", 7, 7)) },
		[]string{"units [7] are in two places"}, Report{Oversold: 1},
	},
	"a held unit sold": {
		func(w *world) { w.plant(0, claim(w.buyer(0), "k", 3)) },
		[]string{"units [3] are in two places"}, Report{Oversold: 1},
	},
	"a unit of another shard sold": {
		func(w *world) { w.plant(0, claim(w.buyer(0), "k", 11, 12)) },
		[]string{"units [11-12] are in two places", "units 11 are not here"}, Report{Oversold: 2},
	},
	"a unit on its way sold": {
		func(w *world) { w.plant(2, claim(w.buyer(2), "k", 30)) },
		[]string{"units [30] are in two places"}, Report{Oversold: 1},
	},
	"a unit that nobody dealt": {
		func(w *world) { w.plant(0, claim(w.buyer(0), "k", 999)) },
		[]string{"units [999] are in the ledger and were never dealt"}, Report{},
	},
	"the limit passed": {
		func(w *world) {
			user := w.buyer(1)
			w.plant(1, claim(user, "k", 15, 16), claim(user, "l", 17, 18))
		},
		[]string{" had 4 units, more than the limit"}, Report{OverLimit: 1},
	},
	"the limit passed by holds": {
		func(w *world) { w.plant(1, hold(w.buyer(1), "k", 9e15, 15, 16, 17, 18)) },
		[]string{" had 4 units, more than the limit"}, Report{OverLimit: 1},
	},
	"an owner that was shut out": {
		func(w *world) {
			d := w.shards[1].Draft([]byte("other"), 0)
			d.Own("there:1")
			w.commit(1, d)
			w.plant(1, claim(w.buyer(1), "k", 15))
		},
		[]string{"a claim by somebody who is not the owner"}, Report{},
	},
	"a slot lost": {
		func(w *world) {
			l := w.logs.logs[w.shards[1].log]
			l.entries = append(l.entries[:3:3], l.entries[4:]...)
		},
		[]string{"shard 1: the ledger is damaged", "slot 3: does not follow the slot before it: a slot was lost or altered"}, Report{},
	},
	"the last slot lost": {
		func(w *world) {
			l := w.logs.logs[w.shards[1].log]
			l.entries = l.entries[:len(l.entries)-1]
		},
		[]string{"shard 1: the ledger is damaged", "a slot was lost"}, Report{},
	},
	"a byte altered": {
		func(w *world) {
			l := w.logs.logs[w.shards[1].log]
			l.entries[2] = bytes.Replace(l.entries[2], []byte("user"), []byte("lser"), 1)
		},
		[]string{"shard 1: the ledger is damaged", "slot 3: does not follow"}, Report{},
	},
	"a byte altered in the last slot": {
		func(w *world) {
			l := w.logs.logs[w.shards[1].log]
			last := len(l.entries) - 1
			l.entries[last] = bytes.Replace(l.entries[last], []byte("payment"), []byte("taymenp"), 1)
		},
		[]string{"shard 1: the ledger is damaged", "the head does not belong to slot"}, Report{},
	},
	"a claim away from home": {
		func(w *world) {
			d := w.draft(0)
			d.Claim(w.buyer(2), "k", 1)
			w.commit(0, d)
		},
		[]string{"has claims on shard 0, the home shard is 2"}, Report{},
	},
	"another generation than planned": {
		func(w *world) {
			d := w.draft(2)
			if err := d.Generation(&pb.Generation{Number: 3, Add: []*pb.Range{{First: 77, Count: 1}}, Settings: phase(pb.Phase_OPEN)}); err != nil {
				w.t.Fatal(err)
			}
			w.commit(2, d)
		},
		[]string{"shard 2 took another generation 3 than was planned", "units [77] are in the ledger and were never dealt"}, Report{},
	},
	"another limit than planned": {
		func(w *world) {
			p := planned(3, pb.Phase_OPEN)
			p.Shards = append(p.Shards, &pb.ShardChange{})
			w.say(planOp(p))
			d := w.draft(2)
			if err := d.Generation(&pb.Generation{Number: 3, Settings: openSettings(1000)}); err != nil {
				w.t.Fatal(err)
			}
			w.commit(2, d)
		},
		[]string{"shard 2 took another generation 3 than was planned"}, Report{},
	},
	"a generation applied that a shard has not": {
		func(w *world) {
			p := planned(3, pb.Phase_OPEN)
			p.Shards = append(p.Shards, &pb.ShardChange{})
			w.say(planOp(p))
			w.say(applied(3))
		},
		[]string{"shard 0 has 2 generations, 3 were applied"}, Report{},
	},
	"units dealt twice": {
		func(w *world) {
			w.next = 1
			p := &pb.Planned{Generation: 3, Uid: testUID, Run: 1, Settings: phase(pb.Phase_OPEN)}
			p.Shards = []*pb.ShardChange{{}, {Add: []*pb.Range{{First: 1, Count: 2}}}, {}}
			w.say(planOp(p))
			w.plant(1, &pb.Op{Op: &pb.Op_Generation{Generation: w.sale.ShardGeneration(3, 1)}})
		},
		[]string{"generation 3 deals units twice", "units [1-2] are in two places"}, Report{Oversold: 2},
	},
	"a shard's log missing": {
		func(w *world) { delete(w.logs.logs, w.shards[2].log) },
		[]string{"shard 2 has no log"}, Report{},
	},
	"a transfer that nobody sent": {
		func(w *world) { w.plant(1, in(2, 1, Range{50, 2})) },
		[]string{"shard 1 received transfer 1 from shard 2, which never sent it", "units [50-51] are in the ledger and were never dealt"}, Report{},
	},
	"a transfer received in part": {
		func(w *world) {
			sent := w.shards[2].Open()[0].Units
			w.plant(0, in(2, 1, Range{sent[0].First, 1}))
		},
		[]string{"transfer 1 from shard 2 to 0: sent ", " were dealt and are nowhere"}, Report{},
	},
	"a transfer acknowledged that never came": {
		func(w *world) { w.plant(2, ack(0, 1)) },
		[]string{"shard 2 has an ack of transfer 1 to shard 0, which never received it"}, Report{},
	},
	"a transfer to nowhere": {
		func(w *world) { w.move(1, 7, 1, 1) },
		[]string{"shard 1 names a shard 7 that does not exist", " were dealt and are nowhere"}, Report{},
	},
	"a transfer to the first that does not exist": {
		func(w *world) { w.move(1, worldShards, 1, 1) },
		[]string{"shard 1 names a shard 3 that does not exist", " were dealt and are nowhere"}, Report{},
	},
	"a transfer of no range": {
		func(w *world) { w.plant(1, out(2, 1, Range{1, 0})) },
		[]string{": units 1+0 are no range"}, Report{},
	},
	"a transfer received of no range": {
		func(w *world) { w.plant(1, in(2, 1, Range{1, 0})) },
		[]string{"shard 1: slot 9: units 1+0 are no range\nshard 1: slot 9"}, Report{},
	},
	"a settle of no claim": {
		func(w *world) { w.plant(1, settle(1, 7, pb.Settle_CANCEL)) },
		[]string{"no claim stands at slot 1, op 7"}, Report{},
	},
	"a claim of another fill": {
		func(w *world) { w.plant(1, grabbed(w.buyer(1), "k", 1, w.timeUs, 15)) },
		[]string{": a claim of fill 1 at fill 0", "a claim of fill 1, the shard is at 0"}, Report{},
	},
	"what comes after damage": {
		func(w *world) {
			w.plant(1, claim(w.buyer(1), "k", 1))
			w.plant(1, claim(w.buyer(1), "k", 15))
		},
		[]string{"units 1 are not here"}, Report{Oversold: 1},
	},
	"a transfer of nonsense": {
		func(w *world) { w.plant(1, out(2, 1, Range{1, 1 << 62})) },
		[]string{"shard 1: slot"}, Report{Oversold: 33},
	},
	"a head's numbers": {
		func(w *world) {
			h := w.shards[1].Head()
			h.Sold++
			w.logs.logs[w.shards[1].log].head = h.Encode()
		},
		[]string{"shard 1: the head says"}, Report{},
	},
	"the sale's head": {
		func(w *world) {
			h := w.sale.Head()
			h.Phase = PhaseClosed
			w.logs.logs[w.sale.log].head = h.Encode()
		},
		[]string{"the sale's log: the head says"}, Report{},
	},
	"another end than sealed": {
		func(w *world) {
			w.end()
			op := w.roots()
			op.GetSealed().Roots[1][0] ^= 1
			w.say(op)
		},
		[]string{"shard 1 does not end in the slot that the sale was sealed with"}, Report{},
	},
}

// follow stores a commit that the state takes, past any draft.
func (w *world) follow(shard int, ops ...*pb.Op) {
	w.t.Helper()
	s := w.shards[shard]
	c := commit{string(testOwner), s.Epoch, w.timeUs, ops}.proto()
	entry, hash, err := s.encode(c)
	if err != nil {
		w.t.Fatal(err)
	}
	slot := s.next
	if err := s.Apply(c, hash, len(entry)); err != nil {
		w.t.Fatal(err)
	}
	w.store(s.log, slot, &Entry{Bytes: entry, Head: s.Head().Encode()})
}

// One transfer that is wrong hides no other, in whatever order they are looked at.
func TestAuditFindsAllTransfers(t *testing.T) {
	w := newWorld(t)
	w.move(1, 7, 1, 1)
	w.move(1, 0, 1, 1)
	w.plant(1, in(2, 1, Range{50, 1}))
	for range 20 {
		a := mustAudit(t, w.logs)
		if a.InFlight != 1 {
			t.Fatalf("%d units on the way to a shard that exists, want 1", a.InFlight)
		}
		problems := strings.Join(a.Problems, "\n")
		for _, want := range []string{"names a shard 7", "received transfer 1 from shard 2, which never sent it"} {
			if !strings.Contains(problems, want) {
				t.Fatalf("no word of %q in\n%s", want, problems)
			}
		}
	}
}

// A sale that is destroyed is said to be, and a log that breaks off in the middle
// is not taken for a short one.
func TestAuditSaysWhatItCannotRead(t *testing.T) {
	w := newWorld(t)
	w.timesCommit(1, 2*readAtOnce)
	synctest.Test(t, func(t *testing.T) {
		if _, err := RunAudit(t.Context(), brokenOff{w.logs, w.shards[1].log}, "test", NewState, nil); !errors.Is(err, errBroken) {
			t.Errorf("got %v", err)
		}
	})
	w.say(sealedOf(3))
	w.say(destroyed())
	if _, err := RunAudit(t.Context(), w.logs, "test", NewState, nil); err == nil || !strings.Contains(err.Error(), "is destroyed") {
		t.Errorf("got %v", err)
	}
}

// brokenOff is Logs of which one log can be read from its begin only.
type brokenOff struct {
	*memory
	log string
}

func (b brokenOff) Read(ctx context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	if log == b.log && from > 0 {
		return nil, nil, errBroken
	}
	return b.memory.Read(ctx, log, from, max)
}

func TestAuditFindsDamage(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // a lost slot is waited for
				w := busyWorld(t)
				damage.plant(w)
				a := mustAudit(t, w.logs)
				problems := strings.Join(a.Problems, "\n")
				for _, want := range damage.want {
					if !strings.Contains(problems, want) {
						t.Errorf("no word of %q in\n%s", want, problems)
					}
				}
				if !slices.IsSorted(a.Problems) {
					t.Errorf("not in order:\n%s", problems)
				}
				if a.OK || a.Oversold != damage.count.Oversold || a.OverLimit != damage.count.OverLimit {
					t.Errorf("ok %v, %d oversold, %d over the limit:\n%s", a.OK, a.Oversold, a.OverLimit, problems)
				}
			})
		})
	}
}

// What comes after a slot that the reducer refused is still held against the rules, and
// is not blamed on the head or on the slots behind it.
func TestAuditAfterARefusal(t *testing.T) {
	w := newWorld(t)
	d, user := w.draft(0), w.buyer(0)
	d.Claim(user, "k", 3)
	w.commit(0, d)
	w.plant(0, claim(user, "another", 4))
	w.plant(0, claim(w.buyer(0), "k", 5))
	a := mustAudit(t, w.logs)
	if want := []string{
		", slot 3: op 0: user ", fmt.Sprintf("shard 0: user %q had 4 units, more than the limit", user),
	}; len(a.Problems) != 2 || !strings.Contains(a.Problems[0], want[0]) || a.Problems[1] != want[1] || a.Sold != 5 || a.Users != 2 {
		t.Errorf("%d sold to %d users, problems %q", a.Sold, a.Users, a.Problems)
	}
}

// A hold that is settled twice is settled once.
func TestAuditOfSettledTwice(t *testing.T) {
	for _, how := range []pb.Settle_How{pb.Settle_CONFIRM, pb.Settle_CANCEL} {
		w := worldOf(t, held())
		w.sell(2, 0)
		c := w.shards[0].Claim(1)
		for range 2 {
			w.settle(0, settle(c.Slot, uint32(c.Index), how))
		}
		if a := mustAudit(t, w.logs); !a.OK || a.Users != 2-a.Cancelled-a.Expired || a.Held != 0 {
			t.Errorf("%v: %+v", how, a)
		}
	}
}

func TestAuditNamesNoMoreThanEnough(t *testing.T) {
	w := newWorld(t)
	for range 300 {
		w.plant(0, claim(w.buyer(1), "k", 1))
	}
	if a := mustAudit(t, w.logs); len(a.Problems) != 100 || a.OK {
		t.Errorf("%d problems", len(a.Problems))
	}
}

// TestAuditOfLiveSale audits while claims, transfers and generations go on: at
// each read something more has happened. Every cut must add up.
func TestAuditOfLiveSale(t *testing.T) {
	for seed := range uint64(50) {
		w := newWorld(t)
		w.plan(10_000, 0, phase(pb.Phase_OPEN))
		random := rand.New(rand.NewPCG(seed, 1))
		reads := 0
		live := func() {
			if reads++; reads > 100 {
				t.Fatal("the audit runs after the sale for ever")
			}
			for range random.IntN(60) {
				w.anything(random)
			}
		}
		for range 50 {
			w.anything(random)
		}
		w.logs.before = live
		var logs Logs = w.logs
		if seed%2 == 1 {
			logs = scanned{w.logs, random, 40}
		}
		a := mustAudit(t, logs)
		if !a.OK || a.Sold+a.Held+a.Available+a.InFlight != a.Stock {
			t.Fatalf("seed %d: %+v", seed, a)
		}
		w.logs.before = nil
		if a = mustAudit(t, w.logs); !a.OK {
			t.Fatalf("seed %d, at rest: %+v", seed, a)
		}
	}
}

// TestLoadShardsOfLiveSale is TestAuditOfLiveSale for the reducer's states: no
// unit of the cut is missing, or in two shards.
func TestLoadShardsOfLiveSale(t *testing.T) {
	for seed := range uint64(50) {
		w := newWorld(t)
		w.plan(10_000, 0, phase(pb.Phase_OPEN))
		random := rand.New(rand.NewPCG(seed, 2))
		for range 50 {
			w.anything(random)
		}
		w.logs.before = func() {
			for range random.IntN(60) {
				w.anything(random)
			}
		}
		var logs Logs = w.logs
		if seed%2 == 1 {
			logs = scanned{w.logs, random, 40}
		}
		shards, err := LoadShards(t.Context(), logs, w.sale)
		if err != nil {
			t.Fatal(err)
		}
		var limit, units int64
		for to, s := range shards {
			limit += s.Limit
			units += s.Available + s.Held + s.Sold
			for from, sender := range shards {
				if open, ok := sender.OpenTo(to); ok && s.Received(from) < open.K {
					units += open.Units.Count()
				}
			}
		}
		if units != limit {
			t.Fatalf("seed %d: %d units of %d", seed, units, limit)
		}
	}
}

// anything lets one thing happen, most often a step of a transfer.
func (w *world) anything(random *rand.Rand) {
	from := random.IntN(worldShards)
	to := (from + 1 + random.IntN(worldShards-1)) % worldShards
	open, ok := w.shards[from].OpenTo(to)
	switch n := random.IntN(20); {
	case n == 0:
		w.plan(int64(random.IntN(3)), int64(random.IntN(3)), phase(pb.Phase_OPEN))
	case n < 3:
		w.sell(1, from)
	case !ok:
		w.move(from, to, 1+random.Int64N(3), 1)
	case w.shards[to].Received(from) < open.K:
		d := w.draft(to)
		if err := d.In(from, open.K, open.Units); err != nil {
			w.t.Fatal(err)
		}
		w.commit(to, d)
	default:
		d := w.draft(from)
		d.Ack(to, open.K)
		w.commit(from, d)
	}
}

func TestAuditCannotRead(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*world) Logs
		want    error
	}{
		"no sale": {
			func(*world) Logs { return &memory{logs: make(map[string]*stored)} }, ErrGone,
		},
		"a destroyed sale": {
			func(w *world) Logs {
				w.say(sealedOf(3))
				w.say(destroyed())
				return w.logs
			}, ErrGone,
		},
		"a sale being deleted": {
			func(w *world) Logs {
				w.end()
				w.say(w.roots())
				delete(w.logs.logs, w.shards[0].log)
				return w.logs
			}, ErrGone,
		},
		"a sale deleted meanwhile": {
			func(w *world) Logs {
				reads := 0
				w.logs.before = func() {
					if reads++; reads == 3 {
						w.logs.before = nil
						w.end()
						w.say(w.roots())
						for _, s := range w.shards {
							delete(w.logs.logs, s.log)
						}
					}
				}
				return w.logs
			}, ErrGone,
		},
		"a sale destroyed meanwhile": {
			func(w *world) Logs {
				w.meanwhile(func() {
					w.say(sealedOf(3))
					w.say(destroyed())
				})
				return w.logs
			}, ErrGone,
		},
		"a sale begun anew meanwhile": {
			func(w *world) Logs {
				w.meanwhile(func() {
					w.say(sealedOf(3))
					w.say(destroyed())
					p := planned(1, pb.Phase_OPEN)
					p.Run, p.Uid = 2, "another"
					w.say(planOp(p))
				})
				return w.logs
			}, ErrGone,
		},
		"a sale's log that cannot be read again": {
			func(w *world) Logs {
				w.meanwhile(func() {
					w.logs.logs[w.sale.log].entries[0] = []byte("noise")
					w.logs.logs[w.sale.log].head = []byte("noise")
				})
				return w.logs
			}, ErrCorrupt,
		},
		"a sale's log that is damaged": {
			func(w *world) Logs {
				w.logs.logs[w.sale.log].entries[0] = []byte("noise")
				return w.logs
			}, ErrCorrupt,
		},
		"a store that is down": {
			func(w *world) Logs { return broken{w.logs, w.shards[1].log} }, errBroken,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, err := RunAudit(t.Context(), test.prepare(newWorld(t)), "test", NewState, nil)
				if !errors.Is(err, test.want) {
					t.Errorf("%+v, %v", a, err)
				}
			})
		})
	}
}

// meanwhile does something once, when an audit has begun to read the shards.
func (w *world) meanwhile(do func()) {
	reads := 0
	w.logs.before = func() {
		if reads++; reads == 3 {
			w.logs.before = nil
			do()
		}
	}
}

// broken is Logs of which one log cannot be read.
type broken struct {
	*memory
	log string
}

func (b broken) Read(ctx context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	if log == b.log {
		return nil, nil, errBroken
	}
	return b.memory.Read(ctx, log, from, max)
}

// Who looks on sees the cut that the audit has read, also what the reducer did not take.
func TestAuditShows(t *testing.T) {
	w := busyWorld(t)
	w.plant(0, claim(w.buyer(0), "k", 1))
	var users, units, holds int64
	a, err := RunAudit(t.Context(), w.logs, "test", NewState, func(sale *Sale, shards []*State) {
		if sale.UID() != testUID || len(shards) != worldShards {
			t.Errorf("sale %s with %d shards", sale.UID(), len(shards))
		}
		for _, s := range shards {
			for user, n := range s.Users() {
				if n != s.UserUnits(user) {
					t.Errorf("%s has %d, not %d", user, n, s.UserUnits(user))
				}
				users, units = users+1, units+n
			}
			for i := range s.HoldRecords() {
				if h, ok := s.HoldOf(i); !ok || s.Claim(h.Claim).HeldUntilUs == 0 {
					t.Errorf("deal %d is of claim %d", i, h.Claim)
				} else {
					holds++
				}
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if a.OK || users != 10 || units != 16 || holds != 10 {
		t.Errorf("ok %v, %d users with %d units, %d holds", a.OK, users, units, holds)
	}
}
