package embedded

import (
	"testing"
	"time"

	"salectl/backends/quorum"
)

// machine is a host whose clocks a test moves.
type machine struct {
	wall time.Time
	boot string
	ago  time.Duration
	kept bool
}

func (m *machine) host() Host {
	return Host{
		Wall:   func() time.Time { return m.wall },
		Booted: func() (string, time.Duration) { return m.boot, m.ago },
		Kept:   func() bool { return m.kept },
	}
}

// pass lets time go by on both clocks.
func (m *machine) pass(d time.Duration) { m.wall, m.ago = m.wall.Add(d), m.ago+d }

// restart has the machine off for a while: its wall clock goes on.
func (m *machine) restart(off time.Duration) {
	m.boot, m.ago, m.wall = m.boot+"'", time.Minute, m.wall.Add(off+time.Minute)
}

// TestNodeBelievesTheClock compares the node's time, as reported and as used for leases, with a
// host's clock that is set.
func TestNodeBelievesTheClock(t *testing.T) {
	const hour = time.Hour
	for name, test := range map[string]struct {
		happens func(m *machine)
		want    time.Duration // of the node's time, beside the wall clock
	}{
		"nothing":                              {func(m *machine) {}, 0},
		"a day":                                {func(m *machine) { m.pass(24 * hour) }, 0},
		"a step that clocks may differ by":     {func(m *machine) { m.wall = m.wall.Add(quorum.MaxTTL) }, 0},
		"the same back":                        {func(m *machine) { m.wall = m.wall.Add(-quorum.MaxTTL) }, 0},
		"set forward":                          {func(m *machine) { m.wall = m.wall.Add(hour) }, -hour},
		"set forward, and time":                {func(m *machine) { m.wall = m.wall.Add(hour); m.pass(3 * hour) }, -hour},
		"set back":                             {func(m *machine) { m.wall = m.wall.Add(-hour) }, hour},
		"set forward, and back again":          {func(m *machine) { m.wall = m.wall.Add(hour); m.pass(hour); m.wall = m.wall.Add(-hour) }, 0},
		"set forward by a time server":         {func(m *machine) { m.kept = true; m.wall = m.wall.Add(hour) }, 0},
		"set back by a time server":            {func(m *machine) { m.kept = true; m.wall = m.wall.Add(-hour) }, 0},
		"off for a week":                       {func(m *machine) { m.restart(7 * 24 * hour) }, 0},
		"off, and up with a clock of 2000":     {func(m *machine) { m.restart(0); m.wall = m.wall.AddDate(-20, 0, 0) }, time.Duration(1<<62 - 1)},
		"off, and up a little early":           {func(m *machine) { m.restart(-9 * time.Second) }, 0},
		"off, and up with a clock an hour ago": {func(m *machine) { m.restart(-hour) }, hour},
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{wall: time.Unix(1_800_000_000, 0), boot: "boot", ago: hour}
			node, err := OpenNode(t.TempDir(), m.host())
			if err != nil {
				t.Fatal(err)
			}
			defer node.Close()
			vote := func() time.Time {
				t.Helper()
				count, err := node.Vote(t.Context(), quorum.Ballot{Marker: "marker", TTL: quorum.MinTTL, Requests: []quorum.LeaseRequest{{Key: "key", Token: "one"}}})
				if err != nil {
					t.Fatal(err)
				}
				return count.Time
			}
			if got := vote(); !got.Equal(m.wall) {
				t.Fatalf("the first vote is at %v, the clock shows %v", got, m.wall)
			}
			m.pass(time.Minute)
			vote()
			right := m.wall
			test.happens(m)
			info, err := node.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if test.want > 100*24*hour { // all that is known is what it was, at least
				if info.Time.Before(right) || !info.Carried {
					t.Errorf("the node's time is %v, and was %v", info.Time, right)
				}
				return
			}
			if got := info.Time.Sub(m.wall); got != test.want || info.Carried != (test.want != 0) {
				t.Errorf("the node's time is %v beside the clock, carried %v; want %v", got, info.Carried, test.want)
			}
			for range 2 { // what is not believed is not recorded either
				if got := vote().Sub(m.wall); got != test.want {
					t.Errorf("a vote is at %v beside the clock, want %v", got, test.want)
				}
				m.pass(2 * time.Second)
			}
			if err := node.TrustClock(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := vote(); !got.Equal(m.wall) {
				t.Errorf("trusted, it votes at %v, the clock shows %v", got, m.wall)
			}
		})
	}
}

// TestNodeWithoutABootClock believes its host, as on systems that have no clock which
// cannot be set.
func TestNodeWithoutABootClock(t *testing.T) {
	for name, host := range map[string]func(m *machine) Host{
		"none":       func(m *machine) Host { return Host{Wall: m.host().Wall} },
		"unreadable": func(m *machine) Host { m.boot = ""; return m.host() },
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{wall: time.Unix(1_800_000_000, 0)}
			node, err := OpenNode(t.TempDir(), host(m))
			if err != nil {
				t.Fatal(err)
			}
			defer node.Close()
			for range 2 {
				count, err := node.Vote(t.Context(), quorum.Ballot{Marker: "marker", TTL: quorum.MinTTL})
				if err != nil || !count.Time.Equal(m.wall) {
					t.Fatalf("it votes at %v, %v; the clock shows %v", count.Time, err, m.wall)
				}
				m.wall = m.wall.Add(time.Hour)
			}
		})
	}
}

// TestThisHost has clocks that run.
func TestThisHost(t *testing.T) {
	h := ThisHost()
	if h.Booted == nil {
		t.Skip("there is no clock here that cannot be set")
	}
	boot, ago := h.Booted()
	again, later := h.Booted()
	if boot == "" || boot != again || ago <= 0 || later < ago {
		t.Errorf("boot %q %v ago, then %q %v ago", boot, ago, again, later)
	}
	h.Kept() // either may be
}
