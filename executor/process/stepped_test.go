package process_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/executor/process"
	"salectl/executor/saletest"
	"salectl/executor/shard"
	"salectl/spec"
)

// sellOut sells 150 units to 200 users of two processes that share the shards, one of which
// does something in the midst. It returns the hash of all that happened.
func sellOut(t *testing.T, seed uint64, inTheMidst func(one *steppedProcess)) string {
	w := newSteppedWorld(t, seed, 90, 10, 0, 50)
	one, other := w.process("first"), w.process("second")
	w.shared()
	w.loss = 0.01
	all := w.buyers(200)
	w.runUntil("a part is sold", func() bool { return answered(all, api.Sold) >= 60 })
	w.tell("%s is struck", one.name)
	inTheMidst(one)
	w.runUntil("all are answered", func() bool { return answered(all, "") == len(all) })
	w.checked(all, 150)
	w.runUntil("the other serves", other.isReady)
	return hex.EncodeToString(w.trace.Sum(nil))
}

// Whatever befalls one of two processes, each buyer is answered but the stock is sold, to the
// last unit and no further; and a seed repeats all of it.
func TestSteppedSellsOut(t *testing.T) {
	for name, inTheMidst := range map[string]func(*steppedProcess){
		"killed": (*steppedProcess).die,
		"suspended": func(s *steppedProcess) {
			s.asleep = true
			s.w.after(20*time.Second, s.resume)
		},
		"drained": func(s *steppedProcess) { s.input(func() { s.p.Drain(s.now()) }) },
	} {
		t.Run(name, func(t *testing.T) {
			seen := make(map[string]uint64)
			for seed := range uint64(5) {
				first := sellOut(t, seed, inTheMidst)
				if again := sellOut(t, seed, inTheMidst); again != first {
					t.Errorf("seed %d came to %s, and then to %s", seed, first, again)
				}
				if other, ok := seen[first]; ok {
					t.Errorf("seeds %d and %d came to the same", seed, other)
				}
				seen[first] = seed
			}
		})
	}
}

// What a call is named after is what it does.
func TestSteppedNamesCalls(t *testing.T) {
	w := newSteppedWorld(t, 1, 20, 0)
	s := w.process("first")
	w.serving()
	away := 0 // the one who asks first has the shard without units as home, alone
	for spec.HomeShard(fmt.Sprint("user-", away), 2) == 0 {
		away++
	}
	(&steppedBuyer{w: w, user: fmt.Sprint("user-", away)}).ask()
	w.pass(time.Second)
	all := w.buyers(20)
	w.runUntil("all are answered", func() bool { return answered(all, "") == len(all) })
	saletest.Replan(t, w.logs, "stepped", func(p *pb.Planned) { saletest.Deal(p, 0, 1) })
	w.pass(5 * time.Second)
	s.input(func() { s.p.Drain(s.now()) })
	w.runUntil("it is gone", func() bool { return s.gone })
	for _, what := range []string{
		"read sale", "read shard", "vote", "renew", "release",
		"append own", "append claims", "append out", "append in", "append ack", "append generation",
	} {
		if w.landed[what] == 0 {
			t.Errorf("no call is named %q: %v", what, w.landed)
		}
	}
}

// Whoever waits no longer is told whether the claim may still be accepted.
func TestSteppedWithdraw(t *testing.T) {
	w := newSteppedWorld(t, 1, 10)
	s := w.process("first")
	w.serving()
	var told []api.Outcome
	claim := func(user string) (withdraw func()) {
		return s.p.Begin(s.now(), Request{User: user, Quantity: 1}, func(a Answer) { told = append(told, a.Outcome) })
	}
	claim("ann")()
	ann := claim("ann")
	calls, _, _ := s.p.Next(s.now()) // it is being appended
	bob := claim("bob")              // waits for the next commit
	ann()
	bob()
	ann()
	calls[0].Took(s.now(), calls[0].Make(t.Context(), w.logs, nil, nil), nil)
	s.step()
	claim("ann")
	w.pass(time.Second)
	want := []api.Outcome{api.Overloaded, api.Unknown, api.Overloaded, api.LimitReached}
	if fmt.Sprint(told) != fmt.Sprint(want) {
		t.Errorf("told %v, want %v", told, want)
	}
	if a := saletest.Audited(t, w.logs, "stepped"); a.Sold != 1 {
		t.Errorf("%d units are sold, want 1", a.Sold)
	}
}

// A drain waits for what was accepted, but not for ever.
func TestSteppedDrainOfAStoreThatIsOff(t *testing.T) {
	w := newSteppedWorld(t, 1, 10)
	s := w.process("first")
	w.serving()
	w.off = true
	var told []api.Outcome
	claim := func(user string) {
		s.input(func() {
			s.p.Begin(s.now(), Request{User: user, Quantity: 1}, func(a Answer) { told = append(told, a.Outcome) })
		})
	}
	claim("ann")
	s.input(func() { s.p.Drain(s.now()) })
	claim("bob")
	if fmt.Sprint(told) != fmt.Sprint([]api.Outcome{api.Draining}) || s.gone {
		t.Errorf("told %v, gone: %t", told, s.gone)
	}
	w.pass(process.DrainTimeout - 100*time.Millisecond)
	if s.gone || w.landed["release"] > 0 {
		t.Error("it gave up before its time")
	}
	began := w.at
	w.runUntil("it is gone", func() bool { return s.gone })
	if took := w.at - began; took > 3*shard.CallTimeout {
		t.Errorf("it was gone %v after the drain was to end", took)
	}
	if fmt.Sprint(told) != fmt.Sprint([]api.Outcome{api.Draining, api.Unknown}) || w.landed["release"] == 0 {
		t.Errorf("in the end told %v, %d releases", told, w.landed["release"])
	}
}

// The leases go back when the last call has returned, not before.
func TestSteppedDrainWhileLoading(t *testing.T) {
	w := newSteppedWorld(t, 1, 5, 5)
	s := w.process("first")
	w.runUntil("its shards are read", func() bool { return s.p.Running(0) != nil && s.p.Running(1) != nil })
	s.input(func() { s.p.Drain(s.now()) })
	if !ended(s.p.Running(0)) || s.p.Ownership.Serving() || s.p.Totals() == nil || s.gone {
		t.Errorf("with reads under way it serves: %t, gone: %t", s.p.Ownership.Serving(), s.gone)
	}
	w.runUntil("it is gone", func() bool { return s.gone })
	if w.landed["read shard"] != 2 || w.landed["release"] == 0 || w.landed["append own"] != 0 {
		t.Errorf("it made these calls: %v", w.landed)
	}
}

// A process that cannot follow the sale's log answers whom it has accepted, says
// why and is gone.
func TestSteppedDamagedSale(t *testing.T) {
	w := newSteppedWorld(t, 1, 10)
	s := w.process("first")
	w.serving()
	var told []Answer
	s.p.Begin(s.now(), Request{User: "ann", Quantity: 1}, func(a Answer) { told = append(told, a) })
	calls, _, _ := s.p.Next(s.now())
	log := spec.SaleLog("stepped")
	head, entries, err := w.logs.Read(t.Context(), log, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.logs.Append(t.Context(), log, uint64(len(entries)), head, []byte("no head"), []byte("no entry")); err != nil {
		t.Fatal(err)
	}
	w.runUntil("the damage is found", func() bool { return s.p.Err() != nil })
	if s.gone || len(told) != 0 {
		t.Errorf("it is gone (%t) and has told %v while an append is under way", s.gone, told)
	}
	calls[0].Took(s.now(), calls[0].Make(t.Context(), w.logs, nil, nil), nil)
	s.step()
	if !s.gone || len(told) != 1 || told[0].Outcome != api.Sold {
		t.Errorf("it is gone (%t) and has told %v", s.gone, told)
	}
	if !errors.Is(s.p.Err(), ledger.ErrCorrupt) || s.p.Status().Outcome != api.NoQuorum {
		t.Errorf("it says %v and %v", s.p.Err(), s.p.Status().Outcome)
	}
}

// TestScatteredUnitsInTime sells units that lie in far more shards than a claim can be
// filled from, where calls of the store take their time: nobody waits for one transfer
// after another.
func TestScatteredUnitsInTime(t *testing.T) {
	const shards, share, buyers, quantity = 1024, 5, 250, 20
	w := newSteppedWorldOf(t, 1, quantity, slices.Repeat([]int64{share}, shards)...)
	s := w.process("first")
	w.serving()
	sold, longest, ins := 0, time.Duration(0), w.landed["append in"]
	for i := range buyers {
		asked := w.at
		s.input(func() {
			s.p.Begin(s.now(), Request{User: fmt.Sprintf("user-%d", i), Key: "key", Quantity: quantity}, func(a Answer) {
				if a.Outcome == api.Sold {
					sold++
				}
				longest = max(longest, w.at-asked)
			})
		})
	}
	w.pass(5 * time.Second)
	if sold != buyers {
		t.Errorf("%d sold of %d", sold, buyers)
	}
	// A call takes 2 to 12 ms. The longest way is Out, In and the claim with it; some
	// meet shards that others have emptied, and ask once or twice more.
	if longest > 150*time.Millisecond {
		t.Errorf("one of them waited for %v", longest)
	}
	t.Logf("the longest wait was %v, %d commits received units", longest, w.landed["append in"]-ins)
}
