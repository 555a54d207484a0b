package redis

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"salectl/backends/ledger"
	"salectl/backends/lists"
	"salectl/backends/quorum"
)

// clocks are the files with the offset of each server's clock.
type clocks []string

// buildClock compiles what gives a server a clock that can be set: nothing in
// Redis does, and libfaketime does not go with its jemalloc.
func buildClock(t *testing.T) (library string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux can a server be given another clock")
	}
	compiler, err := exec.LookPath("cc") // the race detector needs one as well
	if err != nil {
		t.Fatal(err)
	}
	library = filepath.Join(t.TempDir(), "clock.so")
	build := exec.CommandContext(t.Context(), compiler, "-shared", "-fPIC", "-O1", "-o", library, filepath.Join("testdata", "clock.c"))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return library
}

// newClockRivals starts rivals whose servers' clocks can be set. Servers take
// the environment of this process, so that no other test may run beside it.
func newClockRivals(t *testing.T, library string) (*rivals, clocks) {
	t.Helper()
	r := &rivals{fleet: &fleet{T: t}, won: make(chan *quorum.Lease, 1)}
	var c clocks
	defer os.Unsetenv("LD_PRELOAD")
	defer os.Unsetenv("CLOCK_OFF")
	for node := range 3 {
		c = append(c, filepath.Join(t.TempDir(), "off"))
		r.must(c.set(node, 0))
		r.must(os.Setenv("CLOCK_OFF", c[node]))
		r.must(os.Setenv("LD_PRELOAD", library))
		r.add()
		r.must(os.Unsetenv("LD_PRELOAD"))
	}
	return r, c
}

// set puts a server's clock before or behind this host's.
func (c clocks) set(node int, off time.Duration) error {
	file, err := os.OpenFile(c[node], os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	return binary.Write(file, binary.NativeEndian, off.Microseconds())
}

// wantClock checks that a node's clock is off by about so much.
func (r *rivals) wantClock(node int, off time.Duration) {
	r.Helper()
	info, err := r.nodes[node].Info(r.Context())
	r.must(err)
	if got := time.Until(info.Time); (got - off).Abs() > time.Minute {
		r.Fatalf("the clock of node %d is off by %v, want %v", node, got, off)
	}
}

// A clock that is set must not give the lease to two, as long as it is not those
// of a majority that jump ahead: what these have promised runs out at once, and
// no lock on Redis can know. A sale does not rely on it (package quorum).
func TestClockIsSet(t *testing.T) {
	tests := []struct {
		name   string
		off    time.Duration
		sets   int // of three nodes
		rivals *rivals
		clocks clocks
	}{
		{name: "one ahead", off: time.Hour, sets: 1},
		{name: "one back", off: -time.Hour, sets: 1},
		{name: "all back", off: -time.Hour, sets: 3},
	}
	library := buildClock(t)
	for i := range tests {
		tests[i].rivals, tests[i].clocks = newClockRivals(t, library)
	}
	t.Parallel()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := test.rivals
			r.T = t
			r.begin()
			for node := range test.sets {
				r.must(test.clocks.set(node, test.off))
				r.wantClock(node, test.off)
			}
			if test.sets < 2 {
				r.wantKept(2)
			} else {
				r.wantLost() // who was set back cannot know what it has promised
			}
			r.wantSecond(2)
		})
	}
}

// TestHoursByTheCaller has lists on a server whose clock is an hour off: from when and
// until when they give, and when they gave, is by the time that the caller names.
func TestHoursByTheCaller(t *testing.T) {
	library := buildClock(t)
	file := clocks{filepath.Join(t.TempDir(), "off")}
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		if err := file.set(0, off); err != nil {
			t.Fatal(err)
		}
		t.Setenv("CLOCK_OFF", file[0])
		t.Setenv("LD_PRELOAD", library)
		n, _ := mustServe(t)
		os.Unsetenv("LD_PRELOAD")
		if info, err := n.Info(t.Context()); err != nil || (time.Until(info.Time)-off).Abs() > time.Minute {
			t.Fatalf("the server has %v, %v; want it to be off by %v", info.Time, err, off)
		}
		l, now := n.Lists(), time.Now().Truncate(time.Microsecond)
		opens, closes := now.Add(-time.Minute), now.Add(time.Minute)
		run, err := l.RunID(t.Context())
		if err == nil {
			err = l.Stop(t.Context(), theList, 1, run)
		}
		if err == nil {
			err = l.Put(t.Context(), theList, 1, run, lists.Part{First: true, Add: ledger.Units{{First: 1, Count: 9}}})
		}
		if err == nil {
			err = l.Start(t.Context(), theList, 1, run, lists.Start{Units: 9, OpensAt: opens.UnixMicro(), ClosesAt: closes.UnixMicro()})
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			at   time.Time
			want error
		}{
			{now, nil}, {opens.Add(-time.Second), lists.ErrNotOpen}, {closes, lists.ErrClosed}, {opens, nil},
		} {
			b := lists.Batch{List: theList, Fill: 1, At: test.at.UnixMicro(), Users: []string{test.at.String()}, Keys: []string{"key"}}
			given, err := l.Grab(t.Context(), []lists.Batch{b})
			switch {
			case err != nil:
				t.Fatal(err)
			case given[0].Why != test.want:
				t.Errorf("off by %v, requested %v after it opens: %+v, want %v", off, test.at.Sub(opens), given[0], test.want)
			case given[0].Why == lists.ErrNotOpen && given[0].OpensAt != opens.UnixMicro():
				t.Errorf("it opens at %d, want %d", given[0].OpensAt, opens.UnixMicro())
			}
		}
		entries, err := l.Read(t.Context(), theList, 0, "", "", 9)
		if err != nil || len(entries) != 2 || entries[0].Grabs[0].GrantedUs != now.UnixMicro() {
			t.Errorf("off by %v, the stream has %+v, %v", off, entries, err)
		}
	}
}
