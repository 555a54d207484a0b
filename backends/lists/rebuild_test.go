package lists_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
)

// filling has a list that was on, of which four units were given, and the machine of
// another process that has drained it and is about to ask what it has still.
func filling(t *testing.T, sizes lists.Sizes) (*bench, *lists.Machine) {
	t.Helper()
	b, _ := onBench(t, 9, lists.Sizes{})
	b.grab(1, 4)
	m := lists.NewMachine(b.list, sizes)
	b.calls(m, lists.RunIDCall)
	b.commit(m, 0)
	b.calls(m, lists.StopCall, lists.ReadCall)
	b.commit(m, 0)
	b.calls(m, lists.ReadCall)
	return b, m
}

// After a failure a rebuild begins again, later with each, and the trouble is told
// until the list gives.
func TestPauses(t *testing.T) {
	b := newBench(t, 9)
	m := b.another()
	broken := errors.New("broken off")
	for _, pause := range []time.Duration{20, 40, 80, 160, 320, 640, 1000, 1000} {
		b.next(m, lists.RunIDCall)
		m.Done(b.now, lists.Reply{Err: broken})
		b.idles(m, pause*ms)
		b.pass((pause - 1) * ms)
		b.idles(m, ms)
		b.pass(ms)
	}
	b.calls(m, lists.RunIDCall)
	b.commit(m, 0)
	b.calls(m, lists.StopCall, lists.ReadCall, lists.InspectCall, lists.PutCall)
	if m.Trouble() != broken {
		t.Errorf("the trouble is %v before the list gives", m.Trouble())
	}
	b.calls(m, lists.StartCall)
	if m.Trouble() != nil || m.Fills != 1 {
		t.Errorf("the list was turned on %d times, the trouble is %v", m.Fills, m.Trouble())
	}
	b.idles(m, 500*ms)
	m.Lost(b.now, 1)
	if b.idles(m, 20*ms); m.Trouble() != lists.ErrFill {
		t.Errorf("lost, the trouble is %v", m.Trouble())
	}
	b.on(m)
	if m.Fills != 2 {
		t.Errorf("turned on %d times, want 2", m.Fills)
	}
}

// A list that cannot be filled is tried ever more rarely: each try is a commit.
func TestPausesWhereFillingFails(t *testing.T) {
	b := newBench(t, 9)
	m := b.another()
	for _, pause := range []time.Duration{20, 40, 80} {
		b.calls(m, lists.RunIDCall)
		b.commit(m, 0)
		b.calls(m, lists.StopCall, lists.ReadCall, lists.InspectCall)
		b.next(m, lists.PutCall)
		m.Done(b.now, lists.Reply{Err: errors.New("out of memory")})
		b.idles(m, pause*ms)
		b.pass(pause * ms)
	}
	m.SetTarget(b.now, lists.Stopped)
	b.calls(m, lists.RunIDCall)
	b.commit(m, 0)
	b.calls(m, lists.StopCall, lists.ReadCall)
	if !m.Stopped(b.state) || m.Trouble() != nil {
		t.Errorf("stopped %v as it is to be, the trouble is %v", m.Stopped(b.state), m.Trouble())
	}
}

// What survived in a stream is read while what was read is appended, but not much
// ahead of that, and the list is filled when the log has all of it.
func TestReadsWhileItAppends(t *testing.T) {
	b, _ := onBench(t, 90, lists.Sizes{})
	for range 5 {
		b.grab(1, 4)
	}
	m := lists.NewMachine(b.list, lists.Sizes{Read: 4})
	b.calls(m, lists.RunIDCall)
	b.commit(m, 0)
	b.calls(m, lists.StopCall, lists.ReadCall, lists.ReadCall, lists.ReadCall)
	b.idles(m, 0)
	b.commit(m, 4)
	c := b.next(m, lists.ReadCall)
	b.idles(m, 0) // while a call is under way
	b.commit(m, 0)
	b.serve(m, c)
	b.commit(m, 0)
	b.calls(m, lists.ReadCall, lists.ReadCall)
	b.idles(m, 0)
	b.commit(m, 0)
	b.calls(m, lists.InspectCall)
	b.on(m)
	b.kept()
	b.idles(m, 500*ms)
}

// The reply to a call that was under way when the list was lost is of no meaning any
// more, nor is what the machine was about.
func TestForgetsWhatItWasAbout(t *testing.T) {
	for name, test := range map[string]struct {
		under lists.CallKind
		about func(*bench, *lists.Machine)
	}{
		"nothing":         {0, func(b *bench, m *lists.Machine) {}},
		"a read":          {lists.ReadCall, func(b *bench, m *lists.Machine) { m.Unanswered(1) }},
		"a take":          {lists.TakeCall, func(b *bench, m *lists.Machine) { m.Take(3) }},
		"a take to come":  {0, func(b *bench, m *lists.Machine) { m.Take(3) }},
		"units taken":     {0, func(b *bench, m *lists.Machine) { m.Take(3); b.calls(m, lists.TakeCall) }},
		"an add":          {lists.AddCall, func(b *bench, m *lists.Machine) { b.receive(m, 1) }},
		"an add to come":  {0, func(b *bench, m *lists.Machine) { b.receive(m, 1) }},
		"an empty list":   {lists.ReadCall, func(b *bench, m *lists.Machine) { b.pass(ms); m.Dry(1, b.now.Mono) }},
		"one, not looked": {0, func(b *bench, m *lists.Machine) { b.pass(ms); m.Dry(1, b.now.Mono) }},
		"nothing taken": {0, func(b *bench, m *lists.Machine) {
			m.Take(9)
			b.calls(m, lists.TakeCall, lists.TakeCall)
			m.Sent()
			m.Take(1)
			b.calls(m, lists.TakeCall)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b, m := onBench(t, 9, lists.Sizes{})
			b.grab(1, 2)
			b.settled(m)
			test.about(b, m)
			var c *lists.Call
			if test.under != 0 {
				c = b.next(m, test.under)
			}
			m.Lost(b.now, 1)
			b.pass(20 * ms)
			if c != nil {
				b.idles(m, 0)
				b.serve(m, c)
			}
			b.calls(m, lists.RunIDCall)
			b.commit(m, 0)
			b.calls(m, lists.StopCall)
			if c := b.next(m, lists.ReadCall); c.After != "" {
				t.Errorf("the stream is read after %s, not from its beginning", c.After)
			} else {
				b.serve(m, c)
			}
			b.on(m)
			if m.On() != 2 || m.Taken() != nil || m.Receiving() || m.Empty() {
				t.Errorf("on under %d, %v taken, receiving %v, empty %v", m.On(), m.Taken(), m.Receiving(), m.Empty())
			}
			b.idles(m, 500*ms)
			b.kept()
			b.pass(500 * ms)
			b.calls(m, lists.ReadCall)
			b.idles(m, 500*ms)
		})
	}
}

// receive has the log receive two units of the shard's k-th transfer from shard 1, and
// a machine put them into the list.
func (b *bench) receive(m *lists.Machine, k uint64) {
	b.Helper()
	units := ledger.Units{{First: 100 * int64(k), Count: 2}}
	d := b.draft()
	b.must(d.In(1, k, units))
	b.append(d)
	m.Receive(units)
}

// A commit that was under way when the list was lost has its grabs, and nothing else,
// also where the next Rebuild is due by then.
func TestLostWhileItAppends(t *testing.T) {
	for _, asked := range []bool{false, true} {
		b, m := onBench(t, 9, lists.Sizes{})
		number, grabs := b.grab(1, 3)
		d := b.draft()
		d.Grab(ledger.Grab{User: "somebody", Key: "key", Unit: b.told["user-1"], GrantedUs: 1})
		b.append(d)
		m.Granted(b.now, 1, number, grabs, 0)
		d = b.draft()
		m.Draft(b.now, d, 0)
		b.node.Restart()
		m.Lost(b.now, 1)
		b.pass(20 * ms)
		if asked {
			b.calls(m, lists.RunIDCall)
		}
		b.append(d)
		m.Committed(b.now, b.state)
		b.on(m)
		if b.state.Sold != 3 || m.On() != 2 || m.Voids != 1 {
			t.Errorf("%d sold, on under %d, %d void; want 3, 2 and 1", b.state.Sold, m.On(), m.Voids)
		}
	}
}

// What a node gives whose clock is behind that of the one before it is drained too.
func TestStreamBeginsAnew(t *testing.T) {
	b, m := onBench(t, 9, lists.Sizes{})
	b.grab(1, 2)
	b.settled(m)
	b.node.RestartEmpty()
	b.now.Wall = b.now.Wall.Add(-time.Hour)
	m.Lost(b.now, 1)
	b.on(m)
	b.grab(2, 3)
	b.settled(m)
	b.kept()
}

// A refusal that is not of the fill under which the list gives says nothing of it.
func TestLostOfAnotherFill(t *testing.T) {
	b, m := onBench(t, 9, lists.Sizes{})
	m.Lost(b.now, 2)
	if m.On() != 1 {
		t.Error("a refusal of another fill turned the list off")
	}
	m = b.another()
	b.calls(m, lists.RunIDCall)
	b.commit(m, 0)
	b.calls(m, lists.StopCall, lists.ReadCall, lists.InspectCall)
	m.Lost(b.now, 2) // it does not give yet
	b.calls(m, lists.StartCall)
	if m.On() != 2 || m.Trouble() != nil {
		t.Errorf("on under %d, the trouble is %v", m.On(), m.Trouble())
	}
}

// Whoever sees that somebody else has begun a fill later leaves the list to that one
// for a second.
func TestFenced(t *testing.T) {
	for steps := range 6 {
		b, _ := onBench(t, 9, lists.Sizes{})
		m := b.another()
		for range 2 + steps { // from when its fill has begun until the list is on
			b.step(m, well)
		}
		m.Observe(b.now, b.state)
		c, _ := m.Next(b.now, b.state)
		other := b.another()
		b.calls(other, lists.RunIDCall)
		b.commit(other, 0)
		m.Observe(b.now, b.state)
		if c != nil {
			b.serve(m, c)
		}
		if b.idles(m, time.Second); m.On() != 0 || m.Trouble() == nil {
			t.Errorf("after %d steps it is on under %d, and its trouble is %v", steps, m.On(), m.Trouble())
		}
		b.on(other)
		b.kept()
	}
}

// A commit while the list is filled has it looked at anew. One while it gives does not.
func TestLogChangesWhileItFills(t *testing.T) {
	for calls, under := range []lists.CallKind{lists.InspectCall, lists.PutCall, lists.PutCall, lists.PutCall, lists.StartCall} {
		for _, way := range []bool{false, true} {
			b, m := filling(t, lists.Sizes{Put: 3})
			b.receiveUnlisted() // so that there is something to put
			for range calls {
				b.step(m, well)
			}
			var c *lists.Call
			if way {
				c = b.next(m, under)
			}
			d := b.draft()
			b.must(d.In(1, 2, ledger.Units{{First: 200, Count: 1}}))
			b.append(d)
			m.Observe(b.now, b.state)
			if way {
				b.serve(m, c)
			}
			if calls > 1 || calls == 1 && way || calls == 0 && !way {
				b.calls(m, lists.InspectCall)
			}
			b.calls(m, lists.PutCall)
			b.on(m)
			b.kept()
			fill := m.On()
			b.receive(m, 3)
			if m.Observe(b.now, b.state); m.On() != fill {
				t.Error("a commit turned the list off")
			}
			b.calls(m, lists.AddCall)
			b.kept()
		}
	}
}

// receiveUnlisted has the log receive the first transfer from shard 1, and nobody put
// it into the list.
func (b *bench) receiveUnlisted() {
	b.Helper()
	d := b.draft()
	b.must(d.In(1, 1, ledger.Units{{First: 100, Count: 2}}))
	b.append(d)
}

// Units that were changed for others while a list was rebuilt are written, though they
// are as many.
func TestUnitsChangeWhileItStops(t *testing.T) {
	b, _ := onBench(t, 9, lists.Sizes{})
	m := b.another()
	b.calls(m, lists.RunIDCall)
	b.commit(m, 0)
	d := b.draft()
	b.must(d.In(1, 1, ledger.Units{{First: 100, Count: 2}}))
	d.Out(1, 2)
	b.append(d)
	b.calls(m, lists.StopCall, lists.ReadCall, lists.InspectCall)
	if c := b.next(m, lists.PutCall); !c.Part.First || !slices.Equal(c.Part.Add, b.state.AvailableUnits()) {
		t.Errorf("it puts %+v, want all of %v", c.Part, b.state.AvailableUnits())
	} else {
		b.serve(m, c)
	}
	b.on(m)
	b.kept()
}

// After a grab that the log cannot take all users are written, though they are as
// many, also if it was not of the last commit.
func TestVoidInAnEarlierCommit(t *testing.T) {
	b, _ := onBench(t, 9, lists.Sizes{})
	b.grab(1, 4)
	d := b.draft()
	d.Grab(ledger.Grab{User: "somebody", Key: "key", Unit: b.told["user-1"], GrantedUs: 1})
	b.append(d)
	m := b.another()
	b.calls(m, lists.RunIDCall)
	b.commit(m, 0)
	b.calls(m, lists.StopCall, lists.ReadCall)
	b.commit(m, 1)
	b.commit(m, 0)
	b.calls(m, lists.ReadCall, lists.InspectCall)
	if c := b.next(m, lists.PutCall); !c.Part.First || c.Part.Keep {
		t.Errorf("it puts %+v, want the users written too", c.Part)
	}
	if m.Voids != 1 {
		t.Errorf("%d void, want 1", m.Voids)
	}
}

// A shard that has nothing left to give has a list with nothing in it.
func TestEmptyShard(t *testing.T) {
	b, m := onBench(t, 3, lists.Sizes{})
	m.SetTarget(b.now, lists.Stopped)
	b.until(m, func() bool { return m.Stopped(b.state) })
	d := b.draft()
	d.Out(1, 3)
	b.append(d)
	m.SetTarget(b.now, lists.On)
	b.on(m)
	if m.On() != 2 {
		t.Errorf("on under %d; want 2, at the first try", m.On())
	}
	b.kept()
}

// A list has the hours of its sale, and one of a sale without hours has none.
func TestHours(t *testing.T) {
	b := newBench(t, 9)
	opens, closes := b.now.Wall.Add(time.Hour).UnixMicro(), b.now.Wall.Add(2*time.Hour).UnixMicro()
	for _, test := range []struct {
		settings      *pb.Settings
		opens, closes int64
	}{
		{&pb.Settings{PerUserLimit: 1, Phase: pb.Phase_OPEN}, 0, 0},
		{&pb.Settings{PerUserLimit: 1, Phase: pb.Phase_OPEN, OpensAtUs: opens, ClosesAtUs: closes}, opens, closes},
	} {
		d := b.draft()
		b.must(d.Generation(&pb.Generation{Number: b.state.Generation + 1, Settings: test.settings}))
		b.append(d)
		m := b.another()
		b.calls(m, lists.RunIDCall)
		b.commit(m, 0)
		b.calls(m, lists.StopCall, lists.ReadCall, lists.InspectCall)
		for range 3 {
			c, _ := m.Next(b.now, b.state)
			if c.Kind == lists.StartCall && (c.Start.OpensAt != test.opens || c.Start.ClosesAt != test.closes) {
				t.Errorf("opens at %v, closes at %v; want %v, %v", c.Start.OpensAt, c.Start.ClosesAt, test.opens, test.closes)
			}
			if b.serve(m, c); m.On() != 0 {
				break
			}
		}
		if m.On() == 0 {
			t.Error("it is not on")
		}
	}
}
