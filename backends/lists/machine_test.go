package lists_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
	pb "salectl/backends/ledger/ledgerpb"
	"salectl/backends/lists"
	"salectl/backends/memory"
)

// bench is one shard's log and its list on a node, and machines that keep the two
// in line, without anything between.
type bench struct {
	testing.TB
	node  *memory.Lists
	list  lists.List
	state *ledger.State
	now   clock.Now
	told  map[string]int64 // unit by user, of all grabs that were answered
	trace []string         // calls made and kinds of commits
	users int
}

func newBench(t testing.TB, units int64) *bench {
	b := &bench{TB: t, list: lists.List{UID: "00112233aabbccdd", Shard: 0}, state: ledger.NewState("log"), told: map[string]int64{}}
	b.now = clock.Now{Wall: time.UnixMicro(1_700_000_000_000_000), Mono: time.Minute}
	b.node = memory.NewLists("redis:6379", func() time.Time { return b.now.Wall })
	d := b.draft()
	b.must(d.Generation(&pb.Generation{
		Number: 1, Add: []*pb.Range{{First: 1, Count: units}}, Settings: &pb.Settings{PerUserLimit: 1, Phase: pb.Phase_OPEN},
	}))
	b.append(d)
	return b
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// own makes the writer of drafts the shard's owner, who alone takes part in transfers.
func (b *bench) own() {
	d := b.draft()
	d.Own("127.0.0.1:7080")
	b.append(d)
}

func (b *bench) draft() *ledger.Draft {
	return b.state.Draft([]byte("12345678"), b.now.Wall.UnixMicro())
}

// append puts a draft into the log.
func (b *bench) append(d *ledger.Draft) {
	b.Helper()
	e, err := d.Encode()
	b.must(err)
	b.must(b.state.Apply(e.Commit, e.Hash, len(e.Bytes)))
}

func (b *bench) pass(d time.Duration) { b.now.Mono, b.now.Wall = b.now.Mono+d, b.now.Wall.Add(d) }

// step lets a machine do one thing: a commit, or a call that is served as fate
// says. It says whether there was anything.
func (b *bench) step(m *lists.Machine, fate func(*lists.Call) (serve bool, err error)) bool {
	b.Helper()
	if m.Due(b.now) {
		d := b.draft()
		rebuild := m.Draft(b.now, d, 0)
		if d.Ops() > 0 {
			b.append(d)
			b.trace = append(b.trace, map[bool]string{true: "rebuild", false: "grabs"}[rebuild])
		}
		m.Committed(b.now, b.state)
		return true
	}
	c, wake := m.Next(b.now, b.state)
	if c == nil {
		b.pass(max(wake-b.now.Mono, 0))
		return false
	}
	b.trace = append(b.trace, c.Kind.String())
	serve, err := fate(c)
	var r lists.Reply
	if serve {
		r = c.Do(context.Background(), b.node)
	}
	if err != nil {
		r = lists.Reply{Err: err}
	}
	m.Done(b.now, r)
	return true
}

func well(*lists.Call) (bool, error) { return true, nil }

// next returns the call that a machine wants made now, which must be of a kind.
func (b *bench) next(m *lists.Machine, kind lists.CallKind) *lists.Call {
	b.Helper()
	c, wake := m.Next(b.now, b.state)
	if c == nil || c.Kind != kind {
		b.Fatalf("it wants %+v, or to be asked again at %v (now %v); want %v", c, wake, b.now.Mono, kind)
	}
	return c
}

// serve has the node serve a call of a machine.
func (b *bench) serve(m *lists.Machine, c *lists.Call) {
	m.Done(b.now, c.Do(context.Background(), b.node))
}

// calls has a machine make calls of these kinds, one after the other.
func (b *bench) calls(m *lists.Machine, kinds ...lists.CallKind) {
	b.Helper()
	for _, kind := range kinds {
		b.serve(m, b.next(m, kind))
	}
}

// idles fails the test unless a machine wants no call made before some time has
// passed; 0: before an event has come.
func (b *bench) idles(m *lists.Machine, want time.Duration) {
	b.Helper()
	c, wake := m.Next(b.now, b.state)
	if wake != 0 {
		wake -= b.now.Mono
	}
	if c != nil || wake != want {
		b.Fatalf("it wants %+v, or to be asked again in %v; want nothing for %v", c, wake, want)
	}
}

// commit appends what a machine wants appended, at most so many grabs (0: all), and
// returns the users whose grabs are in the log by that.
func (b *bench) commit(m *lists.Machine, most int) (users []string) {
	b.Helper()
	d := b.draft()
	m.Draft(b.now, d, most)
	if d.Ops() > 0 {
		b.append(d)
	}
	for _, g := range m.Committed(b.now, b.state) {
		users = append(users, g.User)
	}
	return users
}

// another returns a machine of the same list, as another process has it.
func (b *bench) another() *lists.Machine { return lists.NewMachine(b.list, lists.Sizes{}) }

// until lets a machine go on until ok.
func (b *bench) until(m *lists.Machine, ok func() bool) {
	b.Helper()
	for range 10_000 {
		if ok() {
			return
		}
		b.step(m, well)
	}
	b.Fatalf("it does not come to that: %v, after %v", m.Trouble(), b.trace[max(0, len(b.trace)-20):])
}

func (b *bench) on(m *lists.Machine) {
	b.Helper()
	b.until(m, func() bool { return m.On() != 0 })
}

// granted grabs n units under fill 1 for new users, and passes the entry to the machine.
func (b *bench) granted(m *lists.Machine, n int, within time.Duration) {
	b.Helper()
	number, grabs := b.grab(1, n)
	m.Granted(b.now, 1, number, grabs, within)
}

// grab grabs n units for new users, and remembers which units they were given. It returns the entry that
// records them.
func (b *bench) grab(fill uint64, n int) (number uint64, grabs []ledger.Grab) {
	b.Helper()
	batch := lists.Batch{List: b.list, Fill: fill, At: 1}
	for range n {
		b.users++
		batch.Users, batch.Keys = append(batch.Users, fmt.Sprint("user-", b.users)), append(batch.Keys, "key")
	}
	given, err := b.node.Grab(context.Background(), []lists.Batch{batch})
	b.must(err)
	for i, u := range given[0].Units {
		if u.Number > 0 {
			b.told[batch.Users[i]] = u.Number
			grabs = append(grabs, ledger.Grab{User: batch.Users[i], Key: "key", Unit: u.Number, GrantedUs: 1})
		}
	}
	return given[0].Entry, grabs
}

// kept fails the test unless the log has all that was told, and the list the rest.
func (b *bench) kept() {
	b.Helper()
	for user, unit := range b.told {
		if c, _ := b.state.Newest(user, 9); len(c) != 1 || c[0].Units[0] != unit {
			b.Errorf("%s was told unit %d, and the log has %v", user, unit, c)
		}
	}
	if b.state.Sold != int64(len(b.told)) {
		b.Errorf("the log has %d grabs, %d were told", b.state.Sold, len(b.told))
	}
	s, err := b.node.Inspect(context.Background(), b.list)
	b.must(err)
	if !s.On || s.Fill != b.state.Fill || s.Units != b.state.Available || s.Users != b.state.Sold || s.Entries != 0 {
		b.Errorf("the list is %+v, the log %+v", s, b.state.Totals)
	}
}

// settled lets a machine drain all that was given.
func (b *bench) settled(m *lists.Machine) {
	b.Helper()
	b.until(m, func() bool {
		s, err := b.node.Inspect(context.Background(), b.list)
		b.must(err)
		return m.On() != 0 && s.Entries == 0
	})
}

// A list is filled in the order that the model of the protocol found safe, and
// each step is there.
func TestRebuild(t *testing.T) {
	b := newBench(t, 5)
	m := lists.NewMachine(b.list, lists.Sizes{})
	b.on(m)
	b.grab(1, 2)
	b.node.Restart()
	b.trace = nil
	m = lists.NewMachine(b.list, lists.Sizes{}) // another process
	b.on(m)
	want := []string{"run id", "rebuild", "stop", "read", "grabs", "read", "inspect", "put", "put", "start"}
	if !slices.Equal(b.trace, want) {
		t.Errorf("the steps were %v, want %v", b.trace, want)
	}
	b.kept()
}

// What was told is in the log, and the list has the rest, whatever becomes of any
// one call, and of the machine after it.
func TestRebuildFailsAnywhere(t *testing.T) {
	broken := errors.New("broken off")
	for name, fate := range map[string]func(*bench) (bool, error){
		"lost":            func(*bench) (bool, error) { return false, broken },
		"answer lost":     func(*bench) (bool, error) { return true, broken },
		"restarts before": func(b *bench) (bool, error) { b.node.Restart(); return true, nil },
	} {
		for _, dies := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, dies %v", name, dies), func(t *testing.T) {
				for at := 1; ; at++ {
					b := newBench(t, 12)
					m := lists.NewMachine(b.list, lists.Sizes{})
					b.on(m)
					b.grab(m.On(), 4)
					m = lists.NewMachine(b.list, lists.Sizes{})
					calls := 0
					for range 100 {
						b.step(m, func(*lists.Call) (bool, error) {
							if calls++; calls == at {
								return fate(b)
							}
							return true, nil
						})
						if calls >= at || m.On() != 0 {
							break
						}
					}
					if dies {
						m = lists.NewMachine(b.list, lists.Sizes{})
					}
					b.on(m)
					b.grab(m.On(), 3)
					b.settled(m)
					b.kept()
					if calls < at {
						return
					}
				}
			})
		}
	}
}

// A node that is emptied, or goes back to what it had, gives nothing until its
// list is filled anew; what the log had by then is kept.
func TestLost(t *testing.T) {
	for name, lose := range map[string]func(*bench, memory.ListsSnapshot){
		"flushed":       func(b *bench, _ memory.ListsSnapshot) { b.node.Flush() },
		"empty":         func(b *bench, _ memory.ListsSnapshot) { b.node.RestartEmpty() },
		"a snapshot":    func(b *bench, old memory.ListsSnapshot) { b.node.RestartFrom(old) },
		"everything is": func(b *bench, _ memory.ListsSnapshot) { b.node.Restart() },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 20)
			m := lists.NewMachine(b.list, lists.Sizes{})
			b.on(m)
			b.grab(1, 3)
			old := b.node.Snapshot()
			b.grab(1, 3)
			b.settled(m)
			lose(b, old)
			b.grab(1, 1) // is refused
			m.Lost(b.now, 1)
			b.until(m, func() bool { return m.On() == 2 })
			b.grab(1, 1) // of the fill before: is refused
			b.grab(2, 4)
			b.settled(m)
			b.kept()
		})
	}
}

// Nobody has to say that a list is lost: it is looked at without news as well.
func TestLostWithoutNews(t *testing.T) {
	b := newBench(t, 5)
	m := lists.NewMachine(b.list, lists.Sizes{})
	b.on(m)
	b.node.Flush()
	b.until(m, func() bool { return m.On() == 2 })
	b.kept()
}

// Of two who rebuild a list at once, the one that the log counts last goes on, and
// the other waits for it.
func TestTwoRebuilders(t *testing.T) {
	for first := range 12 {
		b := newBench(t, 9)
		m := lists.NewMachine(b.list, lists.Sizes{})
		b.on(m)
		b.grab(1, 4)
		one, two := lists.NewMachine(b.list, lists.Sizes{}), lists.NewMachine(b.list, lists.Sizes{})
		for range first {
			b.step(one, well)
		}
		for one.On() != b.state.Fill && two.On() != b.state.Fill {
			before := b.now
			one.Observe(b.now, b.state)
			b.step(one, well)
			two.Observe(b.now, b.state)
			b.step(two, well)
			b.now = before
			b.pass(time.Millisecond) // a wait of one is not the time that a step of the other takes
		}
		b.grab(b.state.Fill, 3)
		for _, m := range []*lists.Machine{one, two} {
			m.Observe(b.now, b.state)
			if m.On() == b.state.Fill {
				b.settled(m)
			}
		}
		b.kept()
	}
}

// A list that is stopped gives nothing, and the log has all that it gave; from
// there it is turned on again without another fill.
func TestStopped(t *testing.T) {
	b := newBench(t, 9)
	m := lists.NewMachine(b.list, lists.Sizes{})
	b.on(m)
	b.grab(1, 4)
	m.SetTarget(b.now, lists.Stopped)
	b.until(m, func() bool { return m.Stopped(b.state) })
	m.SetTarget(b.now, lists.Stopped)
	if !m.Stopped(b.state) {
		t.Error("as it is to be, it is not stopped")
	}
	b.idles(m, 0)
	fill := b.state.Fill
	b.grab(1, 2)
	b.grab(fill, 2)
	if b.state.Sold != 4 || len(b.told) != 4 {
		t.Fatalf("sold %d, told %d", b.state.Sold, len(b.told))
	}
	d := b.draft()
	b.must(d.Generation(&pb.Generation{
		Number: 2, Add: []*pb.Range{{First: 100, Count: 2}}, Settings: &pb.Settings{PerUserLimit: 1, Phase: pb.Phase_OPEN},
	}))
	b.append(d)
	m.Observe(b.now, b.state)
	m.SetTarget(b.now, lists.On)
	b.on(m)
	if m.On() != fill {
		t.Errorf("on under fill %d, stopped under %d", m.On(), fill)
	}
	m.SetTarget(b.now, lists.On)
	if m.On() != fill {
		t.Error("it was on as it is to be, and is off")
	}
	b.grab(fill, 2)
	b.settled(m)
	b.kept()
}

// To say again what a list is to come to does not have it begun again.
func TestAimAgain(t *testing.T) {
	b := newBench(t, 9)
	m := b.another()
	for _, kind := range []lists.CallKind{lists.RunIDCall, lists.StopCall, lists.ReadCall} {
		m.SetTarget(b.now, lists.Stopped)
		if m.Due(b.now) {
			b.commit(m, 0)
		}
		b.calls(m, kind)
	}
	if !m.Stopped(b.state) {
		t.Error("it is not stopped")
	}
	d := b.draft()
	d.Rebuild() // by somebody else
	b.append(d)
	if m.Stopped(b.state) {
		t.Error("it is stopped under a fill that is not the last")
	}
}

// Units that are taken out for another shard come back if they are not given, and
// also if nobody knows what became of the call that took them.
func TestTaken(t *testing.T) {
	b := newBench(t, 9)
	m := lists.NewMachine(b.list, lists.Sizes{})
	b.on(m)
	m.Take(4)
	b.until(m, func() bool { return len(m.Taken()) > 0 })
	if got := m.Taken(); got.Count() != 4 || got[0].First != 6 {
		t.Errorf("took %v, want the last four", got)
	}
	m.PutBack()
	b.until(m, func() bool { return !m.Receiving() })
	b.settled(m)
	b.kept()

	m.Take(4)
	b.step(m, func(*lists.Call) (bool, error) { return true, errors.New("broken off") })
	b.until(m, func() bool { return m.On() == 2 })
	b.kept()

	m.Take(20)
	b.until(m, func() bool { return len(m.Taken()) > 0 })
	m.Sent() // as if the log had it
	m.Take(1)
	b.until(m, m.Empty)
}

// A grab that the log cannot take is left out, and counted.
func TestVoid(t *testing.T) {
	b := newBench(t, 9)
	m := lists.NewMachine(b.list, lists.Sizes{})
	b.on(m)
	b.grab(1, 1)
	d := b.draft()
	if v := d.Grab(ledger.Grab{User: "somebody", Key: "key", Unit: b.told["user-1"], GrantedUs: b.now.Wall.UnixMicro()}); v.Kind != ledger.Granted {
		t.Fatalf("decision %d", v.Kind)
	}
	b.append(d)
	b.settled(m)
	if c, _ := b.state.Newest("user-1", 9); m.Voids != 1 || len(c) != 0 {
		t.Errorf("%d void, the user has %v", m.Voids, c)
	}
}

// Units that a node has lost, and nothing else, are found out when somebody finds
// the list empty; one that is empty because all is given is left as it is.
func TestMissing(t *testing.T) {
	b := newBench(t, 9)
	m := lists.NewMachine(b.list, lists.Sizes{})
	b.on(m)
	b.grab(1, 2)
	b.settled(m)
	lost, err := b.node.Take(context.Background(), b.list, 1, 9) // behind the machine's back
	b.must(err)
	b.pass(time.Millisecond)
	b.grab(1, 1)
	m.Dry(1, b.now.Mono)
	b.until(m, func() bool { return m.On() == 2 })
	if lost.Count() != 7 {
		t.Errorf("lost %v", lost)
	}
	b.kept()
	b.grab(2, 8)
	b.pass(time.Millisecond)
	m.Dry(2, b.now.Mono)
	b.settled(m)
	for range 20 {
		b.step(m, well)
	}
	if m.On() != 2 {
		t.Errorf("a list that is empty by right is filled anew, under fill %d", b.state.Fill)
	}
	b.kept()
}

// What a list has still is not written again, as far as it is known to be what the
// log says.
func TestRebuildByDifference(t *testing.T) {
	const units, users, all = "units", "users", "users and units"
	ctx := context.Background()
	for name, test := range map[string]struct {
		befalls func(*bench)
		written string
	}{
		"nothing": {func(b *bench) {}, ""},
		"a take that the log does not have": {func(b *bench) {
			_, err := b.node.Take(ctx, b.list, 1, 3)
			b.must(err)
		}, units},
		"an add that did not come": {func(b *bench) {
			d := b.draft()
			b.must(d.In(1, 1, ledger.Units{{First: 100, Count: 2}}))
			b.append(d)
		}, units},
		"units changed for others while it rested": {func(b *bench) {
			m := lists.NewMachine(b.list, lists.Sizes{})
			m.SetTarget(b.now, lists.Stopped)
			b.until(m, func() bool { return m.Stopped(b.state) })
			d := b.draft()
			b.must(d.In(1, 1, ledger.Units{{First: 100, Count: 2}}))
			d.Out(1, 2)
			b.append(d)
		}, units},
		"another rebuild that did not end": {func(b *bench) {
			m := lists.NewMachine(b.list, lists.Sizes{Put: 3})
			b.node.Restart()
			for range 9 {
				b.step(m, well)
			}
		}, all},
		"a drainer that died before it deleted what the log has": {func(b *bench) {
			d := b.draft()
			for user, unit := range b.told {
				d.Grab(ledger.Grab{User: user, Key: "key", Unit: unit, GrantedUs: 1})
			}
			b.append(d)
		}, ""},
		"a claim that the list did not give": {func(b *bench) {
			d := b.draft()
			d.Grab(ledger.Grab{User: "somebody", Key: "key", Unit: 9, GrantedUs: 1})
			b.append(d)
			b.told["somebody"] = 9
		}, all},
		"a restart":            {func(b *bench) { b.node.Restart() }, all},
		"a restart and a fill": {func(b *bench) { b.node.Restart(); b.on(lists.NewMachine(b.list, lists.Sizes{})) }, ""},
		"a flush":              {func(b *bench) { b.node.Flush(); clear(b.told) }, all},
		"a grab that the log cannot take": {func(b *bench) {
			d := b.draft()
			d.Grab(ledger.Grab{User: "somebody", Key: "key", Unit: b.told["user-1"], GrantedUs: b.now.Wall.UnixMicro()})
			b.append(d)
			delete(b.told, "user-1")
			claims, _ := b.state.Newest("somebody", 1)
			b.told["somebody"] = claims[0].Units[0]
		}, all},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 9)
			b.own()
			b.on(lists.NewMachine(b.list, lists.Sizes{}))
			b.grab(1, 4)
			test.befalls(b)
			m := lists.NewMachine(b.list, lists.Sizes{})
			got := ""
			for m.On() == 0 {
				b.step(m, func(c *lists.Call) (bool, error) {
					switch {
					case c.Kind != lists.PutCall || !c.Part.First:
					case c.Part.Keep:
						got = units
					default:
						got = all
					}
					return true, nil
				})
			}
			if got != test.written {
				t.Errorf("written again: %q; want %q", got, test.written)
			}
			b.settled(m)
			b.kept()
		})
	}
}

// What goes from one list to another goes in parts, and is whole wherever the process
// dies between them.
func TestMovesInParts(t *testing.T) {
	small := lists.Sizes{Move: 2}
	for dies := range 6 {
		b := newBench(t, 90)
		b.own()
		m := lists.NewMachine(b.list, small)
		b.on(m)
		b.trace = nil
		m.Take(7)
		for range dies {
			b.step(m, well)
			m.Take(7) // is said again while it goes on
			if taken := m.Taken(); taken != nil && taken.Count() != 7 {
				t.Fatalf("%v are taken of 7", taken)
			}
		}
		if dies < 5 {
			m = lists.NewMachine(b.list, small)
			b.on(m)
			b.settled(m)
			b.kept()
			continue
		}
		if want := []string{"take", "take", "take", "take"}; !slices.Equal(b.trace[:4], want) {
			t.Errorf("the steps were %v, want %v", b.trace, want)
		}
		d := b.draft()
		if _, err := d.OutUnits(1, m.Taken()); err != nil {
			t.Fatal(err)
		}
		b.append(d)
		m.Sent()
		d = b.draft()
		b.must(d.In(1, 1, ledger.Units{{First: 200, Count: 3}, {First: 300, Count: 2}}))
		b.append(d)
		b.trace = nil
		m.Receive(ledger.Units{{First: 200, Count: 3}, {First: 300, Count: 2}})
		b.until(m, func() bool { return !m.Receiving() })
		if want := []string{"add", "add", "add"}; !slices.Equal(b.trace[:3], want) {
			t.Errorf("the steps were %v, want %v", b.trace, want)
		}
		b.settled(m)
		b.kept()
		m.Take(80)
		b.until(m, func() bool { return m.Taken() != nil })
		if n := m.Taken().Count(); n != 40 {
			t.Errorf("%d are taken at once of 80, want what 20 calls take", n)
		}
	}
}

// What survived in a stream is read page by page, and put in parts.
func TestPages(t *testing.T) {
	b := newBench(t, 90)
	m := lists.NewMachine(b.list, lists.Sizes{})
	b.on(m)
	for range 13 {
		b.grab(1, 3)
	}
	b.node.Restart()
	b.trace = nil
	m = lists.NewMachine(b.list, lists.Sizes{Read: 5, Put: 10})
	for m.On() == 0 {
		b.step(m, func(c *lists.Call) (bool, error) {
			if n := c.Part.Add.Count() + int64(len(c.Part.Taken)); n > 10 {
				t.Errorf("a part has %d units and users", n)
			}
			return true, nil
		})
	}
	reads, puts := 0, 0
	for _, step := range b.trace {
		reads += map[string]int{"read": 1}[step]
		puts += map[string]int{"put": 1}[step]
	}
	if reads < 7 || puts != 6+4 {
		t.Errorf("%d reads and %d puts: %v", reads, puts, b.trace)
	}
	b.kept()
}
