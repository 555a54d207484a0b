package ledger_test

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

	"salectl/backends/ledger"
	"salectl/backends/ledger/audit"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/spec"
)

func mustAudit(t *testing.T, logs ledger.Logs) *audit.Report {
	t.Helper()
	a, err := audit.Run(t.Context(), logs, "test", ledger.NewState, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m, plain := logs.(*ledger.MemoryLogs); plain && m.Before == nil {
		for _, most := range []uint64{3, 1000} { // as much of each log is handed out before it is read
			if b, err := audit.Run(t.Context(), scanned{m, rand.New(rand.NewPCG(most, 1)), most}, "test", ledger.NewState, nil); err != nil || !reflect.DeepEqual(a, b) {
				t.Errorf("with up to %d slots of each log handed out: %+v, %v\nwithout: %+v", most, b, err, a)
			}
		}
	}
	return a
}

// scanned is a Scanner that hands out no more than so many slots of each log, in a random
// order of the logs.
type scanned struct {
	*ledger.MemoryLogs
	random *rand.Rand
	most   uint64
}

func (s scanned) Scan(_ context.Context, logs []string, each func(log int, entry []byte) error) error {
	next := make([]uint64, len(logs))
	for left := len(logs); left > 0; {
		if s.Before != nil && s.random.IntN(20) == 0 {
			s.Before()
		}
		log := s.random.IntN(len(logs))
		switch stored := s.Logs[logs[log]]; {
		case next[log] == math.MaxUint64:
		case stored == nil, next[log] == min(uint64(len(stored.Entries)), s.most):
			next[log] = math.MaxUint64
			left--
		default:
			if err := each(log, stored.Entries[next[log]]); err != nil {
				return err
			}
			next[log]++
		}
	}
	return ledger.ErrBroken // which is for whoever reads on to find out
}

func TestAuditOfGoodLedgers(t *testing.T) {
	for name, test := range map[string]struct {
		world func(*testing.T) *ledger.World
		want  audit.Report
	}{
		"new": {
			func(t *testing.T) *ledger.World { return ledger.NewWorld(t) },
			audit.Report{Stock: 30, Available: 30, Slots: 6},
		},
		"busy": {
			func(t *testing.T) *ledger.World { return ledger.BusyWorld(t) },
			audit.Report{Stock: 30, Sold: 8, Held: 8, Available: 10, InFlight: 4, Users: 10, Slots: 25, Outcomes: ledger.Outcomes{OpenHolds: 5, Confirmed: 5}},
		},
		"sealed": {
			func(t *testing.T) *ledger.World {
				w := ledger.BusyWorld(t)
				w.End()
				w.AppendSale(w.Roots())
				return w
			},
			audit.Report{Stock: 30, Sold: 14, Available: 16, Users: 8, Slots: 39, Outcomes: ledger.Outcomes{Confirmed: 8, Cancelled: 2}},
		},
		"stated twice": {
			func(t *testing.T) *ledger.World {
				w := ledger.NewWorld(t)
				d := w.Draft(1)
				user := w.Buyer(1)
				for _, key := range []string{"k", "l"} {
					d.Claim(user, key, 1)
				}
				w.Commit(1, d)
				w.Move(1, 2, 2, 2)
				first, sent := w.Sale.ShardGeneration(1, 1), w.Shards[1].Open()[0]
				w.Follow(1, ledger.ClaimOp(user, "k", 11), ledger.ClaimOp(user, "l", 5), &pb.Op{Op: &pb.Op_Generation{Generation: first}})
				w.Follow(2, ledger.InOp(1, 1, sent.Units...))
				return w
			},
			audit.Report{Stock: 30, Sold: 2, Available: 28, Users: 1, Slots: 11},
		},
		"with lists": {
			func(t *testing.T) *ledger.World {
				w := ledger.NewWorld(t)
				w.Follow(1, ledger.RebuildOp(1))
				w.Follow(1, ledger.GrabbedOp(w.Buyer(1), "k", 1, w.TimeUs, 15))
				return w
			},
			audit.Report{Stock: 30, Sold: 1, Available: 29, Users: 1, Slots: 8},
		},
		"more removed than there is": {
			func(t *testing.T) *ledger.World {
				w := ledger.WorldOf(t, ledger.HeldSettings())
				w.Sell(3, 1)
				w.Plan(0, 9, ledger.HeldSettings())
				return w
			},
			audit.Report{Stock: 8, Sold: 3, Held: 3, Available: 2, Users: 2, Slots: 11, Outcomes: ledger.Outcomes{OpenHolds: 1, Confirmed: 1}},
		},
		"a user who was given units back": {
			func(t *testing.T) *ledger.World {
				w := ledger.WorldOf(t, ledger.HeldSettings())
				user := w.Buyer(1)
				for _, key := range []string{"k", "l"} {
					d := w.Draft(1)
					if v := d.Claim(user, key, 3); v.Kind != ledger.Granted {
						t.Fatalf("decision %d", v.Kind)
					}
					w.Commit(1, d)
					if key == "k" {
						w.Settle(1, ledger.SettleOp(w.Shards[1].Next()-1, 0, pb.Settle_CANCEL))
					}
				}
				return w
			},
			audit.Report{Stock: 30, Held: 3, Available: 27, Users: 1, Slots: 9, Outcomes: ledger.Outcomes{OpenHolds: 1, Cancelled: 1}},
		},
		"planned, on no shard yet": {
			func(t *testing.T) *ledger.World {
				w := &ledger.World{T: t, Logs: &ledger.MemoryLogs{Logs: make(map[string]*ledger.StoredLog)}, Sale: ledger.NewSale(spec.SaleLog("test"))}
				p := ledger.PlannedOf(1, pb.Phase_OPEN)
				p.Shards = append(p.Shards, &pb.ShardChange{})
				w.AppendSale(ledger.PlanOp(p))
				return w
			},
			audit.Report{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := mustAudit(t, test.world(t).Logs)
			want := test.want
			want.OK, want.Sale, want.UID, want.Run, want.Shards, want.Problems = true, "test", ledger.TestUID, 1, ledger.WorldShards, []string{}
			want.Warnings = []string{}
			want.HoldTimes = got.HoldTimes // TestHoldTimes has them
			if string(lineOf(got)) != string(lineOf(want)) {
				t.Errorf("audit\n%+v, want\n%+v", *got, want)
			}
		})
	}
}

// damages is what may be wrong with a busy world's ledger, and how an audit
// must name it.
var damages = map[string]struct {
	plant func(*ledger.World)
	want  []string
	count audit.Report // Oversold and OverLimit
}{
	"a unit sold twice": {
		func(w *ledger.World) { w.Plant(0, ledger.ClaimOp(w.Buyer(0), "k", 1)) },
		[]string{"units [1] are in two places", "shard 0: the ledger is damaged"}, audit.Report{Oversold: 1},
	},
	"a unit sold twice by one claim": {
		func(w *ledger.World) { w.Plant(0, ledger.ClaimOp(w.Buyer(0), "k", 7, 7)) },
		[]string{"units [7] are in two places"}, audit.Report{Oversold: 1},
	},
	"a held unit sold": {
		func(w *ledger.World) { w.Plant(0, ledger.ClaimOp(w.Buyer(0), "k", 3)) },
		[]string{"units [3] are in two places"}, audit.Report{Oversold: 1},
	},
	"a unit of another shard sold": {
		func(w *ledger.World) { w.Plant(0, ledger.ClaimOp(w.Buyer(0), "k", 11, 12)) },
		[]string{"units [11-12] are in two places", "units 11 are not here"}, audit.Report{Oversold: 2},
	},
	"a unit on its way sold": {
		func(w *ledger.World) { w.Plant(2, ledger.ClaimOp(w.Buyer(2), "k", 30)) },
		[]string{"units [30] are in two places"}, audit.Report{Oversold: 1},
	},
	"a unit that nobody dealt": {
		func(w *ledger.World) { w.Plant(0, ledger.ClaimOp(w.Buyer(0), "k", 999)) },
		[]string{"units [999] are in the ledger, but were never added to the sale"}, audit.Report{},
	},
	"the limit passed": {
		func(w *ledger.World) {
			user := w.Buyer(1)
			w.Plant(1, ledger.ClaimOp(user, "k", 15, 16), ledger.ClaimOp(user, "l", 17, 18))
		},
		[]string{" had 4 units, more than the limit"}, audit.Report{OverLimit: 1},
	},
	"the limit passed by holds": {
		func(w *ledger.World) { w.Plant(1, ledger.HoldOp(w.Buyer(1), "k", 9e15, 15, 16, 17, 18)) },
		[]string{" had 4 units, more than the limit"}, audit.Report{OverLimit: 1},
	},
	"an owner that was shut out": {
		func(w *ledger.World) {
			d := w.Shards[1].Draft([]byte("other"), 0)
			d.Own("there:1")
			w.Commit(1, d)
			w.Plant(1, ledger.ClaimOp(w.Buyer(1), "k", 15))
		},
		[]string{"a claim by a writer that is not the owner"}, audit.Report{},
	},
	"a slot lost": {
		func(w *ledger.World) {
			l := w.Logs.Logs[w.Shards[1].Log()]
			l.Entries = append(l.Entries[:3:3], l.Entries[4:]...)
		},
		[]string{"shard 1: the ledger is damaged", "slot 3: does not follow the slot before it: a slot was lost or altered"}, audit.Report{},
	},
	"the last slot lost": {
		func(w *ledger.World) {
			l := w.Logs.Logs[w.Shards[1].Log()]
			l.Entries = l.Entries[:len(l.Entries)-1]
		},
		[]string{"shard 1: the ledger is damaged", "a slot was lost"}, audit.Report{},
	},
	"a byte altered": {
		func(w *ledger.World) {
			l := w.Logs.Logs[w.Shards[1].Log()]
			l.Entries[2] = bytes.Replace(l.Entries[2], []byte("user"), []byte("lser"), 1)
		},
		[]string{"shard 1: the ledger is damaged", "slot 3: does not follow"}, audit.Report{},
	},
	"a byte altered in the last slot": {
		func(w *ledger.World) {
			l := w.Logs.Logs[w.Shards[1].Log()]
			last := len(l.Entries) - 1
			l.Entries[last] = bytes.Replace(l.Entries[last], []byte("payment"), []byte("taymenp"), 1)
		},
		[]string{"shard 1: the ledger is damaged", "the head does not belong to slot"}, audit.Report{},
	},
	"a claim away from home": {
		func(w *ledger.World) {
			d := w.Draft(0)
			d.Claim(w.Buyer(2), "k", 1)
			w.Commit(0, d)
		},
		[]string{"has claims on shard 0, the home shard is 2"}, audit.Report{},
	},
	"another generation than planned": {
		func(w *ledger.World) {
			d := w.Draft(2)
			if err := d.Generation(&pb.Generation{Number: 3, Add: []*pb.Range{{First: 77, Count: 1}}, Settings: ledger.PhaseSettings(pb.Phase_OPEN)}); err != nil {
				w.T.Fatal(err)
			}
			w.Commit(2, d)
		},
		[]string{"shard 2 took a generation 3 that differs from the planned one", "units [77] are in the ledger, but were never added to the sale"}, audit.Report{},
	},
	"another limit than planned": {
		func(w *ledger.World) {
			p := ledger.PlannedOf(3, pb.Phase_OPEN)
			p.Shards = append(p.Shards, &pb.ShardChange{})
			w.AppendSale(ledger.PlanOp(p))
			d := w.Draft(2)
			if err := d.Generation(&pb.Generation{Number: 3, Settings: ledger.OpenSettings(1000)}); err != nil {
				w.T.Fatal(err)
			}
			w.Commit(2, d)
		},
		[]string{"shard 2 took a generation 3 that differs from the planned one"}, audit.Report{},
	},
	"a generation applied that a shard has not": {
		func(w *ledger.World) {
			p := ledger.PlannedOf(3, pb.Phase_OPEN)
			p.Shards = append(p.Shards, &pb.ShardChange{})
			w.AppendSale(ledger.PlanOp(p))
			w.AppendSale(ledger.AppliedOp(3))
		},
		[]string{"shard 0 has 2 generations, 3 were applied"}, audit.Report{},
	},
	"units dealt twice": {
		func(w *ledger.World) {
			w.Next = 1
			p := &pb.Planned{Generation: 3, Uid: ledger.TestUID, Run: 1, Settings: ledger.PhaseSettings(pb.Phase_OPEN)}
			p.Shards = []*pb.ShardChange{{}, {Add: []*pb.Range{{First: 1, Count: 2}}}, {}}
			w.AppendSale(ledger.PlanOp(p))
			w.Plant(1, &pb.Op{Op: &pb.Op_Generation{Generation: w.Sale.ShardGeneration(3, 1)}})
		},
		[]string{"generation 3 adds units twice", "units [1-2] are in two places"}, audit.Report{Oversold: 2},
	},
	"a shard's log missing": {
		func(w *ledger.World) { delete(w.Logs.Logs, w.Shards[2].Log()) },
		[]string{"shard 2 has no log"}, audit.Report{},
	},
	"a transfer that nobody sent": {
		func(w *ledger.World) { w.Plant(1, ledger.InOp(2, 1, ledger.Range{50, 2})) },
		[]string{"shard 1 received transfer 1 from shard 2, which never sent it", "units [50-51] are in the ledger, but were never added to the sale"}, audit.Report{},
	},
	"a transfer received in part": {
		func(w *ledger.World) {
			sent := w.Shards[2].Open()[0].Units
			w.Plant(0, ledger.InOp(2, 1, ledger.Range{sent[0].First, 1}))
		},
		[]string{"transfer 1 from shard 2 to 0: sent ", " were added to the sale, but are in no place"}, audit.Report{},
	},
	"a transfer acknowledged that never came": {
		func(w *ledger.World) { w.Plant(2, ledger.AckOp(0, 1)) },
		[]string{"shard 2 has an ack of transfer 1 to shard 0, which never received it"}, audit.Report{},
	},
	"a transfer to nowhere": {
		func(w *ledger.World) { w.Move(1, 7, 1, 1) },
		[]string{"shard 1 names a shard 7 that does not exist", " were added to the sale, but are in no place"}, audit.Report{},
	},
	"a transfer to the first that does not exist": {
		func(w *ledger.World) { w.Move(1, ledger.WorldShards, 1, 1) },
		[]string{"shard 1 names a shard 3 that does not exist", " were added to the sale, but are in no place"}, audit.Report{},
	},
	"a transfer of no range": {
		func(w *ledger.World) { w.Plant(1, ledger.OutOp(2, 1, ledger.Range{1, 0})) },
		[]string{": units 1+0 are no range"}, audit.Report{},
	},
	"a transfer received of no range": {
		func(w *ledger.World) { w.Plant(1, ledger.InOp(2, 1, ledger.Range{1, 0})) },
		[]string{"shard 1: slot 9: units 1+0 are no range\nshard 1: slot 9"}, audit.Report{},
	},
	"a settle of no claim": {
		func(w *ledger.World) { w.Plant(1, ledger.SettleOp(1, 7, pb.Settle_CANCEL)) },
		[]string{"no claim stands at slot 1, op 7"}, audit.Report{},
	},
	"a claim of another fill": {
		func(w *ledger.World) { w.Plant(1, ledger.GrabbedOp(w.Buyer(1), "k", 1, w.TimeUs, 15)) },
		[]string{": a claim of fill 1 at fill 0", "a claim of fill 1, the shard is at 0"}, audit.Report{},
	},
	"what comes after damage": {
		func(w *ledger.World) {
			w.Plant(1, ledger.ClaimOp(w.Buyer(1), "k", 1))
			w.Plant(1, ledger.ClaimOp(w.Buyer(1), "k", 15))
		},
		[]string{"units 1 are not here"}, audit.Report{Oversold: 1},
	},
	"a transfer of nonsense": {
		func(w *ledger.World) { w.Plant(1, ledger.OutOp(2, 1, ledger.Range{1, 1 << 62})) },
		[]string{"shard 1: slot"}, audit.Report{Oversold: 33},
	},
	"a head's numbers": {
		func(w *ledger.World) {
			h := w.Shards[1].Head()
			h.Sold++
			w.Logs.Logs[w.Shards[1].Log()].Head = h.Encode()
		},
		[]string{"shard 1: the head has"}, audit.Report{},
	},
	"the sale's head": {
		func(w *ledger.World) {
			h := w.Sale.Head()
			h.Phase = ledger.PhaseClosed
			w.Logs.Logs[w.Sale.Log()].Head = h.Encode()
		},
		[]string{"the sale's log: the head has"}, audit.Report{},
	},
	"another end than sealed": {
		func(w *ledger.World) {
			w.End()
			op := w.Roots()
			op.GetSealed().Roots[1][0] ^= 1
			w.AppendSale(op)
		},
		[]string{"the log of shard 1 does not end in the slot with which the sale was sealed"}, audit.Report{},
	},
}

// One transfer that is wrong hides no other, in whatever order they are checked.
func TestAuditFindsAllTransfers(t *testing.T) {
	w := ledger.NewWorld(t)
	w.Move(1, 7, 1, 1)
	w.Move(1, 0, 1, 1)
	w.Plant(1, ledger.InOp(2, 1, ledger.Range{50, 1}))
	for range 20 {
		a := mustAudit(t, w.Logs)
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

// A destroyed sale is reported as such, and a log that breaks off in the middle
// is not taken for a short one.
func TestAuditReportsUnreadableParts(t *testing.T) {
	w := ledger.NewWorld(t)
	w.TimesCommit(1, 2*ledger.ReadAtOnce)
	synctest.Test(t, func(t *testing.T) {
		if _, err := audit.Run(t.Context(), brokenOff{w.Logs, w.Shards[1].Log()}, "test", ledger.NewState, nil); !errors.Is(err, ledger.ErrBroken) {
			t.Errorf("got %v", err)
		}
	})
	w.AppendSale(ledger.SealedOfOp(3))
	w.AppendSale(ledger.DestroyedOp())
	if _, err := audit.Run(t.Context(), w.Logs, "test", ledger.NewState, nil); err == nil || !strings.Contains(err.Error(), "is destroyed") {
		t.Errorf("got %v", err)
	}
}

// brokenOff is Logs of which one log can be read from its begin only.
type brokenOff struct {
	*ledger.MemoryLogs
	log string
}

func (b brokenOff) Read(ctx context.Context, log string, from uint64, max int) ([]byte, [][]byte, error) {
	if log == b.log && from > 0 {
		return nil, nil, ledger.ErrBroken
	}
	return b.MemoryLogs.Read(ctx, log, from, max)
}

func TestAuditFindsDamage(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // a lost slot is waited for
				w := ledger.BusyWorld(t)
				damage.plant(w)
				a := mustAudit(t, w.Logs)
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
	w := ledger.NewWorld(t)
	d, user := w.Draft(0), w.Buyer(0)
	d.Claim(user, "k", 3)
	w.Commit(0, d)
	w.Plant(0, ledger.ClaimOp(user, "another", 4))
	w.Plant(0, ledger.ClaimOp(w.Buyer(0), "k", 5))
	a := mustAudit(t, w.Logs)
	if want := []string{
		", slot 3: op 0: user ", fmt.Sprintf("shard 0: user %q had 4 units, more than the limit", user),
	}; len(a.Problems) != 2 || !strings.Contains(a.Problems[0], want[0]) || a.Problems[1] != want[1] || a.Sold != 5 || a.Users != 2 {
		t.Errorf("%d sold to %d users, problems %q", a.Sold, a.Users, a.Problems)
	}
}

// A hold that is settled twice is settled once.
func TestAuditOfSettledTwice(t *testing.T) {
	for _, how := range []pb.Settle_How{pb.Settle_CONFIRM, pb.Settle_CANCEL} {
		w := ledger.WorldOf(t, ledger.HeldSettings())
		w.Sell(2, 0)
		c := w.Shards[0].Claim(1)
		for range 2 {
			w.Settle(0, ledger.SettleOp(c.Slot, uint32(c.Index), how))
		}
		if a := mustAudit(t, w.Logs); !a.OK || a.Users != 2-a.Cancelled-a.Expired || a.Held != 0 {
			t.Errorf("%v: %+v", how, a)
		}
	}
}

func TestAuditNamesNoMoreThanEnough(t *testing.T) {
	w := ledger.NewWorld(t)
	for range 300 {
		w.Plant(0, ledger.ClaimOp(w.Buyer(1), "k", 1))
	}
	if a := mustAudit(t, w.Logs); len(a.Problems) != 100 || a.OK {
		t.Errorf("%d problems", len(a.Problems))
	}
}

// TestAuditOfLiveSale audits while claims, transfers and generations go on: at
// each read something more has happened. Every cut must add up.
func TestAuditOfLiveSale(t *testing.T) {
	for seed := range uint64(50) {
		w := ledger.NewWorld(t)
		w.Plan(10_000, 0, ledger.PhaseSettings(pb.Phase_OPEN))
		random := rand.New(rand.NewPCG(seed, 1))
		reads := 0
		live := func() {
			if reads++; reads > 100 {
				t.Fatal("the audit runs after the sale for ever")
			}
			for range random.IntN(60) {
				w.Anything(random)
			}
		}
		for range 50 {
			w.Anything(random)
		}
		w.Logs.Before = live
		var logs ledger.Logs = w.Logs
		if seed%2 == 1 {
			logs = scanned{w.Logs, random, 40}
		}
		a := mustAudit(t, logs)
		if !a.OK || a.Sold+a.Held+a.Available+a.InFlight != a.Stock {
			t.Fatalf("seed %d: %+v", seed, a)
		}
		w.Logs.Before = nil
		if a = mustAudit(t, w.Logs); !a.OK {
			t.Fatalf("seed %d, at rest: %+v", seed, a)
		}
	}
}

// TestLoadShardsOfLiveSale is TestAuditOfLiveSale for the reducer's states: no
// unit of the cut is missing, or in two shards.
func TestLoadShardsOfLiveSale(t *testing.T) {
	for seed := range uint64(50) {
		w := ledger.NewWorld(t)
		w.Plan(10_000, 0, ledger.PhaseSettings(pb.Phase_OPEN))
		random := rand.New(rand.NewPCG(seed, 2))
		for range 50 {
			w.Anything(random)
		}
		w.Logs.Before = func() {
			for range random.IntN(60) {
				w.Anything(random)
			}
		}
		var logs ledger.Logs = w.Logs
		if seed%2 == 1 {
			logs = scanned{w.Logs, random, 40}
		}
		shards, err := ledger.LoadShards(t.Context(), logs, w.Sale)
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

func TestAuditCannotRead(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*ledger.World) ledger.Logs
		want    error
	}{
		"no sale": {
			func(*ledger.World) ledger.Logs { return &ledger.MemoryLogs{Logs: make(map[string]*ledger.StoredLog)} }, ledger.ErrGone,
		},
		"a destroyed sale": {
			func(w *ledger.World) ledger.Logs {
				w.AppendSale(ledger.SealedOfOp(3))
				w.AppendSale(ledger.DestroyedOp())
				return w.Logs
			}, ledger.ErrGone,
		},
		"a sale being deleted": {
			func(w *ledger.World) ledger.Logs {
				w.End()
				w.AppendSale(w.Roots())
				delete(w.Logs.Logs, w.Shards[0].Log())
				return w.Logs
			}, ledger.ErrGone,
		},
		"a sale deleted meanwhile": {
			func(w *ledger.World) ledger.Logs {
				reads := 0
				w.Logs.Before = func() {
					if reads++; reads == 3 {
						w.Logs.Before = nil
						w.End()
						w.AppendSale(w.Roots())
						for _, s := range w.Shards {
							delete(w.Logs.Logs, s.Log())
						}
					}
				}
				return w.Logs
			}, ledger.ErrGone,
		},
		"a sale destroyed meanwhile": {
			func(w *ledger.World) ledger.Logs {
				w.Meanwhile(func() {
					w.AppendSale(ledger.SealedOfOp(3))
					w.AppendSale(ledger.DestroyedOp())
				})
				return w.Logs
			}, ledger.ErrGone,
		},
		"a sale begun anew meanwhile": {
			func(w *ledger.World) ledger.Logs {
				w.Meanwhile(func() {
					w.AppendSale(ledger.SealedOfOp(3))
					w.AppendSale(ledger.DestroyedOp())
					p := ledger.PlannedOf(1, pb.Phase_OPEN)
					p.Run, p.Uid = 2, "another"
					w.AppendSale(ledger.PlanOp(p))
				})
				return w.Logs
			}, ledger.ErrGone,
		},
		"a sale's log that cannot be read again": {
			func(w *ledger.World) ledger.Logs {
				w.Meanwhile(func() {
					w.Logs.Logs[w.Sale.Log()].Entries[0] = []byte("noise")
					w.Logs.Logs[w.Sale.Log()].Head = []byte("noise")
				})
				return w.Logs
			}, ledger.ErrCorrupt,
		},
		"a sale's log that is damaged": {
			func(w *ledger.World) ledger.Logs {
				w.Logs.Logs[w.Sale.Log()].Entries[0] = []byte("noise")
				return w.Logs
			}, ledger.ErrCorrupt,
		},
		"a store that is down": {
			func(w *ledger.World) ledger.Logs {
				return ledger.BrokenLogs{MemoryLogs: w.Logs, Log: w.Shards[1].Log()}
			}, ledger.ErrBroken,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, err := audit.Run(t.Context(), test.prepare(ledger.NewWorld(t)), "test", ledger.NewState, nil)
				if !errors.Is(err, test.want) {
					t.Errorf("%+v, %v", a, err)
				}
			})
		})
	}
}

// An observer gets the cut that the audit has read, also what the reducer did not take.
func TestAuditShows(t *testing.T) {
	w := ledger.BusyWorld(t)
	w.Plant(0, ledger.ClaimOp(w.Buyer(0), "k", 1))
	var users, units, holds int64
	a, err := audit.Run(t.Context(), w.Logs, "test", ledger.NewState, func(sale *ledger.Sale, shards []*ledger.State) {
		if sale.UID() != ledger.TestUID || len(shards) != ledger.WorldShards {
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
