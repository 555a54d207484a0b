package shard

import (
	"slices"
	"testing"
	"time"

	"salectl/backends/clock"
	"salectl/backends/ledger"
)

// boardOf has shards of these available units, each with a limit of ten.
func boardOf(available ...int64) *SaleTotals {
	b := NewSaleTotals(len(available))
	for i, n := range available {
		b.Set(i, 1, ledger.Totals{Available: n, Limit: 10, Sold: 10 - n}, time.Time{}, true)
	}
	return b
}

func TestBoardSoldOut(t *testing.T) {
	b := NewSaleTotals(2)
	b.Set(0, 1, ledger.Totals{}, time.Time{}, true)
	if b.soldOut.Load() {
		t.Error("sold out by a shard that nobody knows")
	}
	b.Set(0, 1, ledger.Totals{Generation: 1, Limit: 3, Sold: 3}, time.Time{}, true)
	b.Generation(1)
	if b.soldOut.Load() {
		t.Error("sold out by one of two shards")
	}
	b.Set(1, 1, ledger.Totals{Generation: 1, Limit: 4, Sold: 3, Held: 1}, time.Time{}, true)
	if b.soldOut.Load() {
		t.Error("sold out while a unit is held")
	}
	b.Set(0, 1, ledger.Totals{Generation: 1, Limit: 2, Sold: 3}, time.Time{}, true) // it has sent one away that it had
	b.Set(1, 1, ledger.Totals{Generation: 1, Limit: 5, Sold: 4}, time.Time{}, true)
	if !b.soldOut.Load() {
		t.Error("not sold out")
	}
	b.Generation(2)
	if b.soldOut.Load() {
		t.Error("sold out while a generation is to come")
	}
	b.Set(0, 1, ledger.Totals{Generation: 2, Limit: 3, Sold: 3}, time.Time{}, true)
	if b.soldOut.Load() {
		t.Error("sold out while a shard has not taken the generation")
	}
	b.Set(1, 1, ledger.Totals{Generation: 2, Limit: 4, Sold: 4}, time.Time{}, true)
	if !b.soldOut.Load() {
		t.Error("not sold out")
	}
}

func TestBoardWithin(t *testing.T) {
	b := NewSaleTotals(3)
	b.Set(0, 1, ledger.Totals{Available: 3}, time.Time{}, true)
	b.Set(2, 1, ledger.Totals{Available: 1, InFlight: 2}, time.Time{}, true)
	for n, want := range map[int64]bool{5: true, 6: true, 7: false} {
		if got := b.forSale(-1) >= n; got != want {
			t.Errorf("%d units: %v", n, got)
		}
	}
}

func TestBoardAsk(t *testing.T) {
	ask := func(b *SaleTotals, to int, units int64, skip ...int) (got [][2]int64) {
		for _, r := range b.planRequests(to, units, func(shard int) bool { return slices.Contains(skip, shard) }) {
			got = append(got, [2]int64{int64(r.shard), r.units})
		}
		return got
	}
	want := func(t *testing.T, got [][2]int64, want ...[2]int64) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("asks %v, want %v", got, want)
		}
	}
	t.Run("those with the most, and no more of them than needed", func(t *testing.T) {
		b := boardOf(0, 3, 5, 4, 0)
		want(t, ask(b, 0, 7), [2]int64{2, 5}, [2]int64{3, 2})
	})
	t.Run("the lower of equals", func(t *testing.T) { want(t, ask(boardOf(0, 3, 3), 0, 2), [2]int64{1, 2}) })
	t.Run("all there is", func(t *testing.T) { want(t, ask(boardOf(0, 3, 5), 0, 100), [2]int64{2, 5}, [2]int64{1, 3}) })
	t.Run("not itself, none that is empty, skipped or not known", func(t *testing.T) {
		b := NewSaleTotals(5)
		for i, n := range []int64{9, 0, 2, 3} {
			b.Set(i, 1, ledger.Totals{Available: n}, time.Time{}, true)
		}
		want(t, ask(b, 0, 4, 3), [2]int64{2, 2})
		want(t, ask(b, 0, 0))
	})
	t.Run("what others have asked for is gone, until they are answered", func(t *testing.T) {
		b := boardOf(0, 0, 5, 4)
		first := b.planRequests(0, 3, func(int) bool { return false })
		want(t, ask(b, 1, 4), [2]int64{3, 4})
		want(t, ask(b, 1, 9), [2]int64{2, 2})
		for _, r := range first {
			b.requestEnded(r)
		}
		want(t, ask(b, 1, 9), [2]int64{2, 3})
	})
	t.Run("who is short comes last, and gives to lower numbers only", func(t *testing.T) {
		b := boardOf(3, 0, 9, 2, 5)
		b.update(0, func(s *shardEntry) { s.short = true })
		b.update(2, func(s *shardEntry) { s.short = true })
		b.update(4, func(s *shardEntry) { s.short = true })
		want(t, ask(b, 1, 100), [2]int64{3, 2}, [2]int64{2, 9}, [2]int64{4, 5})
		b = boardOf(0, 2, 9)
		b.update(2, func(s *shardEntry) { s.short = true })
		want(t, ask(b, 0, 100), [2]int64{1, 2}, [2]int64{2, 9})
		b = boardOf(3, 0, 9)
		b.update(0, func(s *shardEntry) { s.short = true })
		b.update(0, func(s *shardEntry) { s.short = false })
		want(t, ask(b, 1, 100), [2]int64{2, 9}, [2]int64{0, 3})
	})
}

// Peers hear soon what changes whom they would ask for units, or whether all is sold, and
// are not told of each commit.
func TestBoardNews(t *testing.T) {
	told := ledger.Totals{Generation: 1, Epoch: 2, Limit: 1000, Available: 600, Sold: 400}
	with := func(change func(*ledger.Totals)) ledger.Totals {
		t := told
		change(&t)
		return t
	}
	for name, c := range map[string]struct {
		from, to    ledger.Totals
		batchResult bool
	}{
		"the first":                    {ledger.Totals{}, told, true},
		"nothing":                      {told, told, false},
		"some are sold":                {told, with(func(t *ledger.Totals) { t.Available, t.Sold = 300, 700 }), false},
		"more than half are sold":      {told, with(func(t *ledger.Totals) { t.Available, t.Sold = 299, 701 }), true},
		"all are sold":                 {told, with(func(t *ledger.Totals) { t.Available, t.Sold = 0, 1000 }), true},
		"some come":                    {told, with(func(t *ledger.Totals) { t.Available = 1201 }), false},
		"more than twice as many come": {told, with(func(t *ledger.Totals) { t.Available = 1202 }), true},
		"one is given away":            {told, with(func(t *ledger.Totals) { t.Available, t.InFlight = 599, 1 }), true},
		"another owner":                {told, with(func(t *ledger.Totals) { t.Epoch++ }), true},
		"another generation":           {told, with(func(t *ledger.Totals) { t.Generation++ }), true},
		"another limit":                {told, with(func(t *ledger.Totals) { t.Limit++ }), true},
		"one of few is sold":           {with(func(t *ledger.Totals) { t.Available = 3 }), with(func(t *ledger.Totals) { t.Available = 2 }), true},
		"one of none comes back":       {with(func(t *ledger.Totals) { t.Available = 0 }), with(func(t *ledger.Totals) { t.Available = 1 }), true},
		"one that is held is paid": {
			with(func(t *ledger.Totals) { t.Available, t.Held = 0, 1 }), with(func(t *ledger.Totals) { t.Available, t.Sold = 0, 401 }), true,
		},
	} {
		b, notices := NewSaleTotals(2), 0
		b.Set(0, 1, c.from, time.Time{}, true)
		b.Reported()
		if b.Changed() {
			t.Errorf("%s: there is news of what was just told", name)
		}
		b.Notify = func() { notices++ }
		now := clock.Now{Mono: time.Hour}
		for slot := range uint64(2) { // of what is news already nobody has to be told
			b.Set(0, 2+slot, c.to, time.Time{}, true)
		}
		if b.Changed() != c.batchResult || (notices == 1) != c.batchResult || (b.Due(now) == now.Mono) != c.batchResult {
			t.Errorf("%s: news %v, %d notices, due at %v, want %v", name, b.Changed(), notices, b.Due(now), c.batchResult)
		}
	}
}

// Where all is sold by what peers have reported, they are asked at once, and again while
// somebody wants to know.
func TestBoardDue(t *testing.T) {
	b, notices := NewSaleTotals(2), 0
	b.Notify = func() { notices++ }
	now := clock.Now{Mono: time.Hour, Wall: time.Unix(1_800_000_000, 0)}
	want := func(what string, due time.Duration, notified int) {
		t.Helper()
		if got := b.Due(now); got != due || notices != notified {
			t.Errorf("%s: due at %v after %d notices, want %v after %d", what, got, notices, due, notified)
		}
		notices = 0
	}
	sold := ledger.Totals{Limit: 5, Sold: 5}
	b.Set(0, 1, sold, time.Time{}, true)
	b.Reported()
	notices = 0
	want("one shard is not known", 0, 0)
	b.Receive(Report{Shard: 1, Next: 7, Totals: sold})
	want("all is sold", now.Mono, 1)
	slots, _ := b.NeedsProof(now)
	b.SetProof(slots, now)
	want("all is sold for sure", 0, 0)
	for range 2 {
		b.AllSold(now)
	}
	want("somebody wants to know", now.Mono+proveEvery, 1)
	now.Mono, now.Wall = now.Mono+proveEvery, now.Wall.Add(proveEvery)
	want("it is time to look again", now.Mono, 0)
	look := func(what string) {
		t.Helper()
		slots, unsure := b.NeedsProof(now)
		if !unsure {
			t.Errorf("%s: it is time to look again, and it is not unsure", what)
		}
		b.SetProof(slots, now)
	}
	look("somebody has asked")
	now.Mono, now.Wall = now.Mono+time.Second, now.Wall.Add(time.Second) // of NoneNow's RetryAfter
	look("who has asked may come again")
	if !b.AllSold(now) {
		t.Error("who comes again does not hear that all is sold")
	}
	notices = 0
	now.Mono, now.Wall = now.Mono+queriedFor, now.Wall.Add(queriedFor)
	want("nobody has asked for long", 0, 0)
}

// What is known of a shard of another process is what its owner has reported last.
func TestReceivedReport(t *testing.T) {
	rate := 2.5
	totals := ledger.Totals{Epoch: 2, Generation: 3, Limit: 40, Available: 5, Held: 6, Sold: 7, InFlight: 8, Entries: 9, Outcomes: ledger.Outcomes{OpenHolds: 10}}
	want := Report{Shard: 1, Next: 12, Totals: totals, Release: time.Unix(1, 0), Load: Load{&rate, 3, "ledger"}}
	b := NewSaleTotals(2)
	b.Receive(Report{Shard: 1, Next: 11, Totals: ledger.Totals{Sold: 1}})
	b.Receive(want)
	b.Receive(Report{Shard: 1, Next: 12, Totals: ledger.Totals{Sold: 1}, Load: want.Load})
	if got := b.Shards(); got[1] != want || got[0] != (Report{}) {
		t.Errorf("%+v, want %+v", got, want)
	}
}
