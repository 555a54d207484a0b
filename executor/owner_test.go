package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/backendtest"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
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
		if a := w.o.absent(); a.Outcome != o {
			t.Fatalf("claims are told %+v, want %s", a, o)
		}
	}
	if a := w.o.absent(); a.Outcome != api.Standby {
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
	w.wantStage(owning)
	if w.starts != 1 || w.plans != 1 || !w.valid() || len(w.holders()) != 2 {
		t.Fatalf("owning: %d starts, plans told %d times, leases %v", w.starts, w.plans, w.holders())
	}
	w.pass(time.Minute)
	w.wantStage(owning)
	if !w.valid() || len(w.holders()) != 2 || w.plans != 1 {
		t.Fatalf("after a minute: valid %v, leases %v, plans told %d times", w.valid(), w.holders(), w.plans)
	}

	// A new generation is passed on within a third of a ttl, before newer rights.
	saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { p.Settings.Phase = pb.Phase_CLOSED })
	w.pass(quorum.DefaultTTL / readsPerTTL)
	if got := w.o.plans(1); w.plans != 2 || len(got) != 2 || got[1].GetSettings().GetPhase() != pb.Phase_CLOSED {
		t.Fatalf("told %d times, of %v", w.plans, got)
	}

	// The run ends, and another begins.
	saletest.AppendSale(t, w.logs, w.sale, &pb.Op{Op: &pb.Op_Sealed{Sealed: &pb.Sealed{Roots: [][]byte{{1}, {2}}, Slots: []uint64{1, 1}}}})
	w.pass(quorum.DefaultTTL / readsPerTTL)
	w.wantStage(leaving)
	if len(w.stops) != 1 || w.stops[0].Refusal != api.Closed || w.stops[0].Gentle || w.stops[0].Why != errNotLive {
		t.Fatalf("stopped with %+v", w.stops)
	}
	if len(w.holders()) != 2 {
		t.Fatal("the leases were given back before the sequencers had ended")
	}
	w.o.halted(w.now)
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
	w.wantStage(owning)
	if w.o.uid != p.Uid || w.starts != 2 {
		t.Fatalf("run 2: uid %s, %d starts", w.o.uid, w.starts)
	}
}

// TestOwnerStandsBy waits for another process: for shard 0's lease before it
// asks for any other.
func TestOwnerStandsBy(t *testing.T) {
	w := newOwnerWorld(t)
	saletest.Provision(t, w.logs, saletest.Declared(w.sale, 10, 3, 1), spec.Shares(10, 3))
	w.rival(0)
	w.pass(quorum.DefaultTTL / 2)
	w.wantStage(trying)
	if got := w.holders(); len(got) != 1 {
		t.Fatalf("leases %v: it took some of a sale that another serves", got)
	}
	if a := w.o.absent(); a.Outcome != api.Standby {
		t.Errorf("claims are told %+v", a)
	}
	w.rival(2) // another that begins to serve
	w.pass(quorum.DefaultTTL * 3 / 4)
	w.wantStage(collecting)
	if w.starts != 0 {
		t.Fatal("it serves without a lease")
	}
	w.pass(quorum.DefaultTTL)
	w.wantStage(owning)
}

func TestOwnerLosesItsLeases(t *testing.T) {
	w := applied(t, 2)
	w.wantStage(owning)
	w.nodeOff = true
	w.pass(quorum.DefaultTTL)
	if w.valid() {
		t.Error("it may append a ttl after the node went away")
	}
	w.wantStage(leaving)
	if len(w.stops) != 1 || w.stops[0].Refusal != api.NoQuorum || !errors.Is(w.stops[0].Why, quorum.ErrLost) {
		t.Fatalf("stopped with %+v", w.stops)
	}
	w.o.ended(w.now, quorum.ErrLost) // as all do that were told to
	w.o.halted(w.now)
	w.run()
	w.wantStage(trying) // it does not rest, as after one that ended by itself
	for range 10 {
		w.pass(time.Second)
		if a := w.o.absent(); a.Outcome != api.NoQuorum {
			t.Errorf("while the node is away claims are told %+v", a)
		}
	}
	w.wantStage(trying)
	w.nodeOff = false
	w.pass(time.Second) // at most three quarters of it until the next try
	w.wantStage(owning)
	if w.starts != 2 || w.plans != 2 || !w.valid() {
		t.Errorf("%d starts, plans told %d times, valid %v", w.starts, w.plans, w.valid())
	}
}

// TestOwnerTellsOfALoss withdraws the rights as soon as time alone has the leases
// lost: they are given back at once, and another process may have them before
// this one would have stopped to count on them.
func TestOwnerTellsOfALoss(t *testing.T) {
	for name, before := range map[string]func(w *ownerWorld){
		"owning":   func(*ownerWorld) {},
		"leaving":  func(w *ownerWorld) { w.o.ended(w.now, shard.ErrOtherOwner) },
		"draining": func(w *ownerWorld) { w.o.drain(w.now) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newOwnerWorldOn(t, 3, quorum.DefaultTTL)
			w.apply(2)
			w.wantStage(owning)
			w.hangs[0], w.hangs[1], w.hangs[2] = true, true, true // an answer would have it tell again
			before(w)
			lost := func() bool { return w.o.lease.State() == quorum.Lost }
			if _, ok := w.passUntil(lost, quorum.DefaultTTL); !ok {
				t.Fatal("the leases are not lost a ttl after all nodes hang")
			}
			w.wantStage(leaving)
			if w.valid() {
				t.Error("it may append with leases that were given back")
			}
		})
	}
}

// TestOwnerStopsSlowly has the sequencers end so late that nothing is owed to the
// lock nodes any more: the next tenure is tried for anew, with nodes that were not
// heard yet. That one of them fails at once is no news.
func TestOwnerStopsSlowly(t *testing.T) {
	w := newOwnerWorldOn(t, 3, quorum.DefaultTTL)
	w.apply(2)
	w.wantStage(owning)
	w.refuses[0], w.hangs[1], w.hangs[2] = true, true, true
	w.pass(4 * quorum.DefaultTTL)
	w.wantStage(leaving)
	w.o.halted(w.now)
	for range 20 {
		w.pass(quorum.DefaultTTL / 20)
		w.wantStage(trying)
		if a := w.o.absent(); a.Outcome != api.NoQuorum {
			t.Fatalf("claims are told %+v", a)
		}
	}
	w.refuses[0], w.hangs[1] = false, false
	if _, ok := w.passUntil(func() bool { return w.starts == 2 && !w.o.silent }, quorum.DefaultTTL); !ok {
		t.Error("it does not own the sale a ttl after two of three nodes are back")
	}
}

// TestOwnerIsToldOfThePast has a read of a live sale's log answered from before
// there was any, and the next from when the run before was destroyed. No buyer may
// hear of it, who would not ask again.
func TestOwnerIsToldOfThePast(t *testing.T) {
	w := applied(t, 2)
	for _, op := range []*pb.Op{
		{Op: &pb.Op_Sealed{Sealed: &pb.Sealed{Roots: [][]byte{{1}, {2}}, Slots: []uint64{1, 1}}}},
		{Op: &pb.Op_Destroyed{Destroyed: &pb.Destroyed{}}},
	} {
		saletest.AppendSale(t, w.logs, w.sale, op)
	}
	w.pass(quorum.DefaultTTL / readsPerTTL)
	w.o.halted(w.now)
	want := func(lag int, o api.Outcome) {
		t.Helper()
		w.logs = w.store.Handle(backendtest.On(backendtest.OpRead, backendtest.Script(backendtest.Fault{Kind: backendtest.Stale, N: lag})))
		if lag == 0 {
			w.logs = w.store.Handle(nil)
		}
		w.pass(followEvery)
		if a := w.o.absent(); a.Outcome != o {
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

// TestOwnerSequencerEnds has sequencers end by themselves. A tenure is over when
// one has, and the next does not follow at once.
func TestOwnerSequencerEnds(t *testing.T) {
	why := errors.New("the disk is gone")
	for name, end := range map[string]func(w *ownerWorld){
		"one, then the others": func(w *ownerWorld) {
			w.o.ended(w.now, why)
			w.run()
			w.wantStage(leaving)
			if len(w.stops) != 1 || w.stops[0].Why != why {
				w.t.Fatalf("stopped with %+v", w.stops)
			}
			w.o.ended(w.now, errNotLive)
			w.o.halted(w.now)
		},
		// Which of the two is heard of first is chance where all end together.
		"all at once": func(w *ownerWorld) { w.o.halted(w.now) },
	} {
		t.Run(name, func(t *testing.T) {
			w := applied(t, 2)
			end(w)
			w.run()
			w.pass(restAfter / 2)
			w.wantStage(following)
			w.pass(2 * restAfter)
			w.wantStage(owning)
			if w.starts != 2 {
				t.Errorf("%d starts", w.starts)
			}
		})
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
			if serves := w.o.stage == owning && w.valid(); serves != c.serves {
				t.Errorf("it serves: %v", serves)
			}
			if !c.serves && w.starts != 0 {
				t.Errorf("it has begun to serve %d times", w.starts)
			}
			if why := w.o.health().withoutRights(true); strings.HasPrefix(why, "this host's clock is "+c.ahead.String()+" off") == c.serves {
				t.Errorf("it says %q", why)
			}
			if a := w.o.absent(); !c.serves && (a.Outcome != api.NoQuorum || !strings.Contains(a.Message, "clock is wrong")) {
				t.Errorf("claims are told %+v", a)
			}
			// Somebody sets the clock right that is ahead; a jump forward would
			// end the leases.
			w.now.Wall = w.now.Wall.Add(-max(c.ahead, 0))
			w.node.Advance(min(c.ahead, 0))
			w.pass(quorum.DefaultTTL)
			w.wantStage(owning)
			if !w.valid() {
				t.Error("it may not append with a clock that is right again")
			}
			if off := w.o.health().clockOff; off != 0 {
				t.Errorf("by what it says its clock is %v off still", off)
			}
		})
	}
}

// TestOwnerClockGoesWrong ends a tenure whose host's clock is off for longer than a
// ttl, so that another process may sell.
func TestOwnerClockGoesWrong(t *testing.T) {
	w := applied(t, 2)
	w.now.Wall = w.now.Wall.Add(-2 * quorum.DefaultTTL)
	w.pass(quorum.DefaultTTL / 2)
	w.wantStage(owning)
	if w.valid() {
		t.Fatal("it may append with a clock that is off")
	}
	w.pass(quorum.DefaultTTL)
	w.wantStage(leaving)
	if len(w.stops) != 1 || w.stops[0].Why != errClock {
		t.Fatalf("stopped with %+v", w.stops)
	}
	w.o.halted(w.now)
	w.pass(restAfter / 2)
	w.rival(0)
	w.pass(quorum.DefaultTTL / 2)
	if len(w.holders()) != 1 {
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
	if w.valid() {
		t.Error("rights a ttl after the log was read")
	}
	w.wantStage(owning)
	w.logsOff = false
	w.pass(2 * time.Second)
	w.wantStage(owning)
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
		w.pass(quorum.DefaultTTL / readsPerTTL)
		w.wantStage(leaving)
		w.o.halted(w.now)
		w.pass(2 * time.Second)
		w.wantStage(following)
		if a := w.o.absent(); a.Outcome != api.Standby { // for all that it knows the read lags
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
	for name, reach := range map[string]func(w *ownerWorld) stage{
		"following": func(w *ownerWorld) stage { w.pass(time.Second); return following },
		"trying": func(w *ownerWorld) stage {
			saletest.Provision(w.t, w.logs, saletest.Declared(w.sale, 10, 3, 1), spec.Shares(10, 3))
			w.rival(0)
			w.pass(time.Second)
			return trying
		},
		"collecting": func(w *ownerWorld) stage {
			saletest.Provision(w.t, w.logs, saletest.Declared(w.sale, 10, 3, 1), spec.Shares(10, 3))
			w.rival(1)
			w.pass(time.Second)
			return collecting
		},
		"owning": func(w *ownerWorld) stage {
			saletest.Provision(w.t, w.logs, saletest.Declared(w.sale, 10, 3, 1), spec.Shares(10, 3))
			w.pass(time.Second)
			return owning
		},
		"leaving": func(w *ownerWorld) stage {
			saletest.Provision(w.t, w.logs, saletest.Declared(w.sale, 10, 3, 1), spec.Shares(10, 3))
			w.pass(time.Second)
			w.o.ended(w.now, shard.ErrOtherOwner)
			w.run()
			return leaving
		},
	} {
		for _, off := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, node off: %v", name, off), func(t *testing.T) {
				w := newOwnerWorld(t)
				w.wantStage(reach(w))
				w.nodeOff = off
				w.o.drain(w.now)
				began := w.now.Mono
				w.run()
				if w.o.started {
					if w.o.gone(w.now) || len(w.stops) != 1 {
						t.Fatalf("gone: %v, stopped with %+v", w.o.gone(w.now), w.stops)
					}
					w.pass(time.Second)
					began = w.now.Mono
					w.o.halted(w.now)
				}
				if off && w.o.lease != nil { // the node has time to hear of the release twice
					w.pass(3*quorum.CallTimeout(quorum.DefaultTTL) - (w.now.Mono - began) - time.Millisecond)
					if w.o.gone(w.now) {
						t.Error("gone before the node had time to hear of it")
					}
					w.pass(time.Millisecond)
					if !w.o.gone(w.now) {
						t.Error("not gone when the node has had its time")
					}
				}
				w.pass(2 * quorum.DefaultTTL)
				if !w.o.gone(w.now) {
					t.Fatalf("not gone in stage %d", w.o.stage)
				}
				if !off && slices.ContainsFunc(w.holders(), func(s string) bool { return s[len(s)-7:] == "first:1" }) {
					t.Errorf("leases left: %v", w.holders())
				}
				if a := w.o.absent(); a.Outcome != api.Draining {
					t.Errorf("claims are told %+v", a)
				}
				w.pass(time.Minute)
				w.wantStage(following)
			})
		}
	}
}

// The node forgets shard 0's lease while another shard's is still somebody
// else's: all is lost, and given back, within one step.
func TestOwnerLosesWhatItCollects(t *testing.T) {
	w := newOwnerWorld(t)
	w.rival(1)
	w.apply(2)
	w.wantStage(collecting)
	w.node.RestartEmpty()
	w.pass(2 * time.Second)
	w.wantStage(trying)
	w.pass(quorum.MaxTTL)
	w.wantStage(owning)
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
				{Op: &pb.Op_Sealed{Sealed: &pb.Sealed{Roots: [][]byte{{1}, {2}}, Slots: []uint64{1, 1}}}},
				{Op: &pb.Op_Destroyed{Destroyed: &pb.Destroyed{}}},
			} {
				saletest.AppendSale(t, w.logs, w.sale, op)
			}
			saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { p.Generation, p.Run, p.Uid = 1, 2, other })
			saletest.AppendSale(t, w.logs, w.sale, &pb.Op{Op: &pb.Op_Applied{Applied: &pb.Applied{Generation: 1}}})
			w.pass(quorum.DefaultTTL / readsPerTTL)
			w.wantStage(leaving)
			if len(w.stops) != 1 || w.stops[0].Refusal != api.Standby || w.stops[0].Why != errNotLive {
				t.Fatalf("stopped with %+v", w.stops)
			}
			w.nodeOff = node
			w.o.halted(w.now)
			w.pass(time.Second)
			if node {
				w.wantStage(following) // the leases of the run before go back first
				w.nodeOff = false
				w.pass(2 * quorum.DefaultTTL)
			}
			w.wantStage(owning)
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
	w.wantStage(owning)
	w.reads = 0
	w.pass(10 * quorum.MaxTTL)
	if w.reads != 10*readsPerTTL {
		t.Errorf("%d reads in ten ttls", w.reads)
	}

	// One that takes a while: what it found was true when it was sent, and is told when
	// it is there, whether or not a node answers then.
	w.pass(w.o.nextRead - w.now.Mono - 1)
	w.move(1)
	w.o.tick(w.now)
	out, err := w.o.next(w.now)
	if out.read == nil || err != nil {
		t.Fatalf("%+v, %v", out, err)
	}
	sent := w.now
	w.move(300 * time.Millisecond)
	if out, err := w.o.next(w.now); out.read != nil || err != nil {
		t.Fatalf("it reads again: %+v, %v", out, err)
	}
	w.move(300 * time.Millisecond)
	w.o.read(w.now, out.read.Do(t.Context(), w.logs))
	out, err = w.o.next(w.now)
	if err != nil || out.rights == nil || out.rights.ReadAt != sent {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestOwnerCannotServe ends an owner whose sale is declared as nobody can serve it.
func TestOwnerCannotServe(t *testing.T) {
	for name, c := range map[string]struct {
		plan func(p *pb.Planned)
		cfg  func(c *MachineConfig)
		want string
	}{
		"a declaration that cannot be read": {func(p *pb.Planned) { p.Spec = []byte("{") }, nil, "generation 1 of sale owned: "},
		"lists that it was not told of": {
			nil, func(c *MachineConfig) { c.Lists = []string{"a:1", "b:2"} },
			"it was applied with engine ledger and lists on [], and this process was told of lists on [a:1 b:2]; see that the file says what was applied",
		},
		"a red packet without a seed": {
			func(p *pb.Planned) {
				sale := saletest.Declared("owned", 2, 1, 1)
				sale.Engine, sale.Ack, sale.Backlog, sale.Redis, sale.Embedded = spec.EngineRedis, spec.AckLedger, 5, &spec.Redis{Nodes: []string{"a:1"}}, nil
				sale.HBase = &spec.HBase{Zookeeper: []string{"z:1"}, ZookeeperRoot: "/hbase", Table: "t"}
				sale.RedPacket = &spec.RedPacket{Currency: "CNY", Total: 100, Min: 1, Split: spec.SplitRandom}
				p.Spec, _ = sale.JSON()
			}, func(c *MachineConfig) { c.Lists = []string{"a:1"} }, ledger.ErrCorrupt.Error() + ": the red packet's seed has 0 bytes",
		},
		"no lock nodes": {nil, func(c *MachineConfig) { c.Nodes = nil }, ""},
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
	w.o.voted(w.now, quorum.Reply{Err: errors.New("too late")})
	w.pass(time.Second)
	w.wantStage(following)
}

// TestOwnerHealth shows since when nodes are as they are, whose clock is wrong, and
// what locks have cost in all tenures.
func TestOwnerHealth(t *testing.T) {
	w := newOwnerWorldOn(t, 3, quorum.DefaultTTL)
	w.hangs[2] = true
	began := w.now.Wall
	w.nodes[1].Advance(4 * time.Second)
	w.apply(2)
	w.pass(quorum.DefaultTTL)
	w.wantStage(owning)
	nodes := w.o.health().nodes
	if !nodes[0].Up || nodes[2].Up || nodes[2].Since.IsZero() || nodes[2].Since.Sub(began) > time.Second {
		t.Errorf("%+v, began at %v", nodes, began)
	}
	if off := w.o.watch[1].wrong - w.o.watch[0].wrong; off != 4*time.Second {
		t.Errorf("by what it knows two nodes' clocks are %v apart", off)
	}
	if !slices.ContainsFunc(w.events, func(e quorum.Event) bool { return e.Kind == quorum.Won && len(e.Keys) == 1 }) {
		t.Errorf("it tells of %+v", w.events)
	}
	votes := func() uint64 { s := w.o.health().locks; return s.Won }
	before := votes()
	w.o.ended(w.now, shard.ErrOtherOwner)
	w.run()
	w.o.halted(w.now)
	w.hangs[2] = false
	w.pass(3 * quorum.DefaultTTL)
	w.wantStage(owning)
	if after := votes(); before == 0 || after != 2*before {
		t.Errorf("won %d times, and after the next tenure %d", before, after)
	}
}

// TestOwnerAnotherTTL has a generation change the ttl while the leases of the last
// tenure are still to be given back: they go first, since they were had by the old one.
func TestOwnerAnotherTTL(t *testing.T) {
	w := applied(t, 2)
	w.nodeOff = true
	w.o.ended(w.now, shard.ErrOtherOwner)
	w.run()
	w.o.halted(w.now)
	changed := saletest.Declared(w.sale, 10, 2, 1)
	changed.LockTTL = quorum.MaxTTL
	saletest.Replan(t, w.logs, w.sale, func(p *pb.Planned) { p.Spec, _ = changed.JSON() })
	w.pass(2 * restAfter)
	w.wantStage(following)
	w.nodeOff = false
	w.pass(quorum.DefaultTTL + time.Second)
	w.wantStage(owning)
	if w.o.ttl != quorum.MaxTTL || !w.valid() {
		t.Errorf("a ttl of %v, valid: %v", w.o.ttl, w.valid())
	}
}
