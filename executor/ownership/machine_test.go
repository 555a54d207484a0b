package ownership

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/memory"
	"salectl/backends/quorum"
	"salectl/executor/saletest"
	"salectl/executor/shard"
	"salectl/spec"
)

func TestOwnerFollowsTheSale(t *testing.T) {
	w := newOwnerWorld(t)
	want := func(o api.Outcome) {
		t.Helper()
		w.pass(2 * followEvery)
		w.wantStage(following)
		if a := w.o.Absent(); a.Outcome != o {
			t.Fatalf("claims are told %+v, want %s", a, o)
		}
	}
	if a := w.o.Absent(); a.Outcome != api.Standby {
		t.Errorf("before the first read claims are told %+v", a)
	}
	want(api.NoSuchSale)
	sale := saletest.Declared(w.sale, 10, 2, 1)
	declaration, err := sale.JSON()
	if err != nil {
		t.Fatal(err)
	}
	p := &pb.Planned{
		Generation: 1, Run: 1, Uid: saletest.UID, Spec: declaration, NextUnit: 11,
		Shards:   []*pb.ShardChange{{Add: []*pb.Range{{First: 1, Count: 5}}}, {Add: []*pb.Range{{First: 6, Count: 5}}}},
		Settings: &pb.Settings{PerUserLimit: 1, Phase: pb.Phase_OPEN},
	}
	saletest.Plan(t, w.logs, w.sale, p)
	want(api.NotOpen)
	saletest.AppendSale(t, w.logs, w.sale, &pb.Op{Op: &pb.Op_Applied{Applied: &pb.Applied{Generation: 1}}})
	w.pass(2 * followEvery)
	w.wantShares(owned, owned)
	if w.starts != 1 || len(w.opened) != 2 || w.plans != 1 || !w.valid() || len(w.holders()) != 2 {
		t.Fatalf("owning: %d starts, opened %v, plans told %d times, leases %v", w.starts, w.opened, w.plans, w.holders())
	}
	w.pass(time.Minute)
	w.wantShares(owned, owned)
	if !w.valid() || len(w.holders()) != 2 || w.plans != 1 {
		t.Fatalf("after a minute: valid %v, leases %v, plans told %d times", w.valid(), w.holders(), w.plans)
	}

	// A new generation is passed on within a third of a ttl, before newer rights.
	saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { p.Settings.Phase = pb.Phase_CLOSED })
	w.pass(quorum.DefaultTTL / ReadsPerTTL)
	if got := w.o.Sale(); w.plans != 2 || got.Generation() != 2 || got.ShardGeneration(2, 1).GetSettings().GetPhase() != pb.Phase_CLOSED {
		t.Fatalf("told %d times, of %v", w.plans, got)
	}

	// The run ends, and another begins.
	saletest.AppendSale(t, w.logs, w.sale, &pb.Op{Op: &pb.Op_Sealed{Sealed: &pb.Sealed{Roots: [][]byte{make([]byte, 32), make([]byte, 32)}, Slots: []uint64{1, 1}}}})
	w.pass(quorum.DefaultTTL / ReadsPerTTL)
	w.wantStage(leaving)
	if len(w.halts) != 2 || w.halts[0].Halt.Refusal != api.Closed || w.halts[1].Halt.Gentle || w.halts[1].Halt.Why != errNotLive {
		t.Fatalf("stopped with %+v", w.halts)
	}
	if len(w.holders()) != 2 {
		t.Fatal("the leases were given back before the machines had ended")
	}
	w.end(1)
	w.run()
	w.wantStage(leaving)
	if got := w.holders(); len(got) != 1 || w.ends != 0 || !strings.HasPrefix(got[0], spec.LeaseKey(saletest.UID, 0)) {
		t.Fatalf("leases %v, %d sessions have ended", got, w.ends)
	}
	w.end(0)
	want(api.Closed)
	if len(w.holders()) != 0 {
		t.Fatalf("leases left: %v", w.holders())
	}
	saletest.AppendSale(t, w.logs, w.sale, &pb.Op{Op: &pb.Op_Destroyed{Destroyed: &pb.Destroyed{}}})
	want(api.NoSuchSale)
	p.Run, p.Uid = 2, "ffeeddccbbaa0011"
	info, err := w.node.Info(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.node.Mark(context.Background(), spec.Marker(p.Uid), info.RunID); err != nil {
		t.Fatal(err)
	}
	saletest.Plan(t, w.logs, w.sale, p)
	want(api.NotOpen)
	saletest.AppendSale(t, w.logs, w.sale, &pb.Op{Op: &pb.Op_Applied{Applied: &pb.Applied{Generation: 1}}})
	w.pass(2 * followEvery)
	w.wantShares(owned, owned)
	if w.o.uid != p.Uid || w.starts != 2 || w.ends != 1 {
		t.Fatalf("run 2: uid %s, %d starts", w.o.uid, w.starts)
	}
}

// TestOwnerWaitsForLeases serves the shards that nobody has, and waits for the leases of
// the others: a process that cannot be reached has them.
func TestOwnerWaitsForLeases(t *testing.T) {
	w := newOwnerWorld(t)
	saletest.Provision(t, w.logs, saletest.Declared(w.sale, 10, 3, 1), spec.Shares(10, 3))
	w.rival(0)
	w.pass(quorum.DefaultTTL / 2)
	w.wantShares(trying, owned, owned)
	if a := w.o.Absent(); a.Outcome != api.Standby {
		t.Errorf("claims are told %+v", a)
	}
	if got := w.mayAppendTo(); w.starts != 1 || !slices.Equal(got, []int{1, 2}) {
		t.Errorf("%d starts, it may append to %v", w.starts, got)
	}
	w.pass(quorum.DefaultTTL * 3 / 4)
	w.wantShares(owned, owned, owned)
	if !w.valid() || len(w.opened) != 3 {
		t.Errorf("opened %v, it may append to %v", w.opened, w.mayAppendTo())
	}
}

// TestOwnerIsAStandby owns nothing by the wish of an operator, and is there all the same.
func TestOwnerIsAStandby(t *testing.T) {
	w := newOwnerWorldFor(t, 1, quorum.DefaultTTL)
	w.ownerHost = w.host("first", func(c *Config) { c.Standby = true })
	w.apply(2)
	w.pass(10 * time.Second)
	w.wantStage(serving)
	w.wantShares(away, away)
	if got := w.holders(); len(got) != 0 || w.starts != 1 || len(w.opened) != 0 {
		t.Errorf("leases %v, %d starts, opened %v", got, w.starts, w.opened)
	}
	if m := w.o.handover.processes(w.now, w.o.handover.owners(w.now)); len(m) != 1 || m[0].State != api.ProcessStandby || !m[0].Self {
		t.Errorf("members %+v", m)
	}
	if a := w.o.Absent(); a.Outcome != api.Standby {
		t.Errorf("claims are told %+v", a)
	}
}

func TestOwnerLosesItsLeases(t *testing.T) {
	w := applied(t, 2)
	w.nodeOff = true
	w.pass(quorum.DefaultTTL)
	if len(w.mayAppendTo()) != 0 {
		t.Error("it may append a ttl after the node went away")
	}
	w.wantStage(serving) // the run goes on
	w.wantShares(stopping, stopping)
	if h := w.halts[0].Halt; len(w.halts) != 2 || h.Refusal != api.NoQuorum || !h.Elsewhere || h.Gentle || !errors.Is(h.Why, quorum.ErrLost) {
		t.Fatalf("stopped with %+v", w.halts)
	}
	w.end()
	w.run()
	w.wantShares(trying, trying) // they do not rest, as after one that ended by itself
	for range 10 {
		w.pass(time.Second)
		if a := w.o.Absent(); a.Outcome != api.NoQuorum {
			t.Errorf("while the node is away claims are told %+v", a)
		}
	}
	w.wantShares(trying, trying)
	w.nodeOff = false
	w.pass(time.Second) // at most three quarters of it until the next try
	w.wantShares(owned, owned)
	if w.starts != 1 || len(w.opened) != 4 || !w.valid() {
		t.Errorf("%d starts, opened %v, valid %v", w.starts, w.opened, w.valid())
	}
}

// TestOwnerLosesSome has the node forget what it had promised: the leases that were held
// are lost while another is still somebody else's. Each shard goes its own way.
func TestOwnerLosesSome(t *testing.T) {
	w := newOwnerWorld(t)
	w.rival(1)
	w.apply(3)
	w.settle()
	w.wantShares(owned, trying, owned)
	w.node.RestartEmpty()
	w.pass(quorum.DefaultTTL)
	w.wantShares(stopping, trying, stopping)
	if len(w.halts) != 2 || len(w.mayAppendTo()) != 0 {
		t.Fatalf("stopped with %+v, it may append to %v", w.halts, w.mayAppendTo())
	}
	w.end(0)
	w.run()
	w.wantShares(trying, trying, stopping)
	w.end(2)
	w.pass(quorum.MaxTTL)
	w.wantShares(owned, owned, owned)
	if !w.valid() || len(w.opened) != 5 {
		t.Errorf("opened %v, it may append to %v", w.opened, w.mayAppendTo())
	}
}

// TestOwnerTellsOfALoss withdraws the rights as soon as time alone has the leases
// lost: they are given back at once, and another process may have them before
// this one would have stopped to count on them.
func TestOwnerTellsOfALoss(t *testing.T) {
	for name, before := range map[string]func(w *ownerWorld){
		"owning": func(*ownerWorld) {},
		"giving": func(w *ownerWorld) {
			w.o.handover.stop(w.now, 1, shard.Halt{Why: errGiven, Refusal: api.NoQuorum, Elsewhere: true}, "another")
		},
		"leaving":  func(w *ownerWorld) { w.o.leave(w.now, shard.Halt{Why: errNotLive, Refusal: api.Closed}) },
		"draining": func(w *ownerWorld) { w.o.Drain(w.now) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newOwnerWorldOn(t, 3, quorum.DefaultTTL)
			w.apply(2)
			w.settle()
			w.wantShares(owned, owned)
			w.hangs[0], w.hangs[1], w.hangs[2] = true, true, true // an answer would have it tell again
			before(w)
			lost := func() bool { return w.o.handover.leases.State(w.o.handover.keys[0]) == quorum.Lost }
			if _, ok := w.passUntil(lost, quorum.DefaultTTL); !ok {
				t.Fatal("the leases are not lost a ttl after all nodes hang")
			}
			w.wantShares(stopping, stopping)
			if got := w.mayAppendTo(); len(got) != 0 {
				t.Errorf("it may append to %v with leases that were given back", got)
			}
		})
	}
}

// TestOwnerStopsSlowly has the machines end so late that nothing is owed to the lock nodes
// any more: the leases are tried for anew. That one of the nodes fails at once is no news.
func TestOwnerStopsSlowly(t *testing.T) {
	w := newOwnerWorldOn(t, 3, quorum.DefaultTTL)
	w.apply(2)
	w.settle()
	w.wantShares(owned, owned)
	w.refuses[0], w.hangs[1], w.hangs[2] = true, true, true
	w.pass(4 * quorum.DefaultTTL)
	w.wantShares(stopping, stopping)
	w.end()
	for range 20 {
		w.pass(quorum.DefaultTTL / 20)
		w.wantShares(trying, trying)
		if a := w.o.Absent(); a.Outcome != api.NoQuorum {
			t.Fatalf("claims are told %+v", a)
		}
	}
	w.refuses[0], w.hangs[1] = false, false
	if _, ok := w.passUntil(func() bool { return w.valid() && !w.o.silent }, quorum.DefaultTTL); !ok {
		t.Error("it does not own the sale a ttl after two of three nodes are back")
	}
}

// TestOwnerIsToldOfThePast has a read of a live sale's log answered from before
// there was any, and the next from when the run before was destroyed. No buyer may
// hear of it, who would not ask again.
func TestOwnerIsToldOfThePast(t *testing.T) {
	w := applied(t, 2)
	for _, op := range []*pb.Op{
		{Op: &pb.Op_Sealed{Sealed: &pb.Sealed{Roots: [][]byte{make([]byte, 32), make([]byte, 32)}, Slots: []uint64{1, 1}}}},
		{Op: &pb.Op_Destroyed{Destroyed: &pb.Destroyed{}}},
	} {
		saletest.AppendSale(t, w.logs, w.sale, op)
	}
	w.pass(quorum.DefaultTTL / ReadsPerTTL)
	w.end()
	want := func(lag int, o api.Outcome) {
		t.Helper()
		w.logs = w.store.Handle(memory.On(memory.OpRead, memory.Script(memory.Fault{Kind: memory.Stale, N: lag})))
		if lag == 0 {
			w.logs = w.store.Handle(nil)
		}
		w.pass(followEvery)
		if a := w.o.Absent(); a.Outcome != o {
			t.Fatalf("with a read from %d slots ago claims are told %+v, want %s", lag, a, o)
		}
	}
	want(0, api.NoSuchSale)
	saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { p.Generation, p.Run, p.Uid = 1, 2, "ffeeddccbbaa0011" })
	want(0, api.NotOpen)
	want(5, api.Standby)
	want(1, api.Standby)
	want(0, api.NotOpen)
}

// TestOwnerShardEnds has machines of shards end by themselves, one and then both. Each is
// left alone for a little, and the others go on.
func TestOwnerShardEnds(t *testing.T) {
	w := applied(t, 2)
	w.end(1)
	w.pass(restAfter / 2)
	w.wantShares(owned, away)
	if got := w.holders(); len(got) != 1 || !slices.Equal(w.mayAppendTo(), []int{0}) || len(w.halts) != 0 {
		t.Fatalf("leases %v, it may append to %v, stopped %+v", got, w.mayAppendTo(), w.halts)
	}
	w.end(0)
	w.pass(restAfter / 4)
	w.wantShares(away, away)
	w.pass(restAfter / 2)
	w.wantShares(away, owned)
	w.pass(restAfter / 2)
	w.wantShares(owned, owned)
	if w.starts != 1 || len(w.opened) != 4 || !w.valid() {
		t.Errorf("%d starts, opened %v", w.starts, w.opened)
	}
}

// TestOwnerClock does not serve on a host whose clock is off by more than a ttl, and
// leaves the leases to others meanwhile.
func TestOwnerClock(t *testing.T) {
	for name, c := range map[string]struct {
		ahead  time.Duration
		serves bool
	}{
		"a little ahead":  {2 * time.Second, true},
		"a little behind": {-2 * time.Second, true},
		"far ahead":       {4 * time.Second, false},
		"far behind":      {-4 * time.Second, false},
		"a ttl ahead":     {quorum.DefaultTTL, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newOwnerWorld(t)
			w.now.Wall = w.now.Wall.Add(c.ahead)
			saletest.Provision(t, w.logs, saletest.Declared(w.sale, 10, 2, 1), spec.Shares(10, 2))
			w.pass(10 * time.Second)
			if serves := w.valid(); serves != c.serves {
				t.Errorf("it serves: %v", serves)
			}
			if !c.serves && len(w.opened) != 0 {
				t.Errorf("it has begun to serve: %+v", w.opened)
			}
			if off := w.o.Status(w.now).ClockOff; off != 0 == c.serves || !c.serves && off != c.ahead {
				t.Errorf("its clock is %v off", off)
			}
			if a := w.o.Absent(); !c.serves && (a.Outcome != api.NoQuorum || !strings.Contains(a.Message, "clock is wrong")) {
				t.Errorf("claims are told %+v", a)
			}
			// Somebody sets the clock right that is ahead; a jump forward would
			// end the leases.
			w.now.Wall = w.now.Wall.Add(-max(c.ahead, 0))
			w.node.Advance(min(c.ahead, 0))
			w.pass(quorum.DefaultTTL)
			w.wantShares(owned, owned)
			if !w.valid() {
				t.Error("it may not append with a clock that is right again")
			}
			if off := w.o.Status(w.now).ClockOff; off != 0 {
				t.Errorf("by what it says its clock is %v off still", off)
			}
		})
	}
}

// TestOwnerClockGoesWrong stops the shards of a process whose host's clock is off for
// longer than a ttl, so that another process may sell.
func TestOwnerClockGoesWrong(t *testing.T) {
	w := applied(t, 2)
	w.now.Wall = w.now.Wall.Add(-2 * quorum.DefaultTTL)
	w.pass(quorum.DefaultTTL / 2)
	w.wantShares(owned, owned)
	if got := w.mayAppendTo(); len(got) != 0 {
		t.Fatalf("it may append to %v with a clock that is off", got)
	}
	w.pass(quorum.DefaultTTL)
	w.wantShares(stopping, stopping)
	if h := w.halts[0].Halt; len(w.halts) != 2 || h.Why != errClock || h.Refusal != api.NoQuorum || !h.Elsewhere {
		t.Fatalf("stopped with %+v", w.halts)
	}
	w.end()
	w.run()
	if m := w.o.handover.processes(w.now, w.o.handover.owners(w.now)); len(m) != 1 || m[0].State != api.ProcessUnable {
		t.Errorf("members %+v", m)
	}
	w.pass(restAfter / 2)
	w.rival(0, 1)
	w.pass(quorum.DefaultTTL / 2)
	if got := w.holds("rival:1"); got != 2 {
		t.Errorf("leases %v: the other process has no peace", w.holders())
	}
}

// TestOwnerLogUnreadable lets the rights end a ttl after the last good read of the
// sale's log, so that a close always lands.
func TestOwnerLogUnreadable(t *testing.T) {
	w := applied(t, 2)
	w.pass(quorum.DefaultTTL)
	w.logsOff = true
	w.pass(quorum.DefaultTTL / 2)
	if !w.valid() {
		t.Error("no rights half a ttl after the log was read")
	}
	w.pass(quorum.DefaultTTL/2 + time.Millisecond)
	if len(w.mayAppendTo()) != 0 {
		t.Error("rights a ttl after the log was read")
	}
	w.wantShares(owned, owned)
	w.logsOff = false
	w.pass(2 * time.Second)
	w.wantShares(owned, owned)
	if !w.valid() {
		t.Error("no rights after the log was read again")
	}
}

func TestOwnerLogIsNoLongerTheSame(t *testing.T) {
	t.Run("gone", func(t *testing.T) {
		w := applied(t, 2)
		if err := w.logs.Delete(context.Background(), spec.SaleLog(w.sale), 1<<40); err != nil {
			t.Fatal(err)
		}
		w.pass(quorum.DefaultTTL / ReadsPerTTL)
		w.wantStage(leaving)
		w.end()
		w.pass(2 * time.Second)
		w.wantStage(following)
		if a := w.o.Absent(); a.Outcome != api.Standby { // for all that it knows the read lags
			t.Errorf("claims are told %+v", a)
		}
	})
	t.Run("damaged", func(t *testing.T) {
		w := applied(t, 2)
		head, entries, err := w.logs.Read(context.Background(), spec.SaleLog(w.sale), 0, 10)
		if err != nil {
			t.Fatal(err)
		}
		next := []byte(`{"slot":2}`)
		if err := w.logs.Append(context.Background(), spec.SaleLog(w.sale), uint64(len(entries)), head, next, entries[0]); err != nil {
			t.Fatal(err)
		}
		w.pass(quorum.DefaultTTL)
		if !errors.Is(w.err, ledger.ErrCorrupt) {
			t.Errorf("it goes on with %v", w.err)
		}
	})
}

// TestOwnerDrains ends from every stage, whether or not the lock node answers.
func TestOwnerDrains(t *testing.T) {
	provision := func(w *ownerWorld, rival ...int) {
		saletest.Provision(w.t, w.logs, saletest.Declared(w.sale, 10, 3, 1), spec.Shares(10, 3))
		w.rival(rival...)
		w.pass(time.Second)
	}
	for name, reach := range map[string]func(w *ownerWorld){
		"following": func(w *ownerWorld) { w.pass(time.Second); w.wantStage(following) },
		"trying":    func(w *ownerWorld) { provision(w, 0, 1, 2); w.wantShares(trying, trying, trying) },
		"some":      func(w *ownerWorld) { provision(w, 1); w.wantShares(owned, trying, owned) },
		"owning":    func(w *ownerWorld) { provision(w); w.wantShares(owned, owned, owned) },
		"resting":   func(w *ownerWorld) { provision(w); w.end(2); w.run(); w.wantShares(owned, owned, away) },
		"giving": func(w *ownerWorld) {
			provision(w)
			w.o.handover.stop(w.now, 0, shard.Halt{Why: errGiven, Refusal: api.NoQuorum, Elsewhere: true}, "another")
			w.run()
			w.wantShares(stopping, owned, owned)
		},
		"leaving": func(w *ownerWorld) {
			provision(w)
			w.o.leave(w.now, shard.Halt{Why: errNotLive, Refusal: api.Closed})
			w.run()
			w.wantStage(leaving)
		},
	} {
		for _, off := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, node off: %v", name, off), func(t *testing.T) {
				w := newOwnerWorld(t)
				reach(w)
				w.nodeOff = off
				stopped := len(w.halts)
				w.o.Drain(w.now)
				began := w.now.Mono
				w.run()
				if len(w.running) > 0 {
					if w.o.Drained(w.now) || len(w.halts) != len(w.running) {
						t.Fatalf("gone: %v, stopped with %+v", w.o.Drained(w.now), w.halts)
					}
					for _, h := range w.halts[stopped:] {
						if h.Halt.Why != ErrDraining || h.Halt.Refusal != api.Draining || !h.Halt.Gentle || h.Halt.Elsewhere {
							t.Errorf("shard %d is stopped with %+v", h.Shard, h.Halt)
						}
					}
					w.pass(time.Second)
					began = w.now.Mono
					w.end()
				}
				if off && len(w.opened) > 0 { // the node has time to hear of the release twice
					w.pass(3*quorum.CallTimeout(quorum.DefaultTTL) - (w.now.Mono - began) - time.Millisecond)
					if w.o.Drained(w.now) {
						t.Error("gone before the node had time to hear of it")
					}
					w.pass(time.Millisecond)
					if !w.o.Drained(w.now) {
						t.Error("not gone when the node has had its time")
					}
				}
				w.pass(2 * quorum.DefaultTTL)
				if !w.o.Drained(w.now) {
					t.Fatalf("not gone in stage %d", w.o.stage)
				}
				if !off && w.holds("first:1") != 0 {
					t.Errorf("leases left: %v", w.holders())
				}
				if there := w.there(); !off && len(there) != 0 {
					t.Errorf("the node has it as there: %v", there)
				}
				if a := w.o.Absent(); a.Outcome != api.Draining {
					t.Errorf("claims are told %+v", a)
				}
				w.pass(time.Minute)
				w.wantStage(following)
			})
		}
	}
}

// TestOwnerAnotherRun has a run end and another begin between two reads of the log.
func TestOwnerAnotherRun(t *testing.T) {
	for name, node := range map[string]bool{"at once": false, "with a node away": true} {
		t.Run(name, func(t *testing.T) {
			w := applied(t, 2)
			info, err := w.node.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			const other = "ffeeddccbbaa0011"
			if err := w.node.Mark(t.Context(), spec.Marker(other), info.RunID); err != nil {
				t.Fatal(err)
			}
			for _, op := range []*pb.Op{
				{Op: &pb.Op_Sealed{Sealed: &pb.Sealed{Roots: [][]byte{make([]byte, 32), make([]byte, 32)}, Slots: []uint64{1, 1}}}},
				{Op: &pb.Op_Destroyed{Destroyed: &pb.Destroyed{}}},
			} {
				saletest.AppendSale(t, w.logs, w.sale, op)
			}
			saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { p.Generation, p.Run, p.Uid = 1, 2, other })
			saletest.AppendSale(t, w.logs, w.sale, &pb.Op{Op: &pb.Op_Applied{Applied: &pb.Applied{Generation: 1}}})
			w.pass(quorum.DefaultTTL / ReadsPerTTL)
			w.wantStage(leaving)
			if len(w.halts) != 2 || w.halts[0].Halt.Refusal != api.Standby || w.halts[0].Halt.Why != errNotLive {
				t.Fatalf("stopped with %+v", w.halts)
			}
			w.nodeOff = node
			w.end()
			w.pass(time.Second)
			if node {
				w.wantStage(following) // the leases of the run before go back first
				w.nodeOff = false
				w.pass(2 * quorum.DefaultTTL)
			}
			w.wantShares(owned, owned)
			if w.o.uid != other || w.starts != 2 || !w.valid() {
				t.Errorf("uid %s, %d starts, valid: %v", w.o.uid, w.starts, w.valid())
			}
			if got := w.holders(); len(got) != 0 {
				t.Errorf("leases of the run before are left: %v", got)
			}
		})
	}
}

// TestOwnerReads holds how often the sale's log is read, and from when on what it says
// counts.
func TestOwnerReads(t *testing.T) {
	w := newOwnerWorldOn(t, 1, quorum.MaxTTL)
	w.run()
	w.reads = 0
	w.pass(10 * followEvery)
	if w.reads != 10 {
		t.Errorf("%d reads in ten times %v", w.reads, followEvery)
	}
	w.apply(2)
	w.pass(followEvery)
	w.wantShares(owned, owned)
	w.reads = 0
	w.pass(10 * quorum.MaxTTL)
	if w.reads != 10*ReadsPerTTL {
		t.Errorf("%d reads in ten ttls", w.reads)
	}

	// One that takes a while: what it found was true when it was sent, and is told when
	// it is there, whether or not a node answers then.
	w.pass(w.o.log.nextRead - w.now.Mono - 1)
	w.move(1)
	w.o.Tick(w.now)
	out, err := w.o.Advance(w.now)
	if out.Read == nil || err != nil {
		t.Fatalf("%+v, %v", out, err)
	}
	sent := w.now
	w.move(300 * time.Millisecond)
	if out, err := w.o.Advance(w.now); out.Read != nil || err != nil {
		t.Fatalf("it reads again: %+v, %v", out, err)
	}
	w.move(300 * time.Millisecond)
	w.o.SaleRead(w.now, out.Read.Do(t.Context(), w.logs))
	out, err = w.o.Advance(w.now)
	if err != nil || len(out.Rights) != 2 || out.Rights[0].Rights.ReadAt != sent || out.Rights[1].Rights.ReadAt != sent {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestOwnerCannotServe ends an owner whose sale is declared as nobody can serve it.
func TestOwnerCannotServe(t *testing.T) {
	for name, c := range map[string]struct {
		plan func(p *pb.Planned)
		cfg  func(c *Config)
		want string
	}{
		"a declaration that cannot be read": {func(p *pb.Planned) { p.Spec = []byte("{") }, nil, "generation 1 of sale owned: "},
		"lists that it was not told of": {
			nil, func(c *Config) { c.Lists = []string{"a:1", "b:2"} },
			"it was applied with engine ledger and lists on [], but this process was started with lists on [a:1 b:2]; restart it with a file that has what was applied",
		},
		"a red packet without a seed": {
			func(p *pb.Planned) {
				sale := saletest.Declared("owned", 2, 1, 1)
				sale.Engine, sale.Ack, sale.Backlog, sale.Redis, sale.Embedded = spec.EngineRedis, spec.AckLedger, 5, &spec.Redis{Nodes: []string{"a:1"}}, nil
				sale.HBase = &spec.HBase{Zookeeper: []string{"z:1"}, ZookeeperRoot: "/hbase", Table: "t"}
				sale.RedPacket = &spec.RedPacket{Currency: "CNY", Total: 100, Min: 1, Split: spec.SplitRandom}
				p.Spec, _ = sale.JSON()
			}, func(c *Config) { c.Lists = []string{"a:1"} }, ledger.ErrCorrupt.Error() + ": the red packet's seed has 0 bytes",
		},
		"no lock nodes": {nil, func(c *Config) { c.Nodes = nil }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newOwnerWorld(t)
			declaration, err := saletest.Declared(w.sale, 2, 1, 1).JSON()
			if err != nil {
				t.Fatal(err)
			}
			p := &pb.Planned{
				Generation: 1, Run: 1, Uid: saletest.UID, Spec: declaration, NextUnit: 3,
				Shards: []*pb.ShardChange{{Add: []*pb.Range{{First: 1, Count: 2}}}}, Settings: &pb.Settings{PerUserLimit: 1, Phase: pb.Phase_OPEN},
			}
			if c.plan != nil {
				c.plan(p)
			}
			if c.cfg != nil {
				c.cfg(&w.o.cfg)
			}
			saletest.Plan(t, w.logs, w.sale, p)
			saletest.AppendSale(t, w.logs, w.sale, &pb.Op{Op: &pb.Op_Applied{Applied: &pb.Applied{Generation: 1}}})
			w.run()
			if w.err == nil || !strings.HasPrefix(w.err.Error(), c.want) || w.o.stage != following {
				t.Errorf("%v, in stage %d", w.err, w.o.stage)
			}
		})
	}
}

// TestOwnerLateReply has a node answer when no lease is wanted any more.
func TestOwnerLateReply(t *testing.T) {
	w := newOwnerWorld(t)
	w.pass(time.Second)
	w.o.LeaseReply(w.now, quorum.Reply{Err: errors.New("too late")})
	w.pass(time.Second)
	w.wantStage(following)
}

// TestOwnerSaysWhyNodesFail begins on nodes that fail: no lease is asked for before it is known
// who is there, and what they answered is known all the same. One that votes is judged by
// its votes.
func TestOwnerSaysWhyNodesFail(t *testing.T) {
	w := newOwnerWorldOn(t, 3, quorum.DefaultTTL)
	for _, n := range w.nodes {
		n.SetFaults(func(memory.Call) memory.Fault { return memory.Fault{Kind: memory.Denied} })
	}
	w.apply(2)
	w.pass(quorum.DefaultTTL)
	for _, n := range w.o.Status(w.now).Nodes {
		if n.Up || n.Since.IsZero() || !strings.Contains(n.Error, fs.ErrPermission.Error()) {
			t.Errorf("%+v", n)
		}
	}
	for _, n := range w.nodes {
		n.SetFaults(nil)
	}
	w.pass(quorum.DefaultTTL)
	w.wantShares(owned, owned)
	w.nodes[1].SetFaults(memory.On(memory.OpAnnounce, func(memory.Call) memory.Fault {
		return memory.Fault{Kind: memory.Denied}
	}))
	w.pass(quorum.DefaultTTL)
	if n := w.o.Status(w.now).Nodes[1]; !n.Up {
		t.Errorf("it votes, and is down: %+v", n)
	}
}

// TestOwnerHealth shows since when nodes are as they are, whose clock is wrong, and
// what locks have cost in all sessions.
func TestOwnerHealth(t *testing.T) {
	w := newOwnerWorldOn(t, 3, quorum.DefaultTTL)
	w.hangs[2] = true
	began := w.now.Wall
	w.nodes[1].Advance(4 * time.Second)
	w.apply(2)
	w.pass(quorum.DefaultTTL)
	w.wantShares(owned, owned)
	nodes := w.o.Status(w.now).Nodes
	if !nodes[0].Up || nodes[2].Up || nodes[2].Since.IsZero() || nodes[2].Since.Sub(began) > time.Second {
		t.Errorf("%+v, began at %v", nodes, began)
	}
	if off := w.o.nodes[1].Ahead - w.o.nodes[0].Ahead; off != 4*time.Second {
		t.Errorf("by what it knows two nodes' clocks are %v apart", off)
	}
	if !slices.ContainsFunc(w.events, func(e quorum.Event) bool { return e.Kind == quorum.Won && len(e.Keys) == 2 }) {
		t.Errorf("it tells of %+v", w.events)
	}
	votes := func() uint64 { s := w.o.Status(w.now).Locks; return s.Won }
	if votes() != 2 {
		t.Errorf("won %d times", votes())
	}
	w.hangs[2] = false
	w.logs = memory.NewStore().Handle(nil) // by which the sale is gone, and the session ends
	w.pass(quorum.DefaultTTL / ReadsPerTTL)
	w.end()
	w.logs = w.store.Handle(nil)
	w.pass(3 * quorum.DefaultTTL)
	w.wantShares(owned, owned)
	if w.starts != 2 || votes() != 4 {
		t.Errorf("%d starts, won %d times in both sessions", w.starts, votes())
	}
}

// TestOwnerAnotherTTL has a generation change the ttl while the leases of the last
// session are still to be given back: they go first, since they were had by the old one.
func TestOwnerAnotherTTL(t *testing.T) {
	w := applied(t, 2)
	present := w.logs
	w.logs = memory.NewStore().Handle(nil) // by which the sale is gone
	w.pass(quorum.DefaultTTL / ReadsPerTTL)
	w.wantStage(leaving)
	w.nodeOff = true
	w.end()
	w.logs = present
	changed := saletest.Declared(w.sale, 10, 2, 1)
	changed.LockTTL = spec.Duration(quorum.MaxTTL)
	saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { p.Spec, _ = changed.JSON() })
	w.pass(2 * restAfter)
	w.wantStage(following)
	w.nodeOff = false
	w.pass(quorum.DefaultTTL + time.Second)
	w.wantShares(owned, owned)
	if w.o.ttl != quorum.MaxTTL || !w.valid() {
		t.Errorf("a ttl of %v, valid: %v", w.o.ttl, w.valid())
	}
}
