package check

import (
	"bytes"
	"crypto/sha256"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"

	pb "salectl/backends/ledger/ledgerpb"
)

// owns reports whether a slot makes an owner, who may set the log's time back.
func (s *slot) owns() bool {
	return slices.ContainsFunc(s.commit.GetOps(), func(op *pb.Op) bool { return op.GetOwn() != nil })
}

// allLogs are the shards' logs and the sale's own.
func (e *evidence) allLogs() []*log {
	all := append([]*log{e.sale}, e.logs...)
	for _, name := range slices.Sorted(maps.Keys(e.payloadLogs)) {
		all = append(all, e.payloadLogs[name])
	}
	return all
}

func slots(e *evidence, bad fault) {
	for _, l := range e.allLogs() {
		for i, s := range l.slots {
			if s.n != uint64(i) {
				bad("%v was stored after %d others of its log", s, i)
			}
		}
		for i, s := range l.late {
			if !s.delayedCreate() && (i == 0 || !e.follows(l.late[i-1], s)) {
				bad("%v was stored after the log was deleted, and is no delayed create", s)
			}
		}
	}
}

// delayedCreate reports whether a slot that came after the delete is a create that
// was on its way: the first generation and nothing else, or the first units.
func (s *slot) delayedCreate() bool {
	ops := s.commit.GetOps()
	return s.n == 0 && (s.generation() == 1 || len(ops) == 1 && ops[0].GetPayload() != nil)
}

// follows reports whether a slot that was stored after the delete may follow the last one that
// was: a delayed create, or what follows one in this way. Its append was sent before the delete;
// or it is the next generation, or the beginning of a fill of its list, of a planner that read
// what it found and does not know of the destroy.
func (e *evidence) follows(last, s *slot) bool {
	switch {
	case s.n != last.n+1 || !bytes.Equal(s.commit.GetPrev(), last.hash[:]) || e.deleted(last, s.Seq):
		return false
	case s.delayed:
		return true
	}
	ops := s.commit.GetOps()
	return s.generation() == s.n+1 || len(ops) == 1 && ops[0].GetRebuild() != nil
}

// generation is the number of the generation that is all that a slot brings, 0
// if it brings none or more.
func (s *slot) generation() uint64 {
	if ops := s.commit.GetOps(); len(ops) == 1 {
		return ops[0].GetGeneration().GetNumber()
	}
	return 0
}

func chain(e *evidence, bad fault) {
	for _, l := range e.allLogs() {
		prev, time := sha256.Sum256([]byte(l.name)), int64(0)
		for _, s := range l.slots {
			if string(s.commit.GetPrev()) != string(prev[:]) {
				bad("%v names %x as the hash of the slot before it, which is %x", s, s.commit.GetPrev(), prev)
			}
			if s.commit.GetTimeUs() < time && !s.owns() {
				bad("%v has the time %d us, the slot before it %d", s, s.commit.GetTimeUs(), time)
			}
			prev, time = s.hash, s.commit.GetTimeUs()
		}
	}
}

func epochs(e *evidence, bad fault) {
	for _, l := range e.logs {
		epoch, owner := uint64(0), ""
		for _, s := range l.slots {
			writer := string(s.commit.GetWriter())
			if len(writer) != 8 {
				bad("%v has a writer of %d bytes", s, len(writer))
			}
			for i, op := range s.commit.GetOps() {
				owns := op.GetOwn() != nil
				if owns {
					epoch, owner = epoch+1, writer
				}
				switch {
				case s.commit.GetEpoch() != epoch:
					bad("%v, op %d was written under epoch %d, the shard is at %d", s, i, s.commit.GetEpoch(), epoch)
					epoch = s.commit.GetEpoch()
				case (op.GetClaim() != nil && op.GetClaim().GetFill() == 0 || op.GetOut() != nil) && (epoch == 0 || writer != owner):
					bad("%v, op %d sells or sends units by writer %x, the owner is %x", s, i, writer, owner)
				}
			}
		}
	}
}

// generationAt returns the generation of a shard at a time.
func (l *log) generationAt(seq uint64) uint64 {
	s := l.at(seq)
	if s == nil {
		return 0
	}
	return s.after.generation
}

// at returns the last slot stored by a time, nil if there was none.
func (l *log) at(seq uint64) *slot {
	lo, hi := 0, len(l.slots)
	for lo < hi {
		if mid := (lo + hi) / 2; l.slots[mid].Seq <= seq {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == 0 {
		return nil
	}
	return l.slots[lo-1]
}

// phases judges each op by the settings that were in force, and what follows a
// seal.
func phases(e *evidence, bad fault) {
	for _, c := range e.claims {
		now, open := c.timeUs(), c.settings
		if c.again {
			continue
		}
		if open.GetPhase() != pb.Phase_OPEN || now < open.GetOpensAtUs() || open.GetClosesAtUs() != 0 && now >= open.GetClosesAtUs() {
			bad("%v is of %d us, under %v", c, now, open)
		}
	}
	for _, l := range e.logs {
		var before moment
		for _, s := range l.slots {
			if before.sealed {
				bad("%v was stored after the seal", s)
			}
			ops := s.commit.GetOps()
			for i, op := range ops {
				switch {
				case op.GetOut() != nil && before.settings.GetPhase() == pb.Phase_CLOSED:
					bad("%v, op %d sends units away from a closed shard", s, i)
				case op.GetSeal() != nil && (i+1 < len(ops) || s.after.settings.GetPhase() != pb.Phase_CLOSED || s.after.inFlight != 0 || s.after.held != 0):
					bad("%v seals a shard that is not closed and at rest: %d in flight, %d held", s, s.after.inFlight, s.after.held)
				}
			}
			before = s.after
		}
	}
}

func limits(e *evidence, bad fault) {
	for _, c := range e.claims {
		if most := c.settings.GetPerUserLimit(); !c.again && c.had+int64(len(c.units)) > most {
			bad("%v has %d units after %d, the limit is %d", c, len(c.units), c.had, most)
		}
		if most := c.settings.GetPayment().GetUnpaidPerUser(); !c.again && most > 0 && c.unpaid >= most {
			bad("%v is its user's after %d that were cancelled or had expired, the limit is %d", c, c.unpaid, most)
		}
	}
}

func identity(e *evidence, bad fault) {
	for _, c := range e.claims {
		if c.again {
			bad("%v is not the first of its user and key", c)
		}
		if home := int(xxhash.Sum64String(c.user) % uint64(len(c.at.log.run.shards))); home != c.at.log.shard {
			bad("%v is at home on shard %d", c, home)
		}
	}
}
