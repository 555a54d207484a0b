package models

import "salectl/sim/models/explore"

func (t totalShard) total() total {
	return total{here: true, sold: t.sold, available: t.available, limit: t.limit, version: t.version, generation: t.generation}
}

// collect is the step of a process that collects totals to report sold_out. An answer may
// arrive at any time after its request, and is of some instant in between. Reading the log
// for an answer and receiving it are therefore one step.
func (w totalRules) collect(s totalState, do explore.Do[totalState]) {
	const owners, collector = 1, 4
	if w.fromMemory {
		for a, shard := range s.shards {
			if !s.deposed[a].here {
				t := s
				t.deposed[a] = shard.total()
				do(explore.Fault, t, "the owner of shard %d is deposed, and has not noticed it", a)
			}
		}
	}
	switch s.stage {
	case noCollect:
		t := s
		t.stage, t.gone = firstCollect, w.nothingLeft(s)
		if w.generationBefore {
			t.newest = s.planned
		}
		do(collector, t, "the first collect is requested")
		return
	case firstCollect:
		if s.first[0].here && s.first[1].here {
			t := s
			t.stage = secondCollect
			do(collector, t, "the first collect is complete, the second is requested")
		}
	case secondCollect:
		if s.newest == 0 {
			t := s
			t.newest = s.planned
			do(collector, t, "the newest generation is %d, by the sale's log", t.newest)
		}
		w.conclude(s, do)
	}
	for a, shard := range s.shards {
		by := explore.Actor(owners + a)
		answers := []total{shard.total()}
		if s.deposed[a].here {
			answers = append(answers, s.deposed[a])
		}
		for _, answer := range answers {
			t := s
			if !s.first[a].here {
				t.first[a], t.repeat[a] = answer, answer
				do(by, t, "first collect: shard %d has sold %d, at version %d", a, answer.sold, answer.version)
			}
			t = s
			if due := s.stage == secondCollect || w.overlapping && s.first[a].here; due && !s.second[a].here {
				t.second[a] = answer
				do(by, t, "second collect: shard %d has sold %d, at version %d", a, answer.sold, answer.version)
			}
		}
		if t := s; w.unnumbered && s.stage == secondCollect && !s.second[a].here {
			t.second[a] = s.repeat[a]
			do(explore.Fault, t, "shard %d's answer to the first collect arrives again, and is taken for one to the second", a)
		}
	}
}

// conclude compares both collects and reports sold_out, or starts again.
func (w totalRules) conclude(s totalState, do explore.Do[totalState]) {
	const collector = 4
	if s.newest == 0 || !w.once && !(s.second[0].here && s.second[1].here) {
		return
	}
	last := s.second
	if w.once {
		last = s.first
	}
	equal, newest := true, true
	var sold, before, available, limit uint8
	for a := range last {
		sold += last[a].sold
		before += s.first[a].sold
		available += last[a].available
		limit += last[a].limit
		equal = equal && last[a].version == s.first[a].version
		newest = newest && last[a].generation == s.newest
	}
	if w.bySums {
		equal = sold == before
	}
	enough := sold == limit
	switch {
	case w.available:
		enough = available == 0
	case w.declared:
		enough = sold == w.stock[s.newest-1]
	}
	t := s
	if equal && enough && (newest || w.anyGeneration) {
		t.reported = true
		do(collector, t, "the process reports sold_out")
		return
	}
	t.stage, t.newest, t.gone = noCollect, 0, false
	t.first, t.second, t.repeat = [2]total{}, [2]total{}, [2]total{}
	do(collector, t, "the process does not report sold_out")
}
