package ownership

import (
	"slices"
	"testing"
	"time"

	"salectl/api"
	"salectl/backends/clock"
	"salectl/backends/ledger"
	"salectl/executor/shard"
)

// The pin with the highest number counts, and of two that are alike one, whoever looks. One
// of a process that is to own nothing counts for nobody, and neither does an older one then.
func TestPins(t *testing.T) {
	named := func(id, state string, pins ...pin) Process { return Process{ID: id, State: state, Pins: pins} }
	for name, c := range map[string]struct {
		members []Process
		want    string // whose shard 1 is; "": wherever it would be
	}{
		"none":                   {[]Process{named("a", ""), named("b", "")}, ""},
		"one":                    {[]Process{named("a", ""), named("b", "", pin{Shard: 1, Number: 1})}, "b"},
		"a newer one":            {[]Process{named("a", "", pin{Shard: 1, Number: 7}), named("b", "", pin{Shard: 1, Number: 6})}, "a"},
		"two alike":              {[]Process{named("a", "", pin{Shard: 1, Number: 6}), named("b", "", pin{Shard: 1, Number: 6})}, "b"},
		"of another shard":       {[]Process{named("a", "", pin{Shard: 1, Number: 6}), named("b", "", pin{Shard: 2, Number: 9})}, "a"},
		"ended":                  {[]Process{named("a", "", pin{Shard: 1, Number: 6}), named("b", "", pin{Shard: 1, Number: 7, Any: true})}, ""},
		"ended, and pinned anew": {[]Process{named("a", "", pin{Shard: 1, Number: 8}), named("b", "", pin{Shard: 1, Number: 7, Any: true})}, "a"},
		"drained":                {[]Process{named("a", "", pin{Shard: 1, Number: 6}), named("b", api.ProcessStandby, pin{Shard: 1, Number: 7})}, ""},
		"of no shard":            {[]Process{named("a", "", pin{Shard: -1, Number: 6}, pin{Shard: 9, Number: 6}), named("b", "")}, ""},
	} {
		backwards := slices.Clone(c.members)
		slices.Reverse(backwards)
		got, other := pinned(c.members, 8), pinned(backwards, 8)
		if got[1] != c.want || other[1] != c.want || got[-1] != "" || got[9] != "" {
			t.Errorf("%s: pinned to %v, and backwards to %v, want %q", name, got, other, c.want)
		}
		owners := assign("run", 8, c.members)
		if c.want != "" && owners[1] != c.want {
			t.Errorf("%s: shard 1 is to be of %q, want %q", name, owners[1], c.want)
		}
		if !slices.Equal(owners, assign("run", 8, backwards)) {
			t.Errorf("%s: the order of members counts", name)
		}
	}
}

// A second move elsewhere takes the shard from the process of the first, whatever the second
// process knows: the first pin, or that the shard was taken over since.
func TestTheLastMoveCounts(t *testing.T) {
	at := clock.Now{Mono: time.Minute}
	process := func(id string) *Machine {
		o := New(Config{Sale: "movie", Address: id + ":1"})
		o.cfg.ID, o.updates.collection.totals = id, shard.NewSaleTotals(4)
		o.handover.all, o.assignment.desired = make([]share, 4), make([]string, 4)
		o.peers.holder = make([]string, 4)
		return o
	}
	for name, c := range map[string]struct {
		knows bool   // of the first pin
		epoch uint64 // that it knows
		wins  bool
	}{
		"it knows the pin":            {true, 0, true},
		"it knows of the takeover":    {false, 5, true},
		"it knows neither":            {false, 0, false}, // alike, and its id is lower
		"it knows the pin, and since": {true, 9, true},
	} {
		a, b := process("2"), process("1")
		both := func() []Process { return []Process{a.note(), b.note()} }
		a.roster.assign(both())
		a.updates.collection.totals.Set(2, 1, ledger.Totals{Epoch: 4}, time.Time{}, true)
		a.pin(at, 2, false)
		if a.assignment.desired[2] != "2" || len(a.pins) != 1 || a.pins[0].Number != 4<<10+1 {
			t.Fatalf("%s: the first: %v, shard 2 is to be of %q", name, a.pins, a.assignment.desired[2])
		}
		b.roster.assign([]Process{b.note(), {ID: "2"}})
		if c.knows {
			b.roster.assign(both())
		}
		b.updates.collection.totals.Set(2, 1, ledger.Totals{Epoch: max(c.epoch, 4)}, time.Time{}, true)
		b.pin(at, 2, false)
		all := both()
		a.roster.assign(all)
		b.roster.assign(slices.Clone(all))
		to, left := "1", [2]int{0, 1}
		if !c.wins {
			to, left = "2", [2]int{1, 0}
		}
		if a.assignment.desired[2] != to || b.assignment.desired[2] != to || len(a.pins) != left[0] || len(b.pins) != left[1] {
			t.Errorf("%s: shard 2 is to be of %q and %q, pins %v and %v", name, a.assignment.desired[2], b.assignment.desired[2], a.pins, b.pins)
		}
		// Any of them ends it.
		a.roster.assign(both())
		a.pin(at, 2, true)
		all = both()
		b.roster.assign(all)
		a.roster.assign(slices.Clone(all))
		free := assign("", 4, []Process{{ID: "1"}, {ID: "2"}})
		if len(b.pins) != 0 || b.assignment.desired[2] != free[2] || a.assignment.desired[2] != free[2] {
			t.Errorf("%s: ended: pins %v and %v, shard 2 is to be of %q", name, a.pins, b.pins, b.assignment.desired[2])
		}
	}
}
