package lists_test

import (
	"context"
	"testing"

	"salectl/backends/ledger"
	"salectl/backends/lists"
)

// Units are taken once, however often that is asked for, and kept until they are given
// or given back.
func TestTakesOnce(t *testing.T) {
	b, m := onBench(t, 9, lists.Sizes{})
	m.Take(2)
	m.Take(5)
	if c := b.next(m, lists.TakeCall); c.Max != 2 {
		t.Errorf("%d are to be taken, want 2", c.Max)
	} else {
		b.serve(m, c)
	}
	m.Take(3)
	b.idles(m, 500*ms)
	if got := m.Taken(); got.Count() != 2 || m.Empty() {
		t.Errorf("%v are taken, want 2; empty %v", got, m.Empty())
	}
	m.PutBack()
	if m.Taken() != nil || !m.Receiving() {
		t.Errorf("%v are taken still, receiving %v", m.Taken(), m.Receiving())
	}
	b.calls(m, lists.AddCall)
	b.kept()
	m.PutBack() // has nothing to give
	if b.idles(m, 500*ms); m.Receiving() {
		t.Error("it receives nothing")
	}

	m = b.another()
	b.calls(m, lists.RunIDCall)
	b.commit(m, 0)
	b.calls(m, lists.StopCall, lists.ReadCall, lists.InspectCall)
	m.Take(3) // it does not give yet
	m.Receive(ledger.Units{{First: 9, Count: 1}})
	if m.Receiving() {
		t.Error("a list that does not give receives")
	}
	b.calls(m, lists.StartCall)
	b.idles(m, 500*ms)
}

// A list from which nothing could be taken is said to be empty until units come.
func TestTakesNothing(t *testing.T) {
	b, m := onBench(t, 3, lists.Sizes{})
	m.Take(9)
	b.calls(m, lists.TakeCall)
	if m.Taken() != nil || m.Empty() {
		t.Errorf("%v are taken before there are no more, empty %v", m.Taken(), m.Empty())
	}
	b.calls(m, lists.TakeCall)
	if m.Taken().Count() != 3 || m.Empty() {
		t.Errorf("%v are taken, want 3; empty %v", m.Taken(), m.Empty())
	}
	d := b.draft()
	if _, err := d.OutUnits(1, m.Taken()); err != nil {
		t.Fatal(err)
	}
	b.append(d)
	m.Sent()
	m.Take(1)
	b.calls(m, lists.TakeCall)
	if !m.Empty() || m.Taken() != nil {
		t.Errorf("%v are taken of nothing, empty %v", m.Taken(), m.Empty())
	}
	b.receive(m, 1)
	if m.Empty() {
		t.Error("it is empty though units came")
	}
	b.calls(m, lists.AddCall)
	if m.Empty() {
		t.Error("it is empty though units are in it")
	}
	b.kept()

	m.Take(2)
	b.calls(m, lists.TakeCall)
	d = b.draft()
	if _, err := d.OutUnits(2, m.Taken()); err != nil {
		t.Fatal(err)
	}
	b.append(d)
	m.Sent()
	m.Take(1)
	c := b.next(m, lists.TakeCall)
	b.receive(m, 2) // while nothing is taken
	b.serve(m, c)
	b.calls(m, lists.AddCall)
	if m.Empty() {
		t.Error("it is empty though units are in it since")
	}
	b.kept()
}

// A node that has one unit twice is not believed.
func TestTakenTwice(t *testing.T) {
	b, m := onBench(t, 9, lists.Sizes{Move: 2})
	m.Take(4)
	for range 2 {
		b.next(m, lists.TakeCall)
		m.Done(b.now, lists.Reply{Units: ledger.Units{{First: 8, Count: 2}}})
	}
	if m.On() != 0 || m.Trouble() == nil {
		t.Errorf("on under %d, the trouble is %v", m.On(), m.Trouble())
	}
	b.on(m)
	b.kept()
}

// A list that was found empty while the log has units is filled anew, unless they are
// somewhere else: in the stream, taken out, or on their way in.
func TestFoundEmpty(t *testing.T) {
	dry := func(b *bench, m *lists.Machine) {
		b.pass(ms)
		m.Dry(1, b.now.Mono)
	}
	lose := func(b *bench) {
		_, err := b.node.Take(context.Background(), b.list, 1, 9)
		b.must(err)
	}
	read := func(b *bench, m *lists.Machine) { b.calls(m, lists.ReadCall) }
	give := func(b *bench, m *lists.Machine) {
		d := b.draft()
		_, err := d.OutUnits(1, m.Taken())
		b.must(err)
		b.append(d)
		m.Sent()
	}
	for name, test := range map[string]struct {
		befalls func(*bench, *lists.Machine)
		lost    bool
	}{
		"it is lost": {func(b *bench, m *lists.Machine) {
			lose(b)
			dry(b, m)
			read(b, m)
		}, true},
		"it is lost while it is read": {func(b *bench, m *lists.Machine) {
			lose(b)
			m.Unanswered(1)
			c := b.next(m, lists.ReadCall)
			dry(b, m)
			b.serve(m, c)
			read(b, m)
		}, true},
		"what was left of it is lost": {func(b *bench, m *lists.Machine) {
			b.grab(1, 2)
			lose(b)
			dry(b, m)
			read(b, m)
			b.commit(m, 0)
			read(b, m)
		}, true},
		"all is given": {func(b *bench, m *lists.Machine) {
			b.grab(1, 9)
			dry(b, m)
			read(b, m)
			b.commit(m, 0)
			read(b, m)
		}, false},
		"all was given before units came": {func(b *bench, m *lists.Machine) {
			b.grab(1, 9)
			dry(b, m)
			read(b, m)
			b.commit(m, 0)
			read(b, m)
			b.idles(m, 500*ms)
			b.receive(m, 1)
			b.calls(m, lists.AddCall)
		}, false},
		"a grab of before it was on": {func(b *bench, m *lists.Machine) {
			lose(b)
			m.Dry(1, b.now.Mono)
		}, false},
		"a grab of another fill": {func(b *bench, m *lists.Machine) {
			lose(b)
			b.pass(ms)
			m.Dry(2, b.now.Mono)
		}, false},
		"all is taken": {func(b *bench, m *lists.Machine) {
			m.Take(9)
			b.calls(m, lists.TakeCall)
			dry(b, m)
			read(b, m)
			b.idles(m, 500*ms)
			m.PutBack()
			b.calls(m, lists.AddCall)
		}, false},
		"a grab of before some were taken": {func(b *bench, m *lists.Machine) {
			b.pass(ms)
			begun := b.now.Mono
			m.Take(4)
			b.pass(ms)
			b.calls(m, lists.TakeCall)
			m.Dry(1, begun)
			give(b, m)
		}, false},
		"some are given to another shard": {func(b *bench, m *lists.Machine) {
			m.Take(4)
			b.calls(m, lists.TakeCall)
			give(b, m)
			b.pass(500 * ms)
			read(b, m)
		}, false},
		"units are on their way in": {func(b *bench, m *lists.Machine) {
			b.grab(1, 9)
			b.settled(m)
			dry(b, m)
			c := b.next(m, lists.ReadCall)
			b.receive(m, 1)
			b.serve(m, c)
			b.calls(m, lists.AddCall)
		}, false},
		"a grab of before units came": {func(b *bench, m *lists.Machine) {
			b.grab(1, 9)
			b.settled(m)
			b.pass(ms)
			begun := b.now.Mono
			b.pass(ms)
			b.receive(m, 1)
			b.calls(m, lists.AddCall)
			m.Dry(1, begun)
		}, false},
		"a grab while units came": {func(b *bench, m *lists.Machine) {
			b.receive(m, 1)
			c := b.next(m, lists.AddCall)
			dry(b, m)
			b.serve(m, c)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b, m := onBench(t, 9, lists.Sizes{})
			test.befalls(b, m)
			if test.lost {
				if b.idles(m, 20*ms); m.On() != 0 || m.Trouble() == nil {
					t.Errorf("on under %d, the trouble is %v", m.On(), m.Trouble())
				}
				b.on(m)
				b.kept()
				return
			}
			c, wake := m.Next(b.now, b.state)
			if c != nil {
				t.Fatalf("it wants %+v", c)
			}
			b.pass(wake - b.now.Mono)
			b.calls(m, lists.ReadCall)
			if b.idles(m, 500*ms); m.On() != 1 {
				t.Errorf("on under %d, the trouble is %v", m.On(), m.Trouble())
			}
		})
	}
}

// That a list is empty which does not give yet says nothing of it.
func TestFoundEmptyBefore(t *testing.T) {
	b, m := filling(t, lists.Sizes{})
	b.calls(m, lists.InspectCall)
	b.pass(ms)
	m.Dry(2, b.now.Mono)
	b.on(m)
	b.idles(m, 500*ms)
	b.pass(500 * ms)
	b.calls(m, lists.ReadCall)
	if b.idles(m, 500*ms); m.On() != 2 {
		t.Errorf("on under %d, the trouble is %v", m.On(), m.Trouble())
	}
}

// A read that finds what was given under another fill has the list filled anew, so
// that it is not appended under this one.
func TestReadsAnotherFill(t *testing.T) {
	b, m := onBench(t, 9, lists.Sizes{})
	m.Unanswered(1)
	b.next(m, lists.ReadCall)
	m.Done(b.now, lists.Reply{Entries: []lists.Entry{{ID: "1-1", Fill: 7, Grabs: []ledger.Grab{{User: "somebody", Key: "key", Unit: 1}}}}})
	if m.On() != 0 || m.Due(b.now) || m.Trouble() != lists.ErrFill {
		t.Errorf("on under %d, due %v, the trouble is %v", m.On(), m.Due(b.now), m.Trouble())
	}
}

// One transfer gives as many ranges as it may have; what was taken beside them goes back into the list.
func TestTakesMoreThanATransferHas(t *testing.T) {
	b, m := onBench(t, 9, lists.Sizes{Move: 1, Ranges: 1})
	m.Take(3)
	for _, unit := range []int64{9, 7, 5} {
		b.next(m, lists.TakeCall)
		m.Done(b.now, lists.Reply{Units: ledger.Units{{First: unit, Count: 1}}})
	}
	if got := m.Taken(); len(got) != 1 || got[0] != (ledger.Range{First: 5, Count: 1}) {
		t.Fatalf("%v are given", got)
	}
	m.Sent()
	if m.Taken() != nil || !m.Receiving() {
		t.Errorf("%v are taken still, receiving %v", m.Taken(), m.Receiving())
	}
}
