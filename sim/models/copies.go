package models

import "salectl/sim/models/explore"

// What becomes of the copies of one request. Process A forwards it to the owner by a
// stream. When the stream breaks, A cannot determine whether the owner has the request, and
// sends it again by another one. When its time is over A answers 503, and the client
// repeats the request by process C. All the while nothing is left, until a cancel frees a unit.
// Only what is accepted is remembered, by its key: a claim that was denied and comes
// once more is a new one.

// The ways by which a copy comes to the owner.
const (
	firstStream = iota
	secondStream
	otherProcess
	copyWays
)

type copyStage uint8

const (
	copyNone copyStage = iota
	copySent
	copyQueued
	copyDone
)

type copyState struct {
	copies  [copyWays]copyStage
	answers [copyWays]verdict // on their way back
	stream  uint8             // the one that A listens to
	newest  uint8             // of A's streams, as the owner has seen
	late    bool              // the deadline of A's copies has passed
	gaveUp  bool              // A answered 503
	dead    bool              // A died

	free, freed bool
	accepted    bool
	answer      verdict // to the client
}

// copyRules is what can be left out, and what happens.
type copyRules struct {
	oldStreams bool // the owner takes requests of a stream that has a successor
	oldAnswers bool // A takes answers of a stream that it has given up
	noDeadline bool // the owner decides on requests whose deadline has passed
	earlyGone  bool // A answers 503 when it likes
	earlyAgain bool // the client of a process that dies uses another one at once

	breaks, dies bool
}

func (w copyRules) next(s copyState, do explore.Do[copyState]) {
	const owner, sender, network, time, client = 1, 2, 3, 4, 5
	if w.breaks && s.stream == firstStream && !s.dead && s.answer == nothing {
		t := s
		t.stream = secondStream
		t.copies[secondStream] = copySent
		do(explore.Fault, t, "A takes its stream for broken, and sends the request again by a new one")
	}
	if w.dies && !s.dead {
		t := s
		t.dead = true
		do(explore.Fault, t, "A dies")
	}
	if !s.freed {
		t := s
		t.free, t.freed = true, true
		do(explore.Fault, t, "a cancel frees a unit")
	}
	if !s.late {
		t := s
		t.late = true
		do(time, t, "the deadline of what A has sent passes")
	}
	if !s.dead && s.answer == nothing && !s.gaveUp && (s.late || w.earlyGone) {
		t := s
		t.gaveUp = true
		do(sender, t, "A answers 503")
	}
	again := s.gaveUp || s.dead && (s.late || w.earlyAgain)
	if again && s.answer == nothing && s.copies[otherProcess] == copyNone {
		t := s
		t.copies[otherProcess] = copySent
		do(client, t, "the client repeats the request, by C")
	}
	for way, stage := range s.copies {
		if stage == copySent {
			w.receive(s, way, owner, do)
		}
	}
	w.decide(s, owner, do)
	for way, answer := range s.answers {
		if answer == nothing {
			continue
		}
		t := s
		t.answers[way] = nothing
		void := way == firstStream && s.stream != firstStream && !w.oldAnswers || way != otherProcess && (s.gaveUp || s.dead)
		if void || s.answer != nothing {
			do(network, t, "the answer %s reaches nobody who waits", wayName(way))
			continue
		}
		t.answer = answer
		do(network, t, "the client receives %s", map[verdict]string{sold: "the unit", denied: "a denial"}[answer])
	}
}

func wayName(way int) string {
	return [copyWays]string{"by the first stream", "by the second stream", "by C"}[way]
}

// receive is how the owner takes a copy in, or not.
func (w copyRules) receive(s copyState, way int, by explore.Actor, do explore.Do[copyState]) {
	t := s
	t.copies[way] = copyQueued
	switch {
	case way == firstStream && s.newest == secondStream && !w.oldStreams:
		t.copies[way] = copyDone
		do(by, t, "the owner drops what comes by the first stream")
		return
	case way == secondStream:
		t.newest = secondStream
		if s.copies[firstStream] == copyQueued && !w.oldStreams {
			t.copies[firstStream] = copyDone
		}
	}
	do(by, t, "the owner queues the request that comes %s", wayName(way))
}

// decide is how the owner decides on all that is queued, as on one request.
func (w copyRules) decide(s copyState, by explore.Actor, do explore.Do[copyState]) {
	t := s
	queued := false
	for way, stage := range s.copies {
		if stage != copyQueued {
			continue
		}
		t.copies[way] = copyDone
		queued = queued || way == otherProcess || !s.late || w.noDeadline
	}
	switch {
	case t == s:
		return
	case !queued:
		do(by, t, "the owner drops a request whose deadline has passed")
		return
	case s.free && !s.accepted:
		t.free, t.accepted = false, true
	}
	answer := denied
	if t.accepted {
		answer = sold
	}
	for way, stage := range s.copies {
		if stage == copyQueued {
			t.answers[way] = answer
		}
	}
	do(by, t, "the owner %s the request", map[verdict]string{sold: "grants", denied: "denies"}[answer])
}

func (w copyRules) model() explore.Model[copyState] {
	s := copyState{}
	s.copies[firstStream] = copySent
	return explore.Model[copyState]{Init: s, Next: w.next, Fair: true,
		Wrong: func(s copyState) string {
			if s.answer == denied && s.accepted {
				return handDenied
			}
			return ""
		},
		Goal: func(s copyState) bool { return s.answer != nothing }}
}

func copiesModel() Model {
	return Model{
		Name:  "copies",
		About: "one request, forwarded, resent, and repeated at another process, while a cancel frees a unit",
		Rules: []Rule{
			{Name: "new-stream-ends-old",
				Text:    "The first message of a process's new stream ends its earlier ones at the owner: their undecided requests are dropped.",
				Without: "A request is resent by a new stream and denied. A unit is freed, and the first copy is granted."},
			{Name: "old-answers-void",
				Text:    "An answer counts only on the stream by which the request was sent last.",
				Without: "A late denial arrives on the old stream while the new copy is granted."},
			{Name: "deadline-kept",
				Text:    "A request has a deadline, after which the owner does not decide it.",
				Without: "A copy outlives its sender's 503. The client is denied elsewhere; a unit is freed, and the copy is granted."},
			{Name: "copies-die-first",
				Text:    "A sender waits for the deadline before it repeats a request elsewhere or answers 503; so should a client whose process dies.",
				Without: "Two copies live by separate ways: one is denied, the other granted when a unit is freed."},
		},
		Cases: []Case{
			{Name: "a stream that breaks", Run: bound(copyRules{breaks: true}.model())},
			{Name: "a stream that breaks, a process that dies", Run: bound(copyRules{breaks: true, dies: true}.model())},
			{Name: "requests of an old stream are taken", Off: "new-stream-ends-old", Finds: handDenied, Run: bound(copyRules{oldStreams: true, breaks: true}.model())},
			{Name: "answers of an old stream are taken", Off: "old-answers-void", Finds: handDenied, Run: bound(copyRules{oldAnswers: true, breaks: true}.model())},
			{Name: "requests are decided behind their deadline", Off: "deadline-kept", Finds: handDenied, Run: bound(copyRules{noDeadline: true}.model())},
			{Name: "503 before the deadline", Off: "copies-die-first", Finds: handDenied, Run: bound(copyRules{earlyGone: true}.model())},
			{Name: "a client whose process dies uses another one at once", Off: "copies-die-first", Finds: handDenied, Run: bound(copyRules{earlyAgain: true, dies: true}.model())},
		},
	}
}
