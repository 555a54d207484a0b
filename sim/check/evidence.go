package check

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"salectl/api"
	pb "salectl/backends/ledger/ledgerpb"
)

// evidence is a history read once for all checkers.
type evidence struct {
	h           *History
	sale        *log
	runs        []*run
	logs        []*log          // of the shards, by run and shard
	payloadLogs map[string]*log // of what the units of runs are, by name; also of runs that were never planned
	slots       []*slot         // of the shards, in the order stored, without what came after a delete
	claims      []*claim        // in the order stored
	ops         []*operation    // by number; nil where there is none
	byID        map[string][]*claim

	grants     []*grant // in the order given
	grantsByID map[string][]*grant
}

// log is one log from its first slot to its end.
type log struct {
	name  string
	run   *run // nil: the sale's own
	shard int
	slots []*slot
	late  []*slot // stored after the log was deleted
}

// slot is one stored slot.
type slot struct {
	Place
	log     *log
	n       uint64
	bytes   []byte
	head    []byte
	hash    [32]byte
	delayed bool // sent before its log was deleted, stored after it
	commit  *pb.Commit
	before  uint64  // generation of a shard
	after   moment  // of a shard
	dropped []int64 // units that a generation took out of a shard by their numbers
	entries []*pb.Entries
	awards  []*claim
}

func (s *slot) String() string { return fmt.Sprintf("log %s, slot %d", s.log.name, s.n) }

// run is one life of the sale under one uid.
type run struct {
	uid       string
	number    int64
	shards    []*log
	planned   []planned
	applied   *slot // the last Applied
	completed []completed
	sealed    *pb.Sealed
	sealedAt  *slot
	destroyed *slot
	drawing
	declared

	// From the recount.
	moves   map[int64][]moved // by unit: where it came to, in order
	unsold  int64             // units dealt and not removed, not sold
	started int               // shards that have a slot
	soldOut []span            // when nothing was unsold
}

// planned is one generation of a run.
type planned struct {
	*pb.Planned
	at *slot
}

// completed is one Applied: every shard has the generation.
type completed struct {
	generation uint64
	at         *slot
}

// span is a time in which all was sold.
type span struct {
	from, to uint64
	endedBy  *slot // nil: it goes on
}

const forever = ^uint64(0)

// operation is both ends of one.
type operation struct {
	invoked, returned *Event // returned is nil if it never did
	again             bool   // an end came twice, or without the other
}

// answered reports whether the client received an answer, and so knows the outcome.
func (o *operation) answered() bool {
	return o.returned != nil && o.returned.Answer.Outcome != Lost && o.returned.Answer.Outcome != api.Unknown
}

// ended reports whether the answer is what became of an accepted claim. Then the request may
// have been accepted by a process that did not live to answer, as it receives what another one
// knows.
func (o *operation) ended() bool {
	switch o.returned.Answer.Outcome {
	case api.Expired, api.Cancelled, api.Refunded, api.NotDrawn:
		return true
	}
	return false
}

func accepted(outcome api.Outcome) bool {
	return outcome == api.Sold || outcome == api.Held || outcome == api.Entered
}

// decode reads the history: the runs from the sale's log, then the shards' logs.
func decode(e *evidence, bad fault) {
	gone := make(map[string]Place) // the first delete of each log
	for _, d := range e.h.Deletes {
		if gone[d.Log].Seq == 0 {
			gone[d.Log] = d.Place
		}
	}
	e.sale = &log{name: "sale/" + e.h.Sale}
	e.sale.read(e.h.Logs[e.sale.name], Place{}, bad)
	named := e.readRuns(bad)
	e.payloadLogs = make(map[string]*log)
	for _, name := range slices.Sorted(maps.Keys(e.h.Logs)) {
		l := named[name]
		uid, isPayloadLog := payloadUID(name)
		switch {
		case name == e.sale.name:
		case isPayloadLog:
			payloads := &log{name: name, run: e.run(uid)}
			payloads.read(e.h.Logs[name], gone[name], bad)
			e.payloadLogs[name] = payloads
		case l == nil:
			bad("log %s belongs to no planned run", name)
		default:
			l.read(e.h.Logs[name], gone[name], bad)
			e.slots = append(e.slots, l.slots...)
		}
	}
	slices.SortFunc(e.slots, func(a, b *slot) int { return cmp.Compare(a.Seq, b.Seq) })
	e.pair()
}

// read decodes a log's slots. Those stored after its delete are kept apart.
func (l *log) read(entries []Entry, gone Place, bad fault) {
	read, commits := make([]slot, len(entries)), make([]pb.Commit, len(entries))
	for i, entry := range entries {
		s := &read[i]
		s.Place, s.log, s.n, s.bytes, s.head = entry.Place, l, entry.Slot, entry.Bytes, entry.Head
		s.hash, s.commit = sha256.Sum256(entry.Bytes), &commits[i]
		if err := proto.Unmarshal(entry.Bytes, s.commit); err != nil {
			bad("%v does not decode: %v", s, err)
		}
		if gone.Seq != 0 && s.Seq > gone.Seq {
			s.delayed = entry.Sent < gone.At
			l.late = append(l.late, s)
		} else {
			l.slots = append(l.slots, s)
		}
	}
}

// run returns the run of a uid, nil if none was planned.
func (e *evidence) run(uid string) *run {
	for _, r := range e.runs {
		if r.uid == uid {
			return r
		}
	}
	return nil
}

// readRuns finds the runs in the sale's log, and returns their shards' logs by
// name.
func (e *evidence) readRuns(bad fault) map[string]*log {
	named := make(map[string]*log)
	var r *run
	for _, s := range e.sale.slots {
		for _, op := range s.commit.GetOps() {
			if p := op.GetPlanned(); p != nil && (r == nil || p.GetUid() != r.uid) {
				r = &run{uid: p.GetUid(), number: p.GetRun()}
				e.runs = append(e.runs, r)
				for i := range p.GetShards() {
					l := &log{name: shardLog(r.uid, i, len(p.GetShards())), run: r, shard: i}
					r.shards = append(r.shards, l)
					named[l.name] = l
				}
				e.logs = append(e.logs, r.shards...)
			}
			if r != nil {
				r.note(s, op, e.h.Deal, bad)
			}
		}
	}
	return named
}

func (r *run) note(s *slot, whole *pb.Op, deal Deal, bad fault) {
	switch op := whole.GetOp().(type) {
	case *pb.Op_Planned:
		if r.planned = append(r.planned, planned{op.Planned, s}); len(r.planned) == 1 {
			r.declare(deal, bad)
		}
	case *pb.Op_Applied:
		r.applied = s
		r.completed = append(r.completed, completed{op.Applied.GetGeneration(), s})
	case *pb.Op_EntriesClosed, *pb.Op_Drawn, *pb.Op_Ranked:
		r.noteDraw(s, whole, bad)
	case *pb.Op_Sealed:
		r.sealed, r.sealedAt = op.Sealed, s
	case *pb.Op_Destroyed:
		r.destroyed = s
	}
}

// shardLog is the name of a shard's log: a salt that spreads the shards over
// 256 regions, the uid, the shard.
func shardLog(uid string, shard, shards int) string {
	return fmt.Sprintf("%02x/%s/%d", 256*shard/shards, uid, shard)
}

// pair brings the two ends of each operation together.
func (e *evidence) pair() {
	for i := range e.h.Events {
		ev := &e.h.Events[i]
		for ev.Op >= len(e.ops) {
			e.ops = append(e.ops, nil)
		}
		if e.ops[ev.Op] == nil {
			e.ops[ev.Op] = new(operation)
		}
		o := e.ops[ev.Op]
		switch invoked := ev.Kind == ClaimInvoked || ev.Kind == ReadInvoked || ev.Kind == CommandInvoked || ev.Kind == SettleInvoked; {
		case invoked && o.invoked == nil:
			o.invoked = ev
		case o.invoked != nil && o.returned == nil && ev.Kind == o.invoked.Kind+1:
			o.returned = ev
		default:
			o.again = true
		}
	}
}

// all yields the operations of a kind, by the kind of their invocation.
func (e *evidence) all(kind Kind) func(yield func(int, *operation) bool) {
	return func(yield func(int, *operation) bool) {
		for i, o := range e.ops {
			if o != nil && o.invoked != nil && o.invoked.Kind == kind && !yield(i, o) {
				return
			}
		}
	}
}

// linger is how long after the end of a run a process may still answer from it.
const linger = 30 * time.Second

// runOf returns the run that an operation was about that has returned, nil if that is not known:
// it came at the turn of two.
func (e *evidence) runOf(o *operation) *run {
	for i := len(e.runs) - 1; i >= 0; i-- {
		r := e.runs[i]
		switch first := r.planned[0].at; {
		case first.Seq > o.returned.Seq:
		case i == 0:
			return r
		case first.Seq > o.invoked.Seq, e.runs[i-1].sealedAt == nil, o.invoked.At < e.runs[i-1].sealedAt.At+linger:
			return nil
		default:
			return r
		}
	}
	return nil
}

// paired reports what is no operation.
func paired(e *evidence, bad fault) {
	for i, o := range e.ops {
		if o != nil && o.again {
			bad("operation %d was invoked or returned twice, or returned unasked", i)
		}
	}
}
