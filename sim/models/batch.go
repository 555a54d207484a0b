package models

import "salectl/sim/models/explore"

// What has queued goes into one commit, and a store takes entries up to some size only.

const (
	batchCrowd = 6
	batchMost  = 2 // ops that the store takes in an entry
)

const tooLarge = "the store will never take the commit"

type batchState struct {
	requested, queued, sent, done uint8 // requests
	refused                       bool  // for good: the entry is too large
}

type batchRules struct {
	unbounded bool // all that has queued goes into one commit
}

func (w batchRules) next(s batchState, do explore.Do[batchState]) {
	const buyers, owner, store = 1, 2, 3
	if s.requested < batchCrowd {
		t := s
		t.requested++
		t.queued++
		do(buyers, t, "a request comes, %d are queued", t.queued)
	}
	if s.sent == 0 && s.queued > 0 {
		t := s
		t.sent = s.queued
		if !w.unbounded {
			t.sent = min(s.queued, batchMost)
		}
		t.queued -= t.sent
		do(owner, t, "the owner appends %d claims", t.sent)
	}
	if s.sent > 0 && !s.refused {
		t := s
		if s.sent > batchMost {
			t.refused = true
			do(store, t, "the store refuses an entry of %d claims: it is too large", s.sent)
			return
		}
		t.done += s.sent
		t.sent = 0
		do(store, t, "the store takes %d claims", s.sent)
	}
}

func (w batchRules) model() explore.Model[batchState] {
	return explore.Model[batchState]{Next: w.next,
		Wrong: func(s batchState) string {
			if s.refused {
				return tooLarge
			}
			return ""
		},
		Goal: func(s batchState) bool { return s.done == batchCrowd }, Fair: true}
}

func batchModel() Model {
	return Model{
		Name:  "batch",
		About: "a queue, its commits, and a store with a maximum size of entries",
		Rules: []Rule{{Name: "commits-bounded", Marked: true,
			Text:    "A commit has at most 1 MB, however much has queued; the rest is for the next.",
			Without: "The queue becomes one entry that the store never takes, and the shard stands still."}},
		Cases: []Case{
			{Name: "a crowd", Run: bound(batchRules{}.model())},
			{Name: "all that has queued goes into one commit", Off: "commits-bounded", Finds: tooLarge, Run: bound(batchRules{unbounded: true}.model())},
		},
	}
}
