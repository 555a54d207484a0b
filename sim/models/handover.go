package models

import (
	"fmt"

	"salectl/sim/models/explore"
)

// The hand-over of one shard from the process that owns it to another one. The log
// decides. The lease, one key here, only names the process that should own the shard. A
// process may believe that it has the lease when it has it no more. Requests wait in a
// process for their one answer. A process that does not own the shard forwards them.

const (
	handProcesses = 3
	handRequests  = 2
	handSlots     = 7
	handWrites    = 3
)

// handEntry is what a slot has: nobody's Own as 0, the Own of process p as 1 + p, or a
// commit of process p, as commits + 8p and a bit for each op in it.
type handEntry uint8

const (
	commits  handEntry = 16
	freesOp  handEntry = 1 << handRequests // a cancel of somebody else's claim
	opsOf    handEntry = 7
	byWidth  handEntry = 8
	noWriter           = 255
)

func ownEntry(p int) handEntry                   { return 1 + handEntry(p) }
func commitEntry(p int, ops handEntry) handEntry { return commits + byWidth*handEntry(p) + ops }

// owner returns whose Own the entry is.
func (e handEntry) owner() (p int, ok bool) { return int(e) - 1, e > 0 && e < commits }

func (e handEntry) has(r int) bool { return e >= commits && (e&opsOf)>>r&1 == 1 }
func (e handEntry) frees() bool    { return e >= commits && e&freesOp != 0 }

func (e handEntry) String() string {
	if p, ok := e.owner(); ok {
		return "Own of " + processName(p)
	}
	switch e & opsOf {
	case freesOp:
		return "a cancel"
	case 3:
		return "claims of requests 0 and 1"
	}
	return fmt.Sprintf("a claim of request %d", (e&opsOf)>>1)
}

func processName(p int) string { return string(rune('A' + p)) }

// handRole is what a process is to the shard.
type handRole uint8

const (
	follows handRole = iota
	decides
	parts // it has stopped deciding, and is about to release the lease
)

type handProcess struct {
	dead    bool
	role    handRole
	lease   uint8 // the term of the lease that it believes to have; 0: none
	read    uint8 // slots
	next    uint8 // the process that it passed the lease to, + 1
	sent    handEntry
	slot    uint8
	outcome outcome
}

// handStage is where a request is.
type handStage uint8

const (
	atClient  handStage = iota // who is about to send it
	held                       // by the process that the client waits for, to be forwarded
	forwarded                  // on its way to process in
	queued                     // in process in, which decides
	deciding                   // in a commit of process in
	answered
)

type handRequest struct {
	stage  handStage
	at, in uint8
	answer verdict
	failed bool // the client received 503 once
	fresh  bool // it was forwarded under another key
	full   bool // since it was sent there was an instant with no unit left
}

type verdict uint8

const (
	nothing verdict = iota
	sold
	denied
)

type handWrite struct {
	entry handEntry // 0: there is none
	slot  uint8
}

type handState struct {
	log       [handSlots]handEntry
	length    uint8
	writes    [handWrites]handWrite // appends under way
	lease     uint8                 // the process that has it, + 1
	term      uint8                 // how often the lease changed hands
	processes [handProcesses]handProcess
	requests  [handRequests]handRequest
	moves     uint8
	deaths    uint8
	losses    uint8
	expiries  uint8
	cancelled bool // the cancel was decided
	stale     bool // a denial was no longer true when it was made, nor since its request
}

// handRules is what can be left out, and how large the world is.
type handRules struct {
	answersEarly bool // a successor answers from what it has read, before its Own is in the log
	decidesEarly bool // or decides
	deniesDoubt  bool // requests of a commit that is left unknown are denied
	freshKey     bool // or forwarded as requests of their own
	failsQueue   bool // what has queued is answered with 503, and not forwarded
	goesOn       bool // the owner passes the lease on and decides on, until it finds the other's Own
	deniesAhead  bool // a denial does not wait for the commit that it rests on
	deniesBlind  bool // a denial is made without a read of the lease
	keepsOwn     bool // who gets its lease back goes on under its earlier Own

	lateDenials bool // it is no matter here if a denial was true only earlier
	unitsOnly   bool // nor if it is true

	processes, requests             int
	units                           uint8 // free ones, at first
	cancels                         bool  // there is one more, which is freed once
	moves, deaths, losses, expiries uint8
}

// handFold is the content of a prefix of the log.
type handFold struct {
	owner int
	has   [handRequests]uint8 // how many units each request got
	free  int8
}

func (w handRules) fold(s *handState, slots uint8) (f handFold) {
	f.free = int8(w.units)
	for _, e := range s.log[:slots] {
		if p, ok := e.owner(); ok {
			f.owner = p
		}
		if e.frees() {
			f.free++
		}
		for r := range f.has {
			if e.has(r) {
				f.has[r]++
				f.free--
			}
		}
	}
	return f
}

func (s *handState) faulty() bool { return s.deaths+s.losses+s.expiries > 0 }

func (w handRules) model() explore.Model[handState] {
	s := handState{length: 1, lease: 1, term: 1}
	s.log[0] = ownEntry(0)
	s.processes[0] = handProcess{role: decides, lease: 1, read: 1}
	for r := w.requests; r < handRequests; r++ {
		s.requests[r].stage = answered
	}
	planned := w.deaths+w.losses+w.expiries == 0
	return explore.Model[handState]{Init: s, Next: w.next, Wrong: w.wrong, Goal: w.goal, Fair: planned}
}

const (
	handTwice   = "a request has two units"
	handOver    = "more units are sold than there are"
	handPhantom = "a buyer received a claim that is in no log"
	handDenied  = "a claim was accepted, and its buyer received a denial"
	handFailed  = "a claim fails though nothing has"
	handStale   = "a claim is denied, and there was a unit ever since its request"
)

func (w handRules) wrong(s handState) string {
	f := w.fold(&s, s.length)
	if f.free < 0 {
		return handOver
	}
	for r, q := range s.requests {
		switch {
		case f.has[r] > 1:
			return handTwice
		case q.answer == sold && f.has[r] == 0:
			return handPhantom
		case q.answer == denied && f.has[r] > 0 && !w.unitsOnly:
			return handDenied
		case q.failed && !s.faulty():
			return handFailed
		}
	}
	if s.stale && !w.lateDenials && !w.unitsOnly {
		return handStale
	}
	return ""
}

// goal: every request is answered, and the shard has an owner. A full log ends what
// the model is about.
func (w handRules) goal(s handState) bool {
	if s.length == handSlots {
		return true
	}
	for _, q := range s.requests {
		if q.stage != answered {
			return false
		}
	}
	for _, p := range s.processes {
		if !p.dead && p.role == decides {
			return true
		}
	}
	return false
}
