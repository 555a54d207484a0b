package models

import (
	"fmt"

	"salectl/sim/models/explore"
)

// The append protocol of one log, and the destruction of the row that the log is in.
// Two processes own the log in turn and answer claims. A third one is the planner,
// which closes the sale or destroys it. Calls arrive late, twice or never, their
// replies are lost, and reads may lag behind.

const (
	logSlots = 6
	logCalls = 3 // appends that may be under way at a time
	planner  = 2
)

// What a slot of the log can have. Commits of owners name their writer, so that a
// process recognizes its own.
const (
	created = 1
	closed  = 2
	sealed  = 3
	owns    = 10 // + 4 times the process + its life
	claims  = 32 // + 16 times the process + 4 times its life + the request
)

func isOwn(entry uint8) bool        { return entry >= owns && entry < claims }
func isClaim(entry uint8) bool      { return entry >= claims }
func requestOf(entry uint8) int     { return int((entry - claims) & 3) }
func ownBy(p int, life uint8) uint8 { return owns + uint8(p)*4 + life }

// entryName is what a trace calls an entry.
func entryName(entry uint8) string {
	switch {
	case entry == created:
		return "Generation"
	case entry == closed:
		return "Closed"
	case entry == sealed:
		return "Sealed"
	case isOwn(entry):
		return fmt.Sprintf("Own of process %d", (entry-owns)/4)
	}
	return fmt.Sprintf("Claim of request %d by process %d", requestOf(entry), (entry-claims)/16)
}

// logCall is an append that the store has not answered yet, or will apply again.
type logCall struct {
	slot, entry uint8
	after       uint8 // the entry in the slot before, as its sender saw it: the head that is compared
	times       uint8 // how often it may still be applied
}

// outcome is the outcome of an append, as its writer has observed it.
type outcome uint8

const (
	idle    outcome = iota
	waiting         // for the store's reply
	unclear         // no reply, or one that is no success
)

type logWriter struct {
	life    uint8 // counts restarts
	read    uint8 // slots that it has read
	outcome outcome
	sent    uint8 // the entry that it appended
	slot    uint8
	again   uint8 // a request that it decides once more, though it may be in the log; 0: none, else + 1
	owner   bool
}

type logState struct {
	log      [logSlots]uint8
	length   uint8
	calls    [logCalls]logCall
	writer   [3]logWriter
	answered [2]uint8 // the unit in the answer to the buyer of a request, + 1
	phantom  bool     // a buyer received a claim that no log has
	deleted  bool
	revived  [logSlots]uint8 // what was put into the row after it was deleted
	sessions uint8           // how often Own was sent
	destroys destroyState
}

// logRules is what can be left out, and how large the world is.
type logRules struct {
	falseIsSuccess  bool // a reply of "the head was another" is taken for one's own success
	falseIsFailure  bool // or for a slot that is taken, and the claim is decided again, by no key
	answersAhead    bool // the owner folds its commit when it sends it
	slotAbsent      bool // an append only checks that its slot is empty
	emptyIsLog      bool // a row that is gone is a log without entries
	deletesFirst    bool // destroy deletes before the sale's log has Sealed
	rowsStay        bool // a row that outlives its sale is no matter here
	closes          bool // the planner closes the sale
	destroys        bool // or destroys it
	owners          int  // 2 unless it is 1
	units, requests uint8
	restarts        uint8 // of each owner
	sessions        uint8
}

// folded is the content of a prefix of the log.
type folded struct {
	has    [2]uint8 // the unit of each request, + 1
	sold   uint8
	owner  uint8
	closed bool
	sealed bool
	late   bool // there is a claim behind Closed
	twice  bool // a request has two units, or there are more claims than units
}

func (s *logState) fold(slots uint8, units uint8) (f folded) {
	for _, entry := range s.log[:slots] {
		switch {
		case entry == closed:
			f.closed = true
		case entry == sealed:
			f.closed, f.sealed = true, true
		case isOwn(entry):
			f.owner = entry
		case isClaim(entry):
			r := requestOf(entry)
			f.late = f.late || f.closed
			f.twice = f.twice || f.has[r] != 0 || f.sold >= units
			f.sold++
			f.has[r] = f.sold
		}
	}
	return f
}

func (w logRules) model() explore.Model[logState] {
	var s logState
	s.log[0], s.length = created, 1
	if w.owners == 0 {
		w.owners = 2
	}
	return explore.Model[logState]{Init: s, Next: w.next, Wrong: w.wrong, Goal: w.goal}
}

func (w logRules) wrong(s logState) string {
	f := s.fold(s.length, w.units)
	switch {
	case s.phantom:
		return "a buyer received a claim that no log has"
	case f.twice:
		return "a request has two units"
	case f.late:
		return "a claim stands behind the close"
	}
	for r, unit := range s.answered {
		if unit != 0 && f.has[r] != unit {
			return "a buyer received a claim that no log has"
		}
	}
	return w.destroyWrong(s)
}

// goal is what must stay within reach: that all requests are answered, the sale is
// closed, or destroyed. A log that is full, or an owner that has no session left, ends
// what the model is about.
func (w logRules) goal(s logState) bool {
	f := s.fold(s.length, w.units)
	switch {
	case s.length == logSlots:
		return true
	case w.destroys:
		return s.destroys.done
	case w.closes && f.closed:
		return true
	}
	for r := range w.requests {
		if s.answered[r] == 0 && f.sold < w.units {
			return s.sessions >= w.sessions
		}
	}
	return true
}

func appendModel() Model {
	const lost = "a buyer received a claim that no log has"
	return Model{
		Name:  "append",
		About: "the log of one shard, two owners in turn and a planner; late and repeated calls, lost replies, lagging reads, restarts",
		Rules: []Rule{
			{Name: "head-compared", Marked: true,
				Text:    "`Append` stores an entry in slot k and replaces the head *if the head still has the bytes that came with slot k−1*.",
				Without: "An append that only checks for an empty slot succeeds in a row deleted meanwhile: the claim is in no log, and the row outlives its sale."},
			{Name: "unknown", Marked: true,
				Text:    "Every result except success is **unknown**: a store's client retries inside, so \"the head was another\" can be the reply to one's own write.",
				Without: "The reply to one's own repeated write is taken for a failure: the claim is decided again, and the request has two units."},
			{Name: "own-bytes", Marked: true,
				Text:    "The slot decides: own bytes there, committed; other bytes, taken; nothing, send the same bytes again.",
				Without: "A reply is taken for one's own success while the slot has another owner's `Own`: the claim is in no log."},
			{Name: "fold", Marked: true,
				Text:    "State is a fold of the log by a pure reducer and never anything else (`ledger.State`, `ledger.Sale`).",
				Without: "An owner that folds a commit when it sends it answers a repeated request from a commit that never lands."},
		},
		Cases: []Case{
			{Name: "two owners, one request", Run: bound(logRules{units: 1, requests: 1, sessions: 2}.model())},
			{Name: "two owners, two requests for one unit", Run: bound(logRules{units: 1, requests: 2, sessions: 2}.model())},
			{Name: "two owners that restart", Run: bound(logRules{units: 1, requests: 1, restarts: 1, sessions: 2}.model())},
			{Name: "a planner that closes", Large: true, Run: bound(logRules{closes: true, units: 1, requests: 1, sessions: 2}.model())},
			{Name: "a slot that is empty is enough", Off: "head-compared", Finds: lost,
				Run: bound(logRules{slotAbsent: true, rowsStay: true, destroys: true, units: 2, requests: 1, sessions: 1}.model())},
			{Name: "no success is a failure", Off: "unknown", Finds: "a request has two units",
				Run: bound(logRules{falseIsFailure: true, units: 2, requests: 1, sessions: 1}.model())},
			{Name: "no success is one's own earlier success", Off: "own-bytes", Finds: lost,
				Run: bound(logRules{falseIsSuccess: true, units: 2, requests: 2, sessions: 2}.model())},
			{Name: "a commit is folded when it is sent", Off: "fold", Finds: lost,
				Run: bound(logRules{answersAhead: true, units: 1, requests: 1, sessions: 2}.model())},
		},
	}
}
