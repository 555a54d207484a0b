package models

import "salectl/sim/models/explore"

// When may one of several processes of a sale report sold_out? It collects totals: it
// queries the owner of each shard for the totals of its log and the number of slots of the log,
// which is the version of the total. Answers take a while. Units are sold, refunded and
// moved meanwhile, a new generation changes the stock, and an owner may have been
// deposed without knowing it.

// total is the content of one answer.
type total struct {
	here            bool // there is an answer
	sold, available uint8
	limit           uint8 // units added less units removed, wherever they are now
	version         uint8
	generation      uint8
}

type totalShard struct {
	available, sold uint8
	limit           uint8
	out, acked, in  uint8 // transfers to the other shard, and from it
	sent            uint8 // the units of the last Out
	version         uint8
	generation      uint8
}

type totalState struct {
	shards  [2]totalShard
	planned uint8 // the newest generation in the sale's own log
	appends uint8

	stage    collectStage
	first    [2]total
	second   [2]total
	repeat   [2]total // an answer to the first collect that arrives once more
	newest   uint8    // the newest generation, as the process has read it for this collect
	deposed  [2]total // the answer of an owner that has not noticed its deposition
	gone     bool     // since the first collect began there was an instant with nothing left
	reported bool
}

type collectStage uint8

const (
	noCollect collectStage = iota
	firstCollect
	secondCollect
)

// totalRules is what can be left out, and what happens.
type totalRules struct {
	once             bool // one collect is enough
	overlapping      bool // the second is requested with the first
	bySums           bool // the collects must have equal sums, not equal versions
	unnumbered       bool // an answer is not bound to the collect that requested it
	fromMemory       bool // a deposed owner that has not noticed it answers, too
	available        bool // what counts is that nothing is available, not that all is sold
	declared         bool // the sum is held against the declared stock, not against the limits
	anyGeneration    bool // totals need not be at the newest generation
	generationBefore bool // the newest generation is read before the collect

	refunds, moves bool
	stock          [2]uint8 // of the first generation, and of the second; 0: there is none
	appends        uint8
}

func (w totalRules) next(s totalState, do explore.Do[totalState]) {
	if s.reported {
		return
	}
	w.sell(s, func(by explore.Actor, t totalState, format string, args ...any) {
		t.gone = t.gone || w.nothingLeft(t)
		do(by, t, format, args...)
	})
	w.collect(s, do)
}

// nothingLeft reports whether everything is sold, of all that the newest generation has.
func (w totalRules) nothingLeft(s totalState) bool {
	left := uint8(0)
	for a, shard := range s.shards {
		left += shard.available
		if shard.out > s.shards[1-a].in {
			left += shard.sent
		}
		if shard.generation < s.planned {
			return false
		}
	}
	return left == 0
}

// sell is what happens to the units.
func (w totalRules) sell(s totalState, do explore.Do[totalState]) {
	const owners, planner = 1, 3
	if s.planned == 1 && w.stock[1] > 0 {
		t := s
		t.planned = 2
		do(planner, t, "a generation is planned that has a stock of %d", w.stock[1])
	}
	for a, shard := range s.shards {
		if s.appends == w.appends {
			return
		}
		by := explore.Actor(owners + a)
		appended := s
		appended.appends++
		mine := &appended.shards[a]
		mine.version++
		t := appended
		if shard.available > 0 {
			t.shards[a].available--
			t.shards[a].sold++
			do(by, t, "shard %d sells a unit", a)
		}
		if t = appended; shard.sold > 0 && w.refunds {
			t.shards[a].sold--
			t.shards[a].available++
			do(by, t, "shard %d: a unit is refunded", a)
		}
		other := s.shards[1-a]
		t = appended
		switch {
		case shard.out == shard.acked && shard.available > 0 && w.moves:
			t.shards[a].available--
			t.shards[a].sent = 1
			t.shards[a].out++
			do(by, t, "Out of a unit from shard %d", a)
		case shard.out > shard.acked && other.in == shard.out:
			t.shards[a].acked, t.shards[a].sent = shard.out, 0
			do(by, t, "Ack in shard %d", a)
		}
		if t = appended; other.out > shard.in {
			t.shards[a].in = other.out
			t.shards[a].available += other.sent
			do(by, t, "In of a unit in shard %d", a)
		}
		if t = appended; shard.generation < s.planned {
			t.shards[a].generation++
			if a == 1 { // the target of new units, or the source of removed ones
				t.shards[a].available = max(shard.available+w.stock[1], w.stock[0]) - w.stock[0]
				t.shards[a].limit += t.shards[a].available - shard.available
			}
			do(by, t, "shard %d takes generation 2", a)
		}
	}
}

func (w totalRules) model() explore.Model[totalState] {
	s := totalState{planned: 1}
	s.shards[0] = totalShard{sold: 1, limit: 1, generation: 1}
	s.shards[1] = totalShard{available: w.stock[0] - 1, limit: w.stock[0] - 1, generation: 1}
	return explore.Model[totalState]{Init: s, Next: w.next, Wrong: func(s totalState) string {
		if s.reported && !s.gone {
			return tooEarly
		}
		return ""
	}}
}

const tooEarly = "sold_out is reported, and at each instant meanwhile there was something left"

func totalsModel() Model {
	busy := totalRules{refunds: true, moves: true, stock: [2]uint8{2}, appends: 7}
	refunds := totalRules{refunds: true, stock: [2]uint8{2}, appends: 7}
	with := func(w totalRules, change func(*totalRules)) func() explore.Result {
		change(&w)
		return bound(w.model())
	}
	none := func(*totalRules) {}
	return Model{
		Name:  "totals",
		About: "two owned shards, and a process that collects totals for sold_out; refunds, transfers, another stock, deposed owners",
		Rules: []Rule{
			{Name: "sum-of-sold", Marked: true,
				Text:    "`sold_out` is answered only when the sum of all shards' sold equals the sum of their limits, all at the newest generation.",
				Without: "Units in transfer, or of the next generation, are forgotten."},
			{Name: "limits-not-stock",
				Text:    "The sum is compared with the shards' own limits, not with the declared stock.",
				Without: "A lower stock may remove less than declared: the declared stock is sold, and a refunded unit is left."},
			{Name: "two-collects",
				Text:    "`sold_out` needs two consecutive collects of all totals with the same version of each shard.",
				Without: "One shard's unit is refunded after its total and before the other sells its last: there was always one left. Equal sums do not help."},
			{Name: "collects-in-turn",
				Text:    "The second collect begins when the first is complete.",
				Without: "A shard's answers both precede the other's: at no instant did all versions hold."},
			{Name: "answers-numbered",
				Text:    "An answer names its collect and counts for no other.",
				Without: "A duplicate of the first answer counts for the second collect, with the same version."},
			{Name: "totals-from-the-log",
				Text:    "A total is the log's at the request or later: the owner has read the head since.",
				Without: "A deposed owner answers both collects from memory while its successor refunds."},
			{Name: "generation-read-between",
				Text:    "The newest generation is read from the sale's log after the first collect.",
				Without: "A generation with more units precedes the last sale, and the process compares the old stock."},
		},
		Cases: []Case{
			{Name: "refunds and transfers", Run: with(busy, none)},
			{Name: "refunds and transfers, more of them", Large: true, Run: with(busy, func(w *totalRules) { w.appends = 10 })},
			{Name: "nothing is refunded: one collect will do, also from memory",
				Run: with(busy, func(w *totalRules) { w.refunds, w.once, w.fromMemory = false, true, true })},
			{Name: "more stock", Run: with(refunds, func(w *totalRules) { w.stock[1] = 3 })},
			{Name: "less stock", Run: with(refunds, func(w *totalRules) { w.stock = [2]uint8{3, 2} })},
			{Name: "nothing is available", Off: "sum-of-sold", Finds: tooEarly, Run: with(busy, func(w *totalRules) { w.available = true })},
			{Name: "totals of any generation", Off: "sum-of-sold", Finds: tooEarly,
				Run: with(refunds, func(w *totalRules) { w.anyGeneration = true; w.stock[1] = 3 })},
			{Name: "the declared stock", Off: "limits-not-stock", Finds: tooEarly,
				Run: with(refunds, func(w *totalRules) { w.declared = true; w.stock = [2]uint8{3, 2} })},
			{Name: "one collect", Off: "two-collects", Finds: tooEarly, Run: with(refunds, func(w *totalRules) { w.once = true })},
			{Name: "equal sums", Off: "two-collects", Finds: tooEarly, Run: with(refunds, func(w *totalRules) { w.bySums = true; w.appends = 9 })},
			{Name: "both collects at once", Off: "collects-in-turn", Finds: tooEarly, Run: with(refunds, func(w *totalRules) { w.overlapping = true })},
			{Name: "answers without a number", Off: "answers-numbered", Finds: tooEarly, Run: with(refunds, func(w *totalRules) { w.unnumbered = true })},
			{Name: "an owner answers from memory", Off: "totals-from-the-log", Finds: tooEarly, Run: with(refunds, func(w *totalRules) { w.fromMemory = true })},
			{Name: "the generation known before", Off: "generation-read-between", Finds: tooEarly,
				Run: with(refunds, func(w *totalRules) { w.generationBefore = true; w.stock[1] = 3 })},
		},
	}
}
